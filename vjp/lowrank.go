package vjp

import (
	"context"
	"errors"
	"fmt"
	"math"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/prox"
	"surepipe/prox/subspace"
)

// lowRank is ISTA or FISTA where r is the nuclear norm and A picks entries, for
// iterates of low rank. It is proximalGradient's recurrence, but that no m x n matrix
// appears: b_k is kept as L V*, and the matrix whose singular values an iteration
// thresholds,
//
//	X = x_k - eta A*(A x_k - y),   x_k = b_k + c_k (b_k - b_{k-1}),
//
// is a combination of b_k and b_{k-1} plus a sparse matrix. A product with it takes
// O(d + (m + n) r), and a [subspace.Iteration] that follows X from one iteration to the
// next takes two of them for the singular values that exceed the threshold. (Mazumder,
// Hastie and Tibshirani, JMLR 11, 2010; Toh and Yun, Pacific J. Optim. 6, 2010.)
//
// The partial SVD is not exact, and the optimality accounts for that. With U, S, V
// what it gave, X* U = V S, and M = X - U S V*,
//
//	(x_k - b_{k+1})/eta - A*A(x_k - b_{k+1}) - (X V - U S)V*/eta - (N - N')/eta
//
// is a subgradient at b_{k+1}, where N = M(I - V V*) and N' has N's singular values cut
// off at the threshold. The first two terms are proximalGradient's measure, the third the
// partial SVD's error, and the last is 0 where no value was missed: N's singular
// values are at most M's. Where the first two are
// small enough a Cholesky factor of (tau + slack)^2 I - M*M certifies the third, slack being
// half of what the tolerance has left. Where it does not exist the block grows. For matrices
// too large to be formed products certify instead ([subspace.Triplets.Certify]).
//
// The derivative of a solution that has converged is had by products too
// ([prox.NuclearCurvature]); that of one that has not, where it is asked for, by all singular
// vectors.
//
// Solutions whose rank turns out not to be low are finished by proximalGradient.
type lowRank struct {
	p      Problem
	o      Options
	a      linops.Structure
	shape  array.Shape
	lambda float64
	full   *proximalGradient
}

// minLowRank is the smaller side of the matrix from which on iterates are factored.
var minLowRank = subspace.MinSide

// maxPasses bounds the steps of the partial SVD in an iteration.
const maxPasses = 4

// newLowRank returns nil where the problem has no structure to use.
func newLowRank(ctx context.Context, p Problem, o Options, accelerated bool) (Solver, error) {
	shape, lambda, ok := prox.AsNuclear(p.R)
	a := linops.StructureOf(p.A)
	if !ok || a.Sampled == nil || min(shape.Rows, shape.Cols) < minLowRank || o.Derivative == Unrolled || lambda == 0 || math.IsInf(lambda, 1) {
		return nil, nil
	}
	if places, _ := a.Sampled(shape); places == nil {
		return nil, nil
	}
	full, err := newProximalGradient(ctx, p, o, accelerated)
	if err != nil {
		return nil, err
	}
	return &lowRank{p: p, o: o, a: a, shape: shape, lambda: lambda, full: full}, nil
}

// Name is "ista" or "fista".
func (s *lowRank) Name() string { return s.full.Name() }

// Release does nothing: all that is kept is a number.
func (s *lowRank) Release() {}

// Solve iterates to a solution at y.
func (s *lowRank) Solve(ctx context.Context, y array.Batch) (*Solution, error) {
	return s.SolveFrom(ctx, y, array.Batch{})
}

// errHighRank says that the iterates are not of low rank, or out of the range of
// squares.
var errHighRank = errors.New("vjp: the rank is not low")

// SolveFrom starts at b0, without momentum.
func (s *lowRank) SolveFrom(ctx context.Context, y, b0 array.Batch) (*Solution, error) {
	if err := checkY(s.p, y); err != nil {
		return nil, err
	}
	w := newFactoredWork(s, y)
	defer w.free()
	sol, err := w.run(ctx, b0)
	if tooHard(err) {
		return w.continueDense(ctx, b0)
	}
	if err != nil {
		return nil, err
	}
	if s.o.Derivative == None {
		return sol, nil
	}
	if !sol.Converged && s.o.Derivative == Auto {
		sol.Release()
		o := s.o
		o.Derivative = Unrolled
		return iterate(ctx, s.full, y, o, entry{})
	}
	var l *implicit
	if err = errHighRank; sol.Converged {
		l, err = w.linearize()
	}
	if tooHard(err) {
		l, err = newImplicit(s.p, sol.B, y, s.full.bound, s.o, sol.Optimality)
	}
	if err != nil {
		sol.Release()
		return nil, err
	}
	sol.Linearization = l
	return sol, nil
}

