package lowrank

import (
	"context"
	"math"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/internal/numerics/steps"
	"surepipe/linops"
	"surepipe/prox/subspace"
	"surepipe/solve/engine"
)

// newtonSteps decides when the iterations on factored matrices take a step of Newton's method on
// the manifold of the matrices of their rank. The proximal gradient iterations find the rank, in
// a few dozen iterations; after that their convergence is linear, and slow where lambda is small.
// Newton's is quadratic, and its system is that of the derivative of the solution, solved by the same
// preconditioned conjugate gradients (Absil, Mahony and Sepulchre, Optimization Algorithms on Matrix
// Manifolds, 2008; Vandereycken, SIAM J. Optim. 23, 2013): that of [lowrank.NuclearCurvature], or, where the
// tangent space is large, of [factorHessian]. A proximal gradient step follows each: it corrects the rank,
// and gives the measure.
type newtonSteps struct {
	rank  int // of the last iteration
	same  int // iterations since it changed, or since the last step that was rejected
	await int // iterations without a change before a step
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
	// longestStep is the largest share of the direction that is taken.
	longestStep = 2
)

// due records the rank of an iteration, and reports whether a Newton step at that rank is to follow: once the rank is
// steady, or at any rank where steady is not asked for.
func (s *newtonSteps) due(rank int, steady bool) bool {
	change := math.Abs(float64(rank - s.rank))
	s.rank = rank
	if rank == 0 || steady && change > drift*float64(rank) {
		s.same = 0
		return false
	}
	s.same++
	if steady {
		return s.same >= max(s.await, steadyRank)
	}
	return s.same >= s.await
}

// residual is that of a Newton system from a point of that optimality: its square root, or what takes
// the next point below the tolerance, with a margin, where that is about as near.
func (w *sampled) residual(optimality float64) float64 {
	tol := math.Sqrt(optimality)
	if last := lastShare * w.tol / optimality; tol < lastNear*last {
		tol = last
	}
	return min(coarsest, tol)
}

// accelerate replaces b_k = U diag(f) V*, of the last partial SVD, by the point that a Newton step leads
// to, where one is due and the objective is less there. The iteration has no momentum then.
func (w *sampled) accelerate(ctx context.Context) error {
	if !w.due {
		return nil
	}
	tol := max(finest, w.residual(w.Moved()/w.eta/engine.Norm(w.z)))
	w.c = 0
	w.dev.Lin(w.z, 1, w.ab, -1, w.target())
	direction := w.onTangent
	if w.factors {
		direction = w.onFactors
	}
	s, err := direction(ctx, tol)
	if s == nil || err != nil {
		return err
	}
	defer s.free()
	better := false
	if t := w.course(s).Least(longestStep); t > 0 {
		better, err = w.move(s, t)
	}
	if !better {
		w.second.same, w.second.await = 0, 2*steadyRank
	}
	return err
}

// factorStep is a direction (Q, P) at the factors L = U F^{1/2} and R = V F^{1/2}, m x r and n x r.
type factorStep struct {
	at, by [2]array.Batch
	slope  float64 // of the objective along it, by the gradient
}

func (w *sampled) newFactorStep(r int) *factorStep {
	s := new(factorStep)
	for i, n := range [2]int{w.m, w.n} {
		s.at[i], s.by[i] = w.dev.Alloc(n, r), w.dev.Alloc(n, r)
	}
	return s
}

func (s *factorStep) free() {
	for i := range s.at {
		array.Free(s.at[i], s.by[i])
	}
}

