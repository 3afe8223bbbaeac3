package system

import (
	"context"
	"math"

	"surepipe/array"
	"surepipe/hutch"
	"surepipe/linops"
	"surepipe/linops/krylov"
	"surepipe/prox"
	"surepipe/space"
)

// saddle is the derivative of an estimator with r(K b) where no basis of the tangent space is known. With
// J the derivative of prox_{t r} at v, where z = K b = prox_{t r}(v) and (v - z)/t is the multiplier, the
// optimality conditions A*(A b - y) + K*(v - K b)/t = 0 and K b = prox_{t r}(v) have the derivative
//
//	H u + K* (I - J) s = A* w,    (I - J) (K u - t J s) = 0,    D mu_hat w = A u,
//
// with s = dv/t along w: a symmetric saddle point system. Where J is the projection on a space T it is
// [[H, K* N], [N K, 0]] with the projection N on what is orthogonal to T, and says K u in T; on an
// eigenvector of J with eigenvalue 0 < j < 1 the elimination of s leaves the curvature (1 - j)/(t j). It
// takes products with A, K and J only, and the regularizer need have no model.
//
// Minimal residuals solve it. Where A*A is not a multiple of the identity it may be singular, and the second
// row times the operator rho K* is added to the first, with rho = 1/(2t), and the unknown s is taken through
// I - rho t J, which keeps the symmetry:
//
//	[ H + rho K* (I - J) K          K* (I - J) (I - rho t J) ]
//	[ (I - J) (I - rho t J) K      -t J (I - J) (I - rho t J) ]
//
// The preconditioner is block diagonal (Benzi, Golub, Liesen, Numerical solution of saddle point problems,
// Acta Numerica 2005, section 10). Above it is an approximation of (H + rho K*K)^{-1}, and below the inverse
// of what is left when u is eliminated: rho where that is large, and where A*A = c I and K*K + I has a closed
// inverse
//
//	c (I/||K||^2 + K (K*K + e I)^{-2} K*),
//
// which is the pseudo-inverse of K K*/c where few rows of K are left out (Elman 1999).
//
// On a [Stage] A, K and u stand for A E, K E and coordinates, and H + Q for H.
type saddle struct {
	Base
	counter
	dev  array.Device
	a, k linops.Operator
	j    prox.Derivative
	t    float64 // its step
	rho  float64
	// schur is what is below in the preconditioner: c for K (H + rho K* (I - J) K)^{-1} K* of about I/c.
	schur float64
	// weights is the inverse of the diagonal of H + rho K*K, where it is known; else scale stands for it.
	weights array.Batch
	scale   float64
	// inverse is (I + eta K*K)^{-1}, nil where it is not used; small is e.
	inverse func(dst, r array.Batch, eta float64) bool
	small   float64
	q       Curved // nil for 0; its step is scale
	// slack is what the equations may lack for a multiplier s: (I - J)(K u - (t J + slack) s) = 0.
	slack float64
}

// Curved is a curvature Q that knows products with t Q, where t is its step.
type Curved interface {
	prox.Curvature
	Times(dst, z array.Batch)
}

// Stage is a space of orthonormal E, on which the saddle point system of further equations is solved. Curvature makes
// that of what ties its vectors together for a step; it is nil, and makes nil, where that is 0.
//
// Slack is the square of the error of mu_hat's entries over the size of the multipliers of the further equations. With
// the matrix S that is left when u is eliminated, the error of the multiplier along a direction s is that of mu_hat
// over sqrt(s* S s): where that is as large as the multipliers, it is in doubt whether the equation along s holds.
// Directions with s* S s well below the slack are left out, as directions in doubt are when ranks are decided.
type Stage struct {
	Space     space.Space
	Curvature func(t float64) (Curved, error)
	Slack     float64
}

// mostSlack is the largest slack relative to the largest s* S s.
const mostSlack = 0.01

