package vjp

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/linops"
)

// gram returns the n x n matrix op* op on the host, row-major.
func gram(dev array.Device, op linops.Operator) []float64 {
	d, n := op.Dims()
	square := dev.Alloc(n, n)
	defer square.Free()
	if x, ok := op.(*linops.Dense); ok {
		x.Gram(square)
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

// factor computes K^+ of a diagonal J.
func (l *implicit) factor(j []float64) error {
	n := l.dim
	g := gram(l.p.Device, l.op)
	rest := make([]float64, n*n)
	projection := true
	for i := range n {
		rest[i*n+i] = (1/j[i] - 1) / l.eta
		projection = projection && j[i] == 1
	}
	inverse, rank, err := invertSystem(g, rest, n)
	if err != nil {
		return err
	}
	l.keep(inverse)
	if projection {
		l.trace, l.frobenius2, l.traced = float64(rank), float64(rank), true
	} else {
		l.traceOf(inverse, g)
	}
	return nil
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

// Trace tells the trace where the system was factored or A is orthogonal.
func (l *implicit) Trace() (trace, frobenius2 float64, ok bool) {
	return l.trace, l.frobenius2, l.traced || l.dim == 0
}

// keep puts K^+ on the device.
func (l *implicit) keep(inverse *mat.Dense) {
	l.inverse = l.p.Device.Alloc(l.dim, l.dim)
	l.p.Device.Upload(l.inverse, inverse.RawMatrix().Data)
}

// invertSystem returns the part of (G + R)^+ that A_S can see, with G = A_S*A_S and
// R positive semidefinite, both n x n, row-major, and the rank of what it returns.
// The system is scaled to a unit diagonal. Where it is well conditioned Cholesky's
// factorization serves. Elsewhere directions that G maps to no more than rounding
// errors are not seen by A_S and are eliminated exactly, by way of R alone: whatever R
// is there, no error is amplified by its inverse.
func invertSystem(g, r []float64, n int) (*mat.Dense, int, error) {
	scale := make([]float64, n)
	for i := range n {
		if scale[i] = 1 / math.Sqrt(g[i*n+i]+r[i*n+i]); math.IsInf(scale[i], 0) || math.IsNaN(scale[i]) {
			scale[i] = 0 // a row and column of zeros
		}
	}
	unit := func(m []float64) *mat.SymDense {
		u := mat.NewSymDense(n, nil)
		for i := range n {
			for c := i; c < n; c++ {
				u.SetSym(i, c, (m[i*n+c]+m[c*n+i])/2*scale[i]*scale[c])
			}
		}
		return u
	}
	gram, rest := unit(g), unit(r)
	var sum, whole mat.SymDense
	sum.AddSym(gram, rest)
	rank := n
	var inverse mat.Matrix = &whole
	var chol mat.Cholesky
	if !chol.Factorize(&sum) || chol.Cond() > wellConditioned || chol.InverseTo(&whole) != nil {
		var err error
		if inverse, rank, err = invertSeen(gram, rest); err != nil {
			return nil, 0, err
		}
	}
	out := mat.NewDense(n, n, nil)
	out.Apply(func(i, c int, v float64) float64 { return scale[i] * v * scale[c] }, inverse)
	return out, rank, nil
}

// wellConditioned is the largest condition number of a system that Cholesky's
// factorization solves to six digits.
const wellConditioned = 1e10

// invertSeen is V (V*(G + R) V - Schur)^{-1} V* with V a basis of G's range, the Schur
// complement being that of G's kernel.
func invertSeen(g, r *mat.SymDense) (mat.Matrix, int, error) {
	n := g.SymmetricDim()
	values, vectors, rank, err := eigenRange(g)
	if err != nil {
		return nil, 0, err
	}
	if rank == 0 {
		return mat.NewDense(n, n, nil), 0, nil
	}
	v := vectors.Slice(0, n, n-rank, n)
	s := mat.NewDense(rank, rank, nil)
	if mat.Norm(r, 1) > 0 {
		var half mat.Dense
		half.Mul(r, v)
		s.Mul(v.T(), &half)
		if rank < n {
			kernel := vectors.Slice(0, n, 0, n-rank)
			var cross, inside mat.Dense
			cross.Mul(kernel.T(), &half) // kernel x range
			half.Reset()
			half.Mul(r, kernel)
			inside.Mul(kernel.T(), &half)
			inverse, err := pseudoInverse(&inside)
			if err != nil {
				return nil, 0, err
			}
			var t, schur mat.Dense
			t.Mul(inverse, &cross)
			schur.Mul(cross.T(), &t)
			s.Sub(s, &schur)
		}
	}
	for i := range rank {
		s.Set(i, i, s.At(i, i)+values[n-rank+i])
	}
	inverse, err := pseudoInverse(s)
	if err != nil {
		return nil, 0, err
	}
	var half, out mat.Dense
	half.Mul(v, inverse)
	out.Mul(&half, v.T())
	return &out, rank, nil
}

// eigenRange is the eigendecomposition of a positive semidefinite matrix,
// ascending, and the number of eigenvalues above rounding, n eps of the largest.
func eigenRange(k *mat.SymDense) (values []float64, vectors *mat.Dense, rank int, err error) {
	n := k.SymmetricDim()
	var eig mat.EigenSym
	if !eig.Factorize(k, true) {
		return nil, nil, 0, fmt.Errorf("vjp: the eigenvalues of the %d x %d system of the implicit derivative did not converge", n, n)
	}
	values, vectors = eig.Values(nil), new(mat.Dense)
	eig.VectorsTo(vectors)
	for rank < n && values[n-1-rank] > float64(n)*0x1p-52*values[n-1] {
		rank++
	}
	return values, vectors, rank, nil
}

// pseudoInverse is k^+ of a symmetric positive semidefinite matrix.
func pseudoInverse(k *mat.Dense) (mat.Matrix, error) {
	n, _ := k.Dims()
	sym := mat.NewSymDense(n, nil)
	for i := range n {
		for c := i; c < n; c++ {
			sym.SetSym(i, c, (k.At(i, c)+k.At(c, i))/2)
		}
	}
	values, vectors, rank, err := eigenRange(sym)
	if err != nil {
		return nil, err
	}
	half := mat.NewDense(n, max(rank, 1), nil)
	for c := range rank {
		from := n - 1 - c
		for i := range n {
			half.Set(i, c, vectors.At(i, from)/math.Sqrt(values[from]))
		}
	}
	var inverse mat.SymDense
	inverse.SymOuterK(1, half)
	return &inverse, nil
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
	if _, can := l.p.A.(linops.Restrictor); !can || n > maxFactored {
		return false, nil
	}
	square := dev.Alloc(n, n)
	defer square.Free()
	setIdentity(square)
	l.j.Apply(square, square)
	jacobian := square.ToHost()
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
	block := mat.NewSymDense(s, nil)
	for i, from := range set {
		for c := i; c < s; c++ {
			block.SetSym(i, c, (jacobian[from*n+set[c]]+jacobian[set[c]*n+from])/2)
		}
	}
	var chol mat.Cholesky
	var inverse mat.SymDense
	if !chol.Factorize(block) || chol.Cond() > 1e12 || chol.InverseTo(&inverse) != nil {
		return false, nil
	}
	columns := linops.Restrict(l.p.A, set)
	if columns == nil {
		return false, nil
	}
	l.columns, l.op, l.dim = columns, columns, s
	g := gram(dev, columns)
	rest := make([]float64, s*s)
	for i := range s {
		for c := range s {
			one := 0.0
			if i == c {
				one = 1
			}
			rest[i*s+c] = (inverse.At(i, c) - one) / l.eta
		}
	}
	small, _, err := invertSystem(g, rest, s)
	if err != nil {
		return false, err
	}
	l.keep(small)
	l.traceOf(small, g)
	return true, nil
}

// maxDense bounds p where J is neither diagonal nor A a matrix of columns and the
// system is factored all the same: its eigenvalues take a few milliseconds.
const maxDense = 256

// factorDense is factor for any J. With J = Q diag(j) Q* on its range,
//
//	D mu_hat w = A Q K^+ Q* A* w,   K = Q* A*A Q + diag(1/j - 1)/eta.
func (l *implicit) factorDense() error {
	dev, n := l.p.Device, l.dim
	square := dev.Alloc(n, n)
	defer square.Free()
	setIdentity(square)
	l.j.Apply(square, square)
	host := square.ToHost()
	jacobian := mat.NewSymDense(n, nil)
	for i := range n {
		for c := i; c < n; c++ {
			jacobian.SetSym(i, c, (host[i*n+c]+host[c*n+i])/2)
		}
	}
	var eig mat.EigenSym
	if !eig.Factorize(jacobian, true) {
		return fmt.Errorf("vjp: the eigenvalues of the %d x %d derivative of the proximal operator did not converge", n, n)
	}
	j := eig.Values(nil)
	var vectors mat.Dense
	eig.VectorsTo(&vectors)
	first := 0
	for first < n && j[first] <= float64(n)*0x1p-50 {
		first++
	}
	r := n - first
	if r == 0 {
		l.dim = 0
		return nil
	}
	q := vectors.Slice(0, n, first, n)
	var half, k, inverse mat.Dense
	g := gram(dev, l.p.A)
	half.Mul(mat.NewDense(n, n, g), q)
	k.Mul(q.T(), &half)
	rest := make([]float64, r*r)
	for i := range r {
		rest[i*r+i] = math.Max(1/j[first+i]-1, 0) / l.eta
	}
	small, _, err := invertSystem(k.RawMatrix().Data, rest, r)
	if err != nil {
		return err
	}
	half.Reset()
	half.Mul(q, small)
	inverse.Mul(&half, q.T())
	l.keep(&inverse)
	l.traceOf(&inverse, g)
	return nil
}
