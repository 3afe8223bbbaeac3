package imaging

import (
	"runtime"

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

// mapOnHost applies f to every vector of a batch on all processors: one vector per processor while
// there are at least as many vectors as processors, then the rest one after the other, each on all
// processors where f can share it.
func mapOnHost(dst, src array.Batch, f hostMap, do action) {
	k := dst.K()
	if k == 0 || dst.N() == 0 {
		return
	}
	vectors, done := product.OnHost(dst, src)
	each := k
	if f.shares() {
		each -= k % runtime.GOMAXPROCS(0)
	}
	parallel.For(each, func(i int) {
		d, s := vectors(i)
		f.vector(d, s, do, false)
	})
	for i := each; i < k; i++ {
		d, s := vectors(i)
		f.vector(d, s, do, true)
	}
	done()
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