// course is the polynomial of t that bounds the change of the objective at (L + t Q)(R + t P)*,
//
//	phi(L + t Q, R + t P) - phi(L, R),   phi(L, R) = 1/2 ||A(L R*) - y||^2 + lambda/2 (||L||^2 + ||R||^2),
//
// with equality at t = 0. Its slope there is that of the gradient, which is accurate near the solution, where the
// difference of two objectives is not.
func (w *sampled) course(s *factorStep) steps.Quartic {
	dev, d := w.dev, w.z.N()
	a, c := dev.Alloc(1, d), dev.Alloc(1, d)
	defer array.Free(a, c)
	flat := func(x array.Batch) array.Batch { return x.Reshape(1, x.K()*x.N()) }
	q, p := flat(s.by[rowSide]), flat(s.by[columnSide])
	dev.SampleProduct(a, w.pattern, 1, q, flat(s.at[columnSide]), 0)
	dev.SampleProduct(a, w.pattern, 1, flat(s.at[rowSide]), p, 1)
	dev.SampleProduct(c, w.pattern, 1, q, p, 0)
	w.project(a)
	w.project(c)
	square := dot(a, a)/2 + dot(w.z, c) + w.lambda/2*(dot(q, q)+dot(p, p))
	return steps.Quartic{s.slope, square, dot(a, c), dot(c, c) / 2}
}

// move replaces b_k by the point (L + t Q)(R + t P)*, a retraction of second order: it agrees with that of the
// nearest matrix of rank r up to a part of the second order within the tangent space. It changes nothing where the
// objective is more there, as it may be where values are lost that are small beside the largest one.
func (w *sampled) move(s *factorStep, t float64) (bool, error) {
	dev := w.dev
	before := objective(w.z, w.lambda, w.top.Sigma, w.tau)
	for i := range s.at {
		dev.Lin(s.at[i], t, s.by[i], 1, s.at[i])
	}
	x, err := subspace.Thin(s.at[rowSide], s.at[columnSide])
	if err != nil {
		return false, err
	}
	defer x.Free()
	at := factored{dev.Alloc(w.m, x.U.N()), dev.Alloc(w.n, x.V.N())}
	defer at.free()
	subspace.ScaleColumns(at.l, x.U, x.Sigma)
	dev.Copy(at.v, x.V)
	w.replace(&at)
	if objective(w.z, w.lambda, x.Sigma, 0) <= before {
		w.space.Lead(x.V)
		return true, dev.Err()
	}
	w.replace(&at)
	return false, dev.Err()
}

func (w *sampled) replace(at *factored) {
	w.now, *at = *at, w.now
	w.sample()
	w.dev.Lin(w.z, 1, w.ab, -1, w.target())
}

func objective(z array.Batch, lambda float64, sigma []float64, less float64) float64 {
	n, sum := engine.Norm(z), 0.0
	for _, s := range sigma {
		sum += s - less
	}
	return n*n/2 + lambda*sum
}

// onTangent is the step (Q, P) with (H + K) (Q, P) = -grad on the tangent space, K being the curvature, which the
// preconditioner's product comes with; nil where the block has too few values.
func (w *sampled) onTangent(ctx context.Context, tol float64) (*factorStep, error) {
	dev, r := w.dev, len(w.top.Sigma)
	if r+subspace.MinBuffer > len(w.block.Sigma) {
		return nil, nil
	}
	curvature, err := w.curvature(w.block, r)
	if err != nil {
		return nil, err
	}
	defer curvature.Release()
	space := curvature.Space()
	defer space.Release()
	op, _ := linops.On(dev, w.p.A, space)
	defer op.Release()
	n := curvature.Len()
	x, res, down, image := dev.Alloc(1, 2*n), dev.Alloc(1, n), dev.Alloc(1, n), dev.Alloc(1, w.y.N())
	defer func() {
		array.Free(x, res, down, image)
	}()
	u, v := curvature.Factors()
	split := u.N()
	// E* (-grad) = (-G V - lambda U, -G* U - lambda V) in the coordinates' scale.
	q, p := res.Cols(0, split), res.Cols(split, n)
	dev.Lin(q, w.lambda, u, 0, array.Batch{})
	dev.Lin(p, w.lambda, v, 0, array.Batch{})
	residual{w.pattern, w.z}.SubMul(q, p, u, v)
	dev.Lin(res, -1, res, 0, array.Batch{})
	dev.Copy(down, res)
	_, err = steps.TruncatedCG(ctx, x, res, steps.System{
		Times: func(q, p array.Batch) {
			op.Forward(image, p.Cols(0, n))
			op.Adjoint(q, image)
			dev.Lin(q, 1, q, 1, p.Cols(n, 2*n))
		},
		Precondition: func(p, r array.Batch) { curvature.Precondition(p.Cols(0, n), p.Cols(n, 2*n), r) },
	}, tol, mostNewton)
	if err != nil {
		return nil, err
	}
	s := w.newFactorStep(r)
	s.slope = -dot(down, x.Cols(0, n))
	for i, part := range [2]array.Batch{x.Cols(0, split), x.Cols(split, n)} {
		dev.Copy(s.by[i], part.Reshape(s.by[i].K(), r))
		dev.Copy(s.at[i], [2]array.Batch{u, v}[i].Reshape(s.at[i].K(), r))
	}
	s.balance(w.top.Sigma, w.tau)
	return s, dev.Err()
}

