// Package gradient has the proximal gradient methods ISTA and FISTA, with a step by backtracking where the loss has no
// Lipschitz constant, and the working sets on which they solve sparse problems.
package gradient

import (
	"context"

	"surepipe/array"
	"surepipe/prox"
	"surepipe/solve/engine"
)

// ProximalGradient is ISTA and FISTA. With x_k = b_k + c_k (b_k - b_{k-1}), where c_k = 0 for ISTA,
// an iteration is
//
//	v_k = x_k - eta A* l'(A x_k; y),   b_{k+1} = prox_{eta r}(v_k).
//
// FISTA takes tau_k = (k+2)/2, that is c_k = k/(k+3) (Beck 2017, remark 10.35), counted from the
// last restart; it restarts when the momentum points uphill, <x_k - b_{k+1}, b_{k+1} - b_k> > 0
// (O'Donoghue and Candes 2015). The state is (b_k, b_{k-1}). The [engine.Iterates] are vectors, or
// matrices of low rank in factored form.
//
// The step is eta = 1/(L ||A||^2) from an upper bound of the norm, so both methods converge; where L
// is infinite it is found by backtracking. With H
// the mean of A* l^(2) A between x_k and b_{k+1}, (x_k - b_{k+1})/eta - H (x_k - b_{k+1}) is a
// subgradient of the objective at b_{k+1}. Since 0 <= I/eta - H <= I/eta its norm is at most ||x_k
// - b_{k+1}||/eta, which is the measure.
//
// Where the proximal operator is inexact, b_{k+1} is the proximal point of some v' near v_k, and
// the measure lacks ||v' - v_k||/eta.
//
// In reverse, with beta the adjoint of b_{k+1}, gamma the adjoint that later iterations passed to
// b_k, and w = J_k beta, xi = w - eta A*A w:
//
//	y += eta A w,   beta <- gamma + (1 + c_k) xi,   gamma <- -c_k xi.
type ProximalGradient struct {
	engine.Named
	accelerated bool
	bound       float64 // of ||A||^2
	Eta         float64
	low         engine.FactoredForm // for iterates in factored form; nil for vectors
}

// Momentum is the index of c_k in Coefficients.Own.
const Momentum = 0

// GradientRun is one solve.
type GradientRun struct {
	engine.Iterates
	Since int // iterations since the last restart
}

// ISTA is the entry of ISTA.
var ISTA = engine.Entry{
	Name: "ista", About: "proximal gradient steps of length 1/||A||^2",
	New: newISTA, Sparse: true, Factors: true,
}

func newISTA(ctx context.Context, p engine.Problem, _ engine.Options) (engine.Method, error) {
	return New(ctx, "ista", p, false)
}

// NewFISTA makes FISTA.
func NewFISTA(ctx context.Context, p engine.Problem, _ engine.Options) (engine.Method, error) {
	return New(ctx, "fista", p, true)
}

// New makes ISTA or FISTA under a name.
func New(ctx context.Context, label string, p engine.Problem, accelerated bool) (engine.Method, error) {
	m, err := NewProximalGradient(ctx, label, p, accelerated)
	if err != nil {
		return nil, err
	}
	return m, nil
}

// NewProximalGradient bounds the norm.
func NewProximalGradient(ctx context.Context, label string, p engine.Problem, accelerated bool) (*ProximalGradient,
	error) {
	bound, err := engine.NormBound(ctx, p, 0)
	if err != nil {
		return nil, err
	}
	return &ProximalGradient{engine.Named{Label: label, P: p}, accelerated, bound, engine.StepFor(p, bound), nil}, nil
}

// Traits reports that the measure is exact and that a step depends on as many earlier iterates as
// the state has vectors.
func (g *ProximalGradient) Traits() engine.Traits {
	t := engine.Traits{Norm2: g.bound, Exact: true, Reweight: g.reweight, Factored: g.factored}
	if g.low != nil {
		t.Own = g.low.Internals()
		return t
	}
	d, p := g.P.A.Dims()
	t.State, t.Lookback = []int{p}, 1
	if g.accelerated {
		t.State, t.Lookback = []int{p, p}, 2
	}
	t.Scratch, t.Argument = []int{p, p, d}, denseArgument
	if searches(g.P) {
		// The bound of the measure needs one of l^(2) between two points.
		t.Scratch, t.Exact = []int{p, p, d, p, d, d, d}, false
	}
	return t
}

func (g *ProximalGradient) reweight(_ context.Context, r prox.Prox) (engine.Method, error) {
	other := *g
	other.P.R, other.low = r, nil
	return &other, nil
}

func (g *ProximalGradient) factored(form engine.FactoredForm, bound float64) engine.Method {
	other := *g
	if other.low = form; bound > 0 {
		other.bound, other.Eta = bound, 1/bound
	}
	return &other
}

// RunOf is the solve that Init has begun.
func RunOf(w *engine.Work) *GradientRun { return w.Own.(*GradientRun) }

