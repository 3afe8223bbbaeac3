// Package kronecker inverts G (x) I + Q, the second derivative of a sum of squares of several responses on one matrix
// whose penalty is a sum of norms of groups of coefficients, by matrices of the size of the columns.
package kronecker

import (
	"math"
	"sort"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"surepipe/internal/lists"
	"surepipe/internal/numerics"
	"surepipe/internal/parallel"
)

// Block is the curvature c (I - u u*) of the k coefficients of each of some columns, with |u| = 1, or c I. U is u,
// column by column, nil for 0.
type Block struct {
	Columns []int
	C       float64
	U       []float64
}

// Inverse is K^{-1} of K = G (x) I + Q for the k x k identity, a Gram matrix G and a Q with blocks on the diagonal.
// With D, the c of each column, M = (G + D)^{-1}, F = M D, P = G F = (G^{-1} + D^{-1})^{-1}, and U, a column u for each
// block,
//
//	K^{-1} = M (x) I + V* T V,   V = U* (F (x) I)*,   T = (U* (P (x) I) U)^{-1}.
//
// Both terms are positive, and nothing cancels where c is small or large. Coefficients are in the order (column,
// outcome). Where columns are equal and their coefficients parallel, T is a generalized inverse, and so is K^{-1}.
type Inverse struct {
	// M, T and V are as above, with a row of V for each block with a u; T and V are nil where there are none.
	M, T, V *mat.Dense
	// Condition is that of the two systems, each with ones on its diagonal, one times the other, without Null.
	Condition float64
	// Null has a row for each direction that K takes to 0, to the rounding errors of the two systems; nil without any.
	Null *mat.Dense

	k       int
	u       []Block // with a u
	columns []int   // of all of them
	of      []int   // the block of each
	inner   mat.Dense
	f, p    *mat.Dense
	g       *mat.Dense
	root    *mat.Dense // M is root root*
	small   *mat.Dense // T is small small*
}

// New takes G, and blocks of which every column has one; nil where G + D is not positive definite.
func New(g *mat.Dense, k int, blocks []Block) *Inverse {
	n, _ := g.Dims()
	s := &Inverse{k: k, g: g}
	c := make([]float64, n)
	for _, b := range blocks {
		for _, j := range b.Columns {
			c[j] = b.C
		}
		if b.U != nil {
			s.u = append(s.u, b)
		}
	}
	s.list()
	sum := mat.NewSymDense(n, nil)
	for i := range n {
		for j := i; j < n; j++ {
			sum.SetSym(i, j, g.At(i, j))
		}
		sum.SetSym(i, i, g.At(i, i)+c[i])
	}
	if s.root, s.Condition = rootOf(sum, onesOn(sum)); s.root == nil {
		return nil
	}
	s.M = mat.NewDense(n, n, nil)
	s.M.Mul(s.root, s.root.T())
	if len(s.u) == 0 {
		return s
	}
	s.f, s.p = mat.DenseCopyOf(s.M), mat.NewDense(n, n, nil)
	for i := range n {
		floats.Mul(s.f.RawRowView(i), c)
	}
	s.p.Mul(g, s.f)
	s.V = mat.NewDense(len(s.u), n*k, nil)
	for r, b := range s.u {
		row := s.V.RawRowView(r)
		for i, j := range b.Columns {
			for h := range n {
				floats.AddScaled(row[h*k:(h+1)*k], s.f.At(h, j), b.U[i*k:(i+1)*k])
			}
		}
	}
	small, condition := s.between(s.p), 0.0
	unit := onesOn(small)
	if s.small, condition = rootOf(small, unit); condition > 1/null {
		if condition = s.separate(small, unit); s.small == nil {
			return nil
		}
	}
	s.Condition *= condition
	s.T = new(mat.Dense)
	s.T.Mul(s.small, s.small.T())
	return s
}

// null is the largest eigenvalue, in units of the largest and of a matrix with ones on its diagonal, that counts as 0.
const null = 1e-10

