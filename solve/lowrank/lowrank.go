// Package lowrank has iterates in factored form for the nuclear norm: matrix completions, with a continuation in the
// weight, Newton steps at the rank and for the factors, and the part of a robust PCA that has low rank. It finds the
// connected parts of a completion.
package lowrank

import (
	"context"
	"fmt"
	"math"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/prox"
	"surepipe/solve/engine"
	"surepipe/solve/internal/limits"
)

// lowRank is ISTA or FISTA for the nuclear norm, of a matrix of which A picks entries or to which a
// sparse one is added: the recurrence of [gradient.ProximalGradient] with iterates in factored form
// ([sampled], [huber]), for completions with a continuation in the weight ([sampled.aim]) and
// Newton steps ([newtonSteps]). If the rank of the solution turns out not to be low, the solve is finished with
// all singular values.
type lowRank struct {
	s     engine.Task
	full  engine.Method // on vectors
	low   form          // of the factored matrices
	bound float64       // of the second derivative of what these minimize; 0 for the problem's own
}

// form makes iterates in factored form.
type form interface {
	engine.FactoredForm
	// startingAt is the form of a solve that starts at the factors; nil for b0.
	startingAt(near *engine.Factors) engine.FactoredForm
}

// factoredMatrices are iterates in factored form.
type factoredMatrices interface {
	// dense is b_k as a batch of one vector, which the caller frees.
	dense() array.Batch
	tangent(ctx context.Context) (*engine.Tangent, error)
}

// notLowRank is the choice where the rank turned out not to be low.
var notLowRank = engine.Choice{Part: "method", Chosen: "all singular values",
	Reason: "the rank of the iterates turned out not to be low"}

// NewCompletion wraps a proximal gradient method for a problem that completes a matrix.
func NewCompletion(ctx context.Context, s engine.Task) (engine.Solver, error) {
	return newLowRank(ctx, s, Completion(&s), 0)
}

// NewRobust wraps one for robust PCA with the sparse matrix eliminated.
func NewRobust(ctx context.Context, s engine.Task) (engine.Solver, error) {
	return newLowRank(ctx, s, BesideSparse(&s), 1)
}

// newLowRank takes the form of the iterates and, unless it is that of the problem, a bound of the
// second derivative of what they minimize.
func newLowRank(ctx context.Context, s engine.Task, low form, bound float64) (engine.Solver, error) {
	m, err := s.Make(ctx)
	if err != nil {
		return nil, err
	}
	return &lowRank{s: s, full: m, low: low, bound: bound}, nil
}

func (l *lowRank) Name() string { return l.full.Name() }

func (l *lowRank) Release() {}

func (l *lowRank) Reweight(ctx context.Context, r prox.Prox) (engine.Solver, error) {
	return l.s.Reweight(ctx, r, l.full)
}

func (l *lowRank) Record(ctx context.Context, y array.Batch, newTape engine.NewTape) (*engine.Solution, error) {
	if l.s.Unwritten() {
		return nil, engine.UnwrittenError(l.s.Problem)
	}
	return engine.Run(ctx, l.full, y, l.s.Options, engine.Start{Tape: newTape(l.full, y)})
}