// Init starts at b0 without momentum.
func (g *ProximalGradient) Init(w *engine.Work, b0 array.Batch) error {
	w.C = engine.Coefficients{Eta: g.Eta}
	if g.low != nil {
		f, err := g.low.Begin(g.bound, g.Eta, w, b0)
		w.Own, w.Form, w.Free = &GradientRun{Iterates: f}, f, f.Release
		return err
	}
	w.Own = &GradientRun{Iterates: &vectors{g.P, w}}
	if !b0.IsZero() {
		for _, b := range append(w.State, w.B) {
			w.Device().Copy(b, b0)
		}
	}
	if searches(g.P) {
		w.C.Eta = g.startStep(w, b0)
	}
	return nil
}

// Step extrapolates and descends.
func (g *ProximalGradient) Step(ctx context.Context, w *engine.Work, record bool) (prox.Derivative, error) {
	s := w.Own.(*GradientRun)
	s.Extrapolate(w.C.Own[Momentum])
	return s.Descend(ctx, w, record)
}

// Measure is ||x_k - b_{k+1}||/eta.
func (g *ProximalGradient) Measure(w *engine.Work) (float64, engine.Coefficients) {
	s := w.Own.(*GradientRun)
	next := engine.Coefficients{Eta: w.C.Eta}
	if g.accelerated {
		s.Since++
		if s.Uphill() > 0 {
			s.Since = 0
			if searches(g.P) {
				next.Eta *= 2
			}
		}
		next.Own[Momentum] = float64(s.Since) / float64(s.Since+3)
	}
	return s.Moved() / w.C.Eta, next
}

// Reverse pulls the adjoint back through v_k and x_k.
func (g *ProximalGradient) Reverse(_ context.Context, dst array.Batch, a *engine.Adjoint, j prox.Derivative) error {
	dev := dst.Device()
	if a.Last {
		a.State[0], a.Seed = a.Seed, a.State[0]
		a.Zero[0] = false
	}
	beta := a.State[0]
	a.Apply(j, beta, beta)
	a.A.Forward(a.Image, beta)
	dev.Lin(dst, 1, dst, a.C.Eta, a.Image)
	if a.K == 0 {
		return nil
	}
	a.A.Adjoint(a.Scratch, a.Image)
	dev.Lin(beta, 1, beta, -a.C.Eta, a.Scratch)
	if !g.accelerated {
		return nil
	}
	gamma, c := a.State[1], a.C.Own[Momentum]
	switch {
	case c == 0 && a.Zero[1]:
	case c == 0:
		dev.Lin(beta, 1, beta, 1, gamma)
		a.Zero[1] = true
	case a.Zero[1]:
		dev.Lin(gamma, -c, beta, 0, array.Batch{})
		dev.Lin(beta, 1+c, beta, 0, array.Batch{})
		a.Zero[1] = false
	default:
		dev.Lin(a.Scratch, 1+c, beta, 1, gamma)
		dev.Lin(gamma, -c, beta, 0, array.Batch{})
		a.State[0], a.Scratch = a.Scratch, beta
	}
	return nil
}

// vectors are iterates as batches: the state is (b_k, b_{k-1}), and the scratch is x_k, v_k and A
// x_k.
type vectors struct {
	p engine.Problem
	w *engine.Work
}

func (v *vectors) Extrapolate(c float64) {
	dev, x, b := v.w.Device(), v.w.Scratch[0], v.w.State[0]
	if c != 0 {
		dev.Lin(x, 1+c, b, -c, v.w.State[1])
	} else {
		dev.Copy(x, b)
	}
}

// Descend leaves x_k - b_{k+1} and b_{k+1} - b_k in the first two vectors of the scratch.
func (v *vectors) Descend(ctx context.Context, w *engine.Work, record bool) (prox.Derivative, error) {
	if searches(v.p) {
		return v.backtrack(ctx, w, record)
	}
	dev := w.Device()
	x, s, z := w.Scratch[0], w.Scratch[1], w.Scratch[2]
	v.p.A.Forward(z, x)
	engine.Slope(v.p, z, w.Y)
	v.p.A.Adjoint(s, z)
	dev.Lin(s, 1, x, -w.C.Eta, s)
	j, err := w.Prox(ctx, v.p.R, w.B, s, record)
	if err != nil {
		return nil, err
	}
	v.arrive(w, x, s)
	return j, nil
}

func (v *vectors) Moved() float64 { return engine.Norm(v.w.Scratch[0]) }

func (v *vectors) Uphill() float64 {
	return engine.Inner(v.w.Scratch[0], v.w.Scratch[1])
}

// denseArgument is v_k: x_k is the first vector of the scratch plus b_{k+1}, and the third is the
// gradient of the loss at A x_k.
func denseArgument(w *engine.Work) array.Batch {
	v, dev := w.Own.(*GradientRun).Iterates.(*vectors), w.Device()
	s := w.Scratch[1]
	v.p.A.Adjoint(s, w.Scratch[2])
	dev.Lin(s, 1, w.Scratch[0], -w.C.Eta, s)
	dev.Lin(s, 1, s, 1, w.B)
	return s
}

// FISTA is the entry of fista, with which others finish.
var FISTA = engine.Entry{Name: "fista", About: "the same with momentum and adaptive restart", New: NewFISTA,
	Sparse: true, Factors: true}