// separate sets the root of T = A^+ for an A without an inverse, as rootOf takes it, and Null: V* z where A z is 0. It
// returns the condition number of what remains.
func (s *Inverse) separate(a *mat.SymDense, unit []float64) float64 {
	n := a.SymmetricDim()
	values, vectors, err := numerics.Eigen(a)
	if err != nil || !(values[n-1] > 0) {
		return math.Inf(1)
	}
	for i := range n {
		floats.Scale(unit[i], vectors.RawRowView(i))
	}
	zeros := sort.SearchFloat64s(values, null*values[n-1])
	if zeros == n {
		return math.Inf(1)
	}
	s.small = mat.NewDense(n, n, nil)
	for j := zeros; j < n; j++ {
		for i := range n {
			s.small.Set(i, j, vectors.At(i, j)/math.Sqrt(values[j]))
		}
	}
	if zeros > 0 {
		s.Null = new(mat.Dense)
		s.Null.Mul(vectors.Slice(0, n, 0, zeros).T(), s.V)
	}
	return values[n-1] / values[zeros]
}

// list makes the list of the columns with a u, and the products of these.
func (s *Inverse) list() {
	var all []float64
	for r, b := range s.u {
		for _, j := range b.Columns {
			s.columns, s.of = append(s.columns, j), append(s.of, r)
		}
		all = append(all, b.U...)
	}
	if len(s.columns) > 0 {
		u := mat.NewDense(len(s.columns), s.k, all)
		s.inner.Mul(u, u.T())
	}
}

// between is U* (X (x) I) U for a symmetric X.
func (s *Inverse) between(x *mat.Dense) *mat.SymDense {
	sum := mat.NewDense(len(s.u), len(s.u), nil)
	for a, i := range s.columns {
		row, inner, to := x.RawRowView(i), s.inner.RawRowView(a), sum.RawRowView(s.of[a])
		for b, j := range s.columns {
			to[s.of[b]] += row[j] * inner[b]
		}
	}
	return numerics.Symmetrized(sum.RawMatrix().Data, len(s.u))
}

// Traces are those of K^{-1} (G (x) I) and of its square.
func (s *Inverse) Traces() (trace, frobenius2 float64) {
	var mg, square mat.Dense
	mg.Mul(s.M, s.g)
	square.Mul(&mg, &mg)
	k := float64(s.k)
	trace, frobenius2 = k*mat.Trace(&mg), k*mat.Trace(&square)
	if len(s.u) == 0 {
		return trace, frobenius2
	}
	// K^{-1} (G (x) I) = MG (x) I + (F (x) I) U T U* (P (x) I), and F = I - MG.
	var pf, rest, first, both, cross mat.Dense
	pf.Mul(s.p, s.f)
	rest.Product(s.p, &mg, s.f)
	first.Mul(s.T, s.between(&pf))
	both.Mul(&first, &first)
	cross.Mul(s.T, s.between(&rest))
	return trace + mat.Trace(&first), frobenius2 + 2*mat.Trace(&cross) + mat.Trace(&both)
}

// Solve overwrites rows of x, one after the other, with those of x K^{-1}.
func (s *Inverse) Solve(x []float64, rows int) {
	images := s.corrections(x, rows)
	s.times(s.M, x, rows)
	if images != nil {
		n := len(x) / rows
		var z mat.Dense
		z.Mul(images, s.T)
		to := mat.NewDense(rows, n, x)
		blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, z.RawMatrix(), s.V.RawMatrix(), 1, to.RawMatrix())
	}
}

// Half are rows of x, one after the other, times W with W W* = K^{-1}; it overwrites x.
func (s *Inverse) Half(x []float64, rows int) *mat.Dense {
	images := s.corrections(x, rows)
	s.times(s.root.T(), x, rows)
	n := len(x) / rows
	whole := mat.NewDense(rows, n+len(s.u), nil)
	whole.Slice(0, rows, 0, n).(*mat.Dense).Copy(mat.NewDense(rows, n, x))
	if images != nil {
		whole.Slice(0, rows, n, n+len(s.u)).(*mat.Dense).Mul(images, s.small)
	}
	return whole
}