// tooHard reports that a factorization of low rank is not to be had.
func tooHard(err error) bool {
	var small subspace.Error
	return errors.Is(err, errHighRank) || errors.As(err, &small)
}

// linearize differentiates at b_k. One more step of the partial SVD gives the vectors of
// the active values and those of the largest inactive ones, which the preconditioner has use for.
func (w *factoredWork) linearize() (*implicit, error) {
	dev := w.dev
	w.c = 0
	dev.Lin(w.z, 1, w.ab, -1, w.target())
	all, r, err := w.space.AdvanceAll(w.gradientStep, w.tau)
	if err != nil {
		return nil, err
	}
	defer all.Free()
	if r == 0 {
		return newConfined(w.p, nil, nil, w.o.Tol), dev.Err()
	}
	if r+subspace.MinBuffer > len(all.Sigma) {
		return nil, errHighRank
	}
	f := make([]float64, r)
	for i := range f {
		f[i] = all.Sigma[i] - w.tau
	}
	near := prox.Leading{A: all.U.Cols(r, all.U.N()), C: all.V.Cols(r, all.V.N())}
	for _, s := range all.Sigma[r:] {
		near.Sigma = append(near.Sigma, s/w.eta)
	}
	normal := residual{w.pattern, dev.Alloc(1, w.z.N())}
	dev.Copy(normal.z, w.z)
	share := float64(w.pattern.Len()) / float64(w.shape.Len()) / w.eta
	curved := prox.NewNuclearCurvature(w.lambda, all.U.Cols(0, r), f, all.V.Cols(0, r), near, preconditionerShift*share, normal)
	model := &prox.Model{Space: curved.Space(), Curvature: curved}
	op, _ := linops.On(dev, w.p.A, model.Space)
	l := newConfined(w.p, op, model, w.o.Tol)
	if err := dev.Err(); err != nil {
		l.Release()
		return nil, err
	}
	return l, nil
}

// residual is -A*(A b - y) by products, z being A b - y.
type residual struct {
	pattern array.Pattern
	z       array.Batch
}

func (r residual) SubMul(trans bool, dst, x array.Batch) {
	dst.Device().SpreadProduct(trans, 1, r.pattern, r.z, x, 1, dst)
}

func (r residual) Bytes() int64 { return r.z.Bytes() }
func (r residual) Release()     { r.z.Free() }

// preconditionerShift times the mean eigenvalue of H on the tangent space is what stands for
// H in the preconditioner. From 1 to 3 serve equally well, 10 takes half as many steps again.
const preconditionerShift = 2

// lv is the matrix L V*; V's columns are orthonormal or 0.
type lv struct{ l, v array.Batch }

func (f *lv) free() {
	f.l.Free()
	f.v.Free()
	*f = lv{}
}

// add sets the m x n matrix dst to a L V* + dst.
func (f *lv) add(a float64, dst array.Batch) {
	dst.Device().Gemm(false, true, a, f.l, f.v, 1, dst)
}

// inner is <f, g>.
func (f *lv) inner(g lv) float64 {
	dev := f.l.Device()
	left, right := dev.Alloc(f.l.N(), g.l.N()), dev.Alloc(f.l.N(), g.l.N())
	defer left.Free()
	defer right.Free()
	dev.Gemm(true, false, 1, f.l, g.l, 0, left)
	dev.Gemm(true, false, 1, f.v, g.v, 0, right)
	return dot(left, right)
}

// dot is the inner product of two matrices: one number from the device where they are
// contiguous, one a row where not.
func dot(a, b array.Batch) float64 {
	if a.Contiguous() && b.Contiguous() {
		a, b = a.Reshape(1, a.K()*a.N()), b.Reshape(1, b.K()*b.N())
	}
	rows := make([]float64, a.K())
	a.Device().Dot(rows, a, b)
	sum := 0.0
	for _, v := range rows {
		sum += v
	}
	return sum
}

