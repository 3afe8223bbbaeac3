// Package splitting has the methods that split the regularizer from the rest: ADMM, and gradient steps on the dual.
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

// admm is the alternating direction method of multipliers for r(K b), K = I where there is none, with a copy z of K b
// and its multiplier u/eta (Glowinski and Marroco 1975; Gabay and Mercier 1976; Boyd et al. 2011):
//
//	b_{k+1} = (A*A + K*K/eta)^{-1} (A* y + K*(z_k - u_k)/eta)
//	v_k     = alpha K b_{k+1} + (1 - alpha) z_k + u_k
//	z_{k+1} = prox_{eta r}(v_k),   u_{k+1} = v_k - z_{k+1},
//
// with over-relaxation alpha. The state is (z_k, u_k, b_k): conjugate gradients, where they solve the
// linear system, start at b_k. They come nearer to its solution by a factor of ten in an iteration, and
// to the end where a solution is checked or iterations are recorded: derivatives take the system to be
// solved exactly.
//
// With r(K b) the estimate is b, and the multiplier of the duality gap is (K b_{k+1} - z_k + u_k)/eta, for
// which A*(A b - y) + K* u = 0 but for the error of the linear system. At the solution z_k = K b, with exact zeros.
// With r(b) the estimate is z, whose zeros and rank are exact. A subgradient of the objective there is
//
//	A*A (z_{k+1} - b_{k+1}) + (z_k - z_{k+1} + (1 - alpha) (z_k - b_{k+1}))/eta,
//
// but for the error of the linear system; its norm, bounded by the triangle inequality, is the measure.
//
// eta is balanced by relative residuals (Wohlberg 2017): when ||K b - z|| / max(||K b||, ||z||) and ||z_{k+1} - z_k|| /
// ||u|| differ by more than a ratio, it is scaled by a power of two towards equality, and u with it at the start of the
// next iteration, so that the multiplier u/eta does not change. Changes become rarer and stop, so that convergence is
// that of a constant eta, which stays within farthestEta of the first one: beyond that the linear system loses digits
// of b. eta starts at ||K||^2 over the mean eigenvalue of A*A, and an eighth of it with r(K b): those of a blur, or of
// a scanner, are much smaller than ||A||^2.
//
// In reverse, with (zeta, upsilon) the adjoint of (z_{k+1}, u_{k+1}), beta that of the estimate b at the
// last iteration, and S the inverse above:
//
//	nu = J_k (zeta - upsilon) + upsilon,   s = S (beta + alpha K* nu),   y += A s
//	zeta <- (1 - alpha) nu + K s/eta,   upsilon <- nu - K s/eta.
type admm struct {
	engine.Named
	k      linops.Operator // K or the identity
	system *Penalized
	bound  float64 // of ||A||^2
	eta    float64
	shared bool // the system belongs to another method
}

// rescale is the index in Coefficients.Own of the factor on u before the iteration; 0 stands for 1.
const rescale = 0

// eta changes by at most a factor of maxBalance at a time, ever more rarely. earlyRatio is the imbalance from which it
// changes in the first iterations, and lateRatio after those.
const (
	maxBalance  = 32
	farthestEta = 0x1p20
	early       = 64
	earlyRatio  = 4
	lateRatio   = 10
)

// smallerEta divides the balanced eta where conjugate gradients solve the linear system: K*K, which its
// preconditioner knows best, then has more weight, so that a step is enough in most iterations, and on projections
// and blurs as many iterations are needed or fewer.
// Where a transform takes the place of the solution, seenEta divides it if A sees all frequencies, as scanners do. Of
// those that A hides, as blurs do, z moves by the curvature of r, eta lambda/|z|, which a smaller eta would hold up.
const smallerEta, seenEta = 2, 4

// overRelaxation is alpha (Eckstein 1994).
const overRelaxation = 1.6

// ADMM is the entry of ADMM.
var ADMM = engine.Entry{
	Name: "admm", About: "alternating directions, with the step balanced by the residuals",
	New: NewADMM, Normal: true, Behind: true, Alternates: true,
}

// NewADMM bounds the norms, and prepares the linear system.
func NewADMM(ctx context.Context, p engine.Problem, o engine.Options) (engine.Method, error) {
	if p.Loss != nil {
		return nil, fmt.Errorf("solve: admm supports only quadratic losses; use ista or fista")
	}
	behind := p.WithK()
	bound, k, err := engine.Norms(ctx, behind)
	if err != nil {
		return nil, err
	}
	system, err := NewPenalized(ctx, behind, k, o.Tol)
	if err != nil {
		return nil, err
	}
	s := &admm{Named: engine.Named{Label: "admm", P: p}, k: behind.K, system: system, bound: bound, eta: 1}
	if size := s.system.size(bound); size > 0 {
		if s.eta = k / size; p.K != nil {
			s.eta /= 8 // of ||K||^2 is 8 for images
		}
	}
	return s, nil
}

func (s *admm) Release() {
	if !s.shared {
		s.system.Release()
	}
}