// SaddleOn is [Saddle] on a stage, with about the size of A*A in place of the bound.
func SaddleOn(ctx context.Context, dev array.Device, on Stage, a, k linops.Operator, j prox.Derivative, t,
	sizeA2 float64) (_ System, by string, err error) {
	d, _ := a.Dims()
	s := &saddle{Base: Base{d: d}, dev: dev, j: j, t: t}
	norm, err := krylov.Norm2(ctx, dev, k, krylov.NormOptions{})
	if err != nil {
		return nil, "", err
	}
	if square := linops.StructureOf(a).Columns.Value; square > 0 {
		s.scale, s.schur = 1/square, square/norm.Upper()
	} else {
		s.rho = 1 / (2 * t)
		s.scale, s.schur = 1/(sizeA2+s.rho), s.rho
	}
	s.slack = math.Min(on.Slack, mostSlack*norm.Upper()*s.scale)
	if s.q, err = on.Curvature(s.scale); err != nil {
		return nil, "", err
	}
	if by = "I"; s.q != nil {
		by = "the factored curvature of the first equations' regularizer"
		s.Own(s.q)
	}
	image, _ := linops.On(dev, a, on.Space)
	behind, _ := linops.On(dev, k, on.Space)
	s.a, s.k = image, behind
	s.Own(image, behind)
	if err := dev.Err(); err != nil {
		s.Release()
		return nil, "", err
	}
	return s, by, nil
}

// smallShare is e relative to ||K||^2.
const smallShare = 1e-6

// Saddle is the system for the derivative j of prox_{t r}, with a bound of ||A||^2, 0 where none is known. by
// is what preconditions it.
func Saddle(ctx context.Context, dev array.Device, a, k linops.Operator, j prox.Derivative, t,
	normA2 float64) (_ System, by string, err error) {
	d, _ := a.Dims()
	rho := 1 / (2 * t)
	s := &saddle{Base: Base{d: d}, dev: dev, a: a, k: k, j: j, t: t, rho: rho, schur: rho, scale: 1}
	known, behind := linops.StructureOf(a), linops.StructureOf(k)
	if square := known.Columns.Value; square > 0 {
		norm, err := krylov.Norm2(ctx, dev, k, krylov.NormOptions{})
		if err != nil {
			return nil, "", err
		}
		s.rho, s.scale, s.schur, by = 0, 1/square, square/norm.Upper(), "A*A = c I"
		if behind.SolveNormal != nil {
			s.inverse, s.small, by = behind.SolveNormal, smallShare*norm.Upper(), "K's closed form"
		}
	} else if known.ColumnNorms2 != nil && behind.ColumnNorms2 != nil {
		host := append([]float64(nil), known.ColumnNorms2()...)
		for i, v := range behind.ColumnNorms2() {
			if host[i] += s.rho * v; host[i] > 0 {
				host[i] = 1 / host[i]
			} else {
				host[i] = 1
			}
		}
		s.weights, by = dev.Put(host, 1, len(host)), "the lengths of the columns"
		s.Hold(s.weights)
	} else if by = "||A||"; normA2 > 0 {
		s.scale = 1 / normA2
	}
	return s, by, nil
}

func (s *saddle) parts(x array.Batch) (u, v array.Batch) {
	_, p := s.a.Dims()
	return x.Cols(0, p), x.Cols(p, x.N())
}

// saddleWork is memory of k vectors.
type saddleWork struct{ az, u, v, kb, t, j array.Batch }

func (s *saddle) work(dev array.Device, k int) *saddleWork {
	d, p := s.a.Dims()
	q, _ := s.k.Dims()
	return &saddleWork{dev.Alloc(k, d), dev.Alloc(k, p), dev.Alloc(k, p), dev.Alloc(k, q), dev.Alloc(k, q),
		dev.Alloc(k, q)}
}

func (w *saddleWork) free() {
	array.Free(w.az, w.u, w.v, w.kb, w.t, w.j)
}

// less sets dst = z - share J z; they may be the same.
func (s *saddle) less(w *saddleWork, dst, z array.Batch, share float64) {
	s.j.Apply(w.j, z)
	dst.Device().Lin(dst, 1, z, -share, w.j)
}

// couple sets dst = (I - J)(I - rho t J) z; they may be the same.
func (s *saddle) couple(w *saddleWork, dst, z array.Batch) {
	s.less(w, dst, z, 1)
	if s.rho > 0 {
		s.less(w, dst, dst, s.rho*s.t)
	}
}

func (s *saddle) apply(w *saddleWork, dst, x array.Batch) {
	dev := dst.Device()
	u, v := s.parts(x)
	du, dv := s.parts(dst)
	s.k.Forward(w.kb, u)
	s.j.Apply(w.t, v)
	dev.Lin(w.t, -s.t, w.t, 1, w.kb)
	if s.slack > 0 {
		dev.Lin(w.t, 1, w.t, -s.slack, v)
	}
	s.couple(w, dv, w.t)
	s.couple(w, w.t, v)
	if s.rho > 0 {
		s.less(w, w.kb, w.kb, 1)
		dev.Lin(w.t, s.rho, w.kb, 1, w.t)
	}
	s.k.Adjoint(w.u, w.t)
	s.a.Forward(w.az, u)
	s.a.Adjoint(du, w.az)
	dev.Lin(du, 1, du, 1, w.u)
	if s.q != nil {
		s.q.Times(w.u, u)
		dev.Lin(du, 1, du, 1/s.scale, w.u)
	}
}

