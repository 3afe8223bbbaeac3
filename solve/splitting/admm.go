// Package splitting has the methods that split the regularizer from the rest: ADMM, gradient steps on the dual, and a
// primal-dual method with Halpern's iteration.
package splitting

import (
	"context"
	"fmt"
	"math"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/linops/krylov"
	"surepipe/prox"
	"surepipe/solve/engine"
	"surepipe/solve/internal/limits"
)

// admm is the alternating direction method of multipliers (Boyd et al. 2011) in scaled form,
//
//	b_{k+1} = prox_{eta r}(z_k - u_k)
//	z_{k+1} = (eta A*A + I)^{-1} (b_{k+1} + u_k + eta A* y)
//	u_{k+1} = u_k + b_{k+1} - z_{k+1},
//
// with state (z_k, u_k). Its estimate is b, the output of the proximal operator, whose zeros and
// rank are exact. (z_k - z_{k+1})/eta + A*A (b_{k+1} - z_{k+1}) is a subgradient of the objective
// at b_{k+1} up to the error of the z-step; its norm, bounded by the triangle inequality, is the
// measure.
//
// eta is balanced by relative residuals (Wohlberg 2017): when ||b - z|| / max(||b||, ||z||) and
// ||z_{k+1} - z_k|| / ||u|| differ by more than balanceRatio it is scaled by a power of two towards
// equality, and u with it at the start of the next iteration, so that the multiplier u/eta does not
// change. Changes become rarer and stop, so that convergence is that of a constant eta. eta ||A||^2
// stays within farthestEta of 1: beyond that the closed form of the z-step loses digits of b.
//
// In reverse, with (zeta, upsilon) the adjoint of (z_{k+1}, u_{k+1}), beta the estimate's own
// adjoint (at the last iteration only) and S the inverse above:
//
//	s = S (zeta - upsilon),   y += eta A s,   w = J_k (upsilon + s + beta)
//	zeta <- w,   upsilon <- upsilon + s - w.
type admm struct {
	p      engine.Problem
	normal *krylov.Normal
	matrix *linops.Dense // A as a matrix for the z-step, where that is chosen; or nil
	bound  float64       // of ||A||^2
	eta    float64
	shared bool // normal and matrix belong to another method
}

// rescale is the index in Coefficients.Own of the factor on u before the iteration; 0 stands for 1.
const rescale = 0

// Balancing: at most a factor of maxBalance at a time, after iterations 2, 4, ... whose spacing
// doubles, and not after balanceUntil.
const (
	balanceRatio = 4
	maxBalance   = 32
	balanceUntil = 400
	farthestEta  = 0x1p20
)

// ADMM is the entry of ADMM.
var ADMM = engine.Entry{
	Name: "admm", About: "alternating directions, with the step balanced by the residuals",
	New: newADMM, Normal: true, Behind: true, Alternates: true,
}

func newADMM(ctx context.Context, p engine.Problem, o engine.Options) (engine.Method, error) {
	if p.Loss != nil {
		return nil, fmt.Errorf("solve: admm supports only quadratic losses; use ista or fista")
	}
	if p.K != nil {
		return NewAlternating(ctx, p, o)
	}
	bound, err := engine.NormBound(ctx, p)
	if err != nil {
		return nil, err
	}
	s := &admm{p: p, bound: bound, eta: engine.StepFor(p, bound), normal: krylov.NewNormal(p.Device, p.A)}
	if writeDown(p.A, s.normal) {
		if x := linops.ToDense(p.Device, p.A); x != nil {
			s.normal.Release()
			s.matrix = linops.NewDense(p.Device, x)
			s.normal = krylov.NewNormal(p.Device, s.matrix)
		}
	}
	return s, nil
}

// Name is "admm".
func (s *admm) Name() string { return "admm" }

// Problem is the problem that it solves.
func (s *admm) Problem() engine.Problem { return s.p }

// Traits reports that the measure is not exact: the closed form of the z-step has a rounding error
// of eps eta.
func (s *admm) Traits() engine.Traits {
	_, p := s.p.A.Dims()
	t := engine.Traits{Norm2: s.bound, State: []int{p, p}, Scratch: []int{p, p, p}, Argument: s.argument,
		Reweight: s.reweight}
	if s.matrix != nil {
		t.Choices = []engine.Choice{writtenDown}
	}
	return t
}

// reweight shares the norm and the factorizations of the z-step.
func (s *admm) reweight(_ context.Context, r prox.Prox) (engine.Method, error) {
	other := *s
	other.p.R, other.shared = r, true
	return &other, nil
}

// Release frees the factorizations of the z-step.
func (s *admm) Release() {
	if s.shared {
		return
	}
	s.normal.Release()
	if s.matrix != nil {
		s.matrix.Release()
	}
}

// Init starts at z = b0, u = 0. The third vector of the scratch is A* y.
func (s *admm) Init(w *engine.Work, b0 array.Batch) error {
	w.C, w.Own = engine.Coefficients{Eta: s.eta}, new(int)
	if !b0.IsZero() {
		w.Device().Copy(w.State[0], b0)
		w.Device().Copy(w.B, b0)
	}
	s.p.A.Adjoint(w.Scratch[2], w.Y)
	return nil
}

