package solve

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

	eta   float64        // the step at which to begin; 0 for the method's own
	kept  any            // what the method has kept of the solve to go on from; nil for none
	stage progress.Stage // what the iterations report themselves as, "" for progress.Iterations
}

// Run iterates the method at y until it is optimal or out of iterations. It reports its optimality
// after every iteration (see package progress).
func Run(ctx context.Context, m Method, y array.Batch, o Options, from Start) (*Solution, error) {
	r, err := begin(m, y, o.withDefaults(), from)
	if err != nil {
		return nil, err
	}
	defer r.release()
	if err := r.iterate(ctx); err != nil {
		return nil, err
	}
	return r.solution()
}

// run is one solve: the loop around a method's steps.
type run struct {
	m      Method
	traits Traits
	o      Options
	w      *Work
	c      *watch
	tape   Tape
	stage  progress.Stage
	last   float64 // the measure of the last step
	// oneStep says that A is a multiple of an orthogonal matrix: one proximal gradient step leads
	// from anywhere to the solution.
	oneStep bool
}

// followed is the choice of an inexact proximal operator.
var followed = Choice{"method", "inexact proximal operator", "the leading singular values are followed from one iteration to the next, and certified"}

// nearness is the accuracy of an inexact proximal operator, as a share of the subgradient of the
// step before.
const nearness = 0.1

// begin allocates a solve. An error of the method's Init is returned as it is.
func begin(m Method, y array.Batch, o Options, from Start) (*run, error) {
	p := m.Problem()
	if err := checkY(p, y); err != nil {
		return nil, err
	}
	r := &run{m: m, traits: m.Traits(), o: o, tape: from.Tape, stage: cmp.Or(from.stage, progress.Iterations), oneStep: orthogonal(p.A)}
	if n := r.traits.Steps; n > 0 {
		r.o.MaxIter = min(o.MaxIter, n)
	}
	if r.tape != nil {
		from.B, from.Dual, from.eta = array.Batch{}, array.Batch{}, 0
	}
	var follower prox.Follower
	if follow := prox.StructureOf(p.R).Follow; follow != nil && r.tape == nil && r.traits.Argument != nil {
		follower = follow()
	}
	var err error
	if r.w, err = beginAt(m, r.traits, y, from); err != nil {
		return nil, err
	}
	r.w.follower = follower
	r.c = newWatch(m, r.traits, y, r.o, from.Part)
	if !r.oneStep && from.B.IsZero() {
		r.last = r.c.scale // elsewhere the first step is as accurate as the last ones of the solve that gave B, so that none of B's accuracy is lost
	}
	return r, nil
}

func (r *run) release() {
	if r.w.follower != nil {
		r.w.follower.Release()
	}
	r.w.Release()
	r.c.release()
}

// iterate is the loop.
func (r *run) iterate(ctx context.Context) error {
	follower := r.w.follower
	defer func() { r.w.follower = follower }() // for release
	report := progress.From(ctx)
	for c := r.c; c.conv.Iterations < r.o.MaxIter && !c.conv.Converged && !c.over; r.w.K++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		final := c.conv.Iterations == r.o.MaxIter-1
		if final {
			r.w.follower = nil // the optimality reported is exact
		}
		if err := r.step(ctx, final); err != nil {
			return err
		}
		report(progress.Report{Stage: r.stage, Step: c.conv.Iterations, Measure: c.conv.Optimality, Goal: c.tol})
	}
	return nil
}

// step does one iteration and checks the outcome.
func (r *run) step(ctx context.Context, final bool) error {
	w := r.w
	w.near = nearness * w.C.Eta * math.Max(r.last, r.c.tol*r.c.scale)
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
	if err := r.c.after(ctx, w, measured, final); err != nil {
		return err
	}
	w.C = next
	return w.Device().Err()
}

// solution is the outcome at the last iterate.
func (r *run) solution() (*Solution, error) {
	p, dev := r.m.Problem(), r.w.Device()
	s, done := &Solution{Convergence: r.c.conv, Choices: r.choices()}, false
	defer func() {
		if !done { // also where A panics
			s.Release()
		}
	}()
	if own := r.traits.own; own != nil {
		if _, dim := p.A.Dims(); own.implied != nil && (r.o.Compact || dim > math.MaxInt32) {
			s.Implied = own.implied(r.w)
		} else {
			s.B, s.MuHat = own.solution(r.w)
		}
		if own.gram != nil {
			s.gram = own.gram(r.w)
		}
	} else {
		d, dim := p.A.Dims()
		s.B, s.MuHat = dev.Alloc(1, dim), dev.Alloc(1, d)
		dev.Copy(s.B, r.w.B)
		p.A.Forward(s.MuHat, s.B)
	}
	if r.traits.Dual != nil && r.o.multiplier {
		u := r.traits.Dual(r.w)
		s.dual = dev.Alloc(1, u.N())
		dev.Copy(s.dual, u)
		s.eta = r.w.C.Eta
	}
	if r.o.Point {
		s.At = newPoint(r.m, r.traits, r.w.Y, r.o, s)
		if r.traits.Dual != nil {
			s.At.behind(r.w, r.traits)
		}
	}
	if err := dev.Sync(); err != nil {
		return nil, err
	}
	done = true
	return s, nil
}

// choices are those made for the problem, by the method, and by this run.
func (r *run) choices() []Choice {
	all := append(slices.Clone(r.o.choices), r.traits.Choices...)
	if r.w.follower != nil {
		all = append(all, followed)
	}
	return all
}

// orthogonal reports whether a is a multiple of an orthogonal matrix.
func orthogonal(a linops.Operator) bool {
	d, p := a.Dims()
	return d == p && linops.StructureOf(a).Rows.Value > 0
}