func (s *saddle) precondition(w *saddleWork, dst, r array.Batch) {
	dev := dst.Device()
	u, v := s.parts(r)
	du, dv := s.parts(dst)
	switch {
	case s.q != nil:
		s.q.Precondition(w.v, w.u, u)
		dev.Lin(du, s.scale, w.v, 0, array.Batch{})
	case s.weights.IsZero():
		dev.Lin(du, s.scale, u, 0, array.Batch{})
	default:
		dev.Mul(du, u, s.weights)
	}
	dev.Lin(dv, s.schur, v, 0, array.Batch{})
	if s.inverse == nil {
		return
	}
	s.k.Adjoint(w.u, v)
	if s.inverse(w.v, w.u, 1/s.small) && s.inverse(w.u, w.v, 1/s.small) {
		s.k.Forward(w.t, w.u)
		dev.Lin(dv, 1, dv, 1/(s.scale*s.small*s.small), w.t)
	}
}

// The residual of the system, relative to the right-hand side, for images and for forms; and the most
// steps.
const (
	saddleTol   = 1e-9
	saddleForms = 1e-5
	saddleSteps = 5000
	// PilotSteps is the most that a pilot probe may take, from which the others are expected to take about
	// as many.
	PilotSteps = 1000
)

// Apply sets dst_i = D mu_hat w_i. The image is moved along w_i until <w_i, dst_i> is 2 <f, x> - <x, M x>,
// with the system M x = f, which has the square of the error of x; left_i is the size of that
// correction, where it is asked for.
func (s *saddle) Apply(ctx context.Context, dst, w array.Batch, goal Goal, left []float64) error {
	tol := math.Max(math.Min(goal.Residual, saddleForms), saddleTol)
	steps, failed, err := s.images(ctx, dst, w, tol, saddleSteps, left)
	s.note(steps)
	s.short.Add(int64(failed))
	return err
}

func (s *saddle) ProbeBytes() int64 {
	d, p := s.a.Dims()
	q, _ := s.k.Dims()
	return 8 * int64(10*(p+q)+3*q+3*d)
}

func (s *saddle) images(ctx context.Context, dst, w array.Batch, tol float64, most int, left []float64) (steps,
	failed int, err error) {
	dev, k := w.Device(), w.K()
	_, p := s.a.Dims()
	q, _ := s.k.Dims()
	n := p + q
	x, f, mx := dev.Alloc(k, n), dev.Alloc(k, n), dev.Alloc(k, n)
	work := s.work(dev, k)
	defer array.Free(x, f, mx)
	defer work.free()
	fu, fv := s.parts(f)
	s.a.Adjoint(fu, w)
	dev.Fill(fv, 0)
	res, err := krylov.MINRES(ctx, x, f, func(to, from array.Batch) { s.apply(work, to, from) },
		krylov.CGOptions{Tol: tol, MaxIterations: most,
			Precondition: func(to, from array.Batch) { s.precondition(work, to, from) }})
	if err != nil {
		return 0, 0, err
	}
	for _, r := range res.Residual {
		if r > tol {
			failed++
		}
	}
	u, _ := s.parts(x)
	s.a.Forward(dst, u)
	s.apply(work, mx, x)
	dev.Lin(mx, 1, f, -1, mx)
	missing, size, ones := make([]float64, k), make([]float64, k), make([]float64, k)
	dev.Dot(missing, x, mx)
	dev.Dot(size, w, w)
	for i := range missing {
		ones[i] = 1
		if left != nil {
			left[i] = math.Abs(missing[i])
		}
		if missing[i] /= size[i]; !(size[i] > 0) {
			missing[i] = 0
		}
	}
	dev.LinEach(dst, ones, dst, missing, w)
	return res.Iterations, failed, dev.Err()
}

// Settles reports whether minimal residuals solve the system for a pilot probe, always the same one.
func (s *saddle) Settles(ctx context.Context) (bool, error) {
	dst, w := s.dev.Alloc(1, s.d), s.dev.Alloc(1, s.d)
	defer array.Free(dst, w)
	hutch.RademacherPart(w, pilotSeed, 0, 0, 0)
	_, failed, err := s.images(ctx, dst, w, saddleForms, PilotSteps, nil)
	return failed == 0, err
}
