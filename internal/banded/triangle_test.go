package banded_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/internal/banded"
)

// stacked are rows below each other.
func stacked(a, b banded.Rows) banded.Rows {
	at := len(a.Indices)
	for _, p := range b.Indptr[1:] {
		a.Indptr = append(a.Indptr, at+p)
	}
	a.Indices, a.Values = append(a.Indices, b.Indices...), append(a.Values, b.Values...)
	return a
}

// The solution, the entries of the inverse and its norm are those of dense algebra, for rows in any
// order, gaps and weights.
func TestTriangle(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	for _, c := range []struct {
		n, order int
		weight   float64
		gaps     bool
	}{{1, 0, 1, false}, {5, 1, 2, false}, {30, 2, 1e3, true}, {40, 3, 1e-3, false}, {25, 4, 10, true},
		{9, 0, 3, false}, {3, 2, 5, false}, {40, 9, 0.1, false}} {
		eye := differences(c.n, 0)
		m := stacked(eye, differences(c.n, c.order))
		q := len(m.Indptr) - 1
		scale := make([]float64, q)
		for i := range scale {
			scale[i] = 1 + rng.Float64()
			if c.gaps && i > c.order && i < c.n-1 && i%3 != 0 {
				scale[i] = 0
			}
			if i >= c.n {
				scale[i] *= math.Sqrt(c.weight)
			}
		}
		x := mat.NewDense(q, c.n, nil)
		for i := range q {
			for u := m.Indptr[i]; u < m.Indptr[i+1]; u++ {
				x.Set(i, m.Indices[u], scale[i]*m.Values[u])
			}
		}
		var normal, z mat.Dense
		normal.Mul(x.T(), x)
		if err := z.Inverse(&normal); err != nil {
			t.Fatal(err)
		}
		r, ok := banded.NewStack(m, c.n).Triangle(scale)
		if !ok {
			t.Fatalf("%+v: not factorized", c)
		}
		g, want := make([]float64, c.n), 0.0
		for i := range g {
			g[i] = rng.Float64()
		}
		inverse, diagonal := r.Inverse(g, true), r.Inverse(g, false)
		for i := range c.n {
			for j := range c.n {
				want += g[i] * g[j] * z.At(i, j) * z.At(i, j)
				if max(i-j, j-i) > c.order {
					continue
				}
				if got := inverse.At(i, j); math.Abs(got-z.At(i, j)) > 1e-10*mat.Norm(&z, 2) {
					t.Errorf("%+v: entry %d, %d of the inverse is %g, expected %g", c, i, j, got, z.At(i, j))
				}
			}
		}
		if got := inverse.Frobenius2; math.Abs(got-want) > 1e-10*want || diagonal.Frobenius2 != got ||
			diagonal.At(0, 0) != inverse.At(0, 0) {
			t.Errorf("%+v: a squared norm of %g, expected %g", c, got, want)
		}
		rhs, each := mat.NewDense(c.n, 6, nil), make([][]float64, 6)
		for k := range each {
			each[k] = make([]float64, c.n)
			for i := range each[k] {
				each[k][i] = rng.NormFloat64()
			}
			rhs.SetCol(k, each[k])
		}
		var solved mat.Dense
		solved.Mul(&z, rhs)
		r.Solve(each)
		for k, got := range each {
			for i, v := range got {
				if math.Abs(v-solved.At(i, k)) > 1e-10*mat.Norm(&solved, 2) {
					t.Errorf("%+v: entry %d of solution %d is %g, expected %g", c, i, k, v, solved.At(i, k))
				}
			}
		}
	}
}

// A matrix without full rank has no factor.
func TestTriangleOfDependentColumns(t *testing.T) {
	m := differences(10, 2)
	scale := make([]float64, 8)
	for i := range scale {
		scale[i] = 1e6
	}
	if _, ok := banded.NewStack(m, 10).Triangle(scale); ok {
		t.Error("second differences alone determine no sequence, but were factorized")
	}
}