// factoredWork is one solve.
type factoredWork struct {
	*lowRank
	dev      array.Device
	pattern  array.Pattern
	order    array.Index // A's row of every place, or nil: then y, A b and z below have the places' order
	m, n     int
	eta, tau float64
	stick    yardstick
	scale    float64 // what the optimality is relative to
	tol      float64 // asked for now: o.Tol, less where the duality gap asks for more
	y        array.Batch
	sorted   array.Batch // y in the order of the places, where that is another
	conv     Convergence

	c      float64             // the momentum
	since  int                 // iterations since the last restart
	now    lv                  // b_k
	old    lv                  // b_{k-1}
	step   lv                  // b_k - b_{k-1}
	step2  float64             // its squared norm
	ab     array.Batch         // A b_k
	abOld  array.Batch         // A b_{k-1}
	z      array.Batch         // A x_k - y
	space  *subspace.Iteration // the leading right singular vectors of X
	top    subspace.Triplets   // its values above tau
	block  subspace.Triplets   // all of the block's, where they were asked for
	whole  bool                // ask for them
	passes int                 // steps of the partial SVD in an iteration
	above  float64             // the threshold of the iteration, above tau while values are held back; else tau
	falls  int                 // iterations since that last fell, or 0
	lowest float64             // the least it has been
	size   int                 // of the block that was decomposed last

	next   lv      // b_{k+1}
	delta  lv      // b_{k+1} - b_k
	delta2 float64 // its squared norm
	dist   float64 // ||x_k - b_{k+1}||
	uphill float64 // <x_k - b_{k+1}, b_{k+1} - b_k>
}

func newFactoredWork(s *lowRank, y array.Batch) *factoredWork {
	dev := s.p.Device
	d, _ := s.p.A.Dims()
	w := &factoredWork{
		lowRank: s, dev: dev, m: s.shape.Rows, n: s.shape.Cols,
		eta: s.full.eta, tau: s.full.eta * s.lambda, stick: newYardstick(y, s.full.bound, s.o), tol: s.o.Tol, y: y, passes: 1, lowest: math.Inf(1),
	}
	w.scale = w.stick.first()
	w.pattern, w.order = s.a.Sampled(s.shape)
	if w.order != nil {
		w.sorted = dev.Alloc(1, d)
		dev.Gather(w.sorted, y, w.order)
	}
	w.z, w.ab, w.abOld = dev.Alloc(1, d), dev.Alloc(1, d), dev.Alloc(1, d)
	dev.Fill(w.ab, 0)
	dev.Fill(w.abOld, 0)
	return w
}

func (w *factoredWork) free() {
	for _, f := range []*lv{&w.now, &w.old, &w.step, &w.next, &w.delta} {
		f.free()
	}
	for _, b := range []array.Batch{w.sorted, w.z, w.ab, w.abOld} {
		b.Free()
	}
	w.top.Free()
	w.block.Free()
	if w.space != nil {
		w.space.Free()
	}
}

// target is y in the order of the places.
func (w *factoredWork) target() array.Batch {
	if w.order != nil {
		return w.sorted
	}
	return w.y
}

// inOrder sets dst to z in the order of A's rows.
func (w *factoredWork) inOrder(dst, z array.Batch) {
	if w.order != nil {
		w.dev.Scatter(dst, z, w.order)
	} else {
		w.dev.Copy(dst, z)
	}
}

// zeros is 0 as a lv matrix.
func (w *factoredWork) zeros() lv {
	f := lv{w.dev.Alloc(w.m, 1), w.dev.Alloc(w.n, 1)}
	w.dev.Fill(f.l, 0)
	w.dev.Fill(f.v, 0)
	return f
}

// begin starts at b0; the zero Batch stands for 0.
func (w *factoredWork) begin(b0 array.Batch) error {
	dev := w.dev
	if !(w.scale > subspace.Smallest && w.scale < 1/subspace.Smallest) {
		return errHighRank
	}
	w.now, w.old, w.step = w.zeros(), w.zeros(), w.zeros()
	w.space = subspace.New(dev, w.shape)
	w.space.Hold(min(w.m, w.n) >= probedSide)
	if b0.IsZero() {
		return nil
	}
	b0 = b0.Reshape(w.m, w.n)
	for {
		k := w.space.Size()
		t, err := w.space.Advance(subspace.Dense(b0), 0)
		if err != nil {
			return err
		}
		r := len(t.Sigma)
		if r < k {
			// The block has seen all of b0.
			w.now.free()
			w.now = lv{dev.Alloc(w.m, t.U.N()), t.V}
			subspace.ScaleColumns(w.now.l, t.U, t.Sigma)
			t.U.Free()
			w.sample()
			return nil
		}
		t.Free()
		if k >= w.space.Largest() {
			return errHighRank
		}
	}
}

