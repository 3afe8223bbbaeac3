package lowrank

import (
	"context"
	"math"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/prox/lowrank"
	"surepipe/prox/subspace"
	"surepipe/solve/engine"
)

// newtonSteps decides when the iterations on factored matrices take a step of Newton's method on
// the manifold of the matrices of their rank. The proximal gradient iterations find the rank, in
// a few dozen iterations; after that their convergence is linear, and slow where lambda is small.
// Newton's is quadratic, and its system is that of the derivative of the solution
// ([lowrank.NuclearCurvature]), solved by the same preconditioned conjugate gradients (Absil, Mahony
// and Sepulchre, Optimization Algorithms on Matrix Manifolds, 2008; Vandereycken, SIAM J. Optim.
// 23, 2013). A proximal gradient step follows each: it corrects the rank, and gives the measure.
// Where the tangent space is large the steps are those for the factors ([matrices.factorNewton]), which
// do not wait for the rank.
type newtonSteps struct {
	rank  int     // of the last iteration
	same  int     // iterations since it changed, or since the last step that was rejected
	await int     // iterations without a change before a step
	far   float64 // the relative optimality before the step
	more  float64 // by which share mu exceeds lambda in the second derivative of the factors
}

const (
	// A second derivative of the factors that was indefinite is shifted by firstShift of lambda at
	// first, and by shiftBy times more or less thereafter, up to mostShift. The shift is at least
	// shiftShare times the optimality, up to firstShift, which leaves the convergence quadratic (Li,
	// Fukushima, Qi and Yamashita, Comput. Optim. Appl. 28, 2004).
	firstShift = 0.01
	mostShift  = 0.3
	shiftBy    = 10
	shiftShare = 3
)

// shift is by which share mu exceeds lambda in the next second derivative.
func (s *newtonSteps) shift() float64 {
	if least := shiftShare * s.far; least > s.more {
		return max(s.more, min(least, firstShift))
	}
	return s.more
}

// learn makes the shift larger where the second derivative was indefinite all the same, else smaller.
func (s *newtonSteps) learn(indefinite bool) {
	switch {
	case indefinite:
		s.more = min(max(shiftBy*s.more, firstShift), mostShift)
	case s.more <= firstShift:
		s.more = 0
	default:
		s.more /= shiftBy
	}
}

const (
	// The rank is steady after steadyRank iterations in a row that change it by at most a share of
	// drift, and after twice as many once a Newton step was rejected.
	steadyRank = 3
	drift      = 1. / 50
	// coarsest is the relative residual of the first Newton systems, and finest that of the last:
	// it is the square root of the optimality.
	coarsest, finest = 0.1, 1e-4
	// The last Newton step aims at lastShare of the tolerance, from where the square root of the
	// optimality would reach lastNear of that.
	lastShare, lastNear = 0.1, 30
	// mostNewton bounds the conjugate gradient steps of a Newton step.
	mostNewton = 60
	// A step that does not lower the objective is made shorter by this factor, and so often.
	shorter   = 0.25
	mostTries = 3
)

// due records the rank of an iteration, and reports whether a Newton step at that rank is to follow.
func (s *newtonSteps) due(rank int) bool {
	change := math.Abs(float64(rank - s.rank))
	s.rank = rank
	s.await = max(s.await, steadyRank)
	if rank == 0 || change > drift*float64(rank) {
		s.same = 0
		return false
	}
	s.same++
	return s.same >= s.await
}

// ready reports whether no step was rejected for some iterations.
func (s *newtonSteps) ready() bool {
	s.same++
	return s.same >= s.await
}

// rejected delays the next step.
func (s *newtonSteps) rejected() { s.same, s.await = 0, 2*steadyRank }

// residual is that of a Newton system from a point of that optimality: its square root, or what takes
// the next point below the tolerance, with a margin, where that is about as near.
func (w *matrices) residual(optimality float64) float64 {
	tol := math.Sqrt(optimality)
	if last := lastShare * w.tol / optimality; tol < lastNear*last {
		tol = last
	}
	return min(coarsest, tol)
}

// accelerate replaces b_k by the point that a Newton step leads to, where one is due and the
// objective is less there. The iteration has no momentum then.
func (w *matrices) accelerate(ctx context.Context) error {
	if !w.due {
		return nil
	}
	optimality := w.Moved() / w.eta / engine.Norm(w.z)
	w.second.far = optimality
	w.c = 0
	w.dev.Lin(w.z, 1, w.ab, -1, w.target())
	tol := max(finest, w.residual(optimality))
	step := w.newton
	if w.factors {
		step = w.factorNewton
	}
	better, err := step(ctx, tol)
	if err == nil && !better {
		w.second.rejected()
	}
	return err
}

