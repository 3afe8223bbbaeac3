package vjp

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/internal/pivoted"
	"surepipe/linops"
	"surepipe/progress"
	"surepipe/prox"
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

	op    linops.Operator // M
	bytes atomic.Int64    // that the factors take

	// later computes M and the factors when they are first needed, where the solver's own say
	// enough; nil where they are here already.
	later func(ctx context.Context) (*implicit, error)
	once  sync.Once
	err   error // of later
	made  *implicit
}

// errUnfinished is what is left of factors whose computation has panicked.
var errUnfinished = errors.New("vjp: the factors of the derivative could not be computed")

// errNoMatrix is what is left of factors of a curvature that shows no matrix.
var errNoMatrix = errors.New("vjp: the regularizer does not show its curvature as a matrix")

// ready computes the factors where that has been put off.
func (f *factored) ready(ctx context.Context) error {
	f.once.Do(func() {
		if f.later == nil {
			return
		}
		f.err = errUnfinished // where A panics
		if f.made, f.err = f.later(ctx); f.err == nil {
			g := f.made.f
			f.inverse, f.image, f.rank, f.basic, f.op = g.inverse, g.image, g.rank, g.basic, g.op
			f.bytes.Store(g.bytes.Load() + f.made.on.Bytes())
		}
	})
	return f.err
}

func (f *factored) release() {
	if f.made != nil && f.made.on != nil {
		f.made.on.Release()
	}
	f.inverse.Free()
	f.image.Free()
}

// images is the matrix of op, d x n, on the host.
func images(dev array.Device, op linops.Operator) *mat.Dense {
	d, n := op.Dims()
	image := linops.Images(dev, op)
	defer image.Free()
	return mat.DenseCopyOf(mat.NewDense(n, d, image.ToHost()).T())
}

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
		// Directions in the null space of A are recognized relative to ||A||, or to the columns
		// that they combine, not to their own length.
		sys.norm = l.norm
		sys.sizes = l.combined()
	}
	sys.m = func() mat.Matrix { return images(dev, op) }
	sys.w = func() (*mat.Dense, error) { return root(sys.q, n) }
	if l.gram != nil && s.kind == space.Subset {
		sys.g = l.gram(l.model.Space.Form().Set)
	}
	if sys.g == nil {
		progress.From(s.ctx)(progress.Report{Stage: progress.Gram, Steps: n})
		sys.g = linops.GramOf(dev, op)
	}
	return l.solveSystem(s.ctx, sys)
}

// combined are the sizes of the terms that the images of the coordinates are sums of,
//
//	size_i^2 = sum_j E_ji^2 ||a_j||^2,
//
// where the columns a_j of A differ in length by more than rounding errors can be seen beside; else nil.
func (l *implicit) combined() []float64 {
	p, n := l.model.Space.Dims()
	known := linops.StructureOf(l.p.A).ColumnNorms2
	if p > smallBehind || n == 0 || known == nil {
		return nil
	}
	lengths2, dev := known(), l.p.Device
	if most := slices.Max(lengths2); !slices.ContainsFunc(lengths2,
		func(v float64) bool { return v > 0 && v < uneven*most }) {
		return nil
	}
	units, basis := dev.Alloc(n, n), dev.Alloc(n, p)
	defer units.Free()
	defer basis.Free()
	dev.Fill(units, 0)
	dev.Fill(units.Diagonal(), 1)
	l.model.Space.Embed(basis, units)
	sizes, e := make([]float64, n), basis.ToHost()
	for i := range sizes {
		for j, v := range lengths2 {
			sizes[i] = math.Hypot(sizes[i], e[i*p+j]*math.Sqrt(v))
		}
	}
	return sizes
}

// uneven is the ratio of squared lengths of columns from which rounding errors of the longer ones may hide the shorter.
const uneven = 1e-8

// takeOver takes the trace and the condition of the system from the solver. The factors are computed
// anew when an image is asked for: the solver's have gone on to the next weight by then.
func (l *implicit) takeOver(s *situation) error {
	given := s.given
	l.dim = s.n
	l.f = &factored{rank: s.n, sensitive: l.sensitive(given.Projection, given.Condition)}
	l.setKnown(given.Trace, given.Frobenius2, given.Condition)
	d, _ := l.p.A.Dims()
	l.known.Images, l.known.Products = given.Images, given.Products
	l.known.Leverages, l.known.LeveragesFlops = given.Diagonal, float64(s.n)*float64(s.n)*float64(d)
	again := &implicit{p: l.p, model: l.model, norm: l.norm, optimality: l.optimality, identified: l.identified}
	if l.keep && given.Images == nil && l.gram != nil {
		kept := l.gram(l.model.Space.Form().Set)
		again.gram = func([]int) []float64 { return kept }
	}
	l.f.later = func(ctx context.Context) (*implicit, error) {
		to := &situation{ctx: ctx, p: again.p, model: again.model, n: s.n, kind: s.kind}
		if !to.plain() {
			return nil, errNoMatrix
		}
		return again, again.factorModel(to)
	}
	return nil
}

// setKnown records the traces of a well-conditioned system.
func (l *implicit) setKnown(trace, frobenius2, condition float64) {
	l.known = exactly(trace, frobenius2)
	d, _ := l.p.A.Dims()
	l.known.Margin = 1 / (math.Sqrt(condition) * pivoted.Cut * float64(max(d, l.dim)) * 0x1p-52)
}