// sample sets ab = A b_k.
func (w *factoredWork) sample() {
	r := w.now.l.N()
	w.dev.SampleProduct(w.ab, w.pattern, 1, w.now.l.Reshape(1, w.m*r), w.now.v.Reshape(1, w.n*r), 0)
}

// gradientStep is the matrix X = x - eta A*(A x - y) of the iteration, x = b_k + c
// (b_k - b_{k-1}).
func (w *factoredWork) gradientStep(trans bool, dst, x array.Batch) {
	dev, k := w.dev, x.N()
	rows, cols := w.m, w.n
	if trans {
		rows, cols = cols, rows
	}
	dev.SpreadProduct(trans, -w.eta, w.pattern, w.z, x.Reshape(1, cols*k), 0, dst.Reshape(1, rows*k))
	add := func(a float64, f lv) {
		if trans {
			f.l, f.v = f.v, f.l
		}
		t := dev.Alloc(f.l.N(), k)
		dev.Gemm(true, false, 1, f.v, x, 0, t)
		dev.Gemm(false, false, a, f.l, t, 1, dst)
		t.Free()
	}
	add(1+w.c, w.now)
	if w.c != 0 {
		add(-w.c, w.old)
	}
}

// iteration computes b_{k+1} = L V*, in w.next, and the measures of the step.
func (w *factoredWork) iteration(ctx context.Context) error {
	dev := w.dev
	dev.Lin(w.z, 1+w.c, w.ab, -w.c, w.abOld)
	dev.Lin(w.z, 1, w.z, -1, w.target())
	for range w.passes {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := w.decompose(); err != nil {
			return err
		}
	}
	if err := w.holdBack(); err != nil {
		return err
	}
	sigma := w.top.Sigma
	if r := len(sigma); r+subspace.MinBuffer > w.space.Largest() || r > 0 && sigma[0] > subspace.Range*w.tau {
		return errHighRank
	}
	// b_{k+1} = U diag(f) V*.
	f := make([]float64, len(sigma))
	for i, s := range sigma {
		f[i] = s - w.above
	}
	width := w.top.U.N()
	w.next = lv{dev.Alloc(w.m, width), dev.Alloc(w.n, width)}
	subspace.ScaleColumns(w.next.l, w.top.U, f)
	dev.Copy(w.next.v, w.top.V)

	// b_{k+1} - b_k = U T* - W V_k*,  T = V diag(f) - V_k C*,  W = L_k - U C,  C = U* L_k.
	before := w.now.l.N()
	w.delta = lv{dev.Alloc(w.m, width+before), dev.Alloc(w.n, width+before)}
	c := dev.Alloc(width, before)
	defer c.Free()
	dev.Gemm(true, false, 1, w.top.U, w.now.l, 0, c)
	t, wl := dev.Alloc(w.n, width), dev.Alloc(w.m, before)
	defer t.Free()
	defer wl.Free()
	subspace.ScaleColumns(t, w.top.V, f)
	dev.Gemm(false, true, -1, w.now.v, c, 1, t)
	dev.Copy(wl, w.now.l)
	dev.Gemm(false, false, -1, w.top.U, c, 1, wl)
	dev.Copy(w.delta.l.Cols(0, width), w.top.U)
	dev.Copy(w.delta.l.Cols(width, width+before), wl)
	dev.Copy(w.delta.v.Cols(0, width), t)
	dev.Lin(w.delta.v.Cols(width, width+before), -1, w.now.v, 0, array.Batch{})
	w.delta2 = dot(t, t) + dot(wl, wl)
	cross := 0.0
	if w.c != 0 {
		cross = w.delta.inner(w.step)
	}
	w.dist = math.Sqrt(math.Max(w.delta2-2*w.c*cross+w.c*w.c*w.step2, 0))
	w.uphill = w.c*cross - w.delta2
	return dev.Err()
}

// patience is the number of iterations after which a threshold that does not fall is lowered by
// a larger block.
const patience = 5

