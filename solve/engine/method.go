package engine

import (
	"context"
	"math"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/prox"
)

// Coefficients are the numbers of an iteration that may depend on the iterates, such as its step; derivatives of the
// iteration hold them constant.
type Coefficients struct {
	// Eta is the step of the proximal operator.
	Eta float64
	// Own are the method's own numbers, such as a momentum.
	Own [2]float64
}

// Method is an iterative algorithm written as a recurrence
//
//	s_{k+1} = F_k(s_k, y),   b_{k+1} = G_k(s_k, y),
//
// where the state s is any number of vectors of any lengths, b is the estimate, and F_k and G_k are
// fixed by the iteration's [Coefficients]. A Method computes one iteration forward and in reverse.
// [Run] does everything else: tolerance, cancellation, warm start, progress, tape. A Method is
// immutable and safe for concurrent use: everything that changes during a solve is in [Work].
type Method interface {
	// Name is the algorithm's name.
	Name() string
	// Problem is the problem that it solves.
	Problem() Problem
	// Traits describes the method. It is called once a solve.
	Traits() Traits
	// Init sets the state, w.B and w.C before the first iteration, with b0 as the estimate. The
	// state and w.B are 0 when it is called, and b0 is the zero Batch for a start at 0. An unrolled
	// derivative starts at 0, and then the state must not depend on y.
	Init(w *Work, b0 array.Batch) error
	// Step does the iteration with coefficients w.C: it advances w.State in place and leaves the
	// new estimate in w.B. The proximal operator is evaluated by w.Prox, which returns the
	// derivative that Step returns; a step that evaluates none returns nil. A tape records every
	// step, so that the bits are the same when an iteration is computed again.
	Step(ctx context.Context, w *Work, record bool) (prox.Derivative, error)
	// Measure returns the norm of a subgradient of the objective at w.B after a step, or an upper
	// bound of it, and the coefficients of the next iteration. It must not change the state.
	Measure(w *Work) (subgradient float64, next Coefficients)
	// Reverse pulls the adjoint a of (s_{k+1}, b_{k+1}) back through iteration a.K, whose proximal
	// operator has the derivative j: it adds (∂F_k/∂y)* of it to dst, and unless a.K is 0 leaves
	// the adjoint of s_k in a.State.
	Reverse(ctx context.Context, dst array.Batch, a *Adjoint, j prox.Derivative) error
	// Release frees what the method keeps on the device.
	Release()
}

// Named is what most methods have in common: a name, the problem, and nothing to release.
type Named struct {
	Label string
	P     Problem
}

// Name is the algorithm's name.
func (n *Named) Name() string { return n.Label }

func (n *Named) Problem() Problem { return n.P }
func (n *Named) Release()         {}

