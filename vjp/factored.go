package vjp

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/internal/pivoted"
	"surepipe/linops"
	"surepipe/prox"
	"surepipe/solve"
	"surepipe/space"
)

// factored is the system on a space, solved once. With M = A E, d x n,
//
//	D mu_hat = M (M*M + Q)^+ M*,
//
// and the trace, the Frobenius norm, the diagonal and the derivative by a weight come from the same
// factors: a Cholesky factorization of M*M + Q where that is well conditioned, else a QR
// factorization of M on top of a root of Q, in which ranks are decided ([pivoted.Factorize]).
type factored struct {
	inverse array.Batch // (M*M + Q)^{-1}, n x n, where it is well conditioned; else zero
	image   array.Batch // rank x d: Q1* where D mu_hat = Q1 Q1*; else zero
	rank    int         // n, or the rows of image

	basic     *mat.Dense // n x rank: (M*M + Q)^+ M* = basic Q1*, with image; else nil
	sensitive bool       // the error of b may have changed Q
}

// images is the matrix of op, d x n, on the host.
func images(dev array.Device, op linops.Operator) *mat.Dense {
	d, n := op.Dims()
	image := imageRows(dev, op)
	defer image.Free()
	return mat.DenseCopyOf(mat.NewDense(n, d, image.ToHost()).T())
}

// imageRows is op's images of the unit vectors, n x d.
func imageRows(dev array.Device, op linops.Operator) array.Batch {
	d, n := op.Dims()
	identity, image := dev.Alloc(n, n), dev.Alloc(n, d)
	done := false
	defer func() {
		identity.Free()
		if !done { // op has panicked
			image.Free()
		}
	}()
	setIdentity(identity)
	op.Forward(image, identity)
	done = true
	return image
}

// setIdentity sets the n x n batch to the unit vectors.
func setIdentity(b array.Batch) {
	dev := b.Device()
	dev.Fill(b, 0)
	dev.Fill(b.Diagonal(), 1)
}

// system is K = G + Q of dimension n, G = M*M.
type system struct {
	n    int
	g, q []float64 // G and Q, row-major; q is nil where Q is 0
	// m and w compute M and a root W of Q = W*W, where G and Q are not accurate enough.
	m func() mat.Matrix
	w func() (*mat.Dense, error)
	// norm is ||A|| where the columns of M are not to be scaled to unit length; else 0.
	norm float64
}

// wellConditioned is the largest condition number of a system that a Cholesky factorization solves
// to six digits; leastSeen is how small a diagonal entry may be relative to ||A||^2 where the
// columns of M are not scaled. Where they are, curvature below rounded times ||A||^2 in a
// coordinate whose column is 0 comes from rounding errors, and scaled to one it would become a
// direction of its own.
const (
	wellConditioned = 1e10
	leastSeen       = 1e-8
	rounded         = 1e-20
)

// factorModel factors the system on the model's space.
func (l *implicit) factorModel(s *situation) error {
	dev := l.p.Device
	if s.on == nil {
		s.on, _ = linops.On(dev, l.p.A, l.model.Space)
	}
	l.confine(s.on, l.model)
	op, n := l.op, l.dim
	sys := system{n: n, q: s.matrix}
	if sys.q == nil && l.model.Curvature != nil {
		sys.q = diagonalMatrix(l.model.Curvature.Diagonal())
	}
	if s.kind != space.Subset && s.kind != space.Whole {
		// Directions in the null space of A are recognized relative to ||A||, not to their own
		// length.
		sys.norm = l.norm
	}
	sys.m = func() mat.Matrix { return images(dev, op) }
	sys.w = func() (*mat.Dense, error) { return root(sys.q, n) }
	if l.gram != nil && s.kind == space.Subset {
		sys.g = l.gram(l.model.Space.Form().Set)
	}
	if sys.g == nil {
		sys.g = gram(dev, op)
	}
	return l.solveSystem(sys)
}

// diagonalMatrix is diag(q), row-major; nil where that is 0.
func diagonalMatrix(q []float64) []float64 {
	n, zero := len(q), true
	full := make([]float64, n*n)
	for i, v := range q {
		full[i*n+i] = v
		zero = zero && v == 0
	}
	if zero {
		return nil
	}
	return full
}

// root is W with W*W = Q, from the eigenvalues of Q, or from its diagonal where Q is diagonal; nil
// where Q is 0.
func root(q []float64, n int) (*mat.Dense, error) {
	if q == nil {
		return nil, nil
	}
	if d := diagonalOf(q, n); d != nil {
		for i := range d {
			d[i] = math.Sqrt(max(d[i], 0))
		}
		return mat.DenseCopyOf(mat.NewDiagDense(n, d)), nil
	}
	values, v, err := spectrum(q, n)
	if err != nil {
		return nil, err
	}
	w := mat.NewDense(n, n, nil)
	w.Apply(func(i, c int, _ float64) float64 { return math.Sqrt(max(values[i], 0)) * v.At(c, i) }, w)
	return w, nil
}