// holdBack raises the threshold of the iteration to the middle of the block where all of the
// block's values exceed it. The first iterates of a large matrix of which little is known have
// many values above tau that are the error of what is still missing, as large as it, and go as that
// comes in: following them all would cost more than every iteration to come. (Continuation in
// lambda, as Toh and Yun have it.)
func (w *factoredWork) holdBack() error {
	w.above = w.tau
	if min(w.m, w.n) < probedSide {
		return nil
	}
	w.space.Hold(true)
	r := len(w.top.Sigma)
	if r < w.size-1 || r < 2 {
		w.falls, w.lowest = 0, math.Inf(1)
		return nil
	}
	w.above = w.top.Sigma[r/2]
	first := w.top.First(r / 2)
	w.top.Free()
	w.top = first
	w.falls++
	if w.above < 0.99*w.lowest {
		w.falls, w.lowest = 0, w.above
	}
	if w.falls >= patience {
		if w.size >= w.space.Largest() {
			return errHighRank
		}
		w.falls = 0
		w.space.Hold(false)
	}
	return nil
}

// decompose does one step of the partial SVD of X.
func (w *factoredWork) decompose() (err error) {
	w.top.Free()
	w.block.Free()
	w.top, w.block = subspace.Triplets{}, subspace.Triplets{}
	w.size = w.space.Size()
	if !w.whole {
		w.top, err = w.space.Advance(w.gradientStep, w.tau)
		return err
	}
	all, r, err := w.space.AdvanceAll(w.gradientStep, w.tau)
	if err != nil {
		return err
	}
	w.block = all
	w.top = all.First(r)
	return nil
}

// accept makes b_{k+1} the estimate.
func (w *factoredWork) accept() {
	w.old.free()
	w.step.free()
	w.old, w.now, w.step, w.step2 = w.now, w.next, w.delta, w.delta2
	w.next, w.delta = lv{}, lv{}
	w.ab, w.abOld = w.abOld, w.ab
	w.sample()
	w.since++
	if w.uphill > 0 {
		w.since = 0
	}
	w.c = 0
	if w.full.accelerated {
		w.c = float64(w.since) / float64(w.since+3)
	}
}

// rest is X - U S V*, dense.
func (w *factoredWork) rest() array.Batch {
	dev := w.dev
	x := dev.Alloc(w.m, w.n)
	z := dev.Alloc(1, w.z.N())
	w.inOrder(z, w.z)
	w.p.A.Adjoint(x.Reshape(1, w.m*w.n), z)
	z.Free()
	dev.Lin(x, -w.eta, x, 0, array.Batch{})
	w.now.add(1+w.c, x)
	if w.c != 0 {
		w.old.add(-w.c, x)
	}
	w.next.add(-1, x)
	if len(w.top.Sigma) > 0 {
		active := lv{w.top.U, w.top.V}
		active.add(-w.tau, x)
	}
	return x
}

// share is a distance in X relative to the scale, which the tolerance bounds.
func (w *factoredWork) share(distance float64) float64 { return distance / (w.eta * w.scale) }

// rescale takes the scale from the residual of the iteration.
func (w *factoredWork) rescale() {
	w.scale = w.stick.scale(norm(w.z), 0)
}

// accepts notes the bound of mu_hat's error, from the nuclear norm's duality gap where the
// subgradient is that of the optimality, and reports whether it is small enough. Where it is not, later
// iterations are asked for more.
func (w *factoredWork) accepts() bool {
	z, sum, squares := norm(w.z), 0.0, 0.0
	for _, s := range w.top.Sigma {
		f := s - w.above
		sum += f
		squares += f * f
	}
	b, e := math.Sqrt(squares), w.conv.Optimality*w.scale
	t := w.lambda / (w.lambda + e)
	w.conv.Error = math.NaN()
	if t >= leastDualScale {
		w.conv.Error = w.stick.boundOf((1-t)*(1-t)/2*z*z+(1-t)*w.lambda*sum+t*b*e, z, b)
	}
	if w.conv.Error > w.stick.allowed(z) {
		w.tol = tightened(w.tol)
		return false
	}
	return true
}

// run iterates to a solution, without a derivative.
func (w *factoredWork) run(ctx context.Context, b0 array.Batch) (*Solution, error) {
	if err := w.begin(b0); err != nil {
		return nil, err
	}
	for done := false; !done; {
		if err := w.iteration(ctx); err != nil {
			return nil, err
		}
		w.conv.Iterations++
		w.rescale()
		w.conv.Optimality = w.share(w.dist)
		if math.IsNaN(w.dist) || math.IsInf(w.dist, 0) {
			return nil, fmt.Errorf("%s: the iterates are not finite after %d iterations", w.Name(), w.conv.Iterations)
		}
		last := w.conv.Iterations >= w.o.MaxIter
		if w.above == w.tau && w.conv.Optimality <= w.tol || last {
			if err := w.finish(ctx, last); err != nil {
				return nil, err
			}
		}
		w.accept()
		done = last || w.conv.Converged
	}
	dev := w.dev
	sol := &Solution{Convergence: w.conv, B: w.dense(), MuHat: dev.Alloc(1, w.ab.N())}
	w.inOrder(sol.MuHat, w.ab)
	if err := dev.Sync(); err != nil {
		sol.Release()
		return nil, err
	}
	return sol, nil
}