// newton does the step, and reports whether the objective is less there. b_k is U diag(f) V*, of
// the last partial SVD, and z = A b_k - y.
func (w *matrices) newton(ctx context.Context, tol float64) (bool, error) {
	dev := w.dev
	if len(w.top.Sigma)+subspace.MinBuffer > len(w.block.Sigma) {
		return false, nil
	}
	curved, err := w.curvature(w.block, len(w.top.Sigma))
	if err != nil {
		return false, err
	}
	defer curved.Release()
	x, err := w.newtonStep(ctx, curved, tol)
	if err != nil {
		return false, err
	}
	defer x.Free()
	before := objective(w.z, w.lambda, w.top.Sigma, w.above)
	for range mostTries {
		better, err := w.move(curved, x, before)
		if better || err != nil {
			return better, err
		}
		dev.Lin(x, shorter, x, 0, array.Batch{})
	}
	return false, dev.Err()
}

// move replaces b_k by the point that (Q, P) leads to where the objective is less than before. The
// point (U F^{1/2} + Q)(V F^{1/2} + P)* is a retraction of second order: it agrees with that of
// the nearest matrix of rank r up to a part of the second order within the tangent space.
func (w *matrices) move(curved *lowrank.NuclearCurvature, x array.Batch, before float64) (bool, error) {
	dev, r := w.dev, len(w.top.Sigma)
	u, v := curved.Factors()
	split, n := u.N(), x.N()
	moved := dev.Alloc(1, n)
	defer moved.Free()
	left, right := moved.Cols(0, split), moved.Cols(split, n)
	dev.Lin(left, 1, x.Cols(0, split), 1, u)
	dev.Lin(right, 1, x.Cols(split, n), 1, v)
	t, err := subspace.Thin(left.Reshape(w.m, r), right.Reshape(w.n, r))
	if err != nil {
		return false, err
	}
	defer t.Free()
	at := factored{dev.Alloc(w.m, t.U.N()), dev.Alloc(w.n, t.V.N())}
	subspace.ScaleColumns(at.l, t.U, t.Sigma)
	dev.Copy(at.v, t.V)
	w.replace(&at)
	better := objective(w.z, w.lambda, t.Sigma, 0) <= before
	if better {
		w.space.Lead(t.V)
	} else {
		w.replace(&at)
	}
	at.free()
	return better, dev.Err()
}

// replace exchanges b_k for another matrix.
func (w *matrices) replace(at *factored) {
	w.now, *at = *at, w.now
	w.sample()
	w.dev.Lin(w.z, 1, w.ab, -1, w.target())
}

// objective is 1/2 ||z||^2 + lambda sum_i (sigma_i - less).
func objective(z array.Batch, lambda float64, sigma []float64, less float64) float64 {
	n, sum := engine.Norm(z), 0.0
	for _, s := range sigma {
		sum += s - less
	}
	return n*n/2 + lambda*sum
}

// newtonStep returns an approximate solution (Q, P) of (H + K) (Q, P) = -grad, by conjugate
// gradients to a relative residual in the preconditioner's norm, or to a direction of negative
// curvature.
func (w *matrices) newtonStep(ctx context.Context, curved *lowrank.NuclearCurvature, tol float64) (array.Batch, error) {
	dev, n := w.dev, curved.Len()
	space := curved.Space()
	defer space.Release()
	op, _ := linops.On(dev, w.p.A, space)
	defer op.Release()
	x, res, dir, t, kdir, kt := dev.Alloc(1, n), dev.Alloc(1, n), dev.Alloc(1, n), dev.Alloc(1, n), dev.Alloc(1, n),
		dev.Alloc(1, n)
	image := dev.Alloc(1, w.y.N())
	defer func() {
		for _, b := range []array.Batch{res, dir, t, kdir, kt, image} {
			b.Free()
		}
	}()
	dev.Fill(x, 0)
	u, v := curved.Factors()
	split := u.N()
	q, p := res.Cols(0, split), res.Cols(split, n)
	// E* (-grad) = (G V - lambda U, G* U - lambda V) in the coordinates' scale.
	dev.Lin(q, w.lambda, u, 0, array.Batch{})
	dev.Lin(p, w.lambda, v, 0, array.Batch{})
	g := residual{w.pattern, w.z}
	g.SubMul(q, p, u, v)
	dev.Lin(res, -1, res, 0, array.Batch{})
	curved.Precondition(dir, kdir, res)
	rho := dot(res, dir)
	first := rho
	for step := 0; step < mostNewton && rho > tol*tol*first; step++ {
		if err := ctx.Err(); err != nil {
			x.Free()
			return array.Batch{}, err
		}
		op.Forward(image, dir)
		along := dot(image, image) + dot(kdir, dir)
		if !(along > 0) {
			break
		}
		alpha := rho / along
		dev.Lin(x, 1, x, alpha, dir)
		op.Adjoint(t, image)
		dev.Lin(res, 1, res, -alpha, t)
		dev.Lin(res, 1, res, -alpha, kdir)
		curved.Precondition(t, kt, res)
		next := dot(res, t)
		beta := next / rho
		rho = next
		dev.Lin(dir, 1, t, beta, dir)
		dev.Lin(kdir, 1, kt, beta, kdir)
	}
	return x, dev.Err()
}
