package splitting

import (
	"context"
	"fmt"
	"math"

	"surepipe/array"
	"surepipe/prox"
	"surepipe/solve/engine"
)

// primalDual is the method of Condat (2013) and Vu (2013), with the anchoring of Halpern, reflection
// and restarts as in PDLP's successor (Lu and Yang, Restarted Halpern PDHG for linear programming,
// 2024). It needs products with A and K alone. With s = (b, u) a step of the method is
//
//	b' = b - tau (A*(A b - y) + K* u)
//	v  = u/sigma + K (2 b' - b),   z = prox_{r/sigma}(v),   u' = sigma (v - z),
//
// and an iteration, with the anchor (b_0, u_0) and w_k = (k+1)/(k+2), k counted from the last
// restart,
//
//	s_{k+1} = w_k ((1 + reflection) s' - reflection s_k) + (1 - w_k) s_0.
//
// With 1/tau = ||A||^2 + sigma ||K||^2 the step is 2/3-averaged, so that a reflection of 1/2 keeps it
// nonexpansive, and the distance of s' from s falls like 1/k in every run. A run ends when that is
// a fifth of what it was at the anchor, or stops falling, or has lasted as long as a third of all
// iterations; the next begins at s_k, with sigma moved towards the ratio of what u and b have moved
// by. The estimate is b', and z = K b at the solution, with exact zeros.
//
// The state is (b, u, b_0, u_0). In reverse an iteration is taken back line by line.
type primalDual struct {
	engine.Named
	bound, normK2 float64 // of ||A||^2 and ||K||^2
	sigma         float64
}

// reflection is the share by which a step is exceeded.
const reflection = 0.5

// When a run ends: enough is the decrease at which it does so at once, some that at which it does as
// soon as the distance grows again, and longest the share of all iterations that it may last.
const (
	enoughDecrease = 0.2
	someDecrease   = 0.8
	longestRun     = 0.36
)

// anchored is the index in Coefficients.Own of w, and anew that of the flag with which a run begins.
const (
	anchored = 0
	anew     = 1
)

// PrimalDual is the entry of the primal-dual iteration.
var PrimalDual = engine.Entry{
	Name: "primal-dual", About: "r(K b) by products with A and K alone: Halpern's iteration, with restarts",
	New: newPrimalDual, Behind: true,
}

func newPrimalDual(ctx context.Context, p engine.Problem, _ engine.Options) (engine.Method, error) {
	if p.Loss != nil {
		return nil, fmt.Errorf("solve: primal-dual supports only quadratic losses; use ista or fista")
	}
	p = p.WithK()
	bound, k, err := engine.Norms(ctx, p)
	if err != nil {
		return nil, err
	}
	m := &primalDual{Named: engine.Named{Label: "primal-dual", P: p}, bound: bound, normK2: k, sigma: 1}
	if bound > 0 {
		m.sigma = bound / k
	}
	return m, nil
}

// Traits gives the state, and as scratch the argument of the proximal operator, u', two vectors of
// length p, the second of which is A* y, and one of length d.
func (m *primalDual) Traits() engine.Traits {
	d, p := m.P.A.Dims()
	q, _ := m.P.K.Dims()
	return engine.Traits{
		Norm2: m.bound, State: []int{p, q, p, q}, Scratch: []int{q, q, p, p, d},
		Argument: func(w *engine.Work) array.Batch { return w.Scratch[0] },
		Dual:     func(w *engine.Work) array.Batch { return w.Scratch[1] },
		Reweight: func(_ context.Context, r prox.Prox) (engine.Method, error) {
			other := *m
			other.P.R = r
			return &other, nil
		},
	}
}

type primalDualRun struct {
	k           int     // of the run
	first, last float64 // the distance of s' from s at the anchor, and at the last iteration
	moved       float64 // the distance at this iteration
}

func (m *primalDual) tau(sigma float64) float64 { return 1 / (m.bound + sigma*m.normK2) }

// Init starts at b0 and the given multiplier. Without one an estimate is of little use: its first steps
// would lead away from it.
func (m *primalDual) Init(w *engine.Work, b0 array.Batch) error {
	dev := w.Device()
	w.C, w.Own = engine.Coefficients{Eta: 1 / m.sigma, Own: [2]float64{anchored: 0.5, anew: 1}}, new(primalDualRun)
	m.P.A.Adjoint(w.Scratch[3], w.Y)
	if !b0.IsZero() {
		dev.Copy(w.B, b0)
	}
	if !w.Dual.IsZero() {
		dev.Copy(w.State[0], w.B)
		dev.Copy(w.State[1], w.Dual)
	}
	return nil
}

