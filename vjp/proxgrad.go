package vjp

import (
	"context"
	"fmt"
	"math"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/prox"
)

// proximalGradient is ISTA and FISTA. With x_k = b_k + c_k (b_k - b_{k-1}) (c_k = 0
// for ISTA) an iteration is
//
//	v_k = x_k - eta A*(A x_k - y),   b_{k+1} = prox_{eta r}(v_k).
//
// FISTA takes tau_k = (k+2)/2, that is c_k = k/(k+3) (Beck 2017, remark 10.35),
// counted from the last restart; it restarts when the momentum points uphill,
// <x_k - b_{k+1}, b_{k+1} - b_k> > 0 (O'Donoghue and Candes 2015). The state is
// (b_k, b_{k-1}).
//
// The step is eta = 1/||A||^2 from an upper bound of the norm, so that both
// converge. (x_k - b_{k+1})/eta - A*A (x_k - b_{k+1}) is a subgradient of the
// objective at b_{k+1}, and since 0 <= I/eta - A*A <= I/eta its norm is at most
// ||x_k - b_{k+1}||/eta: the optimality measure.
//
// Where r can be followed ([prox.Follow]) b_{k+1} is the proximal point of some v' near v_k,
// as near as a tenth of the step before, and the measure has ||v' - v_k||/eta more. What that is
// the follower is asked where the rest is small enough. The last iteration allowed is exact,
// so that the measure is known there too.
//
// In reverse, with beta the adjoint of b_{k+1}, gamma what later iterations
// left for b_k, and w = J_k beta, xi = w - eta A*A w:
//
//	y += eta A w,   beta <- gamma + (1 + c_k) xi,   gamma <- -c_k xi.
type proximalGradient struct {
	p           Problem
	o           Options
	accelerated bool
	bound       float64 // of ||A||^2
	eta         float64
}

func newProximalGradient(ctx context.Context, p Problem, o Options, accelerated bool) (*proximalGradient, error) {
	n, err := linops.Norm2(ctx, p.Device, p.A, linops.NormOptions{})
	if err != nil {
		return nil, err
	}
	g := &proximalGradient{p: p, o: o, accelerated: accelerated, bound: n.Upper(), eta: 1}
	if g.bound > 0 {
		g.eta = 1 / g.bound
	}
	if math.IsInf(g.eta, 0) || math.IsInf(g.bound, 0) {
		return nil, fmt.Errorf("vjp: ||A||^2 is %g, out of range: rescale the operator", g.bound)
	}
	return g, nil
}

// Name is "ista" or "fista".
func (g *proximalGradient) Name() string { return g.name() }

// Release does nothing: all that is kept is a number.
func (g *proximalGradient) Release() {}

// Solve iterates to a solution at y.
func (g *proximalGradient) Solve(ctx context.Context, y array.Batch) (*Solution, error) {
	return solve(ctx, g, y, g.o, entry{})
}

// SolveFrom starts at b0, without momentum.
func (g *proximalGradient) SolveFrom(ctx context.Context, y, b0 array.Batch) (*Solution, error) {
	return solve(ctx, g, y, g.o, entry{b: b0})
}

func (g *proximalGradient) name() string {
	if g.accelerated {
		return "fista"
	}
	return "ista"
}

func (g *proximalGradient) problem() Problem { return g.p }

func (g *proximalGradient) norm2() float64 { return g.bound }

func (g *proximalGradient) width() int {
	if g.accelerated {
		return 2
	}
	return 1
}

func (g *proximalGradient) estimates() int { return g.width() }

func (g *proximalGradient) lookback() int { return g.width() }

func (g *proximalGradient) measures() bool { return true }

func (g *proximalGradient) start() coefficients { return coefficients{eta: g.eta} }

func (g *proximalGradient) step(ctx context.Context, w *work, record bool) (prox.Derivative, error) {
	dev := g.p.Device
	b := w.state.Rows(0, 1)
	x := w.t
	if c := w.c.momentum; c != 0 {
		dev.Lin(x, 1+c, b, -c, w.state.Rows(1, 2))
	} else {
		dev.Copy(x, b)
	}
	g.p.A.Forward(w.z, x)
	dev.Lin(w.z, 1, w.z, -1, w.y)
	g.p.A.Adjoint(w.s, w.z)
	dev.Lin(w.s, 1, x, -w.c.eta, w.s)
	j, err := w.apply(ctx, g.p.R, w.b, w.s, record)
	if err != nil {
		return nil, err
	}
	// w.t becomes x_k - b_{k+1} and w.s becomes b_{k+1} - b_k, for measure.
	dev.Lin(w.t, 1, x, -1, w.b)
	dev.Lin(w.s, 1, w.b, -1, b)
	if g.accelerated {
		dev.Copy(w.state.Rows(1, 2), b)
	}
	dev.Copy(b, w.b)
	return j, nil
}

func (g *proximalGradient) measure(w *work) (float64, coefficients) {
	next := coefficients{eta: w.c.eta}
	if g.accelerated {
		var uphill [1]float64
		g.p.Device.Dot(uphill[:], w.t, w.s)
		w.since++
		if uphill[0] > 0 {
			w.since = 0
		}
		next.momentum = float64(w.since) / float64(w.since+3)
	}
	return norm(w.t) / w.c.eta, next
}

func (g *proximalGradient) argument(w *work) {
	// x_k is w.t + b_{k+1} and w.z is A x_k - y.
	dev := g.p.Device
	g.p.A.Adjoint(w.s, w.z)
	dev.Lin(w.s, 1, w.t, -w.c.eta, w.s)
	dev.Lin(w.s, 1, w.s, 1, w.b)
}

func (g *proximalGradient) reverse(_ context.Context, dst array.Batch, a *adjoint, c coefficients, j prox.Derivative, k int) error {
	dev := g.p.Device
	if a.last {
		a.s[0], a.seed = a.seed, a.s[0]
		a.zero[0] = false
	}
	beta, gamma := a.s[0], a.s[1]
	a.apply(j, beta, beta)
	a.op.Forward(a.q, beta)
	dev.Lin(dst, 1, dst, c.eta, a.q)
	if k == 0 {
		return nil
	}
	a.op.Adjoint(a.scratch, a.q)
	dev.Lin(beta, 1, beta, -c.eta, a.scratch)
	if !g.accelerated {
		return nil
	}
	switch {
	case c.momentum == 0 && a.zero[1]:
	case c.momentum == 0:
		dev.Lin(beta, 1, beta, 1, gamma)
		a.zero[1] = true
	case a.zero[1]:
		dev.Lin(gamma, -c.momentum, beta, 0, array.Batch{})
		dev.Lin(beta, 1+c.momentum, beta, 0, array.Batch{})
		a.zero[1] = false
	default:
		dev.Lin(a.scratch, 1+c.momentum, beta, 1, gamma)
		dev.Lin(gamma, -c.momentum, beta, 0, array.Batch{})
		a.s[0], a.scratch = a.scratch, beta
	}
	return nil
}