// Traits is what [Run] needs to know about a method. Every field but Norm2 may be left at its zero
// value, which promises nothing.
type Traits struct {
	// Norm2 is an upper bound of ||A||^2.
	Norm2 float64
	// State and Scratch are the lengths of the vectors of the state, and of the scratch vectors of
	// a step, whose contents do not matter afterwards.
	State, Scratch []int
	// Lookback is how many iterations back the adjoint of an iteration's input can reach before a
	// derivative of the proximal operator multiplies it; 0 if there is no bound. Where it is
	// positive all vectors of the state have length p, and a reverse sweep may leave out
	// coordinates at which all these derivatives are 0.
	Lookback int
	// Exact reports whether Measure's bound holds for the gradient at w.B itself. Where it is false
	// a proximal gradient step from w.B decides, and Measure only determines when to compute that
	// step.
	Exact bool
	// Dual returns, for a problem with r(K b), the multiplier of K b at w.B, in a vector of State or
	// Scratch: K* of it is -A*(A b - y), up to an error. It is called after Measure. The method needs
	// Argument, too, which with the multiplier outlasts the step.
	Dual func(w *Work) array.Batch
	// Inside sets dst, for a method whose linear systems are not solved to the end, to a multiplier where r's conjugate
	// is finite; nil for others. It is called after Dual.
	Inside func(w *Work, dst array.Batch)
	// Settled reports, for a problem with r(K b), that the point may be a solution: where it is false no duality gap
	// is computed. A method that comes closer by a constant factor in every iteration can so wait for
	// the zeros of K b, which are found later than a small gap.
	Settled func(w *Work) bool
	// Ended reports that more iterations change nothing; nil for a method that has no end. Kept is what a later solve
	// needs to go on from where this one is, as Work.Kept of its Init; nil for what B and the multiplier say.
	Ended func(w *Work) bool
	Kept  func(w *Work) any
	// Steps is the number of iterations after which the method has ended; 0 if it has no end.
	Steps int
	// Argument returns the argument of the proximal operator of the step just done, in a vector of
	// Scratch. It is called after Measure. With it, proximal operators may be inexact
	// (prox.Follower).
	Argument func(w *Work) array.Batch
	// Reweight returns the same method for another regularizer, to be released before this one. If
	// it is nil, the constructor is called again.
	Reweight func(ctx context.Context, r prox.Prox) (Method, error)

	// Recorded makes the method whose iterations are recorded in place of this one's, which have no derivative; nil
	// for its own.
	Recorded func(ctx context.Context, o Options) (Method, error)
	// Factored returns the same method with iterates in a form of their own, and bound, unless it is 0, as the
	// bound of the second derivative of what they minimize. Entry.Factors asks for it.
	Factored func(form FactoredForm, bound float64) Method
	// Choices are the decisions that the method based on the structure of the problem.
	Choices []Choice

	// Own are the functions of a method that keeps its iterates itself; nil for others.
	Own *Internals
}

// Internals are for methods that keep their iterates themselves. All functions except Residual, Implied and Gram are
// required.
type Internals struct {
	// Residual is, where the scale of subgradients follows every step, the norm of the residual at
	// the point where the last gradient was computed.
	Residual func(w *Work) float64
	// Examine replaces the check of an iterate: it passes its findings to c.Accept.
	Examine func(ctx context.Context, w *Work, c *Watch, measured float64, last bool) error
	// Solution returns the final b and A b.
	Solution func(w *Work) (b, mu array.Batch)
	// Implied returns them in a form that takes less memory; nil where there is none.
	Implied func(w *Work) *Implied
	// Linear is that of the Point; nil for none.
	Linear Linear
	// Gram, unless nil, is the Point's Gram.
	Gram func(w *Work) func(set []int) []float64
}

// Work is one solve of a method.
type Work struct {
	// Y is the right-hand side, 1 x d.
	Y array.Batch
	// C are the coefficients of the iteration, and K is its number, from 0.
	C Coefficients
	K int
	// State and Scratch have the lengths that Traits gives, one vector each.
	State, Scratch []array.Batch
	// B is the newest estimate, 1 x p.
	B array.Batch
	// Dual is the multiplier of K b at which to start, set before Init; zero for 0.
	Dual array.Batch
	// Own belongs to the method, for anything outside the recurrence: counters, and data that speed
	// it up. Init sets it.
	Own any
	// Free, unless nil, frees what Own holds. Init sets it.
	Free func()
	// Form are the iterates of a method in a form of their own ([Traits].Factored), set by Init; nil for others.
	Form FactoredIterates

	Stepped float64 // the step of the last proximal operator
	Eta     float64 // the step to begin with, set before Init; 0 for the method's own
	Kept    any     // what a solve before has left, set before Init; nil for none

	follower prox.Follower // the inexact proximal operator, where no derivative is asked for; or nil
	near     float64       // its required accuracy
}

// Begin allocates what a solve of the method at y needs, on the device of y, and starts it at b0.
// The caller releases it.
func Begin(m Method, traits Traits, y, b0 array.Batch) (*Work, error) {
	return beginAt(m, traits, y, Start{B: b0})
}

