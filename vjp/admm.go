package vjp

import (
	"context"
	"fmt"
	"math"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/prox"
)

// admm is the alternating direction method of multipliers (Boyd et al. 2011) in
// scaled form,
//
//	b_{k+1} = prox_{eta r}(z_k - u_k)
//	z_{k+1} = (eta A*A + I)^{-1} (b_{k+1} + u_k + eta A* y)
//	u_{k+1} = u_k + b_{k+1} - z_{k+1},
//
// with state (z_k, u_k). Its estimate is b, the prox's output, whose zeros and
// rank are exact. (z_k - z_{k+1})/eta + A*A (b_{k+1} - z_{k+1}) is a subgradient
// of the objective at b_{k+1}; the triangle inequality on its norm is the
// measure, as far as the z-step is exact: it says when to look ([check]).
//
// eta is balanced by relative residuals (Wohlberg 2017): when
// ||b - z|| / max(||b||, ||z||) and ||z_{k+1} - z_k|| / ||u|| differ by more than
// balanceRatio it is scaled by a power of two towards equality, and u with it,
// which keeps u/eta, the multiplier, as it was. Changes grow rarer and end, so that
// convergence is that of a constant eta. eta ||A||^2 stays within farthestEta of 1: beyond it
// the closed form of the z-step loses what b knows.
//
// In reverse, with (zeta, upsilon) the adjoint of (z_{k+1}, u_{k+1}), beta the
// estimate's own adjoint (at the last iteration only) and S the inverse above:
//
//	s = S (zeta - upsilon),   y += eta A s,   w = J_k (upsilon + s + beta)
//	zeta <- w,   upsilon <- upsilon + s - w.
type admm struct {
	p      Problem
	o      Options
	normal *linops.Normal
	matrix *linops.Dense // A written down for the z-step, where it is small; or nil
	bound  float64       // of ||A||^2
	eta    float64
}

// Balancing: at most a factor of maxBalance at a time, after iterations 2, 4, ...
// whose spacing doubles, none past balanceUntil.
const (
	balanceRatio = 4
	maxBalance   = 32
	balanceUntil = 400
	farthestEta  = 0x1p20
)

func newADMM(ctx context.Context, p Problem, o Options) (Solver, error) {
	n, err := linops.Norm2(ctx, p.Device, p.A, linops.NormOptions{})
	if err != nil {
		return nil, err
	}
	s := &admm{p: p, o: o, bound: n.Upper(), eta: 1}
	if s.bound > 0 {
		s.eta = 1 / s.bound
	}
	if math.IsInf(s.eta, 0) || math.IsInf(s.bound, 0) {
		return nil, fmt.Errorf("vjp: ||A||^2 is %g, out of range: rescale the operator", s.bound)
	}
	s.normal = s.newNormal()
	return s, nil
}

// newNormal is the z-step: a small A that has no closed form is written down as a matrix, which
// is factorized once where conjugate gradients would start anew at every iteration.
func (s *admm) newNormal() *linops.Normal {
	normal := linops.NewNormal(s.p.Device, s.p.A)
	if _, dim := s.p.A.Dims(); dim > maxDense || normal.Closed() {
		return normal
	}
	x := linops.ToDense(s.p.Device, s.p.A)
	if x == nil {
		return normal
	}
	normal.Release()
	s.matrix = linops.NewDense(s.p.Device, x)
	return linops.NewNormal(s.p.Device, s.matrix)
}

// Name is "admm".
func (s *admm) Name() string { return s.name() }

// Release frees the factorizations of the z-step.
func (s *admm) Release() {
	s.normal.Release()
	if s.matrix != nil {
		s.matrix.Release()
	}
}

// Solve iterates to a solution at y.
func (s *admm) Solve(ctx context.Context, y array.Batch) (*Solution, error) {
	return solve(ctx, s, y, s.o, entry{})
}

// SolveFrom starts at z = b0, u = 0.
func (s *admm) SolveFrom(ctx context.Context, y, b0 array.Batch) (*Solution, error) {
	return solve(ctx, s, y, s.o, entry{b: b0})
}

func (s *admm) name() string     { return "admm" }
func (s *admm) problem() Problem { return s.p }
func (s *admm) norm2() float64   { return s.bound }
func (s *admm) width() int       { return 2 }
func (s *admm) estimates() int   { return 1 }

