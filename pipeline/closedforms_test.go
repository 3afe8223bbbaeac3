package pipeline_test

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/linops"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/prox"
	"surepipe/vjp"
)

// estimate computes the risk at y with tight tolerance and the exact trace.
func estimate(t *testing.T, p vjp.Problem, solver string, y []float64) pipeline.Risk {
	t.Helper()
	s, err := vjp.NewSolver(context.Background(), solver, p, vjp.Options{Tol: 1e-11, MaxIter: 100000})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Release()
	pipe, err := pipeline.New(s, pipeline.Options{Sigma2: 2, Estimator: "exact", KeepB: true})
	if err != nil {
		t.Fatal(err)
	}
	risk, err := pipe.Estimate(context.Background(), y)
	if err != nil {
		t.Fatal(err)
	}
	if !risk.Converged {
		t.Fatalf("%s: %+v", solver, risk.Convergence)
	}
	return risk
}

// agree fails unless got is want to 1e-6 relative, the tolerance of all closed
// forms: the solver's 1e-11 and the derivative's own convergence are below it.
func agree(t *testing.T, what string, got, want float64) {
	t.Helper()
	if !(math.Abs(got-want) <= 1e-6*math.Abs(want)) {
		t.Errorf("%s: %.12g, expected %.12g", what, got, want)
	}
}

// svtDivergence is the closed form of Candes, Sing-Long and Trzasko (2013) for
// the divergence of singular value thresholding at t.
func svtDivergence(y []float64, m, n int, t float64) float64 {
	var svd mat.SVD
	svd.Factorize(mat.NewDense(m, n, y), mat.SVDNone)
	s := svd.Values(nil)
	div := 0.0
	for i, a := range s {
		if a <= t {
			continue
		}
		div += 1 + math.Abs(float64(m-n))*(1-t/a)
		for j, b := range s {
			if i != j {
				div += 2 * a * (a - t) / (a*a - b*b)
			}
		}
	}
	return div
}

// columns are those of x where b is not zero.
func columns(x *mat.Dense, b []float64) *mat.Dense {
	d, _ := x.Dims()
	var cols []int
	for j, v := range b {
		if v != 0 {
			cols = append(cols, j)
		}
	}
	out := mat.NewDense(d, len(cols), nil)
	for k, j := range cols {
		for i := range d {
			out.Set(i, k, x.At(i, j))
		}
	}
	return out
}

// ridgeTrace is tr X (X*X + c I)^{-1} X*.
func ridgeTrace(x *mat.Dense, c float64) float64 {
	var svd mat.SVD
	svd.Factorize(x, mat.SVDNone)
	trace := 0.0
	for _, s := range svd.Values(nil) {
		trace += s * s / (s*s + c)
	}
	return trace
}

func TestRegressionsMatchTheirClosedForms(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		rng := rand.New(rand.NewPCG(1, 9))
		for _, size := range []struct{ d, p int }{{60, 25}, {40, 90}} {
			x := mat.NewDense(size.d, size.p, gaussian(rng, size.d*size.p))
			y := gaussian(rng, size.d)
			a := linops.NewDense(dev, x)
			defer a.Release()
			solvers := []string{"ista", "fista", "admm"}
			for _, solver := range append([]string{"direct"}, solvers...) {
				if size.d > size.p || solver == "direct" {
					agree(t, "ols "+solver, estimate(t, vjp.Problem{A: a, R: prox.Zero(), Device: dev}, solver,
						y).Trace.Trace, float64(min(size.d, size.p)))
				}
				agree(t, "ridge "+solver, estimate(t, vjp.Problem{A: a, R: prox.NewSquaredL2(30), Device: dev},
					solver, y).Trace.Trace, ridgeTrace(x, 30))
			}
			for _, solver := range solvers {
				risk := estimate(t, vjp.Problem{A: a, R: prox.NewL1(20), Device: dev}, solver, y)
				_, nonzeros := columns(x, risk.B).Dims()
				if nonzeros == 0 || nonzeros == size.p {
					t.Fatalf("lasso: %d nonzeros of %d", nonzeros, size.p)
				}
				agree(t, "lasso "+solver, risk.Trace.Trace, float64(nonzeros))
				risk = estimate(t, vjp.Problem{A: a, R: prox.NewElasticNet(15, 8), Device: dev}, solver, y)
				agree(t, "elastic net "+solver, risk.Trace.Trace, ridgeTrace(columns(x, risk.B), 8))
			}
		}
	})
}