// beginAt is Begin with a multiplier and a step.
func beginAt(m Method, traits Traits, y array.Batch, from Start) (*Work, error) {
	dev := y.Device()
	w, begun := &Work{Y: y, Dual: from.Dual, Eta: from.Eta, Kept: from.kept}, false
	defer func() {
		if !begun { // also where Init panics
			w.Release()
		}
	}()
	if traits.Own == nil {
		_, p := m.Problem().A.Dims()
		w.B = dev.Alloc(1, p)
		dev.Fill(w.B, 0)
	}
	for _, n := range traits.State {
		s := dev.Alloc(1, n)
		dev.Fill(s, 0)
		w.State = append(w.State, s)
	}
	for _, n := range traits.Scratch {
		w.Scratch = append(w.Scratch, dev.Alloc(1, n))
	}
	if err := m.Init(w, from.B); err != nil {
		return nil, err
	}
	begun = true
	return w, nil
}

// Device is the device of the solve.
func (w *Work) Device() array.Device { return w.Y.Device() }

// Release frees the memory of the solve.
func (w *Work) Release() {
	if w.Free != nil {
		w.Free()
		w.Free = nil
	}
	for _, b := range append(append([]array.Batch{w.B}, w.State...), w.Scratch...) {
		b.Free()
	}
}

// Prox sets dst = prox_{eta r}(v) with the iteration's eta, and returns the derivative if record is
// set.
func (w *Work) Prox(ctx context.Context, r prox.Prox, dst, v array.Batch, record bool) (prox.Derivative, error) {
	w.Stepped = w.C.Eta
	switch {
	case record:
		return r.Linearize(dst, v, w.C.Eta)
	case w.follower != nil:
		return nil, w.follower.Eval(ctx, dst, v, w.C.Eta, w.near)
	}
	return nil, r.Eval(dst, v, w.C.Eta)
}

// certify returns what the error of an inexact proximal operator adds to the subgradient: at most
// want, or +Inf where no bound is known.
func (w *Work) certify(ctx context.Context, t Traits, want float64) (float64, error) {
	slack, ok, err := w.follower.Certify(ctx, t.Argument(w), want*w.C.Eta)
	if !ok {
		return math.Inf(1), err
	}
	return slack / w.C.Eta, err
}

// Adjoint is the state of a reverse sweep for a batch of probes: the adjoint of (s_{k+1}, b_{k+1}).
// Batches have one vector a probe.
type Adjoint struct {
	// K is the iteration to reverse and C its coefficients.
	K int
	C Coefficients
	// Last reports that K is the last iteration that was done. Then, and only then, the estimate
	// b_{k+1} has an adjoint of its own, Seed, while that of the state is 0.
	Last bool
	Seed array.Batch
	// State is the adjoint of the state. Where Zero is set it is 0, whatever its memory holds; a
	// method that ignores the flags finds zeros there at the last iteration and never sets one.
	State []array.Batch
	Zero  []bool
	// Scratch has vectors of length p and Image of length d, to work in. A method may exchange
	// batches of the same size: State, Seed and Scratch.
	Scratch, Image array.Batch
	// A is the operator on the coordinates that the sweep reaches. Where a method promises a
	// Lookback these may be fewer than p, and then so are the lengths of State, Seed and Scratch.
	A linops.Operator
	// Apply sets dst = J z on these coordinates. dst may be z.
	Apply func(j prox.Derivative, dst, z array.Batch)
}

// Tape records a solve, so that it can be differentiated in reverse.
type Tape interface {
	// Before is called with the state that an iteration starts from.
	Before(state []array.Batch)
	// After is called when it is done, with its coefficients and the derivative of its proximal
	// operator, which the tape releases.
	After(c Coefficients, j prox.Derivative)
}

// NewTape makes the tape of a solve by a method at y, both as the solver has them.
type NewTape func(m Method, y array.Batch) Tape
