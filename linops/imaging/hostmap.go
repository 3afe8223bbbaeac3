package imaging

import (
	"fmt"
	"runtime"
	"sync"

	"surepipe/array"
	"surepipe/internal/parallel"
	"surepipe/linops/internal/product"
)

// action is what a hostMap does to a vector.
type action struct {
	kind actionKind
	eta  float64 // of doNormal
}

type actionKind int

const (
	doForward actionKind = iota
	doAdjoint
	doSquare // dst = A*A src
	doNormal // dst = (eta A*A + I)^{-1} src
)

// hostMap is an operator's arithmetic on one vector in host memory.
type hostMap interface {
	// vector sets dst from src. With shared true it may use every processor; the bits of the result
	// are the same.
	vector(dst, src []float64, do action, shared bool)
	// shares reports whether vector can use more than one processor.
	shares() bool
}

// hostBatch maps a batch vector by vector, by copies where it is on another device.
type hostBatch struct {
	f        hostMap
	do       action
	dst, src array.Batch
	shared   bool
	copied   bool // the batch is not in host memory
	out, in  []float64
}

var hostBatches = sync.Pool{New: func() any { return new(hostBatch) }}

func (b *hostBatch) Part(i int) {
	if b.copied {
		n, m := b.dst.N(), b.src.N()
		b.f.vector(b.out[i*n:(i+1)*n], b.in[i*m:(i+1)*m], b.do, b.shared)
		return
	}
	d, _ := b.dst.HostRow(i)
	s, _ := b.src.HostRow(i)
	b.f.vector(d, s, b.do, b.shared)
}

// mapOnHost applies f to every vector of a batch on all processors: one vector per processor while
// there are at least as many vectors as processors, then the rest one after the other, each on all
// processors where f can share it.
func mapOnHost(dst, src array.Batch, f hostMap, do action) {
	k := dst.K()
	if k == 0 || dst.N() == 0 {
		return
	}
	_, onHost := src.HostRow(0)
	if _, ok := dst.HostRow(0); ok != onHost {
		panic(fmt.Sprintf("linops: %s is on device %q and %s on device %q, want one device", src, src.Device().Name(),
			dst, dst.Device().Name()))
	}
	b := hostBatches.Get().(*hostBatch)
	b.f, b.do, b.dst, b.src, b.shared = f, do, dst, src, false
	if b.copied = !onHost; b.copied {
		b.in, b.out = product.Resize(b.in, k*src.N()), product.Resize(b.out, k*dst.N())
		src.Device().Download(b.in, src)
	}
	each := k
	if f.shares() {
		each -= k % runtime.GOMAXPROCS(0)
	}
	parallel.Do(each, b)
	b.shared = true
	for i := each; i < k; i++ {
		b.Part(i)
	}
	if b.copied {
		dst.Device().Upload(dst, b.out)
	}
	b.f, b.dst, b.src = nil, array.Batch{}, array.Batch{}
	hostBatches.Put(b)
}

const (
	// shareFrom is the least number of values of a vector that is shared among processors.
	shareFrom = 1 << 12
	// partValues is the approximate number of values in a part of a shared vector.
	partValues = 1 << 12
	// stripe is the number of columns of an image that are transformed at a time: together they
	// fill cache lines.
	stripe = 8
)

// rowsPerPart is how many rows of a given length make a part.
func rowsPerPart(length int) int { return max(1, partValues/max(length, 1)) }