// With X*X = I the group lasso is a block soft threshold v -> (1 - lambda/||v||)_+ v
// of X*y: a kept group of size q counts q (1 - lambda/||v||) + lambda/||v||.
func TestGroupLassoWithOrthonormalGroupsMatchesItsClosedForm(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		rng := rand.New(rand.NewPCG(2, 9))
		const d, p, q, lambda = 40, 24, 4, 3.5
		var qr mat.QR
		qr.Factorize(mat.NewDense(d, p, gaussian(rng, d*p)))
		var full mat.Dense
		qr.QTo(&full)
		x := mat.DenseCopyOf(full.Slice(0, d, 0, p))
		y := gaussian(rng, d)
		a := linops.NewDense(dev, x)
		defer a.Release()
		var groups [][]int
		want := 0.0
		var xty mat.VecDense
		xty.MulVec(x.T(), mat.NewVecDense(d, y))
		for g := 0; g < p; g += q {
			group := make([]int, q)
			norm := 0.0
			for i := range group {
				group[i] = g + i
				norm += xty.AtVec(g+i) * xty.AtVec(g+i)
			}
			groups = append(groups, group)
			if norm = math.Sqrt(norm); norm > lambda {
				want += q*(1-lambda/norm) + lambda/norm
			}
		}
		r, err := prox.NewGroupL2(dev, p, lambda, groups, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, solver := range []string{"ista", "fista", "admm"} {
			agree(t, "group lasso "+solver, estimate(t, vjp.Problem{A: a, R: r, Device: dev}, solver, y).Trace.Trace,
				want)
		}
	})
}

func TestMatrixProblemsMatchSingularValueThresholding(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		rng := rand.New(rand.NewPCG(3, 9))
		sizes, solvers := []struct{ m, n int }{{12, 9}, {9, 12}, {10, 10}}, []string{"ista", "fista", "admm"}
		if arraytest.Emulated(t, dev) {
			t.Logf("%s is emulated: 12 x 9 only, without ista", dev.Name())
			sizes, solvers = sizes[:1], solvers[1:]
		}
		for _, size := range sizes {
			y := gaussian(rng, size.m*size.n)
			data := problems.Data{Y: y, YShape: []int{size.m, size.n}}
			all := make([]int, len(y))
			for i := range all {
				all[i] = i
			}
			completion := problems.Data{Y: y, YShape: []int{len(y)}, Indices: all, Shape: []int{size.m, size.n}}
			const lambda, gamma = 6.5, 2.2
			above := 0.0
			for _, v := range y {
				if math.Abs(v) > gamma {
					above++
				}
			}
			for _, c := range []struct {
				what, problem string
				data          problems.Data
				hyper         problems.Hyper
				want          float64
			}{
				{"svt", "svt", data, problems.Hyper{Lambda: problems.Absolute(lambda)},
					svtDivergence(y, size.m, size.n, lambda)},
				{"completion of a full matrix", "matrix-completion", completion,
					problems.Hyper{Lambda: problems.Absolute(lambda)}, svtDivergence(y, size.m, size.n, lambda)},
				{"robust PCA, gamma = inf", "robust-pca", data, problems.Hyper{Lambda: problems.Absolute(lambda),
					Gamma: problems.Absolute(math.Inf(1))}, svtDivergence(y, size.m, size.n, lambda)},
				{"robust PCA, lambda = inf", "robust-pca", data,
					problems.Hyper{Lambda: problems.Absolute(math.Inf(1)), Gamma: problems.Absolute(gamma)}, above},
			} {
				p, err := problems.New(c.problem, dev, c.data, c.hyper)
				if err != nil {
					t.Fatal(err)
				}
				for _, solver := range solvers {
					agree(t, c.what+" "+solver, estimate(t, p.Solve(), solver, y).Trace.Trace, c.want)
				}
				p.Release()
			}
		}
	})
}