func (s *admm) lookback() int       { return -1 }
func (s *admm) measures() bool      { return false }
func (s *admm) start() coefficients { return coefficients{eta: s.eta} }

func (s *admm) step(ctx context.Context, w *work, record bool) (prox.Derivative, error) {
	dev := s.p.Device
	z, u := w.state.Rows(0, 1), w.state.Rows(1, 2)
	dev.Lin(w.t, 1, z, -1, u)
	j, err := w.apply(ctx, s.p.R, w.b, w.t, record)
	if err != nil {
		return nil, err
	}
	dev.Lin(u, 1, u, 1, w.b)
	dev.Lin(w.t, 1, u, w.c.eta, w.aty)
	if err := s.normal.Solve(ctx, w.s, w.t, w.c.eta); err != nil {
		if j != nil {
			j.Release()
		}
		return nil, err
	}
	dev.Lin(u, 1, u, -1, w.s)
	dev.Lin(w.t, 1, z, -1, w.s) // z_k - z_{k+1}
	dev.Copy(z, w.s)
	dev.Lin(w.s, 1, w.b, -1, z) // b_{k+1} - z_{k+1}
	return j, nil
}

func (s *admm) measure(w *work) (float64, coefficients) {
	primal, dual := norm(w.s), norm(w.t)
	next := coefficients{eta: w.c.eta}
	if f := s.balance(w, primal, dual); f != 1 {
		w.c.rescale = f
		next.eta *= f
		u := w.state.Rows(1, 2)
		s.p.Device.Lin(u, f, u, 0, array.Batch{})
	}
	return dual/w.c.eta + s.bound*primal, next
}

// balance returns the factor by which eta should change.
func (s *admm) balance(w *work, primal, dual float64) float64 {
	w.since++
	if k := w.iteration + 1; w.since < max(2, k/4) || k > balanceUntil {
		return 1
	}
	r := primal / math.Max(norm(w.b), norm(w.state.Rows(0, 1)))
	d := dual / norm(w.state.Rows(1, 2))
	ratio := d / r // > 1: the multiplier moves too fast, eta is too small
	if math.IsNaN(ratio) || math.IsInf(ratio, 0) || ratio == 0 {
		return 1
	}
	if ratio < balanceRatio && ratio > 1.0/balanceRatio {
		return 1
	}
	w.since = 0
	f := math.Exp2(math.Round(math.Log2(math.Sqrt(ratio))))
	f = math.Max(1.0/maxBalance, math.Min(maxBalance, f))
	if next := w.c.eta * f / s.eta; next > farthestEta || next < 1/farthestEta {
		return 1
	}
	return f
}

func (s *admm) argument(w *work) {
	// z_k - u_k = (z_k - z_{k+1}) + b_{k+1} - u_{k+1}, u_{k+1} as it was before the balancing.
	dev := s.p.Device
	f := 1.0
	if w.c.rescale != 0 {
		f = 1 / w.c.rescale
	}
	dev.Lin(w.s, 1, w.b, -f, w.state.Rows(1, 2))
	dev.Lin(w.s, 1, w.s, 1, w.t)
}

func (s *admm) reverse(ctx context.Context, dst array.Batch, a *adjoint, c coefficients, j prox.Derivative, k int) error {
	dev := s.p.Device
	zeta, upsilon := a.s[0], a.s[1]
	if a.last {
		// zeta = upsilon = 0: all comes through the estimate.
		if k == 0 {
			return nil
		}
		a.apply(j, zeta, a.seed)
		dev.Lin(upsilon, -1, zeta, 0, array.Batch{})
		return nil
	}
	if f := c.rescale; f != 0 && f != 1 {
		dev.Lin(upsilon, f, upsilon, 0, array.Batch{})
	}
	dev.Lin(a.scratch, 1, zeta, -1, upsilon)
	if err := s.normal.Solve(ctx, a.scratch, a.scratch, c.eta); err != nil {
		return err
	}
	a.op.Forward(a.q, a.scratch)
	dev.Lin(dst, 1, dst, c.eta, a.q)
	if k == 0 {
		return nil
	}
	dev.Lin(upsilon, 1, upsilon, 1, a.scratch)
	a.apply(j, zeta, upsilon)
	dev.Lin(upsilon, 1, upsilon, -1, zeta)
	return nil
}
