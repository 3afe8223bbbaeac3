package splitting

import (
	"context"
	"fmt"
	"math"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/prox"
	"surepipe/solve/engine"
)

// dual is FISTA on the dual of a problem with r(K b) where A*A = c I,
//
//	min_u  1/(2c) ||A* y - K* u||^2 + r*(u),    b(u) = (A* y - K* u)/c,
//
// as of Chambolle's (2004) and of Beck and Teboulle (2009) for total variation. With x_k = u_k + m_k
// (u_k - u_{k-1}), a step s = c/||K||^2 and Moreau's identity an iteration is
//
//	v_k = x_k/s + K b(x_k),   z_k = prox_{r/s}(v_k),   u_{k+1} = s (v_k - z_k),
//
// where m_k = k/(k + inertia) (Chambolle and Dossal 2015) is counted from the last restart; it
// restarts when the momentum points uphill, <x_k - u_{k+1}, u_{k+1} - u_k> > 0 (O'Donoghue and
// Candes 2015). At the solution z_k = K b, with exact zeros.
//
// The state is (u_k, u_{k-1}), and the estimate b(u_{k+1}) is computed where a solution is checked.
// Where r is the support function of balls and K has a projected step for them
// ([linops.Structure].BallStep), an iteration is one pass over memory.
//
// In reverse, with g the adjoints of the state after the iteration and beta that of the estimate,
// at the last iteration only:
//
//	g_1 -= K beta/c,   y += A beta/c,   w = (I - J_k) g_1,   h = K* w,   y += s A h/c,
//	xi = w - s K h/c,   g_1 <- g_2 + (1 + m) xi,   g_2 <- -m xi.
type dual struct {
	engine.Named
	c    float64 // A*A = c I
	step float64
}

// dualMomentum is the index of m in Coefficients.Own.
const dualMomentum = 0

// inertia is the a of k/(k + a).
const inertia = 6

// restartEvery is the number of iterations between two tests for a restart: a test reads what an
// iteration reads.
const restartEvery = 4

// Dual is the entry of gradient steps on the dual.
var Dual = engine.Entry{
	Name: "dual", About: "r(K b) with A*A = c I: accelerated gradient steps on the dual, with restarts",
	New: NewDual, Behind: true,
}

// NewDual bounds the norm of K.
func NewDual(ctx context.Context, p engine.Problem, _ engine.Options) (engine.Method, error) {
	c := linops.StructureOf(p.A).Columns
	p = p.WithK()
	if !c.Known || !(c.Value > 0) {
		return nil, fmt.Errorf("solve: dual needs an operator with A*A = c I, which is not known of this one; use " +
			"admm")
	}
	k, err := engine.NormOfK(ctx, p)
	if err != nil {
		return nil, err
	}
	return &dual{Named: engine.Named{Label: "dual", P: p}, c: c.Value, step: c.Value / k}, nil
}

// Traits gives the state, and as scratch the argument of the proximal operator, a third vector for the
// state's turns, b(x_k), and A* y/c.
func (d *dual) Traits() engine.Traits {
	_, p := d.P.A.Dims()
	q, _ := d.P.K.Dims()
	return engine.Traits{
		Norm2: d.c, State: []int{q, q}, Scratch: []int{q, q, p, p},
		Argument: d.argument,
		Dual:     d.estimate,
		Reweight: func(_ context.Context, r prox.Prox) (engine.Method, error) {
			other := *d
			other.P.R = r
			return &other, nil
		},
	}
}

type dualRun struct {
	since, untested int
	momentum        float64 // of the last iteration
	uphill          float64 // <x_k - u_{k+1}, u_{k+1} - u_k> of it, where known
	known           bool
}

// Init starts at the given multiplier, or at 0. An estimate does not determine it.
func (d *dual) Init(w *engine.Work, b0 array.Batch) error {
	dev := w.Device()
	w.C, w.Own = engine.Coefficients{Eta: 1 / d.step}, new(dualRun)
	d.P.A.Adjoint(w.Scratch[3], w.Y)
	dev.Lin(w.Scratch[3], 1/d.c, w.Scratch[3], 0, array.Batch{})
	if !w.Dual.IsZero() {
		dev.Copy(w.State[0], w.Dual)
		dev.Copy(w.State[1], w.Dual)
	}
	if !b0.IsZero() {
		dev.Copy(w.B, b0)
	}
	return nil
}