// Traits gives the state, and as scratch the argument of the proximal operator, K b and the
// multiplier of the gap, and two vectors of length p, the second of which is A* y; and where conjugate
// gradients solve the linear system two more, for what they leave.
func (s *admm) Traits() engine.Traits {
	_, p := s.P.A.Dims()
	q, _ := s.k.Dims()
	scratch := []int{q, q, q, p, p}
	switch {
	case s.system.cosines != nil:
		scratch = append(scratch, p, p, p, p, p, p)
	case !s.system.closed:
		scratch = append(scratch, p, p)
	}
	t := engine.Traits{
		Norm2: s.bound, State: []int{q, q, p}, Scratch: scratch,
		Argument: func(w *engine.Work) array.Batch { return w.Scratch[0] },
		Reweight: func(_ context.Context, r prox.Prox) (engine.Method, error) {
			other := *s
			other.P.R = r
			other.shared = true
			return &other, nil
		},
		Choices: []engine.Choice{s.system.choice},
	}
	if s.P.K != nil {
		t.Dual = s.finish
		if s.system.cosines != nil {
			t.Inside = func(w *engine.Work, dst array.Batch) {
				dst.Device().Lin(dst, 1/w.Stepped, w.State[1], 0, array.Batch{})
			}
		}
	}
	return t
}

type admmRun struct {
	since int     // iterations since the last change of eta
	moved float64 // ||z_{k+1} - z_k||
	apart float64 // ||K b - z||
	// before is what the last linear system has left, or follows where a transform solves it.
	before  kept
	follows *follower
}

// Init starts at z = K b0 and the given multiplier, which with r(b) is A*(y - A b0). Without a multiplier an estimate
// is of little use: its first steps would lead away from it.
func (s *admm) Init(w *engine.Work, b0 array.Batch) error {
	dev := w.Device()
	run := new(admmRun)
	switch {
	case s.system.cosines != nil:
		run.follows = &follower{at: newMove(w.Scratch[5:]), last: newMove(w.Scratch[8:])}
	case !s.system.closed:
		run.before.rhs, run.before.left = w.Scratch[5], w.Scratch[6]
	}
	eta := s.eta
	if w.Eta > 0 {
		eta = w.Eta
	}
	w.C, w.Own = engine.Coefficients{Eta: eta}, run
	s.P.A.Adjoint(w.Scratch[4], w.Y)
	if !b0.IsZero() {
		dev.Copy(w.B, b0)
	}
	switch {
	case !w.Dual.IsZero():
		dev.Lin(w.State[1], eta, w.Dual, 0, array.Batch{})
	case s.P.K == nil && !b0.IsZero():
		image := dev.Alloc(1, w.Y.N())
		defer image.Free()
		s.P.A.Forward(image, b0)
		s.P.A.Adjoint(w.State[1], image)
		dev.Lin(w.State[1], eta, w.Scratch[4], -eta, w.State[1])
	default:
		return nil
	}
	dev.Copy(w.State[2], w.B)
	s.k.Forward(w.State[0], w.B)
	return nil
}

// Step solves for b and takes the proximal point.
func (s *admm) Step(ctx context.Context, w *engine.Work, record bool) (prox.Derivative, error) {
	dev, eta := w.Device(), w.C.Eta
	z, u, b := w.State[0], w.State[1], w.State[2]
	v, kb, multiplier, rhs, aty := w.Scratch[0], w.Scratch[1], w.Scratch[2], w.Scratch[3], w.Scratch[4]
	if f := w.C.Own[rescale]; f != 0 && f != 1 {
		dev.Lin(u, f, u, 0, array.Batch{})
	}
	dev.Lin(v, 1/eta, z, -1/eta, u)
	s.k.Adjoint(rhs, v)
	dev.Lin(rhs, 1, rhs, 1, aty)
	if err := s.solve(ctx, w.Own.(*admmRun), b, rhs, 1/eta, record); err != nil {
		return nil, err
	}
	s.k.Forward(kb, b)
	dev.Lin(multiplier, 1/eta, kb, -1, v)
	dev.Lin(v, overRelaxation, kb, 1-overRelaxation, z)
	dev.Lin(v, 1, v, 1, u)
	j, err := w.Prox(ctx, s.P.R, u, v, record)
	if err != nil {
		return nil, err
	}
	run := w.Own.(*admmRun)
	if s.P.K == nil || s.due(w, run) {
		dev.Lin(z, 1, u, -1, z)
		run.moved = engine.Norm(z)
		dev.Lin(z, 1, kb, -1, u)
		run.apart = engine.Norm(z)
	}
	dev.Copy(z, u)
	dev.Lin(u, 1, v, -1, z)
	if s.P.K == nil {
		dev.Copy(w.B, z)
	} else {
		dev.Copy(w.B, b)
	}
	return j, nil
}

