package solve

import (
	"context"

	"surepipe/array"
	"surepipe/prox"
)

// proximalGradient is ISTA and FISTA. With x_k = b_k + c_k (b_k - b_{k-1}), where c_k = 0 for ISTA,
// an iteration is
//
//	v_k = x_k - eta A* l'(A x_k; y),   b_{k+1} = prox_{eta r}(v_k).
//
// FISTA takes tau_k = (k+2)/2, that is c_k = k/(k+3) (Beck 2017, remark 10.35), counted from the
// last restart; it restarts when the momentum points uphill, <x_k - b_{k+1}, b_{k+1} - b_k> > 0
// (O'Donoghue and Candes 2015). The state is (b_k, b_{k-1}). The [iterates] are vectors, or
// matrices of low rank in factored form.
//
// The step is eta = 1/(L ||A||^2) from an upper bound of the norm, so both methods converge; where L
// is infinite it is found by backtracking. With H
// the mean of A* l” A between x_k and b_{k+1}, (x_k - b_{k+1})/eta - H (x_k - b_{k+1}) is a
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
type proximalGradient struct {
	p           Problem
	accelerated bool
	bound       float64 // of ||A||^2
	eta         float64
	low         factoredForm // for iterates in factored form; nil for vectors
}

// momentum is the index of c_k in Coefficients.Own.
const momentum = 0

// gradientRun is one solve.
type gradientRun struct {
	iterates
	since int // iterations since the last restart
}

// istaEntry is the entry of ISTA.
var istaEntry = Entry{
	Name: "ista", About: "proximal gradient steps of length 1/||A||^2",
	New: newISTA, Sparse: true, factors: true,
}

func newISTA(ctx context.Context, p Problem, _ Options) (Method, error) {
	return newProximalGradient(ctx, p, false)
}

func newFISTA(ctx context.Context, p Problem, _ Options) (Method, error) {
	return newProximalGradient(ctx, p, true)
}

func newProximalGradient(ctx context.Context, p Problem, accelerated bool) (*proximalGradient, error) {
	bound, err := normBound(ctx, p)
	if err != nil {
		return nil, err
	}
	return &proximalGradient{p: p, accelerated: accelerated, bound: bound, eta: stepFor(p, bound)}, nil
}

// Name is "ista" or "fista".
func (g *proximalGradient) Name() string {
	if g.accelerated {
		return "fista"
	}
	return "ista"
}

// Problem is the problem that it solves.
func (g *proximalGradient) Problem() Problem { return g.p }

// Traits reports that the measure is exact and that a step depends on as many earlier iterates as
// the state has vectors.
func (g *proximalGradient) Traits() Traits {
	t := Traits{Norm2: g.bound, Exact: true, Reweight: g.reweight, Factored: g.factored}
	if g.low != nil {
		t.own = g.low.internals()
		return t
	}
	d, p := g.p.A.Dims()
	t.State, t.Lookback = []int{p}, 1
	if g.accelerated {
		t.State, t.Lookback = []int{p, p}, 2
	}
	t.Scratch, t.Argument = []int{p, p, d}, denseArgument
	if searches(g.p) {
		// The bound of the measure needs one of l” between two points.
		t.Scratch, t.Exact = []int{p, p, d, p, d, d, d}, false
	}
	return t
}

// reweight shares the norm.
func (g *proximalGradient) reweight(_ context.Context, r prox.Prox) (Method, error) {
	other := *g
	other.p.R, other.low = r, nil
	return &other, nil
}

// factored is the method with iterates of another form.
func (g *proximalGradient) factored(form factoredForm, bound float64) Method {
	other := *g
	if other.low = form; bound > 0 {
		other.bound, other.eta = bound, 1/bound
	}
	return &other
}

// Release does nothing: only a number is kept.
func (g *proximalGradient) Release() {}

// runOf is the solve that Init has begun.
func runOf(w *Work) *gradientRun { return w.Own.(*gradientRun) }

