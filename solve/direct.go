package solve

import (
	"context"
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/internal/pivoted"
	"surepipe/linops"
	"surepipe/progress"
	"surepipe/prox"
)

// direct solves problems whose regularizer is quadratic, r(b) = c/2 ||b||^2, in closed form: it
// ends after one step. With the thin singular value decomposition A = U S V*,
//
//	b(y) = V S/(S^2 + c) U* y,   mu_hat(y) = U S^2/(S^2 + c) U* y = H y,
//
// and the derivative is the hat matrix H itself. For c = 0 singular values below max(d, p) eps
// sigma_1 count as zero: b(y) is then the least squares solution of least norm.
//
// Where the lengths of the columns differ by many orders of magnitude, the singular values of A do
// not resolve the short columns. Then A is factorized with its columns scaled to unit length, A = B
// N, together with the penalty ([pivoted.Factorize]):
//
//	[B; sqrt(c) N^{-1}] P = Q R,   H = Q1 Q1*,   b(y) = N^{-1} P R^+ Q1* y,
//
// and U, S are those of Q1. Columns that depend on others have b = 0 where c does not determine
// their coefficients.
//
// In reverse, y += U (S/(S^2 + c)) V* of the adjoint of b.
type direct struct {
	p       Problem
	ut      array.Batch // r x d: U*
	vt      array.Batch // r x p: V*
	toB     array.Batch // 1 x r: S/(S^2 + c)
	toMu    array.Batch // 1 x r: S^2/(S^2 + c)
	inverse array.Batch // 1 x r: the weights of (A*A + c)^{-1} on V
	lengths []float64   // of the columns
	graded  bool        // A was factorized together with the penalty
	choice  Choice
	curve   float64

	sigma    []float64 // those of A above the cutoff
	doubtful float64   // the share of the trace that rests on decisions within rounding errors
	margin   float64   // see Linear
	shared   bool      // ut and vt belong to another method
}

