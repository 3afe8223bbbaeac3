package pipeline_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/internal/dataio"
	"surepipe/linops"
	"surepipe/linops/additive"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/prox"
	"surepipe/solve/rewrite"
	"surepipe/vjp"
)

// regression is data whose columns and response have means far from 0; a third of X is 0.
func regression(d, p int) problems.Data {
	rng := rand.New(rand.NewPCG(8, 9))
	data := problems.Data{X: mat.NewDense(d, p, nil), Y: make([]float64, d), Intercept: true}
	for i := range d {
		data.Y[i] = 7 + rng.NormFloat64()
		for j := range p {
			if rng.Float64() < 0.3 {
				continue
			}
			v := rng.NormFloat64() + float64(j%5)
			data.X.(*mat.Dense).Set(i, j, v)
			if j < 6 {
				data.Y[i] += v
			}
		}
	}
	return data
}

// sparsely is the data with a sparse X.
func sparsely(data problems.Data) problems.Data {
	d, p := data.X.Dims()
	s := &dataio.Sparse{Rows: d, Cols: p, IndPtr: []int{0}}
	for i := range d {
		for j := range p {
			if v := data.X.At(i, j); v != 0 {
				s.Indices, s.Values = append(s.Indices, j), append(s.Values, v)
			}
		}
		s.IndPtr = append(s.IndPtr, len(s.Indices))
	}
	data.X = problems.Matrix{Sparse: s}
	return data
}

// withOnes is [1 X].
func withOnes(x *mat.Dense) *mat.Dense {
	d, p := x.Dims()
	w := mat.NewDense(d, p+1, nil)
	for i := range d {
		w.Set(i, 0, 1)
		copy(w.RawRowView(i)[1:], x.RawRowView(i))
	}
	return w
}

// fitted is a problem's risk at its y.
func fitted(t *testing.T, dev array.Device, name string, data problems.Data, hyper problems.Hyper,
	o pipeline.Options) (pipeline.Risk, *problems.Problem) {
	t.Helper()
	p, err := problems.New(name, dev, data, hyper)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Release)
	solver, err := vjp.NewSolver(t.Context(), p.DefaultSolver, p.Solve(), vjp.Options{Tol: 1e-11, MaxIter: 100000})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(solver.Release)
	risk, err := newPipeline(t, solver, o).Estimate(t.Context(), data.Y)
	if err != nil {
		t.Fatal(err)
	}
	return risk, p
}

// The estimate by centering is that of the column of ones beside X with weight 0.
func TestInterceptIsAColumnOfOnesWithoutPenalty(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		shapes := [][2]int{{30, 8}, {30, 8}, {40, 120}}
		if arraytest.Emulated(t, dev) {
			shapes = shapes[:2]
		}
		for i, shape := range shapes {
			d, p := shape[0], shape[1]
			data := regression(d, p)
			if i == 1 {
				// A column that is constant is the intercept's.
				for i := range d {
					data.X.(*mat.Dense).Set(i, 3, 0.1)
				}
			}
			lambda, lambda2 := problems.Absolute(9), problems.Absolute(2.5)
			for _, c := range []struct {
				name  string
				hyper problems.Hyper
				r     prox.Prox
			}{
				{"ridge", problems.Hyper{Lambda: lambda}, prox.NewSquaredL2(9)},
				{"lasso", problems.Hyper{Lambda: lambda}, prox.NewL1(9)},
				{"elastic-net", problems.Hyper{Lambda: lambda, Lambda2: lambda2}, prox.NewElasticNet(9, 2.5)},
			} {
				r := prox.NewSeparable(prox.Block{Prox: prox.Zero(), N: 1}, prox.Block{Prox: c.r, N: p})
				a := linops.NewDense(dev, withOnes(data.X.(*mat.Dense)))
				solver, err := vjp.NewSolver(t.Context(), "fista", vjp.Problem{A: a, R: r, Device: dev},
					vjp.Options{Tol: 1e-12, MaxIter: 1000000})
				if err != nil {
					t.Fatal(err)
				}
				want, err := newPipeline(t, solver, pipeline.Options{Estimator: "exact"}).Estimate(t.Context(), data.Y)
				solver.Release()
				if err != nil || !want.Converged {
					t.Fatal(want.Convergence, err)
				}
				for kind, data := range map[string]problems.Data{"dense": data, "sparse": sparsely(data)} {
					for _, estimator := range []string{"", "exact"} {
						got, problem := fitted(t, dev, c.name, data, c.hyper, pipeline.Options{Estimator: estimator})
						what := fmt.Sprintf("%s %d x %d, %s %s", c.name, d, p, kind, estimator)
						if !got.Converged || estimator == "" && c.name == "lasso" && !got.Trace.Exact {
							t.Errorf("%s: %+v, %+v", what, got.Convergence, got.Trace)
						}
						near := func(name string, a, b float64) {
							t.Helper()
							if !(math.Abs(a-b) <= 1e-6*(1+math.Abs(b))) {
								t.Errorf("%s: %s is %g, expected %g", what, name, a, b)
							}
						}
						near("SURE", got.SURE, want.SURE)
						near("its error bar", got.StdErr, want.StdErr)
						near("the divergence", got.Trace.Trace, want.Trace.Trace)
						near("||D mu_hat||^2", got.Trace.Frobenius2, want.Trace.Frobenius2)
						near("the residual", got.Residual, want.Residual)
						b0, ok := problem.Intercept(got.MuHat, got.B)
						if !ok {
							t.Fatal("no intercept")
						}
						if i == 1 {
							// The constant column's share is the intercept's to choose.
							b0 += 0.1 * (got.B[3] - want.B[4])
						}
						near("the intercept", b0, want.B[0])
						for j, v := range got.MuHat {
							near(fmt.Sprintf("mu_hat[%d]", j), v, want.MuHat[j])
						}
						if i != 1 {
							for j, v := range got.B {
								near(fmt.Sprintf("b[%d]", j), v, want.B[j+1])
							}
						}
					}
				}
			}
		}
	})
}