// Step leaves z_k - z_{k+1} and b_{k+1} - z_{k+1} in the scratch.
func (s *admm) Step(ctx context.Context, w *engine.Work, record bool) (prox.Derivative, error) {
	dev := w.Device()
	z, u := w.State[0], w.State[1]
	dual, primal, aty := w.Scratch[0], w.Scratch[1], w.Scratch[2]
	if f := w.C.Own[rescale]; f != 0 && f != 1 {
		dev.Lin(u, f, u, 0, array.Batch{})
	}
	dev.Lin(dual, 1, z, -1, u)
	j, err := w.Prox(ctx, s.p.R, w.B, dual, record)
	if err != nil {
		return nil, err
	}
	solved := false
	defer func() {
		if j != nil && !solved { // also where A panics
			j.Release()
		}
	}()
	dev.Lin(u, 1, u, 1, w.B)
	dev.Lin(dual, 1, u, w.C.Eta, aty)
	if err := s.normal.Solve(ctx, primal, dual, w.C.Eta); err != nil {
		return nil, err
	}
	solved = true
	dev.Lin(u, 1, u, -1, primal)
	dev.Lin(dual, 1, z, -1, primal)
	dev.Copy(z, primal)
	dev.Lin(primal, 1, w.B, -1, z)
	return j, nil
}

// Measure adds the primal and the dual residual, and balances them.
func (s *admm) Measure(w *engine.Work) (float64, engine.Coefficients) {
	dual, primal := engine.Norm(w.Scratch[0]), engine.Norm(w.Scratch[1])
	next := engine.Coefficients{Eta: w.C.Eta}
	if f := s.balance(w, primal, dual); f != 1 {
		next.Own[rescale] = f
		next.Eta *= f
	}
	return dual/w.C.Eta + s.bound*primal, next
}

// balance returns the factor by which eta should change.
func (s *admm) balance(w *engine.Work, primal, dual float64) float64 {
	since := w.Own.(*int) // iterations since the last change of eta
	*since++
	if k := w.K + 1; *since < max(2, k/4) || k > balanceUntil {
		return 1
	}
	r := primal / math.Max(engine.Norm(w.B), engine.Norm(w.State[0]))
	d := dual / engine.Norm(w.State[1])
	ratio := d / r // > 1: the multiplier moves too fast, eta is too small
	if math.IsNaN(ratio) || math.IsInf(ratio, 0) || ratio == 0 {
		return 1
	}
	if ratio < balanceRatio && ratio > 1.0/balanceRatio {
		return 1
	}
	*since = 0
	f := math.Exp2(math.Round(math.Log2(math.Sqrt(ratio))))
	f = math.Max(1.0/maxBalance, math.Min(maxBalance, f))
	if next := w.C.Eta * f / s.eta; next > farthestEta || next < 1/farthestEta {
		return 1
	}
	return f
}

// argument is z_k - u_k = (z_k - z_{k+1}) + b_{k+1} - u_{k+1}.
func (s *admm) argument(w *engine.Work) array.Batch {
	dev, v := w.Device(), w.Scratch[1]
	dev.Lin(v, 1, w.B, -1, w.State[1])
	dev.Lin(v, 1, v, 1, w.Scratch[0])
	return v
}

// Reverse pulls the adjoint back through the three steps.
func (s *admm) Reverse(ctx context.Context, dst array.Batch, a *engine.Adjoint, j prox.Derivative) error {
	dev := dst.Device()
	zeta, upsilon := a.State[0], a.State[1]
	if a.Last {
		// zeta = upsilon = 0: the adjoint comes only through the estimate.
		if a.K == 0 {
			return nil
		}
		a.Apply(j, zeta, a.Seed)
		dev.Lin(upsilon, -1, zeta, 0, array.Batch{})
	} else {
		dev.Lin(a.Scratch, 1, zeta, -1, upsilon)
		if err := s.normal.Solve(ctx, a.Scratch, a.Scratch, a.C.Eta); err != nil {
			return err
		}
		a.A.Forward(a.Image, a.Scratch)
		dev.Lin(dst, 1, dst, a.C.Eta, a.Image)
		if a.K == 0 {
			return nil
		}
		dev.Lin(upsilon, 1, upsilon, 1, a.Scratch)
		a.Apply(j, zeta, upsilon)
		dev.Lin(upsilon, 1, upsilon, -1, zeta)
	}
	if f := a.C.Own[rescale]; f != 0 && f != 1 {
		dev.Lin(upsilon, f, upsilon, 0, array.Batch{})
	}
	return nil
}

// writtenDown is the choice that writeDown makes.
var writtenDown = engine.Choice{Part: "method", Chosen: "A written down as a matrix",
	Reason: "A is small and has no closed form of the z-step: a matrix is factorized once, where conjugate " +
		"gradients start anew in every iteration"}

// writeDown chooses whether ADMM's z-step works with A written down as a matrix.
func writeDown(a linops.Operator, normal *krylov.Normal) bool {
	_, dim := a.Dims()
	return dim <= limits.MaxDense && !normal.Closed()
}