// Eigenvalues of J below vanishing count as 0: D mu_hat has them times at most eta ||A||^2.
// Those within a rounding error of 1 count as 1.
const vanishing = 1e-9

// factorJacobian factors the system on the range of J = V diag(j) V*, with E the columns of V whose
// eigenvalues do not vanish and Q = diag(1/j - 1)/eta. It is for a J without a model.
func (l *implicit) factorJacobian(*situation) error {
	dev, n := l.p.Device, l.dim
	jacobian := l.jacobian()
	basis, j, err := rangeOf(jacobian, n)
	if err != nil {
		return err
	}
	if l.dim = len(j); l.dim == 0 {
		l.known = exactly(0, 0)
		return nil
	}
	rows := dev.Alloc(l.dim, n)
	dev.Upload(rows, basis)
	m := &prox.Model{Space: space.Span(rows)}
	l.span = m.Space
	on, _ := linops.On(dev, l.p.A, m.Space)
	l.confine(on, m)
	sys := system{n: l.dim, q: curvatureOf(j, n, l.eta), norm: l.norm}
	if diagonalOf(jacobian, n) != nil {
		sys.norm = 0 // J is diagonal: coordinates are judged by the lengths of their own columns
	}
	sys.m = func() mat.Matrix { return images(dev, on) }
	sys.w = func() (*mat.Dense, error) { return root(sys.q, l.dim) }
	sys.g = gram(dev, on)
	return l.solveSystem(sys)
}

// jacobian is J, row-major.
func (l *implicit) jacobian() []float64 {
	square := l.p.Device.Alloc(l.dim, l.dim)
	defer square.Free()
	setIdentity(square)
	l.j.Apply(square, square)
	return square.ToHost()
}

// rangeOf returns the eigenvectors of a symmetric J whose eigenvalues do not vanish, one a row, and the
// eigenvalues: unit vectors in their order where J is diagonal.
func rangeOf(jacobian []float64, n int) (basis, j []float64, err error) {
	add := func(value float64, entry func(i int) float64) {
		if value <= vanishing {
			return
		}
		j = append(j, value)
		for i := range n {
			basis = append(basis, entry(i))
		}
	}
	if diagonal := diagonalOf(jacobian, n); diagonal != nil {
		for c, value := range diagonal {
			add(value, func(i int) float64 {
				if i == c {
					return 1
				}
				return 0
			})
		}
		return basis, j, nil
	}
	values, v, err := spectrum(jacobian, n)
	if err != nil {
		return nil, nil, err
	}
	for c, value := range values {
		add(value, func(i int) float64 { return v.At(i, c) })
	}
	return basis, j, nil
}

// curvatureOf is diag(1/j - 1)/eta, row-major; nil where all j are 1 up to rounding errors. n is
// the size of J.
func curvatureOf(j []float64, n int, eta float64) []float64 {
	var q []float64
	for i, v := range j {
		c := 1/v - 1
		if c <= float64(n)*0x1p-46 {
			continue
		}
		if q == nil {
			q = make([]float64, len(j)*len(j))
		}
		q[i*len(j)+i] = c / eta
	}
	return q
}

// diagonalOf is the diagonal of a diagonal matrix; nil for any other.
func diagonalOf(a []float64, n int) []float64 {
	diagonal, most := make([]float64, n), 0.0
	for i := range n {
		diagonal[i] = a[i*n+i]
		most = max(most, math.Abs(diagonal[i]))
	}
	for i := range n {
		for c := range n {
			if c != i && math.Abs(a[i*n+c]) > 0x1p-50*most {
				return nil
			}
		}
	}
	return diagonal
}

// spectrum is the eigendecomposition V diag(values) V* of a symmetric matrix, ascending.
func spectrum(matrix []float64, n int) (values []float64, v *mat.Dense, err error) {
	sym := mat.NewSymDense(n, nil)
	for i := range n {
		for c := i; c < n; c++ {
			sym.SetSym(i, c, (matrix[i*n+c]+matrix[c*n+i])/2)
		}
	}
	var eig mat.EigenSym
	if !eig.Factorize(sym, true) {
		return nil, nil, fmt.Errorf("vjp: the eigenvalues of the %d x %d derivative of the proximal operator did not converge", n, n)
	}
	v = new(mat.Dense)
	eig.VectorsTo(v)
	return eig.Values(nil), v, nil
}

