package manifold

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"surepipe/array"
	"surepipe/internal/numerics"
	"surepipe/linops"
	"surepipe/prox"
	"surepipe/solve/engine"
	"surepipe/solve/internal/limits"
	"surepipe/solve/restrict"
	"surepipe/space"
)

// manifoldSystem solves (E*(H + Q)E + ridge I) u = g on the tangent space of a model, with H = A*A,
// by Cholesky's method. It belongs to one solve.
type manifoldSystem struct {
	dev  array.Device
	a    linops.Operator
	gram *restrict.Gram
	k    []float64 // the matrix, n x n, and then its factor
	unit []float64 // 1/sqrt of its diagonal
}

// solvable reports that the model has a system of a size that is factorized.
func solvable(m *prox.Model) bool {
	if m == nil {
		return false
	}
	_, n := m.Space.Dims()
	f := m.Space.Form()
	return n > 0 && n <= limits.MostFactored && f.Orthonormal && f.Kind != space.FixedRank
}

// columnsIn lists the columns of A whose Gram matrix gives that of a space; ok is false where
// products with a basis of the space give it.
func columnsIn(f space.Form, p int) (set []int, ok bool) {
	switch f.Kind {
	case space.Whole:
		set = make([]int, p)
		for j := range set {
			set[j] = j
		}
		return set, true
	case space.Subset:
		return f.Set, true
	case space.Cluster:
		set = f.Average().Indices
		slices.Sort(set)
		return set, len(set) <= limits.MostFactored
	}
	return nil, false
}

// assemble sets k = E*(H + Q)E, and reports false where Q is not known as a matrix.
func (s *manifoldSystem) assemble(m *prox.Model) bool {
	p, n := m.Space.Dims()
	f := m.Space.Form()
	if cap(s.k) < n*n {
		s.k = make([]float64, n*n+n*n/4)
	}
	s.k = s.k[:n*n]
	set, ok := columnsIn(f, p)
	switch {
	case !ok:
		op, _ := linops.On(s.dev, s.a, m.Space)
		defer op.Release() // also where A panics
		copy(s.k, linops.GramOf(s.dev, op))
	case f.Kind == space.Cluster:
		s.gram.Extend(set)
		s.gram.Averaged(s.k, f.Average())
	default:
		s.gram.Extend(set)
		s.gram.On(s.k, set)
	}
	if m.Curvature == nil {
		return true
	}
	if diagonal := m.Curvature.Diagonal(); diagonal != nil {
		for i, q := range diagonal {
			s.k[i*n+i] += q
		}
		return true
	}
	q := m.Curvature.Matrix()
	for i, v := range q {
		s.k[i] += v
	}
	return q != nil
}

// leastRidge is the ridge, in units of the diagonal times rounding errors, with which a singular
// matrix is factorized.
const leastRidge = 2

// factorize replaces k + ridge I by its factor; the diagonal is scaled to ones. A matrix that is
// singular to rounding gets a larger ridge.
func (s *manifoldSystem) factorize(n int, ridge float64) bool {
	if cap(s.unit) < n {
		s.unit = make([]float64, n)
	}
	s.unit = s.unit[:n]
	for i := range n {
		s.unit[i] = numerics.OverRoot(s.k[i*n+i] + ridge)
	}
	least := leastRidge * float64(n) * engine.Epsilon
	for i := range n {
		row := s.k[i*n : (i+1)*n]
		for c := i + 1; c < n; c++ {
			row[c] *= s.unit[i] * s.unit[c]
		}
	}
	for i := range n { // the lower triangle keeps the matrix
		for c := range i {
			s.k[i*n+c] = s.k[c*n+i]
		}
	}
	upper := blas64.Symmetric{Uplo: blas.Upper, N: n, Stride: n, Data: s.k}
	_, ok := numerics.RidgedCholesky(upper, 32*least, 0, func(more float64) {
		for i := range n {
			for c := i; c < n && more > 0; c++ {
				s.k[i*n+c] = s.k[c*n+i]
			}
			s.k[i*n+i] = 1 + least + more
		}
	})
	return ok
}

func (s *manifoldSystem) solve(g []float64) {
	n := len(g)
	for i := range g {
		g[i] *= s.unit[i]
	}
	r := blas64.Triangular{Uplo: blas.Upper, Diag: blas.NonUnit, N: n, Stride: n, Data: s.k}
	v := blas64.Vector{N: n, Inc: 1, Data: g}
	blas64.Trsv(blas.Trans, r, v)
	blas64.Trsv(blas.NoTrans, r, v)
	for i := range g {
		g[i] *= s.unit[i]
	}
}

// step sets dst = -E (E*(H + Q)E + ridge I)^{-1} E* g; false where the system has no solution.
func (s *manifoldSystem) step(dst, g array.Batch, m *prox.Model, ridge float64) bool {
	_, n := m.Space.Dims()
	if !s.assemble(m) || !s.factorize(n, ridge) {
		return false
	}
	c := s.dev.Alloc(1, n)
	defer c.Free()
	m.Space.Coordinates(c, g)
	host := c.ToHost()
	s.solve(host)
	for i, v := range host {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return false
		}
		host[i] = -v
	}
	s.dev.Upload(c, host)
	m.Space.Embed(dst, c)
	return true
}
