package lowrank

import (
	"surepipe/array"
	"surepipe/prox/subspace"
	"surepipe/solve/engine"
)

// A cold solve at a small weight is a path of its own: the first iterations minimize for larger
// weights, each a share of the one before, and loosely. Each gives factors, a rank and a subspace to
// the next, so that the rank grows from below. (Toh and Yun, Pacific J. Optim. 6, 2010.)
const (
	// levelShare is the next weight over the last one.
	levelShare = 0.6
	// levelTol is the relative optimality at which the next weight is taken.
	levelTol = 0.1
	// aimPasses are the passes of the subspace iteration for the norm of the first gradient.
	aimPasses = 3
)

// aim sets the first level of the continuation: below the norm of the gradient at b_0, which is the
// weight for which b_0 is a solution, if it is one.
func (w *sampled) aim() error {
	dev, at := w.dev, subspace.New(w.dev, w.shape)
	defer at.Free()
	dev.Lin(w.z, 1, w.ab, -1, w.target())
	at.Hold(true)
	for range aimPasses {
		t, err := at.Advance(w.gradient, 0)
		if err != nil {
			return err
		}
		if len(t.Sigma) > 0 {
			w.level = max(w.level, levelShare*w.eta*t.Sigma[0])
		}
		t.Free()
	}
	w.level = max(w.level, w.tau)
	return dev.Err()
}

// gradient is the product with A*(A b_k - y), z being A b_k - y.
func (w *sampled) gradient(trans bool, dst, x array.Batch) {
	rows, cols := w.m, w.n
	if trans {
		rows, cols = cols, rows
	}
	w.dev.SpreadProduct(trans, 1, w.pattern, w.z, x.Reshape(1, cols*x.N()), 0, dst.Reshape(1, rows*x.N()))
}

// proceed decides, after a step, whether the level falls, and whether a Newton step is next. While all
// values of the block are above the level there are more of them.
func (w *sampled) proceed() {
	r := len(w.top.Sigma)
	w.factors = w.reduces(r)
	w.due = w.level <= w.tau && w.second.due(r, !w.factors)
	w.whole = w.whole || w.due && !w.factors
	full := r >= w.size-1 && w.size < w.space.Largest()
	if w.level > w.tau && !full && w.Moved() <= levelTol*w.eta*engine.Norm(w.z) {
		w.level = max(w.tau, levelShare*w.level)
		w.due = false
	}
}

// widestBlock is the largest share of the singular values that iterates in factored form have: Newton
// steps make up for what an iteration costs more than one with all singular values.
const widestBlock = 0.8

// mostBlock is the largest number of values in the block and in the vectors that it leads to, 512 MiB: an
// iteration has some six of that size. On 138,000 x 27,000 it is reached by 406 vectors.
const mostBlock = 1 << 26