// solveSystem factorizes K, by Cholesky where it is well conditioned with its diagonal scaled to
// one, else by [pivoted.Factorize].
func (l *implicit) solveSystem(s system) error {
	if s.q == nil {
		s.q = make([]float64, s.n*s.n)
		s.w = func() (*mat.Dense, error) { return nil, nil }
		return l.solveWith(s, true)
	}
	return l.solveWith(s, false)
}

// solveWith is solveSystem for a given Q; projection says that Q is 0, so that D mu_hat is an
// orthogonal projection.
func (l *implicit) solveWith(s system, projection bool) error {
	scale := make([]float64, s.n)
	fine := true
	for i := range s.n {
		k := s.g[i*s.n+i] + s.q[i*s.n+i]
		if scale[i] = 1 / math.Sqrt(k); math.IsInf(scale[i], 0) || math.IsNaN(scale[i]) {
			scale[i] = 0 // a row and column of zeros
		}
		fine = fine && k > leastSeen*s.norm*s.norm && (s.g[i*s.n+i] > 0 || k > rounded*l.norm*l.norm)
	}
	l.f, l.how = &factored{rank: s.n}, " by Cholesky's method"
	if inverse, condition := s.cholesky(scale); fine && inverse != nil {
		l.f.sensitive = !projection && l.optimality*condition > sensitivity
		l.f.inverse = l.p.Device.Alloc(s.n, s.n)
		l.p.Device.Upload(l.f.inverse, inverse.RawMatrix().Data)
		trace, frobenius2 := float64(s.n), float64(s.n)
		if !projection {
			trace, frobenius2 = traceOf(inverse, s.q)
		}
		l.known = exactly(trace, frobenius2)
		d, _ := l.op.Dims()
		l.known.Margin = 1 / (math.Sqrt(condition) * pivoted.Cut * float64(max(d, s.n)) * 0x1p-52)
		return nil
	}
	return l.orthogonalize(s, scale, projection)
}

// orthogonalize decides the rank by a QR factorization.
func (l *implicit) orthogonalize(s system, scale []float64, projection bool) error {
	l.how = " by a pivoted QR factorization, because it is ill-conditioned"
	m, norm := s.m(), s.norm
	w, err := s.w()
	if err != nil {
		return err
	}
	for i := range scale {
		// A coordinate in the null space of A is free, and can reduce the curvature in the others.
		switch g, q := s.g[i*s.n+i], s.q[i*s.n+i]; {
		case norm != 0:
			scale[i] = 1
		case g > 0:
			scale[i] = 1 / math.Sqrt(g)
		case q > rounded*l.norm*l.norm:
			scale[i] = 1 / math.Sqrt(q)
		default:
			scale[i] = 0
		}
	}
	if norm == 0 {
		norm = 1
		m = pivoted.ScaleColumns(m, scale)
		if w != nil {
			w = pivoted.ScaleColumns(w, scale)
		}
	}
	r := pivoted.Factorize(m, w, norm, l.doubt())
	// Directions in doubt are not counted: as a rule they come from the error of the solution.
	trace, frobenius2, high := r.Traces(r.Sure)
	if projection {
		trace, frobenius2, high = float64(r.Sure), float64(r.Sure), float64(r.Rank)
	}
	l.known = exactly(trace, frobenius2)
	l.known.High, l.known.Margin = high, r.Margin
	f := l.f
	f.sensitive = !projection && r.Sure > 0 && l.optimality > sensitivity*r.Least()*r.Least()/norm/norm
	if f.rank = r.Sure; f.rank > 0 {
		f.image = solve.UploadRows(l.p.Device, r.Q.T(), f.rank)
		f.basic = mat.DenseCopyOf(r.Solution().Slice(0, s.n, 0, f.rank))
		f.basic.Apply(func(i, _ int, v float64) float64 { return scale[i] * v }, f.basic)
	}
	return nil
}

// sensitivity is the error of b, relative to its size, up to which the curvature of the regularizer
// at b is accurate enough.
const sensitivity = 1e-5

// doubt is the size of A along a direction, relative to ||A||, below which the solution is not
// determined there: the error of b along it is the optimality divided by the square of that size. A
// quadratic regularizer has no tangent spaces to choose between.
func (l *implicit) doubt() float64 {
	if prox.StructureOf(l.p.R).Quadratic.Known {
		return 0
	}
	return math.Sqrt(l.optimality)
}

