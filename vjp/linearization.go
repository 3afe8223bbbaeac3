package vjp

import (
	"context"
	"fmt"
	"math"

	"surepipe/array"
	"surepipe/hutch"
	"surepipe/linops"
	"surepipe/prox"
	"surepipe/solve"
	"surepipe/vjp/system"
)

// linearization is the derivative at a y, by a system.
type linearization struct {
	system.System
	kind      string  // see Kind
	d         int     // observations
	tol       float64 // of images, see [system.Goal]
	known     Closed  // what the system knows, and what else was found
	iterative bool    // see Inner
	together  int
	sensitive bool // the error of b may have changed the curvature
	// model is that of the tangent space, nil where no basis of it is known.
	model   *prox.Model
	held    array.Held
	choices []Choice
}

func newLinearization(kind string, a linops.Operator, s system.System) *linearization {
	d, _ := a.Dims()
	return &linearization{System: s, kind: kind, known: s.Closed(), d: d}
}

// implicit is the derivative at a solution by a system on the space of a model, after a solve to tol.
func implicit(a linops.Operator, s system.System, m *prox.Model, tol float64) *linearization {
	l := newLinearization("implicit", a, s)
	l.iterative, l.tol, l.model = true, system.Tolerance(tol), m
	if linops.StructureOf(a).Sampled != nil {
		l.together = array.PatternVectors
	}
	return l
}

// belongs takes over what the linearization refers to: A on the model's space may refer to the problem's operator and
// regularizer.
func (l *linearization) belongs(at *solve.Point) {
	if a, release := at.Detach(); release != nil {
		l.held = append(array.Owning(owned{a, release}), l.held...)
	}
}

// owned is the operator of a restricted problem, and the function that releases it and its regularizer.
type owned struct {
	linops.Restricted
	release func()
}

func (o owned) Release() { o.release() }

func (l *linearization) VJP(ctx context.Context, dst, v array.Batch) error {
	return l.Apply(ctx, dst, v, hutch.Accuracy{}, nil)
}

// spanTol is the residual of images of which only the span matters.
const spanTol = 0.1

// Apply solves for images to a relative residual of 1e-7 and with forms to a share of 1%, for forms to the share that
// is wanted, and for a span to a residual of [spanTol].
func (l *linearization) Apply(ctx context.Context, dst, v array.Batch, want hutch.Accuracy, left []float64) error {
	goal := system.Goal{Residual: l.tol, Form: system.FormShare}
	switch want.Need {
	case hutch.Forms:
		goal = system.Goal{Residual: math.Inf(1), Form: want.Share}
	case hutch.Span:
		goal = system.Goal{Residual: spanTol, Form: math.Inf(1)}
	}
	return l.solve(ctx, dst, v, goal, left)
}

func (l *linearization) solve(ctx context.Context, dst, w array.Batch, goal system.Goal, left []float64) error {
	if dst.K() != w.K() || dst.N() != l.d || w.N() != l.d {
		panic(fmt.Sprintf("vjp: VJP of %s into %s with d = %d", w, dst, l.d))
	}
	if w.K() == 0 {
		return w.Device().Err()
	}
	return l.System.Apply(ctx, dst, w, goal, left)
}

func (l *linearization) Closed() Closed { return l.known }

func (l *linearization) Inner() Inner {
	most, failed := l.Steps()
	return Inner{Steps: most, Failed: failed, Iterative: l.iterative, Together: l.together}
}

func (l *linearization) Kind() string { return l.kind }

func (l *linearization) Bytes() int64 { return l.System.Bytes() + l.held.Bytes() }

func (l *linearization) Release() {
	l.System.Release()
	l.held.Release()
}

// spaced records the margin of the space of the model m at the argument v of the prox, relative to the error off of v.
// On the boundary itself it is the smallest positive number: 0 means not known.
func (l *linearization) spaced(m *prox.Model, v array.Batch, off float64) {
	if m != nil && m.Margin != nil {
		l.known.SpaceMargin = math.Max(m.Margin(v)/math.Max(off, math.SmallestNonzeroFloat64),
			math.SmallestNonzeroFloat64)
	}
}

// cleanup is what to do where what follows fails or panics, the last first. It is set to nil where it does not.
type cleanup []func()

func (c *cleanup) add(f func()) {
	if *c == nil {
		*c = make(cleanup, 0, 4)
	}
	*c = append(*c, f)
}

func (c *cleanup) run() {
	for i := len(*c) - 1; i >= 0; i-- {
		(*c)[i]()
	}
}
