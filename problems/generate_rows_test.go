package problems_test

import (
	"errors"
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/problems"
)

// The weight is a tenth of its maximum at the independent sample -1, and the matrix in memory has the rows.
func TestLassoRowsAreThoseInMemory(t *testing.T) {
	const d, p = 30, 70
	whole, err := problems.GenerateLasso(d, p, 3)
	if err != nil {
		t.Fatal(err)
	}
	var x []float64
	data, err := problems.LassoRows{D: d, P: p, Seed: 3}.Draw(func(row []float64) error {
		x = append(x, row...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(x, whole.X.(*mat.Dense).RawMatrix().Data) {
		t.Error("X differs from that in memory")
	}
	var g mat.VecDense
	g.MulVec(whole.X.T(), mat.NewVecDense(d, problems.Sample(whole.Mu, *whole.Sigma2, 3, -1)))
	if want := 0.1 * mat.Norm(&g, math.Inf(1)); math.Abs(*data.Lambda-want) > 1e-12*want {
		t.Errorf("lambda %g, want %g", *data.Lambda, want)
	}
	// mu is that of the rounded X and of the asked number of coefficients.
	x = x[:0]
	data, err = problems.LassoRows{D: d, P: p, Nonzeros: 4, Single: true, Seed: 3}.Draw(func(row []float64) error {
		x = append(x, row...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	ratio := data.Mu[0] / (x[0] + x[1] + x[2] + x[3])
	for i, m := range data.Mu {
		row := x[i*p:][:p]
		if sum := row[0] + row[1] + row[2] + row[3]; math.Abs(m-ratio*sum) > 1e-12*math.Abs(ratio) {
			t.Fatalf("mu_%d is %g, want %g", i, m, ratio*sum)
		}
		for _, v := range row {
			if v != float64(float32(v)) {
				t.Fatalf("%g is no float32", v)
			}
		}
	}
	full := errors.New("full")
	if _, err := (problems.LassoRows{D: d, P: p}).Draw(func([]float64) error { return full }); err != full {
		t.Errorf("found %v, want the error of writing", err)
	}
	for _, l := range []problems.LassoRows{{D: 0, P: 1}, {D: 1, P: 3, Nonzeros: 4}} {
		if _, err := l.Draw(nil); err == nil {
			t.Errorf("%+v has no error", l)
		}
	}
}
