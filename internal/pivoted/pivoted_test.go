package pivoted_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/internal/pivoted"
)

// The third column is the sum of the first two: two directions count, and the projection on them
// has trace 2.
func Example() {
	m := mat.NewDense(4, 3, []float64{1, 0, 1, 0, 1, 1, 1, 1, 2, 1, -1, 0})
	f := pivoted.Factorize(m, nil, mat.Norm(m, 2), 0)
	trace, _, _ := f.Traces(f.Rank)
	fmt.Printf("rank %d, trace %.3f\n", f.Rank, trace)
	// Output:
	// rank 2, trace 2.000
}

func random(rng *rand.Rand, d, n int) *mat.Dense {
	x := mat.NewDense(d, n, nil)
	x.Apply(func(_, _ int, _ float64) float64 { return rng.NormFloat64() }, x)
	return x
}

// D, its traces and the basic solution agree with the normal equations, also where rows differ in
// size by many orders of magnitude.
func TestFactorSolvesThePenalizedProblem(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, size := range [][2]int{{9, 4}, {4, 9}, {6, 6}} {
		d, n := size[0], size[1]
		m, w := random(rng, d, n), random(rng, n, n)
		var normal, inverse, left, want mat.Dense
		normal.Mul(m.T(), m)
		var square mat.Dense
		square.Mul(w.T(), w)
		normal.Add(&normal, &square)
		if err := inverse.Inverse(&normal); err != nil {
			t.Fatal(err)
		}
		left.Mul(&inverse, m.T())
		want.Mul(m, &left)
		f := pivoted.Factorize(m, w, mat.Norm(m, 2), 0)
		if f.Rank != n || f.Sure != n || !(f.Margin > 1) || !(f.Least() > 0) {
			t.Fatalf("rank %d, of which %d sure, margin %g", f.Rank, f.Sure, f.Margin)
		}
		var got, solution mat.Dense
		got.Mul(f.Q, f.Q.T())
		solution.Mul(f.Solution(), f.Q.T())
		trace, frobenius2, all := f.Traces(f.Rank)
		for _, c := range []struct{ got, want float64 }{
			{trace, mat.Trace(&want)}, {all, trace}, {frobenius2, math.Pow(mat.Norm(&want, 2), 2)},
		} {
			if math.Abs(c.got-c.want) > 1e-10 {
				t.Errorf("%d x %d: trace or norm %g, want %g", d, n, c.got, c.want)
			}
		}
		got.Sub(&got, &want)
		solution.Sub(&solution, &left)
		if e := max(mat.Norm(&got, 2), mat.Norm(&solution, 2)); e > 1e-10 {
			t.Errorf("%d x %d: off by %g", d, n, e)
		}
	}
}

// A column that depends on the others up to rounding is left out, one that does so up to less than
// the doubt is in doubt, and nothing is left of a matrix of zeros.
func TestFactorDecidesTheRank(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	m := random(rng, 8, 4)
	for i := range 8 {
		m.Set(i, 3, m.At(i, 0)+m.At(i, 1)+1e-7*rng.NormFloat64())
	}
	norm := mat.Norm(m, 2)
	if f := pivoted.Factorize(m, nil, norm, 0); f.Rank != 4 || f.Sure != 4 {
		t.Errorf("rank %d, of which %d sure", f.Rank, f.Sure)
	}
	if f := pivoted.Factorize(m, nil, norm, 1e-4); f.Rank != 4 || f.Sure != 3 {
		t.Errorf("rank %d, of which %d sure beside a doubt of 1e-4", f.Rank, f.Sure)
	}
	m.SetCol(3, mat.Col(nil, 0, m))
	if f := pivoted.Factorize(m, nil, norm, 0); f.Rank != 3 {
		t.Errorf("rank %d with two equal columns", f.Rank)
	}
	if f := pivoted.Factorize(mat.NewDense(3, 2, nil), nil, 1, 0); f.Rank != 0 || f.Q != nil ||
		!math.IsInf(f.Margin, 1) {
		t.Errorf("rank %d of a matrix of zeros, margin %g", f.Rank, f.Margin)
	}
	scaled := pivoted.ScaleColumns(mat.NewDense(1, 2, []float64{2, 3}), []float64{10, 100})
	if scaled.At(0, 0) != 20 || scaled.At(0, 1) != 300 {
		t.Errorf("scaled columns %v", scaled.RawMatrix().Data)
	}
}
