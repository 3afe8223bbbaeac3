package vjp

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/prox"
)

// gram returns the n x n matrix op* op on the host, row-major.
func gram(dev array.Device, op linops.Operator) []float64 {
	d, n := op.Dims()
	square := dev.Alloc(n, n)
	defer square.Free()
	if gram := linops.StructureOf(op).Gram; gram != nil {
		gram(square)
		return square.ToHost()
	}
	identity, image := dev.Alloc(n, n), dev.Alloc(n, d)
	defer identity.Free()
	defer image.Free()
	setIdentity(identity)
	op.Forward(image, identity)
	dev.Gemm(false, true, 1, image, image, 0, square)
	return square.ToHost()
}

// setIdentity sets the n x n batch to the unit vectors.
func setIdentity(b array.Batch) {
	dev := b.Device()
	dev.Fill(b, 0)
	dev.Fill(b.Diagonal(), 1)
}

// images is the matrix of op, d x n, on the host.
func images(dev array.Device, op linops.Operator) *mat.Dense {
	d, n := op.Dims()
	identity, image := dev.Alloc(n, n), dev.Alloc(n, d)
	defer identity.Free()
	defer image.Free()
	setIdentity(identity)
	op.Forward(image, identity)
	return mat.DenseCopyOf(mat.NewDense(n, d, image.ToHost()).T())
}

// system is K = G + R of dimension n, G = M*M with M = A E and R = W*W.
type system struct {
	n    int
	g, r []float64 // G and R, row-major
	// m and w compute M and W, where G and R do not tell enough.
	m    func() mat.Matrix
	w    func() *mat.Dense
	norm float64 // ||A||, where the columns of M are not to be scaled to unit length; else 0
}

// wellConditioned is the largest condition number of a system that Cholesky's
// factorization solves to six digits; leastSeen is how small a diagonal entry may be against
// ||A||^2 where the columns of M are not scaled. Where they are, curvature below rounded of it in a
// coordinate without a column comes of rounding errors, and scaled to one it would be a direction
// of its own.
const (
	wellConditioned = 1e10
	leastSeen       = 1e-8
	rounded         = 1e-20
)

// solveSystem factorizes K, by Cholesky where it is well conditioned with its diagonal scaled to
// one, else by [factorPenalized]. projection says that R is 0.
func (l *implicit) solveSystem(s system, projection bool) {
	scale := make([]float64, s.n)
	fine := true
	for i := range s.n {
		k := s.g[i*s.n+i] + s.r[i*s.n+i]
		if scale[i] = 1 / math.Sqrt(k); math.IsInf(scale[i], 0) || math.IsNaN(scale[i]) {
			scale[i] = 0 // a row and column of zeros
		}
		fine = fine && k > leastSeen*s.norm*s.norm && (s.g[i*s.n+i] > 0 || k > rounded*l.norm*l.norm)
	}
	if inverse, condition := s.cholesky(scale); fine && inverse != nil {
		l.sensitive = !projection && l.optimality*condition > sensitivity
		l.keep(inverse)
		if l.traceOf(inverse, s.g); projection {
			l.trace, l.frobenius2 = float64(s.n), float64(s.n)
		}
		l.low, l.high = l.trace, l.trace
		d, _ := l.op.Dims()
		l.margin = 1 / (math.Sqrt(condition) * rankCut * float64(max(d, s.n)) * 0x1p-52)
		return
	}
	m, w, norm := s.m(), s.w(), s.norm
	if norm == 0 {
		norm = 1
		for i := range scale {
			// A coordinate that A does not see is free to relieve the curvature of the others.
			scale[i] = 0
			if g := s.g[i*s.n+i]; g > 0 {
				scale[i] = 1 / math.Sqrt(g)
			} else if r := s.r[i*s.n+i]; r > rounded*l.norm*l.norm {
				scale[i] = 1 / math.Sqrt(r)
			}
		}
		m = scaledBy(m, scale)
		if w != nil {
			w = scaledBy(w, scale)
		}
	}
	f := factorPenalized(m, w, norm, l.doubt())
	// What is in doubt is not counted: as a rule it is the error of the solution.
	l.trace, l.frobenius2, l.high = f.traces(f.sure)
	if projection {
		l.trace, l.frobenius2, l.high = float64(f.sure), float64(f.sure), float64(f.rank)
	}
	l.low, l.margin, l.traced = l.trace, f.margin, true
	l.sensitive = !projection && f.sure > 0 && l.optimality > sensitivity*f.least()*f.least()/norm/norm
	if l.dim = f.sure; l.dim > 0 {
		l.image = uploadRows(l.p.Device, f.q.T(), l.dim)
	}
}

// sensitivity is the error of b, relative to its size, up to which the curvature of the regularizer at
// b is good enough.
const sensitivity = 1e-5

