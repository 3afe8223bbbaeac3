package engine

import (
	"surepipe/array"
	"surepipe/prox"
)

// Rewriting is a change of a problem into a new one, and of what the new one yields back into what was asked for:
//
//	the new problem    (A, l, K, r) -> (A', l', K', r')      Problem, Regularizer
//	forward            y -> y', b -> b'                      Data, Start
//	back               b' -> b, mu' -> mu                    Deliver
//	                   D mu' -> D mu                         Images, Closed
//
// where b' minimizes l'(A' b'; y') + r'(K' b') just when b minimizes l(A b; y) + r(K b), mu = A b and mu' = A' b'. The
// maps of b are linear, and so are those of y. Package rewrite has the rewritings, and the solver that works by one.
// Package solvetest tests all of this against dense algebra.
//
// A type embeds [Unchanged] for what it leaves as it is.
type Rewriting interface {
	// Problem is the new problem, but for its regularizer. It refers to memory of the rewriting.
	Problem() Problem
	// Regularizer returns r' of a regularizer r, and whether it is the caller's to release.
	Regularizer(r prox.Prox) (rewritten prox.Prox, own bool, err error)
	// Noise is the mean variance of the noise in y', or where y' is a projection of y in the directions of its range,
	// where that of the noise in y is 1.
	Noise() float64
	// Data returns y' of y, a batch of vectors, and Start returns b' of b, one vector. They are the caller's to free
	// where own is set; else they are the batch that was given.
	Data(y array.Batch) (rewritten array.Batch, own bool)
	Start(b array.Batch) (rewritten array.Batch, own bool)
	// Deliver replaces b' by b and mu', the estimate for y, by mu, batches of one vector. Where mu is the zero Batch
	// b alone is asked for, and y is not read. The error says why the new problem is not a rewriting of the other one,
	// as far as mu' shows.
	Deliver(b, mu, y array.Batch) error
	// Images sets dst_i = D mu v_i by inner, which does so for D mu'.
	Images(dst, v array.Batch, inner func(dst, v array.Batch) error) error
	// Closed is what is known about D mu, by the same about D mu'.
	Closed(inner Closed) Closed
	// Release frees the memory of the rewriting.
	Release()
}

// Closed are numbers of the derivative D of an estimate.
type Closed struct {
	// Trace is tr D, and Frobenius2 is tr D^2, which is ||D||_F^2 where D is symmetric.
	Trace, Frobenius2 float64
	// Diagonal holds the D_ii, nil where they are not known.
	Diagonal []float64
	// Root holds R with D = R* R, k x d and row-major. What is nil is not known, and a D of 0 has no rows.
	Root []float64
	// Blocks are the diagonal blocks of equal order, d of these by the order of one in all, row-major.
	Blocks []float64
	// Determined marks observations whose fit is their value, whatever the others are: without one of them something
	// in the fit is not known. D_ii is 1 there. It is nil where there are none, and must not be modified.
	Determined []bool
}

// Unchanged completes a [Rewriting]: all but Problem stay as they are.
type Unchanged struct{}

// Regularizer returns r.
func (Unchanged) Regularizer(r prox.Prox) (prox.Prox, bool, error) { return r, false, nil }

// Noise is 1.
func (Unchanged) Noise() float64 { return 1 }

// Data returns y.
func (Unchanged) Data(y array.Batch) (array.Batch, bool) { return y, false }

// Start returns b.
func (Unchanged) Start(b array.Batch) (array.Batch, bool) { return b, false }

// Deliver does nothing.
func (Unchanged) Deliver(_, _, _ array.Batch) error { return nil }

// Images are those of D mu'.
func (Unchanged) Images(dst, v array.Batch, inner func(dst, v array.Batch) error) error {
	return inner(dst, v)
}

// Closed is what is known about D mu'.
func (Unchanged) Closed(inner Closed) Closed { return inner }

func (Unchanged) Release() {}