// Init starts at b0 without momentum.
func (g *proximalGradient) Init(w *Work, b0 array.Batch) error {
	w.C = Coefficients{Eta: g.eta}
	if g.low != nil {
		f, err := g.low.begin(g.bound, g.eta, w, b0)
		w.Own, w.Form, w.Free = &gradientRun{iterates: f}, f, f.release
		w.C.Own[momentum] = f.firstMomentum()
		return err
	}
	w.Own = &gradientRun{iterates: &vectors{g.p, w}}
	if !b0.IsZero() {
		for _, b := range append(w.State, w.B) {
			w.Device().Copy(b, b0)
		}
	}
	if searches(g.p) {
		w.C.Eta = g.startStep(w, b0)
	}
	return nil
}

// Step extrapolates and descends.
func (g *proximalGradient) Step(ctx context.Context, w *Work, record bool) (prox.Derivative, error) {
	s := w.Own.(*gradientRun)
	s.extrapolate(w.C.Own[momentum])
	return s.descend(ctx, w, record)
}

// Measure is ||x_k - b_{k+1}||/eta.
func (g *proximalGradient) Measure(w *Work) (float64, Coefficients) {
	s := w.Own.(*gradientRun)
	next := Coefficients{Eta: w.C.Eta}
	if g.accelerated {
		s.since++
		if s.uphill() > 0 {
			s.since = 0
			if searches(g.p) {
				next.Eta *= 2
			}
		}
		next.Own[momentum] = float64(s.since) / float64(s.since+3)
	}
	return s.moved() / w.C.Eta, next
}

// Reverse pulls the adjoint back through v_k and x_k.
func (g *proximalGradient) Reverse(_ context.Context, dst array.Batch, a *Adjoint, j prox.Derivative) error {
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
	gamma, c := a.State[1], a.C.Own[momentum]
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
	p Problem
	w *Work
}

func (v *vectors) extrapolate(c float64) {
	dev, x, b := v.w.Device(), v.w.Scratch[0], v.w.State[0]
	if c != 0 {
		dev.Lin(x, 1+c, b, -c, v.w.State[1])
	} else {
		dev.Copy(x, b)
	}
}

// descend leaves x_k - b_{k+1} and b_{k+1} - b_k in the first two vectors of the scratch.
func (v *vectors) descend(ctx context.Context, w *Work, record bool) (prox.Derivative, error) {
	if searches(v.p) {
		return v.backtrack(ctx, w, record)
	}
	dev := w.Device()
	x, s, z := w.Scratch[0], w.Scratch[1], w.Scratch[2]
	v.p.A.Forward(z, x)
	slope(v.p, z, w.Y)
	v.p.A.Adjoint(s, z)
	dev.Lin(s, 1, x, -w.C.Eta, s)
	j, err := w.Prox(ctx, v.p.R, w.B, s, record)
	if err != nil {
		return nil, err
	}
	v.arrive(w, x, s)
	return j, nil
}

func (v *vectors) moved() float64 { return Norm(v.w.Scratch[0]) }

func (v *vectors) uphill() float64 {
	var out [1]float64
	v.w.Device().Dot(out[:], v.w.Scratch[0], v.w.Scratch[1])
	return out[0]
}

// denseArgument is v_k: x_k is the first vector of the scratch plus b_{k+1}, and the third is the
// gradient of the loss at A x_k.
func denseArgument(w *Work) array.Batch {
	v, dev := w.Own.(*gradientRun).iterates.(*vectors), w.Device()
	s := w.Scratch[1]
	v.p.A.Adjoint(s, w.Scratch[2])
	dev.Lin(s, 1, w.Scratch[0], -w.C.Eta, s)
	dev.Lin(s, 1, s, 1, w.B)
	return s
}

// accelerated is the entry of fista, with which others finish.
var accelerated = Entry{Name: "fista", About: "the same with momentum and adaptive restart", New: newFISTA, Sparse: true, factors: true}
