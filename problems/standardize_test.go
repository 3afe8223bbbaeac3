package problems_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/problems"
)

// standardizedByHand is x with its columns divided by their standard deviations, and these.
func standardizedByHand(x *mat.Dense) (*mat.Dense, []float64) {
	d, p := x.Dims()
	z, s := mat.NewDense(d, p, nil), make([]float64, p)
	for j := range p {
		column := mat.Col(nil, j, x)
		s[j] = stat.PopStdDev(column, nil)
		if s[j] == 0 {
			s[j] = 1
		}
		for i, v := range column {
			z.Set(i, j, v/s[j])
		}
	}
	return z, s
}

// Standardized columns give the estimate, the maximum of the weight and, in the units of the original
// columns, the coefficients of the problem whose columns are divided by their standard deviations
// beforehand: dense and sparse, small and large, with and without an intercept.
func TestStandardizedColumnsAreTheirDeviationsApart(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		arraytest.NoLeak(t, dev)
		for _, size := range [][2]int{{40, 12}, {330, 200}} { // the second is centered by products
			rng := rand.New(rand.NewPCG(5, uint64(size[0])))
			x := mat.NewDense(size[0], size[1], nil)
			for i := range size[0] {
				for j := range size[1] {
					if rng.IntN(4) == 0 {
						x.Set(i, j, (1+rng.NormFloat64())*math.Pow(10, float64(j%5)-2))
					}
				}
			}
			for i := range size[0] {
				x.Set(i, 3, 0) // a constant column
			}
			y := make([]float64, size[0])
			for i := range y {
				y[i] = 3 + rng.NormFloat64() + 20*x.At(i, 1)
			}
			z, s := standardizedByHand(x)
			for _, intercept := range []bool{true, false} {
				hyper := problems.Hyper{Lambda: problems.OfMax(0.2)}
				want, wantMu := estimateOf(t, dev, problems.Data{X: z, Y: y, Intercept: intercept}, hyper)
				for _, data := range []problems.Data{{X: x}, {X: problems.Matrix{Sparse: sparsely(x)}}} {
					data.Y, data.Intercept, data.Standardize = y, intercept, true
					got, gotMu := estimateOf(t, dev, data, hyper)
					for i := range gotMu {
						if math.Abs(gotMu[i]-wantMu[i]) > 1e-8*(1+math.Abs(wantMu[i])) {
							t.Fatalf("%v, intercept %t, sparse %t: mu_hat[%d] is %g, expected %g", size, intercept,
								data.X != mat.Matrix(x), i, gotMu[i], wantMu[i])
						}
					}
					for j := range got {
						if v := want[j] / s[j]; math.Abs(got[j]-v) > 1e-7*(1/s[j]+math.Abs(v)) {
							t.Errorf("%v, intercept %t, sparse %t: coefficient %d is %g, expected %g", size,
								intercept, data.X != mat.Matrix(x), j, got[j], v)
						}
					}
				}
			}
		}
	})
}

// estimateOf returns the LASSO's coefficients in the units of the columns, and mu_hat made of them.
func estimateOf(t *testing.T, dev array.Device, data problems.Data, hyper problems.Hyper) (b, mu []float64) {
	t.Helper()
	p, err := problems.New("lasso", dev, data, hyper)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Release()
	scaled, fitted := solution(t, dev, p, data.Y)
	b = p.Coefficients(scaled)
	b0, ok := p.Intercept(fitted, scaled)
	if ok != data.Intercept {
		t.Fatalf("intercept %t", ok)
	}
	x := mat.DenseCopyOf(data.X)
	mu = make([]float64, len(fitted))
	for i := range mu {
		mu[i] = b0 + mat.Dot(mat.NewVecDense(len(b), b), x.RowView(i))
		if math.Abs(mu[i]-fitted[i]) > 1e-9*(1+math.Abs(mu[i])) {
			t.Fatalf("mu_hat[%d] is %g, but %g from the coefficients", i, fitted[i], mu[i])
		}
	}
	return b, mu
}

// Columns have units only in a matrix.
func TestStandardizeIsRefusedWhereItHasNoPlace(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		arraytest.NoLeak(t, dev)
		_, err := problems.New("svt", dev, problems.Data{Y: []float64{1, 2, 3, 4}, YShape: []int{2, 2},
			Standardize: true}, problems.Hyper{Lambda: problems.Absolute(1)})
		if err == nil || !strings.Contains(err.Error(), "columns are asked for, but svt cannot have that") {
			t.Errorf("error %v", err)
		}
		for text, want := range map[string]string{
			"data: {y: [1, 2, 3, 4]}\noperator: identity\nstandardize: true\nregularizer: {l1: 1}\n": "problem.yaml:2: standardized columns are asked for, but the operator is not a matrix",
		} {
			data, err := load(t, t.TempDir(), text)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := problems.New("", dev, data, problems.Hyper{}); err == nil ||
				!strings.Contains(err.Error(), want) {
				t.Errorf("error %v, expected %s", err, want)
			}
		}
		if _, err := load(t, t.TempDir(), "data: {y: [1, 2]}\noperator: identity\nintercept: yes "+
			"please\nregularizer: {l1: 1}\n"); err == nil ||
			!strings.Contains(err.Error(), "problem.yaml:3: intercept is \"yes please\"") {
			t.Errorf("error %v", err)
		}
	})
}

// Constant columns have the standard deviation 0, and those of a sparse matrix are those of the dense one.
func TestSpread(t *testing.T) {
	x := mat.NewDense(4, 3, []float64{0, 0.1, 7, 10, 0.1, 7, 0, 0.1, 9, 10, 0.1, 9})
	for _, data := range []problems.Data{{X: x}, {X: problems.Matrix{Sparse: sparsely(x)}}} {
		means, deviations := problems.Spread(data)
		if !slices.Equal(means, []float64{5, 0.1, 8}) || !slices.Equal(deviations, []float64{5, 0, 1}) {
			t.Errorf("means %v, standard deviations %v", means, deviations)
		}
	}
}
