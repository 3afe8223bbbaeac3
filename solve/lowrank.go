package solve

import (
	"context"
	"fmt"
	"math"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/prox"
	"surepipe/solve/internal/limits"
)

// lowRank is ISTA or FISTA for the nuclear norm, of a matrix of which A picks entries or to which a
// sparse one is added: the recurrence of [proximalGradient] with iterates in factored form
// ([matrices], [eliminated]), for completions with a continuation in the weight ([matrices.aim]) and
// Newton steps ([newtonSteps]). If the rank of the solution turns out not to be low, the solve is finished with
// all singular values.
type lowRank struct {
	s     situation
	full  Method  // on vectors
	low   form    // of the factored matrices
	bound float64 // of the second derivative of what these minimize; 0 for the problem's own
}

// form makes iterates in factored form.
type form interface {
	factoredForm
	// startingAt is the form of a solve that starts at what a path holds, or at the factors; nil for b0.
	startingAt(held *lowRankPath, near *Factors) factoredForm
}

// factoredMatrices are iterates in factored form.
type factoredMatrices interface {
	// dense is b_k as a batch of one vector, which the caller frees.
	dense() array.Batch
	// keep is what the solve at the last b_k hands on along a path of weights, before being what it was
	// given; nil for nothing.
	keep(before *lowRankPath) *lowRankPath
	// tangent is the curvature at b_k.
	tangent(ctx context.Context) (*Tangent, error)
}

// notLowRank is the choice where the rank turned out not to be low.
var notLowRank = Choice{"method", "all singular values", "the rank of the iterates turned out not to be low"}

// newCompletion wraps a proximal gradient method for a problem that completes a matrix.
func newCompletion(ctx context.Context, s situation) (Solver, error) {
	return newLowRank(ctx, s, completion(&s), 0)
}

// newRobust wraps one for robust PCA with the sparse matrix eliminated.
func newRobust(ctx context.Context, s situation) (Solver, error) {
	return newLowRank(ctx, s, besideSparse(&s), 1)
}

// newLowRank takes the form of the iterates and, unless it is that of the problem, a bound of the
// second derivative of what they minimize.
func newLowRank(ctx context.Context, s situation, low form, bound float64) (Solver, error) {
	m, err := s.method(ctx)
	if err != nil {
		return nil, err
	}
	return &lowRank{s: s, full: m, low: low, bound: bound}, nil
}

// Name is the method's.
func (l *lowRank) Name() string { return l.full.Name() }

// Problem is the problem that it solves.
func (l *lowRank) Problem() Problem { return l.s.p }

// Release does nothing: only a number is kept.
func (l *lowRank) Release() {}

// Reweight shares the norm.
func (l *lowRank) Reweight(ctx context.Context, r prox.Prox) (Solver, error) {
	return l.s.reweight(ctx, r, l.full)
}

// Record iterates on vectors.
func (l *lowRank) Record(ctx context.Context, y array.Batch, newTape func(Method, array.Batch) Tape) (*Solution, error) {
	if l.s.unwritten() {
		return nil, errUnwritten(l.s.p)
	}
	return Run(ctx, l.full, y, l.s.o, Start{Tape: newTape(l.full, y)})
}

