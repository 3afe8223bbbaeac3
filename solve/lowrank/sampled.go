package lowrank

import (
	"context"
	"errors"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/prox"
	"surepipe/prox/subspace"
	"surepipe/solve/engine"
)

// Sampling is the structure of matrix completion: r is lambda times the nuclear norm of
// matrices of the given shape, and A picks entries.
type Sampling struct {
	p      engine.Problem
	o      engine.Options
	a      linops.Structure
	shape  array.Shape
	lambda float64
	near   *engine.Factors // where a solve starts; nil for b0
}

// sampled are iterates of matrix completion in factored form. No m x n matrix is formed: b_k is kept as L V*, together
// with A b_k, and the matrix whose singular values an iteration thresholds,
//
//	X = x_k - eta A*(A x_k - y),   x_k = b_k + c (b_k - b_{k-1}),
//
// is a combination of b_k and b_{k-1} plus a sparse matrix. A product with it takes O(d + (m + n)
// r), and a [subspace.Iteration] that follows X from one iteration to the next takes two of them
// for the singular values above the threshold. (Mazumder, Hastie and Tibshirani, JMLR 11, 2010; Toh
// and Yun, Pacific J. Optim. 6, 2010.)
//
// The partial SVD is inexact, and the optimality accounts for that. With its result U, S, V, X* U =
// V S, and M = X - U S V*,
//
//	(x_k - b_{k+1})/eta - A*A(x_k - b_{k+1}) - (X V - U S)V*/eta - (N - N')/eta
//
// is a subgradient at b_{k+1}, where N = M(I - V V*) and N' has N's singular values cut off at the
// threshold. The first two terms are the measure of [gradient.ProximalGradient], the third is the error of
// the partial SVD, and the last is 0 where no value was missed: N's singular values are at most
// M's. See examine for how the latter two are bounded.
type sampled struct {
	*Sampling
	iterates
	pattern  array.Pattern
	order    array.Index // A's row of every place; nil where the places are in the order of the rows
	seen     [2]lines    // the places by rows and by columns
	eta, tau float64
	remove   func(z array.Batch) // P, where A = P S; nil for P = I
	effects  [2]bool             // P takes out effects of the rows, and of the columns
	tol      float64             // of the relative optimality
	y        array.Batch
	sorted   array.Batch // y in the order of the places, where that differs, or A is projected

	ab      array.Batch       // A b_k
	abOld   array.Batch       // A b_{k-1}
	z       array.Batch       // A x_k - y
	block   subspace.Triplets // all values of the block, where they were asked for
	whole   bool              // ask for them
	above   float64           // the threshold of the iteration, above tau in the continuation
	factors bool              // the next Newton step is that for the factors, with one eliminated
	level   float64           // the threshold of the continuation, which falls to tau
	size    int               // of the block that was decomposed last
	second  newtonSteps
	due     bool // a Newton step is to precede the next iteration
}

// maxPasses is the largest number of steps of the partial SVD in an iteration.
const maxPasses = 4

// errHighRank says that the iterates are not of low rank, or that their squares are out of range.
var errHighRank = errors.New("solve: the rank is not low")

// tooHard reports whether an error means that there is no low-rank factorization.
func tooHard(err error) bool {
	var small subspace.Error
	return errors.Is(err, errHighRank) || errors.As(err, &small)
}

// Begin starts a solve at b0; the zero Batch stands for 0. The iterates must be released even after
// an error.
func (s *Sampling) Begin(bound, eta float64, work *engine.Work, b0 array.Batch) (engine.FactoredIterates,
	error) {
	dev, y := work.Device(), work.Y
	d := y.N()
	w := &sampled{Sampling: s, eta: eta, tau: eta * s.lambda, y: y, iterates: iterates{dev: dev}}
	if w.pattern, w.order = s.a.Sampled(dev, s.shape); w.pattern == nil {
		return w, dev.Err()
	}
	picked := s.a.Picked(s.shape)
	w.remove, w.effects = picked.Remove, [2]bool{rowSide: picked.RowEffects, columnSide: picked.ColEffects}
	if w.order != nil || w.remove != nil {
		w.sorted = dev.Alloc(1, d)
		if w.order != nil {
			dev.Gather(w.sorted, y, w.order)
		} else {
			dev.Copy(w.sorted, y)
		}
		w.project(w.sorted)
	}
	w.z, w.ab, w.abOld = dev.Alloc(1, d), dev.Alloc(1, d), dev.Alloc(1, d)
	dev.Fill(w.ab, 0)
	dev.Fill(w.abOld, 0)
	scales := engine.NewScales(y, bound, s.o)
	w.tol = scales.Tol
	if scale := scales.First(); !(scale > subspace.Smallest && scale < 1/subspace.Smallest) {
		return w, errHighRank
	}
	if w.seen = seen(dev, w.pattern); dev.Err() != nil {
		return w, dev.Err()
	}
	return w, w.start(b0, s.near)
}