// nearTol is the share of the tolerance up to which a certificate is tried: the rest is
// for its slack.
const nearTol = 0.98

// probedSide is the smaller side from which on the certificate is had from products with X
// instead of X itself, which takes m n min(m, n) flops.
var probedSide = 2048

// finish completes the optimality of the iteration: converged is true where it is
// certified. Where not it sees to it that the next ones are more accurate, or, for the
// last one, computes how far the certificate fails where X is small enough to be formed.
func (w *factoredWork) finish(ctx context.Context, last bool) error {
	inexact := w.top.Residual(w.gradientStep)
	w.conv.Optimality = w.share(w.dist + inexact)
	if w.above > w.tau {
		// Only the last iteration comes here with values held back.
		w.conv.Optimality += w.share((w.above - w.tau) * math.Sqrt(float64(min(w.m, w.n))))
	}
	close := w.conv.Optimality <= nearTol*w.tol
	if !close && !last {
		if inexact > w.dist {
			w.passes = min(w.passes+1, maxPasses)
		}
		return nil
	}
	if min(w.m, w.n) >= probedSide {
		return w.finishByProducts(ctx, close, last)
	}
	rest := w.rest()
	defer rest.Free()
	if close {
		slack := 0.5 * (w.tol - w.conv.Optimality)
		below, err := subspace.ExcessWithin(ctx, rest, w.tau, slack*w.eta*w.scale)
		if err != nil {
			return err
		}
		if below {
			w.conv.Optimality += slack
			w.conv.Converged = w.accepts()
			return nil
		}
	}
	if last {
		beyond, err := subspace.Excess(ctx, rest, w.tau)
		if err != nil {
			return err
		}
		w.conv.Optimality += w.share(beyond)
		w.conv.Converged = w.accepts() && w.conv.Optimality <= w.o.Tol
		return nil
	}
	return w.closer()
}

// finishByProducts is finish where X is too large to be formed. The last iteration's optimality
// lacks what a missed value would add, and converged is false.
func (w *factoredWork) finishByProducts(ctx context.Context, close, last bool) error {
	switch {
	case close && !w.whole && !last:
		w.whole = true // the next iteration knows all of the block
		return nil
	case close && w.whole:
		// At most as many values as the smaller side has exceed tau by a slack.
		slack := 0.5 * (w.tol - w.conv.Optimality)
		each := slack * w.eta * w.scale / math.Sqrt(float64(min(w.m, w.n)))
		below, err := w.block.Certify(ctx, w.gradientStep, len(w.top.Sigma), w.tau+each)
		if err != nil {
			return err
		}
		if below {
			w.conv.Optimality += slack
			w.conv.Converged = w.accepts()
			return nil
		}
	}
	if last {
		return nil
	}
	return w.closer()
}

// closer makes the partial SVDs that follow see more values, more accurately.
func (w *factoredWork) closer() error {
	if !w.space.Grow() {
		return errHighRank
	}
	w.passes = min(w.passes+1, maxPasses)
	return nil
}

// dense is b_k as a batch of one vector.
func (w *factoredWork) dense() array.Batch {
	b := w.dev.Alloc(1, w.m*w.n)
	w.dev.Gemm(false, true, 1, w.now.l, w.now.v, 0, b.Reshape(w.m, w.n))
	return b
}

// continueDense finishes with all singular values, from b_k or, where there is none
// yet, from b0.
func (w *factoredWork) continueDense(ctx context.Context, b0 array.Batch) (*Solution, error) {
	if w.conv.Iterations > 0 {
		b0 = w.dense()
		defer b0.Free()
	}
	o := w.o
	o.MaxIter = max(o.MaxIter-w.conv.Iterations, 1)
	sol, err := solve(ctx, w.full, w.y, o, entry{b: b0})
	if err != nil {
		return nil, err
	}
	sol.Iterations += w.conv.Iterations
	return sol, nil
}