// balance changes (Q, P) to (Q - L M, P + R M), the same direction Q R* + L P* on the tangent space, with the
// symmetric M for which ||L||^2 and ||R||^2 stay balanced: the symmetric parts of L* Q and R* P are the same. With
// L*L = R*R = F that is M_ij = (L*Q - R*P + Q*L - P*R)_ij / (2 (f_i + f_j)), f_i = sigma_i - less.
func (s *factorStep) balance(sigma []float64, less float64) {
	dev, r := s.at[0].Device(), len(sigma)
	m := dev.Alloc(r, r)
	defer m.Free()
	dev.Gemm(true, false, 1, s.at[rowSide], s.by[rowSide], 0, m)
	dev.Gemm(true, false, -1, s.at[columnSide], s.by[columnSide], 1, m)
	apart := m.ToHost()
	for i := range r {
		for j := range i + 1 {
			v := (apart[i*r+j] + apart[j*r+i]) / (2 * (sigma[i] + sigma[j] - 2*less))
			apart[i*r+j], apart[j*r+i] = v, v
		}
	}
	dev.Upload(m, apart)
	dev.Gemm(false, false, -1, s.at[rowSide], m, 1, s.by[rowSide])
	dev.Gemm(false, false, 1, s.at[columnSide], m, 1, s.by[columnSide])
}

// onFactors is the step (Q, P) of Newton's method for the function phi of the factors ([factorHessian]), one
// factor being eliminated.
func (w *sampled) onFactors(ctx context.Context, tol float64) (*factorStep, error) {
	dev, r := w.dev, len(w.top.Sigma)
	f := lists.Map(w.top.Sigma, func(s float64) float64 { return s - w.tau })
	h, err := w.newFactorHessian(ctx, w.top.U, f, w.top.V, w.z, w.lambda)
	if err != nil {
		return nil, err
	}
	defer h.free()
	in, out := h.in(), h.out()
	var x [2]array.Batch
	for i := range x {
		x[i] = dev.Alloc(1, h.len(i))
		defer x[i].Free()
	}
	var down [2]array.Batch
	for i := range down {
		down[i] = dev.Alloc(1, h.len(i))
		defer down[i].Free()
		h.descent(i, down[i])
	}
	res := dev.Alloc(1, h.len(in))
	defer res.Free()
	h.eliminate(x[in], down[out])
	dev.Lin(res, 1, down[in], -1, x[in])
	_, err = steps.TruncatedCG(ctx, x[in], res, steps.System{
		Times:        h.square,
		Precondition: func(p, r array.Batch) { h.precondition(p, r) },
	}, tol, mostNewton)
	if err != nil {
		return nil, err
	}
	// Q = D^{-1} (b - C P)
	b := dev.Alloc(1, h.len(out))
	defer b.Free()
	h.couple(out, b, x[in])
	dev.Lin(b, -1, b, 1, down[out])
	h.invert(out, x[out], b)
	s := w.newFactorStep(r)
	for i := range x {
		s.slope -= dot(down[i], x[i])
		dev.Copy(s.by[i], h.columns(i, x[i]))
		dev.Copy(s.at[i], h.columns(i, h.side[i].factor))
	}
	return s, dev.Err()
}

// descent sets dst to the negative gradient of phi by the factor of a side: -(G R + mu L), or -(G* L +
// mu R).
func (h *factorHessian) descent(side int, dst array.Batch) {
	h.spread(side, dst, h.misfit)
	h.dev.Lin(dst, -1, dst, -h.mu, h.side[side].factor)
	if h.k > h.rank { // the misfit has none
		h.still(dst)
	}
}