// Step exchanges the vectors of the state with the third one.
func (d *dual) Step(ctx context.Context, w *engine.Work, record bool) (prox.Derivative, error) {
	run := w.Own.(*dualRun)
	run.momentum, run.known = w.C.Own[dualMomentum], false
	u, before, next := w.State[0], w.State[1], w.Scratch[1]
	if !record && d.ball(w, run) {
		w.Stepped = w.C.Eta
		w.State[0], w.State[1], w.Scratch[1] = next, u, before
		return nil, nil
	}
	v := d.ascend(w, u, before, next)
	j, err := w.Prox(ctx, d.P.R, next, v, record)
	if err != nil {
		return nil, err
	}
	w.Device().Lin(next, d.step, v, -d.step, next)
	w.State[0], w.State[1], w.Scratch[1] = next, u, before
	return j, nil
}

// ball takes a step by K's own function, where it has one for r's balls.
func (d *dual) ball(w *engine.Work, run *dualRun) bool {
	step, ball := linops.StructureOf(d.P.K).BallStep, prox.StructureOf(d.P.R).Balls
	if step == nil || ball.Planes == 0 {
		return false
	}
	asked := run.untested+1 >= restartEvery
	uphill, ok := step(linops.BallStep{
		Dst: w.Scratch[1], U: w.State[0], Before: w.State[1], B: w.Scratch[3],
		Momentum: run.momentum, Back: 1 / d.c, Step: d.step, Radius: ball.Radius, Planes: ball.Planes,
		Channels: ball.Channels, Uphill: asked,
	})
	run.uphill, run.known = uphill, ok && asked
	return ok
}

// ascend returns v_k; t is memory of its size.
func (d *dual) ascend(w *engine.Work, u, before, t array.Batch) array.Batch {
	dev, m, s := w.Device(), w.Own.(*dualRun).momentum, d.step
	v, x := w.Scratch[0], w.Scratch[2]
	dev.Lin(v, (1+m)/s, u, -m/s, before)
	d.P.K.Adjoint(x, v)
	dev.Lin(x, 1, w.Scratch[3], -s/d.c, x)
	d.P.K.Forward(t, x)
	dev.Lin(v, 1, v, 1, t)
	return v
}

// argument is v_k of the last iteration, from the state before it.
func (d *dual) argument(w *engine.Work) array.Batch {
	t := w.Device().Alloc(1, w.State[0].N())
	defer t.Free()
	return d.ascend(w, w.State[1], w.Scratch[1], t)
}

func (d *dual) estimate(w *engine.Work) array.Batch {
	d.P.K.Adjoint(w.B, w.State[0])
	w.Device().Lin(w.B, 1, w.Scratch[3], -1/d.c, w.B)
	return w.State[0]
}

// Measure returns 0: the duality gap decides.
func (d *dual) Measure(w *engine.Work) (float64, engine.Coefficients) {
	run := w.Own.(*dualRun)
	run.since++
	if run.untested++; run.untested >= restartEvery {
		run.untested = 0
		if d.uphill(w, run) > 0 {
			run.since = 0
		}
	}
	k := float64(run.since)
	next := engine.Coefficients{Eta: w.C.Eta}
	next.Own[dualMomentum] = k / (k + inertia)
	if math.IsNaN(next.Own[dualMomentum]) {
		next.Own[dualMomentum] = 0
	}
	return 0, next
}

func (d *dual) uphill(w *engine.Work, run *dualRun) float64 {
	if run.known {
		return run.uphill
	}
	dev, m := w.Device(), run.momentum
	next, u, before, t := w.State[0], w.State[1], w.Scratch[1], w.Scratch[0]
	du := dev.Alloc(1, u.N())
	defer du.Free()
	dev.Lin(t, 1+m, u, -m, before)
	dev.Lin(t, 1, t, -1, next)
	dev.Lin(du, 1, next, -1, u)
	return engine.Inner(t, du)
}

func (d *dual) Reverse(_ context.Context, dst array.Batch, a *engine.Adjoint, j prox.Derivative) error {
	dev, m, s, c := dst.Device(), a.C.Own[dualMomentum], d.step, d.c
	g, gBefore := a.State[0], a.State[1]
	w, t := dev.Alloc(g.K(), g.N()), dev.Alloc(g.K(), g.N())
	defer array.Free(w, t)
	if a.Last {
		d.P.K.Forward(t, a.Seed)
		dev.Lin(g, 1, g, -1/c, t)
		a.A.Forward(a.Image, a.Seed)
		dev.Lin(dst, 1, dst, 1/c, a.Image)
	}
	a.Apply(j, w, g)
	dev.Lin(w, 1, g, -1, w)
	d.P.K.Adjoint(a.Scratch, w)
	a.A.Forward(a.Image, a.Scratch)
	dev.Lin(dst, 1, dst, s/c, a.Image)
	d.P.K.Forward(t, a.Scratch)
	dev.Lin(w, 1, w, -s/c, t) // xi
	dev.Lin(g, 1, gBefore, 1+m, w)
	dev.Lin(gBefore, -m, w, 0, array.Batch{})
	return nil
}
