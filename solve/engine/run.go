package engine

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/progress"
	"surepipe/prox"
)

// Start says how a solve begins. The zero value starts at b = 0.
type Start struct {
	// B is where to start, 1 x p, unless a tape is running.
	B array.Batch
	// Part says that the problem is a part of another, so that its duality gap is not that of the
	// whole.
	Part bool
	// Tape records the iterations; nil for none.
	Tape Tape
	// Dual is the multiplier of K b at which to start, unless a tape is running.
	Dual array.Batch

	Eta   float64        // the step at which to begin; 0 for the method's own
	Stage progress.Stage // what the iterations report themselves as, "" for progress.Iterations
	kept  any            // what the method has kept of the solve to go on from; nil for none
}

// Run iterates the method at y until it is optimal or out of iterations. It reports its optimality
// after every iteration (see package progress).
func Run(ctx context.Context, m Method, y array.Batch, o Options, from Start) (*Solution, error) {
	r, err := NewLoop(m, y, o.WithDefaults(), from)
	if err != nil {
		return nil, err
	}
	defer r.Release()
	if err := r.Iterate(ctx); err != nil {
		return nil, err
	}
	return r.Solution()
}

// Loop is one solve: the loop around a method's steps.
type Loop struct {
	m      Method
	traits Traits
	o      Options
	Work   *Work  // the state
	Watch  *Watch // the rule that ends it
	tape   Tape
	stage  progress.Stage
	last   float64 // the measure of the last step
	// oneStep says that A is a multiple of an orthogonal matrix: one proximal gradient step leads
	// from anywhere to the solution.
	oneStep bool
}

// followed is the choice of an inexact proximal operator.
var followed = Choice{"method", "inexact proximal operator",
	"the leading singular values are followed from one iteration to the next, and certified"}

// nearness is the accuracy of an inexact proximal operator, as a share of the subgradient of the
// step before.
const nearness = 0.1

// NewLoop allocates a solve. An error of the method's Init is returned as it is.
func NewLoop(m Method, y array.Batch, o Options, from Start) (*Loop, error) {
	p := m.Problem()
	if err := CheckY(p, y); err != nil {
		return nil, err
	}
	r := &Loop{m: m, traits: m.Traits(), o: o, tape: from.Tape, stage: cmp.Or(from.Stage, progress.Iterations),
		oneStep: orthogonal(p.A)}
	if n := r.traits.Steps; n > 0 {
		r.o.MaxIter = min(o.MaxIter, n)
	}
	if r.tape != nil {
		from.B, from.Dual, from.Eta = array.Batch{}, array.Batch{}, 0
	}
	var follower prox.Follower
	if follow := prox.StructureOf(p.R).Follow; follow != nil && r.tape == nil && r.traits.Argument != nil {
		follower = follow()
	}
	var err error
	if r.Work, err = beginAt(m, r.traits, y, from); err != nil {
		return nil, err
	}
	r.Work.follower = follower
	r.Watch = newWatch(m, r.traits, y, r.o, from.Part)
	if !r.oneStep && from.B.IsZero() {
		// elsewhere the first step is as accurate as the last ones of the solve that gave B, so that none of
		// B's accuracy is lost
		r.last = r.Watch.Scale
	}
	return r, nil
}

func (r *Loop) Release() {
	if r.Work.follower != nil {
		r.Work.follower.Release()
	}
	r.Work.Release()
	r.Watch.Release()
}

// Iterate is the loop.
func (r *Loop) Iterate(ctx context.Context) error {
	follower := r.Work.follower
	defer func() { r.Work.follower = follower }() // for release
	report := progress.From(ctx)
	for c := r.Watch; c.Convergence.Iterations < r.o.MaxIter && !c.Convergence.Converged && !c.over; r.Work.K++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		final := c.Convergence.Iterations == r.o.MaxIter-1
		if final {
			r.Work.follower = nil // the optimality reported is exact
		}
		if err := r.step(ctx, final); err != nil {
			return err
		}
		report(progress.Report{Stage: r.stage, Step: c.Convergence.Iterations, Measure: c.Convergence.Optimality,
			Goal: c.Tol})
	}
	return nil
}

func (r *Loop) step(ctx context.Context, final bool) error {
	w := r.Work
	w.near = nearness * w.C.Eta * math.Max(r.last, r.Watch.Tol*r.Watch.Scale)
	if r.tape != nil {
		r.tape.Before(w.State)
	}
	j, err := r.m.Step(ctx, w, r.tape != nil)
	if err != nil {
		if fault := w.Device().Err(); fault != nil {
			err = fault // the cause
		}
		return fmt.Errorf("%s iteration %d: %w", r.m.Name(), w.K+1, err)
	}
	measured, next := r.m.Measure(w)
	if r.tape != nil {
		r.tape.After(w.C, j)
	}
	if math.IsNaN(measured) || math.IsInf(measured, 0) {
		if err := w.Device().Err(); err != nil {
			return err
		}
		return fmt.Errorf("%s: the iterates are not finite after %d iterations", r.m.Name(), w.K+1)
	}
	if !r.oneStep {
		r.last = measured
	}
	if err := r.Watch.after(ctx, w, measured, final); err != nil {
		return err
	}
	w.C = next
	return w.Device().Err()
}

// Solution is the outcome at the last iterate.
func (r *Loop) Solution() (*Solution, error) {
	p, dev := r.m.Problem(), r.Work.Device()
	s, done := &Solution{Convergence: r.Watch.Convergence, Choices: r.choices()}, false
	defer func() {
		if !done { // also where A panics
			s.Release()
		}
	}()
	if own := r.traits.Own; own != nil {
		if _, dim := p.A.Dims(); own.Implied != nil && (r.o.Compact || dim > MostWritten) {
			s.Implied = own.Implied(r.Work)
		} else {
			s.B, s.MuHat = own.Solution(r.Work)
		}
		if own.Gram != nil {
			s.Gram = own.Gram(r.Work)
		}
	} else {
		d, dim := p.A.Dims()
		s.B, s.MuHat = dev.Alloc(1, dim), dev.Alloc(1, d)
		dev.Copy(s.B, r.Work.B)
		p.A.Forward(s.MuHat, s.B)
	}
	if r.traits.Dual != nil && r.o.Multiplier {
		u := r.traits.Dual(r.Work)
		s.Dual = dev.Alloc(1, u.N())
		dev.Copy(s.Dual, u)
		s.Eta = r.Work.C.Eta
	}
	if r.o.Point {
		o := r.o
		o.Effort = Effort{} // what follows is to be exact
		s.At = NewPoint(r.m, r.traits, r.Work.Y, o, s)
		if r.traits.Dual != nil {
			s.At.behind(r.Work, r.traits)
		}
		if p.Loss != nil {
			if err := s.At.Whiten(s.MuHat); err != nil {
				return nil, err
			}
		}
	}
	if err := dev.Sync(); err != nil {
		return nil, err
	}
	done = true
	return s, nil
}

func (r *Loop) choices() []Choice {
	all := append(slices.Clone(r.o.Choices), r.traits.Choices...)
	if r.Work.follower != nil {
		all = append(all, followed)
	}
	return all
}

func orthogonal(a linops.Operator) bool {
	d, p := a.Dims()
	return d == p && linops.StructureOf(a).Rows.Value > 0
}
