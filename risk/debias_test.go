package risk_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"surepipe/internal/lists"
	"surepipe/risk"
)

func debias(t *testing.T, x *mat.Dense, residual []float64) (*risk.LeastSquares, risk.Debiased) {
	t.Helper()
	_, p := x.Dims()
	l, err := risk.NewLeastSquares(x, lists.Upto(p), 0)
	if err != nil {
		t.Fatal(err)
	}
	return l, l.Debias(residual)
}

// Whatever b is, the debiased estimate is that of least squares, with its variances, the diagonal of
// (X* X)^{-1}.
func TestDebiasedIsLeastSquares(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const d, p = 30, 6
	x, y, b := mat.NewDense(d, p, nil), mat.NewVecDense(d, nil), mat.NewVecDense(p, nil)
	for i := range d {
		y.SetVec(i, rng.NormFloat64())
		for j := range p {
			x.Set(i, j, rng.NormFloat64()*math.Pow(100, float64(j-3)))
		}
	}
	for j := range p {
		b.SetVec(j, rng.NormFloat64()/math.Pow(100, float64(j-3)))
	}
	var residual, ols mat.VecDense
	residual.MulVec(x, b)
	residual.SubVec(y, &residual)
	if err := ols.SolveVec(x, y); err != nil && ols.Len() != p {
		t.Fatal(err)
	}
	full, debiased := debias(t, x, residual.RawVector().Data)
	shift, variance := debiased.Shift, debiased.Variance
	if rank := floats.Sum(full.Leverages); math.Abs(rank-float64(p)) > 1e-8 {
		t.Errorf("the leverages sum up to %g, of %d columns", rank, p)
	}
	for j := range p {
		// The score: what the other columns leave of column j.
		others := mat.NewDense(d, p-1, nil)
		for k, at := 0, 0; k < p; k++ {
			if k != j {
				others.SetCol(at, mat.Col(nil, k, x))
				at++
			}
		}
		var c, z mat.VecDense
		if err := c.SolveVec(others, x.ColView(j)); err != nil && c.Len() != p-1 {
			t.Fatal(err)
		}
		z.MulVec(others, &c)
		z.SubVec(x.ColView(j), &z)
		size := mat.Dot(&z, &z)
		if got := b.AtVec(j) + shift[j]; math.Abs(got-ols.AtVec(j)) > 1e-8*(math.Abs(got)+math.Abs(b.AtVec(j))) {
			t.Errorf("coefficient %d is %g, least squares %g", j, got, ols.AtVec(j))
		}
		if math.Abs(variance[j]*size-1) > 1e-8 {
			t.Errorf("variance %d is %g, expected %g", j, variance[j], 1/size)
		}
		// The variance by residuals, and by the leverages that refits without an observation have.
		robust := 0.0
		for i := range d {
			e := y.AtVec(i) - mat.Dot(x.RowView(i), &ols)
			robust += math.Pow(z.AtVec(i)/size*e/(1-full.Leverages[i]), 2)
		}
		if math.Abs(debiased.Robust[j]/robust-1) > 1e-7 {
			t.Errorf("variance %d by residuals is %g, expected %g", j, debiased.Robust[j], robust)
		}
		// Without degrees of freedom the formula for any score is the same.
		if s, se, _ := risk.DebiasByScores(z.RawVector().Data, mat.Col(nil, j, x), residual.RawVector().Data,
			0); math.Abs(s-shift[j]) > 1e-8*(math.Abs(s)+math.Abs(b.AtVec(j))) ||
			math.Abs(se*se/(mat.Dot(&residual, &residual)/d*variance[j])-1) > 1e-8 {
			t.Errorf("by scores: %g ± %g, expected %g", s, se, shift[j])
		}
	}
}

func TestDebiasRefuses(t *testing.T) {
	for name, x := range map[string]*mat.Dense{
		"square":    mat.NewDense(2, 2, []float64{1, 0, 0, 1}),
		"dependent": mat.NewDense(3, 2, []float64{1, 2, 2, 4, 3, 6}),
		"zero":      mat.NewDense(3, 1, nil),
	} {
		_, p := x.Dims()
		if _, err := risk.NewLeastSquares(x, lists.Upto(p), 0); !errors.Is(err, risk.ErrNotIdentified) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if s, se, robust := risk.DebiasByScores([]float64{1}, []float64{1}, []float64{1}, 1); !math.IsNaN(s) ||
		!math.IsNaN(se) || !math.IsNaN(robust) {
		t.Errorf("df = d: %g, %g, %g", s, se, robust)
	}
	// By hand: residuals of equal size make the two errors one, and others weigh by their squares.
	for e, want := range map[[2]float64]float64{{3, -3}: 3 * math.Sqrt(5) / 2.5, {3, 0}: 3 / 2.5} {
		if _, _, robust := risk.DebiasByScores([]float64{1, 2}, []float64{1, 2}, e[:], 1); math.Abs(robust-want) > 1e-12 {
			t.Errorf("residuals %g: the error by them is %g, expected %g", e, robust, want)
		}
	}
}

// The only row of a level is met by the fit whatever it is, and has the variance of all: what rounding leaves of its
// residual says nothing.
func TestErrorsByResidualsOfALoneRow(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	const d, p = 40, 4
	x, y := mat.NewDense(d, p, nil), make([]float64, d)
	for i := range d {
		y[i] = 100 + rng.NormFloat64()
		for j := range p - 1 {
			x.Set(i, j, rng.NormFloat64())
		}
	}
	x.Set(7, p-1, 3)
	_, b := debias(t, x, y)
	squares := 0.0
	for i, e := range b.Residual {
		if i != 7 {
			squares += e * e
		}
	}
	if least := squares / (d - p) / 9; !(b.Robust[p-1] > least*0.9999 && b.Robust[p-1] < 2*least) {
		t.Errorf("variance %g, expected at least that of the row's own noise, %g", b.Robust[p-1], least)
	}
	without, left := mat.NewDense(d-1, p-1, nil), slices.Delete(slices.Clone(y), 7, 8)
	for i := range d - 1 {
		from := i
		if i >= 7 {
			from++
		}
		without.SetRow(i, x.RawRowView(from)[:p-1])
	}
	_, rest := debias(t, without, left)
	for j, v := range rest.Robust {
		if math.Abs(b.Robust[j]/v-1) > 1e-8 {
			t.Errorf("variance %d is %g with the row, and %g without it", j, b.Robust[j], v)
		}
	}
}