// The divergence of OLS with an intercept is the rank of [1 X], and its fit the
// projection on it.
func TestOLSWithAnInterceptProjectsOnTheOnesToo(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		const d = 25
		for name, c := range map[string]struct {
			change func(x *mat.Dense)
			rank   int
		}{
			"full rank":         {func(*mat.Dense) {}, 6},
			"constant column":   {func(x *mat.Dense) { x.SetCol(2, slices.Repeat([]float64{0.1}, d)) }, 5},
			"zero column":       {func(x *mat.Dense) { x.SetCol(2, make([]float64, d)) }, 5},
			"repeated column":   {func(x *mat.Dense) { x.SetCol(1, mat.Col(nil, 4, x)) }, 5},
			"shifted column":    {func(x *mat.Dense) { shifted(x, 1, 4, 3) }, 5},
			"columns far off 0": {func(x *mat.Dense) { shifted(x, 1, 1, 1e7) }, 6},
		} {
			data := regression(d, 5)
			c.change(data.X.(*mat.Dense))
			// A basis of the span, by the singular vectors.
			var svd mat.SVD
			w := withOnes(data.X.(*mat.Dense))
			for j := range 6 {
				col := mat.Col(nil, j, w)
				if n := mat.Norm(mat.NewVecDense(d, col), 2); n > 0 {
					w.SetCol(j, scaled(1/n, col))
				}
			}
			svd.Factorize(w, mat.SVDThin)
			var u mat.Dense
			svd.UTo(&u)
			q := u.Slice(0, d, 0, c.rank)
			var coefficients, fit mat.VecDense
			coefficients.MulVec(q.T(), mat.NewVecDense(d, data.Y))
			fit.MulVec(q, &coefficients)
			for kind, data := range map[string]problems.Data{"dense": data, "sparse": sparsely(data)} {
				for _, estimator := range []string{"", "exact", "hutch++"} {
					risk, p := fitted(t, dev, "ols", data, problems.Hyper{}, pipeline.Options{Estimator: estimator})
					if math.Abs(risk.Trace.Trace-float64(c.rank)) > 1e-9 ||
						math.Abs(risk.Trace.Frobenius2-float64(c.rank)) > 1e-9 {
						t.Errorf("%s, %s, %s: divergence %g, ||D mu_hat||^2 %g, expected %d", name, kind, estimator,
							risk.Trace.Trace, risk.Trace.Frobenius2, c.rank)
					}
					b0, _ := p.Intercept(risk.MuHat, risk.B)
					for i, v := range risk.MuHat {
						if math.Abs(v-fit.AtVec(i)) > 1e-6 {
							t.Errorf("%s, %s: mu_hat[%d] is %g, expected %g", name, kind, i, v, fit.AtVec(i))
						}
						own := b0
						for j, b := range risk.B {
							own += b * dataAt(data, i, j)
						}
						if math.Abs(v-own) > 1e-6 {
							t.Errorf("%s, %s: mu_hat[%d] is %g, b0 + x b is %g", name, kind, i, v, own)
						}
					}
				}
			}
		}
	})
}

// shifted sets column j to column from plus by.
func shifted(x *mat.Dense, j, from int, by float64) {
	col := mat.Col(nil, from, x)
	for i := range col {
		col[i] += by
	}
	x.SetCol(j, col)
}

func scaled(c float64, x []float64) []float64 {
	for i := range x {
		x[i] *= c
	}
	return x
}

func dataAt(data problems.Data, i, j int) float64 { return data.X.At(i, j) }

// An operator whose columns have means is refused at its first sample.
func TestInterceptNeedsCenteredColumns(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		data := regression(20, 4)
		problem, err := rewrite.Project(vjp.Problem{A: linops.NewDense(dev, data.X.(*mat.Dense)), R: prox.Zero(),
			Device: dev},
			additive.Constant(20))
		if err != nil {
			t.Fatal(err)
		}
		solver, err := vjp.NewSolver(context.Background(), "direct", problem, vjp.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer solver.Release()
		leaks(t, dev, func() {
			_, err = newPipeline(t, solver, pipeline.Options{}).Estimate(t.Context(), data.Y)
		})
		if err == nil || !strings.Contains(err.Error(), "the columns of A are not centered") {
			t.Errorf("error %v", err)
		}
	})
}