// Step takes a step and draws it to the anchor.
func (m *primalDual) Step(ctx context.Context, w *engine.Work, record bool) (prox.Derivative, error) {
	dev, sigma := w.Device(), 1/w.C.Eta
	b, u, b0, u0 := w.State[0], w.State[1], w.State[2], w.State[3]
	v, next, t, aty, z := w.Scratch[0], w.Scratch[1], w.Scratch[2], w.Scratch[3], w.Scratch[4]
	if w.C.Own[anew] != 0 {
		dev.Copy(b0, b)
		dev.Copy(u0, u)
	}
	tau := m.tau(sigma)
	m.P.A.Forward(z, b)
	m.P.A.Adjoint(t, z)
	dev.Lin(w.B, 1, t, -1, aty)
	m.P.K.Adjoint(t, u)
	dev.Lin(w.B, 1, w.B, 1, t)
	dev.Lin(w.B, 1, b, -tau, w.B)
	dev.Lin(t, 2, w.B, -1, b)
	m.P.K.Forward(v, t)
	dev.Lin(v, 1, v, 1/sigma, u)
	j, err := w.Prox(ctx, m.P.R, next, v, record)
	if err != nil {
		return nil, err
	}
	dev.Lin(next, sigma, v, -sigma, next)
	run := w.Own.(*primalDualRun)
	dev.Lin(b, -1, b, 1, w.B)
	dev.Lin(u, -1, u, 1, next)
	run.moved = math.Hypot(engine.Norm(b)/math.Sqrt(tau), engine.Norm(u)/math.Sqrt(sigma))
	// (1 + reflection) s' - reflection s = s' + reflection (s' - s)
	dev.Lin(b, reflection, b, 1, w.B)
	dev.Lin(u, reflection, u, 1, next)
	dev.Lin(b, w.C.Own[anchored], b, 1-w.C.Own[anchored], b0)
	dev.Lin(u, w.C.Own[anchored], u, 1-w.C.Own[anchored], u0)
	return j, nil
}

// Measure decides whether the run ends. The duality gap decides on the solve.
func (m *primalDual) Measure(w *engine.Work) (float64, engine.Coefficients) {
	run := w.Own.(*primalDualRun)
	if run.k == 0 {
		run.first = run.moved
	}
	ends := run.moved <= enoughDecrease*run.first || run.moved <= someDecrease*run.first && run.moved > run.last &&
		run.k > 0 ||
		float64(run.k) >= longestRun*float64(w.K+1)
	ends = ends && run.k > 0
	run.last = run.moved
	run.k++
	next := engine.Coefficients{Eta: w.C.Eta}
	if ends {
		run.k = 0
		next.Own[anew] = 1
		next.Eta = 1 / m.balanced(w)
	}
	k := float64(run.k)
	next.Own[anchored] = (k + 1) / (k + 2)
	return 0, next
}

// balanced is sigma for the next run: about the root of the product of the present one and the ratio of
// the distances by which u and b have moved since the anchor. It changes by a power of two, so that it
// is the same for every y nearby.
func (m *primalDual) balanced(w *engine.Work) float64 {
	dev, sigma := w.Device(), 1/w.C.Eta
	db, du := dev.Alloc(1, w.State[0].N()), dev.Alloc(1, w.State[1].N())
	defer array.Free(db, du)
	dev.Lin(db, 1, w.State[0], -1, w.State[2])
	dev.Lin(du, 1, w.State[1], -1, w.State[3])
	next := sigma * math.Exp2(math.Round(math.Log2(engine.Norm(du)/engine.Norm(db)/math.Sqrt(m.normK2)/sigma)/2))
	if !(next > 0) || math.IsInf(next, 1) || next > m.sigma*farthestEta || next < m.sigma/farthestEta {
		return sigma
	}
	return next
}

func (m *primalDual) Reverse(_ context.Context, dst array.Batch, a *engine.Adjoint, j prox.Derivative) error {
	dev, sigma, w := dst.Device(), 1/a.C.Eta, a.C.Own[anchored]
	tau := m.tau(sigma)
	b, u, b0, u0 := a.State[0], a.State[1], a.State[2], a.State[3]
	primed, toU, gx := dev.Alloc(b.K(), b.N()), dev.Alloc(u.K(), u.N()), a.Scratch
	defer array.Free(primed, toU)
	none := array.Batch{}
	dev.Lin(b0, 1, b0, 1-w, b)
	dev.Lin(u0, 1, u0, 1-w, u)
	dev.Lin(primed, w*(1+reflection), b, 0, none)
	dev.Lin(b, -w*reflection, b, 0, none)
	if a.Last {
		dev.Lin(primed, 1, primed, 1, a.Seed)
	}
	a.Apply(j, toU, u)
	dev.Lin(toU, w*(1+reflection), u, -w*(1+reflection), toU) // over sigma
	dev.Lin(u, -w*reflection, u, 1, toU)
	m.P.K.Adjoint(gx, toU)
	dev.Lin(primed, 1, primed, 2*sigma, gx)
	dev.Lin(b, 1, b, -sigma, gx)
	dev.Lin(b, 1, b, 1, primed)
	a.A.Forward(a.Image, primed)
	dev.Lin(dst, 1, dst, tau, a.Image)
	a.A.Adjoint(gx, a.Image)
	dev.Lin(b, 1, b, -tau, gx)
	m.P.K.Forward(toU, primed)
	dev.Lin(u, 1, u, -tau, toU)
	if a.C.Own[anew] != 0 {
		dev.Lin(b, 1, b, 1, b0)
		dev.Lin(u, 1, u, 1, u0)
		dev.Fill(b0, 0)
		dev.Fill(u0, 0)
	}
	return nil
}