// Solve iterates in factored form as long as the rank is low.
func (l *lowRank) Solve(ctx context.Context, y array.Batch, from From) (*Solution, error) {
	o, b0 := l.s.o, from.B
	o.Point = false
	held := heldFactors(from.Path, l.s.kin, y)
	thin := l.full.Traits().Factored(l.low.startingAt(held, from.Factors), l.bound)
	r, err := begin(thin, y, o, Start{B: b0})
	if tooHard(err) {
		if l.s.unwritten() {
			return nil, l.tooLarge()
		}
		return l.finish(ctx, y, b0, 0)
	}
	if err != nil {
		return nil, err
	}
	defer r.release()
	w := r.w.Form.(factoredMatrices)
	if err := r.iterate(ctx); tooHard(err) && l.s.unwritten() {
		return nil, l.tooLarge()
	} else if tooHard(err) {
		done := r.c.conv.Iterations
		if done > 0 {
			b0 = w.dense()
			defer b0.Free()
		}
		return l.finish(ctx, y, b0, done)
	} else if err != nil {
		return nil, err
	}
	sol, err := r.solution()
	if err == nil && from.Path != nil {
		if kept := w.keep(held); kept != nil {
			kept.kin, kept.y = l.s.kin, y.ToHost()
			from.Path.kept = kept
		}
	}
	if err != nil || !l.s.o.Point {
		return sol, err
	}
	whole := false
	defer func() {
		if !whole { // also where A panics
			sol.Release()
		}
	}()
	var tangent *Tangent
	if sol.Converged || l.s.unwritten() {
		if tangent, err = w.tangent(ctx); err != nil && !tooHard(err) {
			return nil, err
		}
	}
	if tangent == nil {
		if l.s.unwritten() && !sol.Converged {
			return nil, fmt.Errorf("solve: %d iterations did not lead near the solution, whose derivative is computed at its rank where a matrix is too large to be written down: allow more of them", sol.Iterations)
		}
		if l.s.unwritten() {
			return nil, l.tooLarge()
		}
		sol.Expand(y.Device()) // for another derivative
	}
	sol.At = newPoint(l.full, l.full.Traits(), y, l.s.o, sol)
	sol.At.Tangent = tangent
	whole = true
	return sol, nil
}

// startingAt is the same problem with a start.
func (s *nuclearSampling) startingAt(held *lowRankPath, near *Factors) factoredForm {
	from := *s
	from.held, from.near = held, near
	return &from
}

// startingAt is the same problem: solves of robust PCA start at b.
func (s *lowRankPlusSparse) startingAt(*lowRankPath, *Factors) factoredForm { return s }

// tooLarge is the error of a solve that would have to write down b.
func (l *lowRank) tooLarge() error {
	d, p := l.s.p.A.Dims()
	return fmt.Errorf("solve: the rank of the solution turned out not to be low, and a matrix of %d entries, of which %d are observed, is not written down (one of %d would be): choose a larger weight lambda", p, d, limits.Written)
}

// finish continues on vectors from b, after so many iterations.
func (l *lowRank) finish(ctx context.Context, y, b array.Batch, done int) (*Solution, error) {
	o := l.s.o.with(notLowRank)
	o.MaxIter = max(o.MaxIter-done, 1)
	sol, err := Run(ctx, l.full, y, o, Start{B: b})
	if err != nil {
		return nil, err
	}
	sol.Iterations += done
	return sol, nil
}

// internals give the driver what factored iterates provide: the residual of every step, the error
// of the partial SVD, and the product A b.
func (s *nuclearSampling) internals() *internals {
	of := func(w *Work) *matrices { return w.Form.(*matrices) }
	return &internals{
		residual: func(w *Work) float64 { return Norm(of(w).z) },
		examine: func(ctx context.Context, w *Work, c *watch, _ float64, last bool) error {
			return of(w).examine(ctx, c, last)
		},
		solution: func(w *Work) (b, mu array.Batch) {
			m := of(w)
			m.accept()
			mu = m.dev.Alloc(1, m.ab.N())
			m.inOrder(mu, m.ab)
			return m.dense(), mu
		},
		implied: func(w *Work) *Implied { return of(w).implied() },
	}
}

// completion is the structure of a matrix completion problem; nil where there is none.
func completion(s *situation) *nuclearSampling {
	if !s.e.factors || s.o.Whole || s.p.Loss != nil {
		return nil
	}
	r, a := prox.StructureOf(s.p.R), linops.StructureOf(s.p.A)
	shape, lambda := r.Shape, r.Nuclear.Value
	if !r.Nuclear.Known || a.Sampled == nil || min(shape.Rows, shape.Cols) < limits.FactoredSide || lambda == 0 || math.IsInf(lambda, 1) {
		return nil
	}
	if places, _ := a.Sampled(s.p.Device, shape); places == nil {
		return nil
	}
	return &nuclearSampling{p: s.p, o: s.o, a: a, shape: shape, lambda: lambda}
}
