package noise

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// White noise about a low rank, strong, weak or among the noise, is even and has no outliers, also where some columns
// have signal of full rank; noise that grows over the columns or the rows is told, and so are a column without any, and
// entries that are far off.
func TestNoiseOfAMatrixOfLowRank(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 5))
	for _, shape := range [][2]int{{200, 60}, {60, 200}, {30, 25}} {
		m, n := shape[0], shape[1]
		for _, scale := range []float64{0.1, 1, 10} {
			sigma2 := 0.0
			draw := func(noise func(i, j int) float64) (Uneven, []int) {
				u, v, y := mat.NewDense(m, 4, nil), mat.NewDense(4, n, nil), mat.NewDense(m, n, nil)
				u.Apply(func(_, k int, _ float64) float64 { return scale * rng.NormFloat64() * float64(k) }, u)
				v.Apply(func(_, _ int, _ float64) float64 { return rng.NormFloat64() }, v)
				y.Mul(u, v)
				y.Apply(func(i, j int, v float64) float64 { return v + noise(i, j) }, y)
				found, at, _ := Matrix{y.RawMatrix().Data, m, n}.Uneven(sigma2)
				return found, at
			}
			for range 20 {
				if u, at := draw(func(_, _ int) float64 { return rng.NormFloat64() }); u.By != "" || at != nil {
					t.Errorf("%d x %d: white noise is %+v, with outliers at %v", m, n, u, at)
				}
				sigma2 = 1
				signal := func(_, j int) float64 { return rng.NormFloat64() + 2*float64(j%2)*rng.NormFloat64() }
				if u, _ := draw(signal); u.By != "" {
					t.Errorf("%d x %d: white noise with signal in every other column is %+v", m, n, u)
				}
				sigma2 = 0
			}
			sigma2 = 15.3*15.3 + 30*30/12
			columns := func(_, j int) float64 { return (0.3 + 30*float64(j)/float64(n)) * rng.NormFloat64() }
			if u, _ := draw(columns); u.By != ByColumn || !(u.Greatest > 3*u.Least) || u.GreatestAt < u.LeastAt {
				t.Errorf("%d x %d: noise that grows over the columns is %+v", m, n, u)
			}
			rows := func(i, _ int) float64 { return (0.3 + 30*float64(i)/float64(m)) * rng.NormFloat64() }
			if u, _ := draw(rows); u.By != ByRow || !(u.Greatest > 3*u.Least) || u.GreatestAt < u.LeastAt {
				t.Errorf("%d x %d: noise that grows over the rows is %+v", m, n, u)
			}
			sigma2 = 0
			if _, at := draw(func(i, j int) float64 {
				if i == 7 && j == 5 {
					return 1e4
				}
				return rng.NormFloat64()
			}); len(at) != 1 || at[0] != 7*n+5 {
				t.Errorf("%d x %d: a single outlier is at %v", m, n, at)
			}
			if m*n < 1000 {
				continue
			}
			if _, at := draw(func(i, j int) float64 {
				if rng.Float64() < 0.05 {
					return 10
				}
				return rng.NormFloat64()
			}); len(at) < m*n/50 {
				t.Errorf("%d x %d, scale %g: %d outliers, expected about %d", m, n, scale, len(at), m*n/20)
			}
		}
	}
}

func TestAColumnOfAMatrixWithoutNoise(t *testing.T) {
	rng, y := rand.New(rand.NewPCG(3, 5)), make([]float64, 60*30)
	for i := range y {
		if i%30 != 7 {
			y[i] = rng.NormFloat64()
		}
	}
	if u, _, _ := (Matrix{y, 60, 30}).Uneven(1); u.By != ByColumn || u.LeastAt != 7 || u.Least != 0 {
		t.Errorf("a column of zeros among white noise is %+v", u)
	}
}

func TestErrorsOfFewEntriesSayNothing(t *testing.T) {
	if u, tails := UnevenEntries([]float64{1, math.NaN(), 1}, []int{0, 3, 5}, 2, 3, 1); u.By != "" || tails != 0 {
		t.Errorf("of three entries %+v, %g", u, tails)
	}
}