func newDirect(ctx context.Context, p Problem, _ Options) (Method, error) {
	if p.Loss != nil {
		return nil, fmt.Errorf("solve: the direct solver needs a quadratic loss; use ista or fista")
	}
	q := prox.StructureOf(p.R).Quadratic
	if !q.Known {
		return nil, fmt.Errorf("solve: the direct solver needs a quadratic regularizer; use ista, fista or admm")
	}
	dense := linops.StructureOf(p.A).Dense
	if dense == nil {
		return nil, fmt.Errorf("solve: the direct solver needs an operator that can be written as a matrix; use fista or admm")
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	x := dense()
	d, dim := p.A.Dims()
	progress.From(ctx)(progress.Report{Stage: progress.Factorization, Steps: min(d, dim)})
	s := &direct{p: p, curve: q.Value, margin: math.Inf(1), lengths: columnNorms(x)}
	err := errSpectrum
	for _, f := range factorizationsFor(s.lengths) {
		if s.choice, err = f.choice, f.build(s, x); !errors.Is(err, errSpectrum) {
			break
		}
	}
	if err == nil {
		err = p.Device.Sync()
	}
	if err != nil {
		s.Release()
		return nil, err
	}
	return s, nil
}

// columnNorms are the lengths of x's columns.
func columnNorms(x *mat.Dense) []float64 {
	d, p := x.Dims()
	norms := make([]float64, p)
	for i := range d {
		for j, v := range x.RawRowView(i) {
			norms[j] = math.Hypot(norms[j], v)
		}
	}
	return norms
}

// errSpectrum says that the singular values of A are not resolved by their squares.
var errSpectrum = errors.New("solve: the singular values of A differ too much for their squares, or A has fewer rows than columns")

// decomposeGram takes the singular values and V from A*A = V S^2 V*, and U = A V S^{-1}. The
// relative error of the smallest squared value is about eps (sigma_1/sigma_r)^2.
func (s *direct) decomposeGram(*mat.Dense) error {
	dev := s.p.Device
	d, dim := s.p.A.Dims()
	gram := linops.StructureOf(s.p.A).Gram
	if gram == nil || dim > d || dim < leastGram {
		return errSpectrum
	}
	square := dev.Alloc(dim, dim)
	defer square.Free()
	gram(square)
	var eig mat.EigenSym
	if !eig.Factorize(mat.NewSymDense(dim, square.ToHost()), true) {
		return errSpectrum
	}
	values := eig.Values(nil) // ascending
	if !(values[0]*gramSpread*gramSpread >= values[dim-1]) {
		return errSpectrum
	}
	var v mat.Dense
	eig.VectorsTo(&v)
	s.sigma = make([]float64, dim)
	rows, inverse := make([]float64, dim*dim), make([]float64, dim)
	for i := range dim {
		s.sigma[i] = math.Sqrt(values[dim-1-i])
		inverse[i] = 1 / s.sigma[i]
		mat.Col(rows[i*dim:(i+1)*dim], dim-1-i, &v)
	}
	s.vt, s.ut = dev.Alloc(dim, dim), dev.Alloc(dim, d)
	dev.Upload(s.vt, rows)
	s.p.A.Forward(s.ut, s.vt)
	dev.LinEach(s.ut, inverse, s.ut, make([]float64, dim), s.ut)
	s.margin = s.sigma[dim-1] / (float64(max(d, dim)) * epsilon * s.sigma[0])
	s.weigh()
	return dev.Err()
}

// decompose takes A's own singular value decomposition.
func (s *direct) decompose(x *mat.Dense) error {
	d, dim := x.Dims()
	var svd mat.SVD
	if !svd.Factorize(x, mat.SVDThin) {
		return fmt.Errorf("solve: the singular value decomposition of the %d x %d operator did not converge", d, dim)
	}
	sigma := svd.Values(nil)
	rank := len(sigma)
	cut := float64(max(d, dim)) * epsilon * sigma[0]
	for rank > 0 && sigma[rank-1] <= cut {
		rank--
	}
	var u, v mat.Dense
	svd.UTo(&u)
	svd.VTo(&v)
	s.ut = UploadRows(s.p.Device, u.T(), rank)
	s.vt = UploadRows(s.p.Device, v.T(), rank)
	s.sigma = sigma[:rank]
	if rank > 0 {
		s.margin = sigma[rank-1] / cut
	}
	s.weigh()
	for _, sv := range s.sigma {
		if sv <= pivoted.Doubtful*cut {
			s.doubtful += 1 / (1 + s.curve/sv/sv)
		}
	}
	return nil
}

// factorGraded factorizes A and the penalty with the columns scaled.
func (s *direct) factorGraded(x *mat.Dense) error {
	d, dim := x.Dims()
	scale := make([]float64, dim)
	for j, v := range s.lengths {
		scale[j] = unit(v)
	}
	var w *mat.Dense
	if s.curve > 0 {
		root := make([]float64, dim)
		for j, v := range scale {
			root[j] = math.Sqrt(s.curve) * v
		}
		w = mat.DenseCopyOf(mat.NewDiagDense(dim, root))
	}
	f := pivoted.Factorize(pivoted.ScaleColumns(x, scale), w, 1, 0)
	s.graded, s.margin = true, f.Margin
	low, _, high := f.Traces(f.Sure)
	s.doubtful = high - low
	if f.Rank == 0 {
		s.ut, s.vt = s.p.Device.Alloc(0, d), s.p.Device.Alloc(0, dim)
		s.upload(nil, nil)
		return nil
	}
	var svd mat.SVD
	if !svd.Factorize(f.Q, mat.SVDThin) {
		return fmt.Errorf("solve: the singular value decomposition of a %d x %d basis did not converge", d, f.Rank)
	}
	cosines := svd.Values(nil)
	var u, v, b mat.Dense
	svd.UTo(&u)
	svd.VTo(&v)
	b.Mul(f.Solution(), &v)
	b.Apply(func(j, _ int, t float64) float64 { return t * scale[j] }, &b)
	s.ut = UploadRows(s.p.Device, u.T(), len(cosines))
	s.vt = UploadRows(s.p.Device, b.T(), len(cosines))
	toMu := make([]float64, len(cosines))
	for i, c := range cosines {
		toMu[i] = c * c
	}
	s.upload(cosines, toMu)
	return nil
}

// weigh sets the weights of the singular vectors.
func (s *direct) weigh() {
	toB, toMu := make([]float64, len(s.sigma)), make([]float64, len(s.sigma))
	for i, sv := range s.sigma {
		toB[i] = 1 / (sv + s.curve/sv)
		toMu[i] = 1 / (1 + s.curve/sv/sv)
	}
	s.upload(toB, toMu)
}

// upload puts the weights on the device.
func (s *direct) upload(toB, toMu []float64) {
	dev := s.p.Device
	inverse := make([]float64, len(toB))
	for i := range inverse {
		if inverse[i] = 1; !s.graded {
			inverse[i] = toMu[i] / s.sigma[i] / s.sigma[i]
		}
	}
	s.toB, s.toMu, s.inverse = dev.Alloc(1, len(toB)), dev.Alloc(1, len(toMu)), dev.Alloc(1, len(inverse))
	dev.Upload(s.toB, toB)
	dev.Upload(s.toMu, toMu)
	dev.Upload(s.inverse, inverse)
}

// UploadRows puts the first rank rows of m on the device.
func UploadRows(dev array.Device, m mat.Matrix, rank int) array.Batch {
	_, n := m.Dims()
	b := dev.Alloc(rank, n)
	dense := mat.DenseCopyOf(m)
	dev.Upload(b, dense.RawMatrix().Data[:rank*n])
	return b
}

// Name is "direct".
func (s *direct) Name() string { return "direct" }

// Problem is the problem that it solves.
func (s *direct) Problem() Problem { return s.p }

// Release frees the factors.
func (s *direct) Release() {
	s.toB.Free()
	s.toMu.Free()
	s.inverse.Free()
	if !s.shared {
		s.ut.Free()
		s.vt.Free()
	}
}

// reweight shares the singular vectors, where they do not depend on the penalty.
func (s *direct) reweight(ctx context.Context, r prox.Prox) (Method, error) {
	p := s.p
	p.R = r
	q := prox.StructureOf(r).Quadratic
	if s.graded || !q.Known {
		return newDirect(ctx, p, Options{})
	}
	other := *s
	other.p, other.curve, other.shared = p, q.Value, true
	other.weigh()
	if err := p.Device.Sync(); err != nil {
		other.Release()
		return nil, err
	}
	return &other, nil
}

// directRun is one solve.
type directRun struct{ b, mu array.Batch }

// Traits reports that there is one step, and that optimality is measured column by column, relative
// to the columns' lengths: Norm2 is 1.
func (s *direct) Traits() Traits {
	return Traits{Norm2: 1, Steps: 1, Exact: true, Reweight: s.reweight, Choices: []Choice{s.choice}, own: &internals{
		examine: s.examine,
		linear:  &Linear{U: s.ut, Weights: s.toMu, Doubtful: s.doubtful, Margin: s.margin},
		solution: func(w *Work) (b, mu array.Batch) {
			r := w.Own.(*directRun)
			b, mu = r.b, r.mu
			*r = directRun{}
			return b, mu
		},
	}}
}

// Init allocates the solution. It ignores b0.
func (s *direct) Init(w *Work, _ array.Batch) error {
	d, p := s.p.A.Dims()
	r := &directRun{w.Device().Alloc(1, p), w.Device().Alloc(1, d)}
	w.Own, w.Free = r, func() {
		r.b.Free()
		r.mu.Free()
	}
	return nil
}

// Step applies the closed form.
func (s *direct) Step(_ context.Context, w *Work, _ bool) (prox.Derivative, error) {
	dev, r := w.Device(), w.Own.(*directRun)
	c, t := dev.Alloc(1, s.ut.K()), dev.Alloc(1, s.ut.K())
	defer c.Free()
	defer t.Free()
	dev.Gemm(false, true, 1, w.Y, s.ut, 0, c)
	dev.Mul(t, c, s.toB)
	dev.Gemm(false, false, 1, t, s.vt, 0, r.b)
	s.p.A.Forward(r.mu, r.b)
	return nil, dev.Err()
}

// Measure does nothing: examine measures.
func (s *direct) Measure(*Work) (float64, Coefficients) { return 0, Coefficients{} }

// leastGood is the optimality at which a closed form is accepted whatever the tolerance.
const leastGood = 1e-8

// examine measures the accuracy of the closed form: for every column, with r = y - A b, the
// optimality is |a_j* r - c b_j| over ||a_j|| and over the size of errors that matter
// ([Yardstick]), all squared and summed. The bound of mu_hat's error is the distance by which a
// step of iterative refinement moves it.
func (s *direct) examine(_ context.Context, w *Work, c *watch, _ float64, _ bool) error {
	dev, at := w.Device(), w.Own.(*directRun)
	d, dim := s.p.A.Dims()
	r, g, t, step := dev.Alloc(1, d), dev.Alloc(1, dim), dev.Alloc(1, s.ut.K()), dev.Alloc(1, dim)
	defer r.Free()
	defer g.Free()
	defer t.Free()
	defer step.Free()
	dev.Lin(r, 1, w.Y, -1, at.mu)
	s.p.A.Adjoint(g, r)
	dev.Lin(g, 1, g, -s.curve, at.b)
	residual := Norm(r)
	sum := 0.0
	for j, v := range g.ToHost() {
		// A column of length 0 carries no information, nor does one that the penalty dominates.
		if n := math.Sqrt(s.lengths[j]*s.lengths[j] + s.curve); n > 0 {
			sum += v / n * v / n
		}
	}
	// The refined b is b + (A*A + c)^{-1} g, and (A*A + c)^{-1} = T T* with T = V toB / S.
	dev.Gemm(false, true, 1, g, s.vt, 0, t)
	dev.Mul(t, t, s.inverse)
	dev.Gemm(false, false, 1, t, s.vt, 0, step)
	s.p.A.Forward(r, step)
	c.conv.Closed = true
	c.good = math.Max(c.good, leastGood)
	optimality := relative(math.Sqrt(sum), c.stick.size(residual, 0))
	c.accept(optimality, optimality, Norm(r), residual)
	return dev.Err()
}

// Reverse applies the transpose of the closed form.
func (s *direct) Reverse(_ context.Context, dst array.Batch, a *Adjoint, _ prox.Derivative) error {
	dev := dst.Device()
	c := dev.Alloc(a.Seed.K(), s.vt.K())
	defer c.Free()
	dev.Gemm(false, true, 1, a.Seed, s.vt, 0, c)
	dev.Mul(c, c, s.toB)
	dev.Gemm(false, false, 1, c, s.ut, 1, dst)
	return dev.Err()
}