// Blocks are the diagonal blocks of (X (x) I) K^{-1} (X (x) I)*, of order k, row-major, for the rows x_i of X:
// (x_i* M x_i) I + Z_i* T Z_i, where Z_i is V (x_i (x) I).
func (s *Inverse) Blocks(x *mat.Dense) []float64 {
	d, n := x.Dims()
	k, b := s.k, len(s.u)
	out := make([]float64, d*k*k)
	var rooted *mat.Dense // of T V, by column
	if b > 0 {
		var z mat.Dense
		z.Mul(s.small.T(), s.V)
		rooted = mat.NewDense(n, b*k, nil)
		for r := range b {
			row := z.RawRowView(r)
			for j := range n {
				copy(rooted.RawRowView(j)[r*k:(r+1)*k], row[j*k:(j+1)*k])
			}
		}
	}
	fresh := func() *[2]mat.Dense { return new([2]mat.Dense) }
	_ = parallel.Each(parallel.Parts(d, parallel.Panel), fresh, func(part int, images *[2]mat.Dense) error {
		from := part * parallel.Panel
		end := min(from+parallel.Panel, d)
		some := x.Slice(from, end, 0, n)
		images[0].Reset()
		images[0].Mul(some, s.root)
		if images[1].Reset(); b > 0 {
			images[1].Mul(some, rooted)
		}
		for i := from; i < end; i++ {
			block := out[i*k*k : (i+1)*k*k]
			if b > 0 {
				z := mat.NewDense(b, k, images[1].RawRowView(i-from))
				mat.NewDense(k, k, block).Mul(z.T(), z)
			}
			row := images[0].RawRowView(i - from)
			v := floats.Dot(row, row)
			for r := range k {
				block[r*k+r] += v
			}
		}
		return nil
	})
	return out
}

// corrections are x V*.
func (s *Inverse) corrections(x []float64, rows int) *mat.Dense {
	if len(s.u) == 0 {
		return nil
	}
	images := new(mat.Dense)
	images.Mul(mat.NewDense(rows, len(x)/rows, x), s.V.T())
	return images
}

// times overwrites each row of x, a matrix of columns by outcomes, with A times it.
func (s *Inverse) times(a mat.Matrix, x []float64, rows int) {
	n, size := len(x)/rows/s.k, len(x)/rows
	_ = parallel.Each(rows, func() *mat.Dense { return mat.NewDense(n, s.k, nil) }, func(i int, to *mat.Dense) error {
		row := x[i*size : (i+1)*size]
		to.Mul(a, mat.NewDense(n, s.k, row))
		copy(row, to.RawMatrix().Data)
		return nil
	})
}

// onesOn scales A to ones on its diagonal, and returns what its rows and columns were multiplied by.
func onesOn(a *mat.SymDense) []float64 {
	unit := lists.Make(a.SymmetricDim(), func(i int) float64 { return numerics.OverRoot(a.At(i, i)) })
	numerics.ScaleSym(a, unit)
	return unit
}

// rootOf is an upper triangular W with W W* = A^{-1}, and the condition number of A with ones on its diagonal, as which
// it is given ([onesOn]); nil where A is not positive definite.
func rootOf(a *mat.SymDense, unit []float64) (*mat.Dense, float64) {
	n := a.SymmetricDim()
	var r mat.Cholesky
	if !r.Factorize(a) || math.IsInf(r.Cond(), 0) {
		return nil, math.Inf(1)
	}
	var upper, w mat.TriDense
	r.UTo(&upper)
	_ = w.InverseTri(&upper) // an error says no more than the condition number
	out := mat.NewDense(n, n, nil)
	for i := range n {
		for j := i; j < n; j++ {
			out.Set(i, j, unit[i]*w.At(i, j))
		}
	}
	return out, r.Cond()
}
