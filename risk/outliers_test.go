package risk_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/internal/lists"
	"surepipe/risk"
)

// One or two wrong values are told, with what refits without them predict; noise with a heavy tail is not.
func TestOutliersOfARegression(t *testing.T) {
	const n, p = 60, 5
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 11))
		x, y := mat.NewDense(n, p, nil), make([]float64, n)
		for i := range n {
			squares := 0.0
			for range 5 {
				z := rng.NormFloat64()
				squares += z * z / 5
			}
			y[i] = rng.NormFloat64() / math.Sqrt(squares) // Student's t of 5 degrees
			for j := range p {
				x.Set(i, j, rng.NormFloat64())
				y[i] += x.At(i, j)
			}
		}
		l, err := risk.NewLeastSquares(x, lists.Upto(p), 0)
		if err != nil {
			t.Fatal(err)
		}
		if found := l.Outliers(l.Residuals(y)); len(found) > 0 {
			t.Errorf("seed %d: %+v", seed, found)
		}
		for wrong := 1; wrong <= 2; wrong++ {
			y[10*wrong] += 200
			found := l.Outliers(l.Residuals(y))
			if len(found) != wrong {
				t.Errorf("seed %d: %d wrong values, found %+v", seed, wrong, found)
				continue
			}
			if wrong > 1 {
				continue
			}
			others, left := mat.NewDense(n-1, p, nil), make([]float64, 0, n-1)
			for i := range n {
				if i != found[0].At {
					others.SetRow(len(left), x.RawRowView(i))
					left = append(left, y[i])
				}
			}
			var b mat.VecDense
			if err := b.SolveVec(others, mat.NewVecDense(n-1, left)); err != nil {
				t.Fatal(err)
			}
			want := y[10] - mat.Dot(x.RowView(10), &b)
			if found[0].At != 10 || math.Abs(found[0].Residual/want-1) > 1e-9 {
				t.Errorf("seed %d: %+v, expected %g in row 10", seed, found[0], want)
			}
		}
	}
}

// A wrong value is told where all others are on the plane, up to rounding errors.
func TestOutlierOfAnExactRelation(t *testing.T) {
	const n, wrong = 40, 7
	x, y := mat.NewDense(n, 2, nil), make([]float64, n)
	for i := range n {
		x.SetRow(i, []float64{float64(i*i%17) / 3, float64(i*5%11) / 7})
		y[i] = 2*x.At(i, 0) - x.At(i, 1)
	}
	y[wrong] += 3
	l, err := risk.NewLeastSquares(x, lists.Upto(2), 0)
	if err != nil {
		t.Fatal(err)
	}
	found := l.Outliers(l.Residuals(y))
	if len(found) != 1 || found[0].At != wrong || math.Abs(found[0].Residual-3) > 1e-9 {
		t.Errorf("found %+v, expected 3 in row %d", found, wrong)
	}
}