func (w *sampled) start(b0 array.Batch, near *engine.Factors) error {
	dev := w.dev
	w.iterates = newIterates(dev, w.shape)
	w.space.Allow(min(widestBlock, mostBlock/float64(w.m+w.n)/float64(min(w.m, w.n))))
	if near != nil {
		w.now.free()
		w.now = onDevice(near, dev)
		for w.space.Size() < near.Rank()+subspace.MinBuffer && w.space.Grow() {
		}
		w.space.Lead(w.now.v)
		w.sample()
		return w.aim()
	}
	if b0.IsZero() {
		return w.aim()
	}
	l, err := decomposed(w.space, b0.Reshape(w.m, w.n))
	if err != nil {
		return err
	}
	w.now.free()
	w.now = l
	w.sample()
	return w.aim()
}

func (w *sampled) sample() {
	r := w.now.l.N()
	w.dev.SampleProduct(w.ab, w.pattern, 1, w.now.l.Reshape(1, w.m*r), w.now.v.Reshape(1, w.n*r), 0)
	w.project(w.ab)
}

// project applies the projection of A = P S, where there is one, to a vector in the order of the
// places. With z = A b - y in its range A* z = S* z.
func (w *sampled) project(z array.Batch) {
	switch {
	case w.remove == nil:
	case w.order == nil:
		w.remove(z)
	default:
		t := w.dev.Alloc(1, z.N())
		w.inOrder(t, z)
		w.remove(t)
		w.dev.Gather(z, t, w.order)
		t.Free()
	}
}

// gradientStep is the matrix X = x - eta A*(A x - y) of the iteration, x = b_k + c (b_k - b_{k-1}).
func (w *sampled) gradientStep(trans bool, dst, x array.Batch) {
	dev, k := w.dev, x.N()
	rows, cols := w.m, w.n
	if trans {
		rows, cols = cols, rows
	}
	dev.SpreadProduct(trans, -w.eta, w.pattern, w.z, x.Reshape(1, cols*k), 0, dst.Reshape(1, rows*k))
	w.addPoint(trans, dst, x)
}

func (w *sampled) Release() {
	w.free()
	array.Free(w.sorted, w.z, w.ab, w.abOld)
	w.block.Free()
}

func (w *sampled) target() array.Batch {
	if !w.sorted.IsZero() {
		return w.sorted
	}
	return w.y
}

func (w *sampled) inOrder(dst, z array.Batch) {
	if w.order != nil {
		w.dev.Scatter(dst, z, w.order)
	} else {
		w.dev.Copy(dst, z)
	}
}

// Extrapolate sets the estimate b_k to b_{k+1} and computes A x_k - y.
func (w *sampled) Extrapolate(c float64) {
	w.accept()
	w.c = c
	w.dev.Lin(w.z, 1+c, w.ab, -c, w.abOld)
	w.dev.Lin(w.z, 1, w.z, -1, w.target())
}

func (w *sampled) accept() {
	if !w.turn() {
		return
	}
	w.ab, w.abOld = w.abOld, w.ab
	w.sample()
}

// Descend computes b_{k+1} = L V* and its difference from b_k.
func (w *sampled) Descend(ctx context.Context, _ *engine.Work, _ bool) (prox.Derivative, error) {
	if err := w.accelerate(ctx); err != nil {
		return nil, err
	}
	for range w.passes {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := w.decompose(); err != nil {
			return nil, err
		}
	}
	w.above = w.level
	if err := w.threshold(w.above, w.tau); err != nil {
		return nil, err
	}
	w.proceed()
	return nil, nil
}

func (w *sampled) decompose() (err error) {
	w.top.Free()
	w.block.Free()
	w.top, w.block = subspace.Triplets{}, subspace.Triplets{}
	w.size = w.space.Size()
	if !w.whole {
		w.top, err = w.space.Advance(w.gradientStep, w.level)
		return err
	}
	all, r, err := w.space.AdvanceAll(w.gradientStep, w.level)
	if err != nil {
		return err
	}
	w.block = all
	w.top = all.First(r)
	return nil
}

func (w *sampled) dense() array.Batch {
	b := w.dev.Alloc(1, w.m*w.n)
	w.dev.Gemm(false, true, 1, w.now.l, w.now.v, 0, b.Reshape(w.m, w.n))
	return b
}
