package banded_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/internal/banded"
	"surepipe/space/spacetest"
)

func differences(n, order int) banded.Rows { return banded.Rows(spacetest.Differences(n, order)) }

// The solution is that of dense algebra, also where the elimination exchanges rows.
func TestSolve(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, c := range []struct {
		n, order int
		c        float64
	}{{1, 0, 1}, {5, 1, 2}, {20, 3, 1}, {40, 2, 1e-6}, {30, 0, 0.5}, {650, 2, 1e-6}} {
		k := differences(c.n, c.order)
		q := c.n - c.order
		d := make([]float64, q)
		for i := range d {
			d[i] = math.Exp(20 * (rng.Float64() - 0.7))
		}
		n := c.n + q
		diagonal := make([]float64, c.n)
		m, rhs := mat.NewDense(n, n, nil), mat.NewVecDense(n, nil)
		for j := range c.n {
			if j%5 != 2 { // the others are missing
				diagonal[j] = c.c
			}
			m.Set(j, j, diagonal[j])
		}
		for i := range q {
			m.Set(c.n+i, c.n+i, -d[i])
			for u := k.Indptr[i]; u < k.Indptr[i+1]; u++ {
				m.Set(c.n+i, k.Indices[u], k.Values[u])
				m.Set(k.Indices[u], c.n+i, k.Values[u])
			}
		}
		for i := range n {
			rhs.SetVec(i, rng.NormFloat64())
		}
		s := banded.New(k, c.n)
		if most := 2*c.order + 2; s.Width() > most {
			t.Errorf("%+v: a band of %d, expected at most %d", c, s.Width(), most)
		}
		var f banded.LU
		x := append([]float64(nil), rhs.RawVector().Data...)
		if !s.Factorize(&f, diagonal, d) {
			t.Fatalf("%+v: not factorized", c)
		}
		f.Solve(x[:c.n], x[c.n:], make([]float64, n))
		var rest mat.VecDense
		rest.MulVec(m, mat.NewVecDense(n, x))
		rest.SubVec(&rest, rhs)
		if off := mat.Norm(&rest, 2); !(off < 1e-12*(1+mat.Norm(m, 2)*mat.Norm(mat.NewVecDense(n, x), 2))) {
			t.Errorf("%+v: the residual is %g", c, off)
		}
	}
}

// A matrix without an inverse has no factors.
func TestSingular(t *testing.T) {
	twice := banded.Rows{Indptr: []int{0, 2, 4}, Indices: []int{0, 1, 0, 1}, Values: []float64{1, -1, 1, -1}}
	var f banded.LU
	if banded.New(twice, 2).Factorize(&f, nil, []float64{0, 0}) && f.Least() > 1e-15 {
		t.Errorf("two equal rows were factorized, with a pivot of %g", f.Least())
	}
}

// The projection of a sequence on straight lines.
func Example() {
	k := banded.Rows{Indptr: []int{0, 3, 6}, Indices: []int{0, 1, 2, 1, 2, 3}, Values: []float64{1, -2, 1, 1, -2, 1}}
	s := banded.New(k, 4)
	var f banded.LU
	s.Factorize(&f, nil, []float64{0, 0})
	x := []float64{0, 1, 2, 7}
	f.Solve(x, make([]float64, 2), make([]float64, 6))
	fmt.Printf("%.1f\n", x)
	// Output: [-0.8 1.4 3.6 5.8]
}

// A right-hand side takes hardly any memory but the caller's: none for the numbers under way.
func TestSolveTakesTheMemoryThatItIsGiven(t *testing.T) {
	const n, times = 100, 100
	k := differences(n, 2)
	d := make([]float64, n-2)
	for i := range d {
		d[i] = 1
	}
	var f banded.LU
	if !banded.New(k, n).Factorize(&f, nil, d) {
		t.Fatal("not factorized")
	}
	x, z, work := make([]float64, n), make([]float64, n-2), make([]float64, 2*n-2)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range times {
		f.Solve(x, z, work)
	}
	runtime.ReadMemStats(&after)
	if taken := (after.TotalAlloc - before.TotalAlloc) / times; taken > 512 {
		t.Errorf("a solve takes %d bytes", taken)
	}
}