// sensitive reports that the error of b may change the curvature by enough to matter.
func (l *implicit) sensitive(projection bool, condition float64) bool {
	return !projection && l.optimality*condition > sensitivity
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
func (l *implicit) factorJacobian(s *situation) error {
	dev, n := l.p.Device, l.dim
	square := jacobian(dev, l.j, n)
	basis, j, err := rangeOf(square, n)
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
	if diagonalOf(square, n) != nil {
		sys.norm = 0 // J is diagonal: coordinates are judged by the lengths of their own columns
	}
	sys.m = func() mat.Matrix { return images(dev, on) }
	sys.w = func() (*mat.Dense, error) { return root(sys.q, l.dim) }
	sys.g = linops.GramOf(dev, on)
	return l.solveSystem(s.ctx, sys)
}

// jacobian is J, n x n, row-major.
func jacobian(dev array.Device, j prox.Derivative, n int) []float64 {
	square := dev.Alloc(n, n)
	defer square.Free()
	dev.Fill(square, 0)
	dev.Fill(square.Diagonal(), 1)
	j.Apply(square, square)
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
		return nil, nil, fmt.Errorf("vjp: the eigenvalues of the %d x %d derivative of the proximal operator did "+
			"not converge", n, n)
	}
	v = new(mat.Dense)
	eig.VectorsTo(v)
	return eig.Values(nil), v, nil
}

// apply sets dst_i = D mu_hat w_i. op is A on the space.
func (f *factored) apply(ctx context.Context, dst, w array.Batch) error {
	dev, k := w.Device(), w.K()
	if err := f.ready(ctx); err != nil {
		return err
	}
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
	f.op.Adjoint(t, w)
	dev.Gemm(false, false, 1, t, f.inverse, 0, x)
	f.op.Forward(dst, x)
	return dev.Err()
}

// diagonal returns the d diagonal entries of D mu_hat: the squared norms of the rows of Q1, or with
// the rows m_i of M those of m_i K^{-1} m_i*.
func (f *factored) diagonal(dev array.Device) ([]float64, error) {
	if err := f.ready(context.Background()); err != nil {
		return nil, err
	}
	d, _ := f.op.Dims()
	out := make([]float64, d)
	if f.rank == 0 {
		return out, nil
	}
	left, right := f.image, f.image
	if f.image.IsZero() {
		left = linops.Images(dev, f.op)
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
	return out, dev.Err()
}

// diagonalFlops is about how many operations diagonal takes: two for each product of the inverse and
// the d columns of the images, and where the factors are still to be computed those of the Gram
// matrix and of its inverse.
func (f *factored) diagonalFlops(d int) float64 {
	n, rows := float64(f.rank), float64(d)
	switch {
	case f.later != nil:
		return 3*n*n*rows + n*n*n
	case !f.image.IsZero():
		return 2 * n * rows
	}
	return 2 * n * n * rows
}

// solves reports that systems with (A*A + Q) on the space are solved for any right-hand side.
func (l *implicit) solves() bool {
	return l.dim == 0 || l.f != nil || l.projects()
}

// projects reports that the system is a multiple of the identity.
func (l *implicit) projects() bool {
	if l.saddle != nil || l.j != nil || l.model == nil {
		return false
	}
	form := l.model.Space.Form()
	return l.model.Curvature == nil && (form.Orthonormal || form.Projection) &&
		linops.StructureOf(l.p.A).Columns.Value > 0
}

// descend sets dst to E (E* (A*A + Q) E)^+ E* g, where that is known.
func (l *implicit) descend(dst, g array.Batch) {
	dev := g.Device()
	switch {
	case l.dim == 0:
		dev.Fill(dst, 0)
		return
	case l.f == nil:
		l.model.Space.Project(dst, g)
		dev.Lin(dst, 1/linops.StructureOf(l.p.A).Columns.Value, dst, 0, array.Batch{})
		return
	}
	s := l.span
	if s == nil {
		s = l.model.Space
	}
	_, n := s.Dims()
	c, x := dev.Alloc(1, n), dev.Alloc(1, n)
	defer c.Free()
	defer x.Free()
	s.Coordinates(c, g)
	switch {
	case l.f.rank == 0:
		dev.Fill(x, 0)
	case l.f.image.IsZero():
		dev.Gemm(false, false, 1, c, l.f.inverse, 0, x)
	default: // basic basic*
		var t, y mat.VecDense
		t.MulVec(l.f.basic.T(), mat.NewVecDense(n, c.ToHost()))
		y.MulVec(l.f.basic, &t)
		dev.Upload(x, y.RawVector().Data)
	}
	s.Embed(dst, x)
}

// onto sets the 1 x n batch dst to (M*M + Q)^+ M* z.
func (f *factored) onto(dst, z array.Batch) error {
	if err := f.ready(context.Background()); err != nil {
		return err
	}
	dev := z.Device()
	dev.Fill(dst, 0)
	switch {
	case f.rank == 0:
	case f.image.IsZero():
		t := dev.Alloc(1, f.rank)
		f.op.Adjoint(t, z)
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
	return dev.Err()
}