func (s *admm) solve(ctx context.Context, run *admmRun, b, rhs array.Batch, rho float64, record bool) error {
	switch {
	case record:
		return s.system.after(ctx, b, rhs, rho, near, nil)
	case run.follows != nil:
		return s.system.follow(b, rhs, rho, run.follows)
	}
	return s.system.after(ctx, b, rhs, rho, nearer, &run.before)
}

// finish solves the last iteration's linear system for b to the end, where an iteration has only come nearer to its
// solution, and returns the multiplier. With a transform the multiplier takes up what is left, and no system is solved:
// that was half of the work of all iterations. The state does not change.
func (s *admm) finish(w *engine.Work) array.Batch {
	dev, kb, multiplier := w.Device(), w.Scratch[1], w.Scratch[2]
	switch {
	case s.system.closed:
		return multiplier
	case s.system.cosines != nil:
		s.system.feasible(w.B, multiplier, w.Scratch[4])
		return multiplier
	}
	dev.Lin(multiplier, 1/w.Stepped, kb, -1, multiplier) // (z_k - u_k)/eta
	if err := s.system.Solve(context.Background(), w.B, w.Scratch[3], 1/w.Stepped, near); err != nil {
		dev.Fill(w.B, math.NaN()) // the driver reports what is not finite
	}
	s.k.Forward(kb, w.B)
	dev.Lin(multiplier, 1/w.Stepped, kb, -1, multiplier)
	return multiplier
}

func (s *admm) due(w *engine.Work, run *admmRun) bool {
	k := w.K + 1
	return run.since+1 >= max(4, k/4)
}

// Measure bounds the subgradient, with r(b), and balances eta. With r(K b) the duality gap decides.
func (s *admm) Measure(w *engine.Work) (measured float64, next engine.Coefficients) {
	run, next := w.Own.(*admmRun), engine.Coefficients{Eta: w.C.Eta}
	if s.P.K == nil {
		measured = (overRelaxation*run.moved+(overRelaxation-1)*run.apart)/w.C.Eta + s.bound*run.apart
	}
	due := s.due(w, run)
	run.since++
	if !due {
		return measured, next
	}
	ratio, limit := s.imbalance(w, run)
	if math.IsNaN(ratio) || math.IsInf(ratio, 0) || ratio == 0 || ratio < limit && ratio > 1/limit {
		return measured, next
	}
	run.since = 0
	f := math.Exp2(math.Round(math.Log2(math.Sqrt(ratio))))
	f = math.Max(1.0/maxBalance, math.Min(maxBalance, f))
	if eta := w.C.Eta * f / s.eta; eta > farthestEta || eta < 1/farthestEta {
		return measured, next
	}
	next.Own[rescale], next.Eta = f, next.Eta*f
	return measured, next
}

// imbalance is the square of the factor by which eta is too small, and the one from which it changes.
func (s *admm) imbalance(w *engine.Work, run *admmRun) (ratio, limit float64) {
	z, u := w.State[0], w.State[1]
	uNorm := engine.Norm(u)
	ratio = run.moved / uNorm / (run.apart / math.Max(engine.Norm(z), engine.Norm(w.Scratch[1])))
	switch {
	case s.system.cosines != nil && s.system.cosines.seen:
		ratio /= seenEta * seenEta
	case !s.system.closed && s.system.cosines == nil:
		ratio /= smallerEta * smallerEta
	}
	if w.K >= early && s.P.K != nil {
		return ratio, lateRatio
	}
	return ratio, earlyRatio
}

func (s *admm) Reverse(ctx context.Context, dst array.Batch, a *engine.Adjoint, j prox.Derivative) error {
	dev, eta := dst.Device(), a.C.Eta
	zeta, upsilon := a.State[0], a.State[1]
	if a.Last && s.P.K == nil {
		dev.Copy(zeta, a.Seed)
	}
	dev.Lin(zeta, 1, zeta, -1, upsilon)
	a.Apply(j, zeta, zeta)
	dev.Lin(zeta, 1, zeta, 1, upsilon) // nu
	s.k.Adjoint(a.Scratch, zeta)
	dev.Lin(a.Scratch, overRelaxation, a.Scratch, 0, array.Batch{})
	if a.Last && s.P.K != nil {
		dev.Lin(a.Scratch, 1, a.Scratch, 1, a.Seed)
	}
	t := dev.Alloc(a.Scratch.K(), a.Scratch.N())
	defer t.Free()
	if err := s.system.Solve(ctx, t, a.Scratch, 1/eta, Anywhere); err != nil {
		return err
	}
	a.A.Forward(a.Image, t)
	dev.Lin(dst, 1, dst, 1, a.Image)
	if a.K == 0 {
		return nil
	}
	s.k.Forward(upsilon, t)
	dev.Lin(upsilon, 1, zeta, -1/eta, upsilon)
	// (1 - alpha) nu + K s/eta = (2 - alpha) nu - upsilon
	dev.Lin(zeta, 2-overRelaxation, zeta, -1, upsilon)
	if f := a.C.Own[rescale]; f != 0 && f != 1 {
		dev.Lin(upsilon, f, upsilon, 0, array.Batch{})
	}
	return nil
}