// cholesky returns K^{-1} and the condition number of K, scaled; nil where that is large.
func (s system) cholesky(scale []float64) (*mat.Dense, float64) {
	sum := mat.NewSymDense(s.n, nil)
	for i := range s.n {
		for c := i; c < s.n; c++ {
			k := s.g[i*s.n+c] + s.q[i*s.n+c] + s.g[c*s.n+i] + s.q[c*s.n+i]
			sum.SetSym(i, c, k/2*scale[i]*scale[c])
		}
	}
	var chol mat.Cholesky
	if !chol.Factorize(sum) || chol.Cond() > wellConditioned || chol.InverseTo(sum) != nil {
		return nil, 0
	}
	out := mat.NewDense(s.n, s.n, nil)
	out.Apply(func(i, c int, v float64) float64 { return scale[i] * v * scale[c] }, sum)
	return out, chol.Cond()
}

// traceOf adds up the eigenvalues of D mu_hat = M K^{-1} M*, which are those of K^{-1} G = I - P,
// P = K^{-1} Q, and their squares. Q has few entries: it is diagonal, or has a block for each group.
func traceOf(inverse *mat.Dense, q []float64) (trace, frobenius2 float64) {
	n, _ := inverse.Dims()
	p := make([]float64, n*n) // the transpose of P
	for k := range n {
		for c, v := range q[k*n : (k+1)*n] {
			if v != 0 {
				floats.AddScaled(p[c*n:(c+1)*n], v, inverse.RawRowView(k)) // K^{-1} is symmetric
			}
		}
	}
	trace, frobenius2 = float64(n), float64(n)
	for i := range n {
		trace -= p[i*n+i]
		frobenius2 -= 2*p[i*n+i] - p[i*n+i]*p[i*n+i]
		for c := range i {
			frobenius2 += 2 * p[i*n+c] * p[c*n+i]
		}
	}
	return trace, frobenius2
}

// exactly is a trace that does not depend on any decision in doubt.
func exactly(trace, frobenius2 float64) Closed {
	return Closed{Known: true, Trace: trace, Frobenius2: frobenius2, Low: trace, High: trace, Margin: math.Inf(1)}
}

// apply sets dst_i = D mu_hat w_i. op is A on the space.
func (f *factored) apply(dst, w array.Batch, op linops.Operator) error {
	dev, k := w.Device(), w.K()
	if f.rank == 0 {
		dev.Fill(dst, 0)
		return dev.Err()
	}
	t := dev.Alloc(k, f.rank)
	defer t.Free()
	if !f.image.IsZero() {
		dev.Gemm(false, true, 1, w, f.image, 0, t)
		dev.Gemm(false, false, 1, t, f.image, 0, dst)
		return dev.Err()
	}
	x := dev.Alloc(k, f.rank)
	defer x.Free()
	op.Adjoint(t, w)
	dev.Gemm(false, false, 1, t, f.inverse, 0, x)
	op.Forward(dst, x)
	return dev.Err()
}

// diagonal returns the d diagonal entries of D mu_hat: the squared norms of the rows of Q1, or with
// the rows m_i of M those of m_i K^{-1} m_i*.
func (f *factored) diagonal(dev array.Device, op linops.Operator) []float64 {
	d, _ := op.Dims()
	out := make([]float64, d)
	if f.rank == 0 {
		return out
	}
	left, right := f.image, f.image
	if f.image.IsZero() {
		left = imageRows(dev, op)
		defer left.Free()
		right = dev.Alloc(f.rank, d)
		defer right.Free()
		dev.Gemm(false, false, 1, f.inverse, left, 0, right)
	}
	products, ones, sums := dev.Alloc(f.rank, d), dev.Alloc(1, f.rank), dev.Alloc(1, d)
	defer products.Free()
	defer ones.Free()
	defer sums.Free()
	dev.Mul(products, left, right)
	dev.Fill(ones, 1)
	dev.Gemm(false, false, 1, ones, products, 0, sums)
	dev.Download(out, sums)
	return out
}

// onto sets the 1 x n batch dst to (M*M + Q)^+ M* z.
func (f *factored) onto(dst, z array.Batch, op linops.Operator) {
	dev := z.Device()
	dev.Fill(dst, 0)
	switch {
	case f.rank == 0:
	case f.image.IsZero():
		t := dev.Alloc(1, f.rank)
		op.Adjoint(t, z)
		dev.Gemm(false, false, 1, t, f.inverse, 0, dst)
		t.Free()
	default:
		var x mat.VecDense
		t := dev.Alloc(1, f.rank)
		dev.Gemm(false, true, 1, z, f.image, 0, t)
		x.MulVec(f.basic, mat.NewVecDense(f.rank, t.ToHost()))
		dev.Upload(dst, x.RawVector().Data)
		t.Free()
	}
}