// doubt is the size, relative to ||A||, up to which the solution is not determined along a
// direction that A sees: the error of b there is the optimality over the square of it. A
// quadratic regularizer has no tangent spaces to choose between.
func (l *implicit) doubt() float64 {
	if _, quadratic := l.p.R.(prox.Quadratic); quadratic {
		return 0
	}
	return math.Sqrt(l.optimality)
}

// scaledBy is m diag(scale).
func scaledBy(m mat.Matrix, scale []float64) *mat.Dense {
	c := mat.DenseCopyOf(m)
	c.Apply(func(_, j int, v float64) float64 { return v * scale[j] }, c)
	return c
}

// cholesky returns K^{-1} and the condition number of K, scaled; nil where that is large.
func (s system) cholesky(scale []float64) (*mat.Dense, float64) {
	sum := mat.NewSymDense(s.n, nil)
	for i := range s.n {
		for c := i; c < s.n; c++ {
			k := s.g[i*s.n+c] + s.r[i*s.n+c] + s.g[c*s.n+i] + s.r[c*s.n+i]
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

// factor solves the system of a diagonal J, with E the unit vectors of its support.
func (l *implicit) factor(j []float64) {
	n := l.dim
	s := system{n: n, g: gram(l.p.Device, l.op), r: make([]float64, n*n)}
	projection := true
	root := make([]float64, n)
	for i := range n {
		s.r[i*n+i] = (1/j[i] - 1) / l.eta
		root[i] = math.Sqrt(s.r[i*n+i])
		projection = projection && j[i] == 1
	}
	op := l.op
	s.m = func() mat.Matrix { return images(l.p.Device, op) }
	s.w = func() *mat.Dense {
		if projection {
			return nil
		}
		return mat.DenseCopyOf(mat.NewDiagDense(n, root))
	}
	l.solveSystem(s, projection)
}

// traceOf adds up the eigenvalues of D mu_hat = A_S K^+ A_S*, which are those of K^+ G
// with G = A_S*A_S, row-major, and their squares.
func (l *implicit) traceOf(inverse *mat.Dense, g []float64) {
	n := l.dim
	var product mat.Dense
	product.Mul(inverse, mat.NewDense(n, n, g))
	for i := range n {
		l.trace += product.At(i, i)
		for c := range n {
			l.frobenius2 += product.At(i, c) * product.At(c, i)
		}
	}
	l.traced = true
}

// Closed tells the trace where the system was factored or A is orthogonal.
func (l *implicit) Closed() Closed {
	if !l.traced && l.dim > 0 {
		return Closed{}
	}
	return Closed{Known: true, Trace: l.trace, Frobenius2: l.frobenius2, Low: l.low, High: l.high, Margin: l.margin}
}

// keep puts K^+ on the device.
func (l *implicit) keep(inverse *mat.Dense) {
	l.inverse = l.p.Device.Alloc(l.dim, l.dim)
	l.p.Device.Upload(l.inverse, inverse.RawMatrix().Data)
}

// spectrum is the eigendecomposition J = V diag(j) V* of a symmetric matrix, ascending.
func spectrum(jacobian []float64, n int) (j []float64, v *mat.Dense, err error) {
	sym := mat.NewSymDense(n, nil)
	for i := range n {
		for c := i; c < n; c++ {
			sym.SetSym(i, c, (jacobian[i*n+c]+jacobian[c*n+i])/2)
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

// Eigenvalues of J below vanishing count as 0: D mu_hat has them times at most eta ||A||^2.
// Those within a rounding error of 1 count as 1.
const vanishing = 1e-9

// curvature is 1/j - 1.
func curvature(j float64, n int) float64 {
	if c := 1/j - 1; c > float64(n)*0x1p-46 {
		return c
	}
	return 0
}

// denseJacobian is J on the host, n x n.
func (l *implicit) denseJacobian() []float64 {
	square := l.p.Device.Alloc(l.dim, l.dim)
	defer square.Free()
	setIdentity(square)
	l.j.Apply(square, square)
	return square.ToHost()
}

// factorBlocks is factor for a J that is invertible on the coordinates it does not
// ignore, as that of a group penalty is: with S where J's diagonal is not 0,
//
//	D mu_hat w = A_S K^+ A_S* w,   K = A_S*A_S + (J_SS^{-1} - I)/eta.
//
// It returns false, having done nothing, where the system is large, J is singular
// on S, or A cannot restrict itself to columns.
func (l *implicit) factorBlocks() (bool, error) {
	dev, n := l.p.Device, l.dim
	if n > maxFactored || !linops.Restricts(dev, l.p.A) {
		return false, nil
	}
	jacobian := l.denseJacobian()
	var set []int
	for i := range n {
		if jacobian[i*n+i] > 0 {
			set = append(set, i)
		}
	}
	s := len(set)
	if s == 0 {
		l.dim = 0
		return true, nil
	}
	block := make([]float64, s*s)
	for i, from := range set {
		for c, to := range set {
			block[i*s+c] = jacobian[from*n+to]
		}
	}
	j, v, err := spectrum(block, s)
	if err != nil {
		return false, err
	}
	if j[0] <= vanishing {
		return false, nil
	}
	columns := linops.Restrict(dev, l.p.A, set)
	if columns == nil {
		return false, nil
	}
	l.columns, l.op, l.dim = columns, columns, s
	root := mat.NewDense(s, s, nil)
	root.Apply(func(i, c int, _ float64) float64 { return math.Sqrt(curvature(j[i], s)/l.eta) * v.At(c, i) }, root)
	var rest mat.Dense
	rest.Mul(root.T(), root)
	l.solveSystem(system{
		n: s, g: gram(dev, columns), r: rest.RawMatrix().Data,
		m: func() mat.Matrix { return images(dev, columns) },
		w: func() *mat.Dense { return root },
	}, false)
	return true, nil
}

// maxDense bounds p where J is neither diagonal nor A a matrix of columns and the
// system is factored all the same: its eigenvalues take a few milliseconds.
const maxDense = 256

// factorDense is factor for any J. With J = V diag(j) V* on its range,
//
//	D mu_hat w = A V K^+ V* A* w,   K = V* A*A V + diag(1/j - 1)/eta.
//
// Directions of V that A does not see are told by ||A||, not by their own length.
func (l *implicit) factorDense() error {
	dev, n := l.p.Device, l.dim
	d, _ := l.p.A.Dims()
	jacobian := l.denseJacobian()
	if diagonal := diagonalOf(jacobian, n); diagonal != nil {
		l.factorCoordinates(diagonal)
		return nil
	}
	j, vectors, err := spectrum(jacobian, n)
	if err != nil {
		return err
	}
	first := 0
	for first < n && j[first] <= vanishing {
		first++
	}
	r := n - first
	if r == 0 {
		l.dim = 0
		return nil
	}
	q, image := dev.Alloc(r, n), dev.Alloc(r, d)
	defer q.Free()
	defer image.Free()
	basis := mat.DenseCopyOf(vectors.Slice(0, n, first, n).T())
	dev.Upload(q, basis.RawMatrix().Data)
	l.p.A.Forward(image, q)
	m := mat.NewDense(r, d, image.ToHost()).T()
	var g mat.Dense
	g.Mul(m.T(), m)
	s := system{n: r, g: g.RawMatrix().Data, r: make([]float64, r*r), norm: l.norm, m: func() mat.Matrix { return m }}
	root := make([]float64, r)
	projection := true
	for i := range r {
		c := curvature(j[first+i], n) / l.eta
		s.r[i*r+i], root[i] = c, math.Sqrt(c)
		projection = projection && c == 0
	}
	s.w = func() *mat.Dense { return mat.DenseCopyOf(mat.NewDiagDense(r, root)) }
	l.dim = r
	l.solveSystem(s, projection)
	if !l.inverse.IsZero() {
		l.intoCoordinates(basis)
	}
	return nil
}

// diagonalOf is the diagonal of a diagonal matrix; nil for any other.
func diagonalOf(a []float64, n int) []float64 {
	diagonal := make([]float64, n)
	for i := range n {
		diagonal[i] = a[i*n+i]
		for c := range n {
			if c != i && math.Abs(a[i*n+c]) > 0x1p-50 {
				return nil
			}
		}
	}
	return diagonal
}

// factorCoordinates is factorDense where J is diagonal: coordinates are told by the lengths of their
// own columns then.
func (l *implicit) factorCoordinates(j []float64) {
	whole := images(l.p.Device, l.p.A)
	d, n := whole.Dims()
	var set []int
	for i, v := range j {
		if v > vanishing {
			set = append(set, i)
		}
	}
	r := len(set)
	if l.dim = r; r == 0 {
		return
	}
	m, basis := mat.NewDense(d, r, nil), mat.NewDense(r, n, nil)
	rest, root := make([]float64, r*r), make([]float64, r)
	projection := true
	for c, i := range set {
		m.SetCol(c, mat.Col(nil, i, whole))
		basis.Set(c, i, 1)
		rest[c*r+c] = curvature(j[i], n) / l.eta
		root[c] = math.Sqrt(rest[c*r+c])
		projection = projection && rest[c*r+c] == 0
	}
	var g mat.Dense
	g.Mul(m.T(), m)
	l.solveSystem(system{
		n: r, g: g.RawMatrix().Data, r: rest, m: func() mat.Matrix { return m },
		w: func() *mat.Dense { return mat.DenseCopyOf(mat.NewDiagDense(r, root)) },
	}, projection)
	if !l.inverse.IsZero() {
		l.intoCoordinates(basis)
	}
}

// intoCoordinates turns K^+ into V K^+ V*, with the rows of basis the columns of V.
func (l *implicit) intoCoordinates(basis *mat.Dense) {
	r, n := basis.Dims()
	var half, inverse mat.Dense
	half.Mul(basis.T(), mat.NewDense(r, r, l.inverse.ToHost()))
	inverse.Mul(&half, basis)
	l.inverse.Free()
	l.dim = n
	l.keep(&inverse)
}
