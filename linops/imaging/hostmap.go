package imaging

import (
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

// hostMap is an operator's arithmetic on one vector in host memory: it sets dst from src. With shared true it may use
// every processor; the bits of the result are the same.
type hostMap func(dst, src []float64, do action, shared bool)

// mapOnHost applies f to every vector of a batch on all processors: one vector per processor while
// there are at least as many vectors as processors, then the rest one after the other, each on all
// processors where f can share it.
func mapOnHost(dst, src array.Batch, f hostMap, shares bool, do action) {
	k := dst.K()
	if k == 0 || dst.N() == 0 {
		return
	}
	vectors, done := product.OnHost(dst, src)
	each := k
	if shares {
		each -= k % runtime.GOMAXPROCS(0)
	}
	parallel.For(each, func(i int) {
		d, s := vectors(i)
		f(d, s, do, false)
	})
	for i := each; i < k; i++ {
		d, s := vectors(i)
		f(d, s, do, true)
	}
	done()
}

// pooled calls f with n lines in parts of a size, on all processors where they are shared, and with the memory of one
// goroutine from a pool of *P.
func pooled[P any](pool *sync.Pool, shared bool, n, size int, f func(p *P, lo, hi int)) {
	parallel.RangesIf(shared, n, size, func(lo, hi int) {
		p := pool.Get().(*P)
		f(p, lo, hi)
		pool.Put(p)
	})
}

// stripe is the number of columns of an image that are transformed at a time: together they fill cache lines.
const stripe = 8
