package linops

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"surepipe/array"
)

// loop is work in parts that may run in any order and in parallel.
type loop interface{ part(i int) }

// crew runs one loop on several goroutines. A pool keeps it together with its helpers' function
// value, so that starting a loop allocates nothing.
type crew struct {
	body loop
	n    int64
	next atomic.Int64
	wg   sync.WaitGroup
	help func()
}

var crews = sync.Pool{New: func() any {
	c := new(crew)
	c.help = func() {
		c.work()
		c.wg.Done()
	}
	return c
}}

func (c *crew) work() {
	for {
		i := c.next.Add(1) - 1
		if i >= c.n {
			return
		}
		c.body.part(int(i))
	}
}

// inParallel runs the parts 0 to n-1 of a loop on all processors.
func inParallel(n int, body loop) {
	procs := min(runtime.GOMAXPROCS(0), n)
	if procs <= 1 {
		inTurn(n, body)
		return
	}
	c := crews.Get().(*crew)
	c.body, c.n = body, int64(n)
	c.next.Store(0)
	c.wg.Add(procs - 1)
	for range procs - 1 {
		go c.help()
	}
	c.work()
	c.wg.Wait()
	c.body = nil
	crews.Put(c)
}

func inTurn(n int, body loop) {
	for i := range n {
		body.part(i)
	}
}

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

func (b *hostBatch) part(i int) {
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
		panic(fmt.Sprintf("linops: %s is on device %q and %s on device %q, want one device", src, src.Device().Name(), dst, dst.Device().Name()))
	}
	b := hostBatches.Get().(*hostBatch)
	b.f, b.do, b.dst, b.src, b.shared = f, do, dst, src, false
	if b.copied = !onHost; b.copied {
		b.in, b.out = resize(b.in, k*src.N()), resize(b.out, k*dst.N())
		src.Device().Download(b.in, src)
	}
	each := k
	if f.shares() {
		each -= k % runtime.GOMAXPROCS(0)
	}
	inParallel(each, b)
	b.shared = true
	for i := each; i < k; i++ {
		b.part(i)
	}
	if b.copied {
		dst.Device().Upload(dst, b.out)
	}
	b.f, b.dst, b.src = nil, array.Batch{}, array.Batch{}
	hostBatches.Put(b)
}

func resize(x []float64, n int) []float64 {
	if cap(x) < n {
		return make([]float64, n)
	}
	return x[:n]
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

func parts(n, size int) int { return (n + size - 1) / size }

// run runs a loop's parts on all processors if shared.
func run(n int, body loop, shared bool) {
	if shared {
		inParallel(n, body)
	} else {
		inTurn(n, body)
	}
}