// Solve iterates in factored form as long as the rank is low.
func (l *lowRank) Solve(ctx context.Context, y array.Batch, from engine.From) (*engine.Solution, error) {
	o, b0 := l.s.Options, from.B
	o.Point = false
	thin := l.full.Traits().Factored(l.low.startingAt(from.Factors), l.bound)
	r, err := engine.NewLoop(thin, y, o, engine.Start{B: b0})
	if tooHard(err) {
		if l.s.Unwritten() {
			return nil, l.tooLarge()
		}
		return l.finish(ctx, y, b0, 0)
	}
	if err != nil {
		return nil, err
	}
	defer r.Release()
	w := r.Work.Form.(factoredMatrices)
	if err := r.Iterate(ctx); tooHard(err) && l.s.Unwritten() {
		return nil, l.tooLarge()
	} else if tooHard(err) {
		done := r.Watch.Convergence.Iterations
		if done > 0 {
			b0 = w.dense()
			defer b0.Free()
		}
		return l.finish(ctx, y, b0, done)
	} else if err != nil {
		return nil, err
	}
	sol, err := r.Solution()
	if err != nil || !l.s.Options.Point {
		return sol, err
	}
	whole := false
	defer func() {
		if !whole { // also where A panics
			sol.Release()
		}
	}()
	from.Tell(sol)
	var tangent *engine.Tangent
	if sol.Converged || l.s.Unwritten() {
		if tangent, err = w.tangent(ctx); err != nil && !tooHard(err) {
			return nil, err
		}
	}
	if tangent == nil || tangent.Model == nil {
		if l.s.Unwritten() && !sol.Converged {
			return nil, fmt.Errorf("solve: %d iterations did not lead near the solution, whose derivative is "+
				"computed at its rank where a matrix is too large to be written down: allow more of them",
				sol.Iterations)
		}
		if l.s.Unwritten() {
			return nil, l.tooLarge()
		}
		sol.Expand(y.Device()) // for another derivative
	}
	sol.At = engine.NewPoint(l.full, l.full.Traits(), y, l.s.Options, sol)
	sol.At.Tangent = tangent
	whole = true
	return sol, nil
}

func (s *Sampling) startingAt(near *engine.Factors) engine.FactoredForm {
	from := *s
	from.near = near
	return &from
}

func (s *Eliminable) startingAt(*engine.Factors) engine.FactoredForm { return s }

func (l *lowRank) tooLarge() error {
	d, p := l.s.Problem.A.Dims()
	return fmt.Errorf("solve: the rank of the solution turned out not to be low, and a matrix of %d entries, of "+
		"which %d are observed, is not written down (one of %d would be): choose a larger weight lambda", p, d,
		limits.Written)
}

// finish continues on vectors from b, after so many iterations.
func (l *lowRank) finish(ctx context.Context, y, b array.Batch, done int) (*engine.Solution, error) {
	o := l.s.Options.With(notLowRank)
	o.MaxIter = max(o.MaxIter-done, 1)
	sol, err := engine.Run(ctx, l.full, y, o, engine.Start{B: b})
	if err != nil {
		return nil, err
	}
	sol.Iterations += done
	return sol, nil
}

// Internals give the driver what factored iterates provide: the residual of every step, the error
// of the partial SVD, and the product A b.
func (s *Sampling) Internals() *engine.Internals {
	of := func(w *engine.Work) *sampled { return w.Form.(*sampled) }
	return &engine.Internals{
		Residual: func(w *engine.Work) float64 { return engine.Norm(of(w).z) },
		Examine: func(ctx context.Context, w *engine.Work, c *engine.Watch, _ float64, last bool) error {
			return of(w).examine(ctx, c, last)
		},
		Solution: func(w *engine.Work) (b, mu array.Batch) {
			m := of(w)
			m.accept()
			mu = m.dev.Alloc(1, m.ab.N())
			m.inOrder(mu, m.ab)
			return m.dense(), mu
		},
		Implied: func(w *engine.Work) *engine.Implied { return of(w).implied() },
	}
}

// Completion is the structure of a matrix completion problem; nil where there is none.
func Completion(s *engine.Task) *Sampling {
	if !s.Entry.Factors || s.Options.Whole || s.Problem.Loss != nil {
		return nil
	}
	r, a := prox.StructureOf(s.Problem.R), linops.StructureOf(s.Problem.A)
	shape, lambda := r.Shape, r.Nuclear.Value
	if !r.Nuclear.Known || a.Sampled == nil || min(shape.Rows, shape.Cols) < limits.FactoredSide || lambda == 0 ||
		math.IsInf(lambda, 1) {
		return nil
	}
	if places, _ := a.Sampled(s.Problem.Device, shape); places == nil {
		return nil
	}
	return &Sampling{p: s.Problem, o: s.Options, a: a, shape: shape, lambda: lambda}
}
