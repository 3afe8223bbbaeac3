package lowrank

import (
	"math"

	"surepipe/array"
	"surepipe/prox/subspace"
)

// iterates are b_k, b_{k-1} and b_{k+1} in factored form, m x n, and the partial SVD from which the next one is
// made: b_{k+1} = U diag(sigma - tau) V* for the values sigma above tau of a matrix near x_k = b_k + c (b_k -
// b_{k-1}).
type iterates struct {
	dev    array.Device
	m, n   int
	c      float64             // the momentum
	now    factored            // b_k
	old    factored            // b_{k-1}
	step   factored            // b_k - b_{k-1}
	step2  float64             // its squared norm
	space  *subspace.Iteration // the leading right singular vectors
	top    subspace.Triplets   // the values above tau
	passes int                 // steps of the partial SVD in an iteration

	pending bool     // next and delta are b_{k+1} and b_{k+1} - b_k, which turn makes b_k
	next    factored // b_{k+1}
	delta   factored // b_{k+1} - b_k
	delta2  float64  // its squared norm
	cross   float64  // <b_{k+1} - b_k, b_k - b_{k-1}>, 0 without momentum
}

func newIterates(dev array.Device, shape array.Shape) iterates {
	return iterates{dev: dev, m: shape.Rows, n: shape.Cols, passes: 1, now: zeros(dev, shape), old: zeros(dev, shape),
		step: zeros(dev, shape), space: subspace.New(dev, shape)}
}

func (w *iterates) free() {
	for _, f := range []*factored{&w.now, &w.old, &w.step, &w.next, &w.delta} {
		f.free()
	}
	w.top.Free()
	if w.space != nil {
		w.space.Free()
	}
}

// turn makes b_{k+1} the estimate; false where there is none.
func (w *iterates) turn() bool {
	if !w.pending {
		return false
	}
	w.pending = false
	w.old.free()
	w.step.free()
	w.old, w.now, w.step, w.step2 = w.now, w.next, w.delta, w.delta2
	w.next, w.delta = factored{}, factored{}
	return true
}

// addPoint adds x_k v to dst, or x_k* v where trans is set.
func (w *iterates) addPoint(trans bool, dst, v array.Batch) {
	w.now.times(1+w.c, trans, dst, v)
	if w.c != 0 {
		w.old.times(-w.c, trans, dst, v)
	}
}

// threshold makes b_{k+1} of the values, less tau, and errs where they are too many or too large beside limit.
func (w *iterates) threshold(tau, limit float64) error {
	sigma := w.top.Sigma
	if r := len(sigma); r+subspace.MinBuffer > w.space.Largest() || r > 0 && sigma[0] > subspace.Range*limit {
		return errHighRank
	}
	w.next, w.delta, w.delta2 = shrunk(w.top, tau, w.now)
	w.cross = 0
	if w.c != 0 {
		w.cross = w.delta.inner(w.step)
	}
	resolve(w.space, sigma, tau, w.Moved())
	w.pending = true
	return w.dev.Err()
}

func (w *iterates) Moved() float64 {
	return math.Sqrt(math.Max(w.delta2-2*w.c*w.cross+w.c*w.c*w.step2, 0))
}

func (w *iterates) Uphill() float64 { return w.c*w.cross - w.delta2 }
