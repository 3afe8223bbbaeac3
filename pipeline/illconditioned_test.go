package pipeline_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/hutch"
	"surepipe/linops"
	"surepipe/pipeline"
	"surepipe/prox"
	"surepipe/prox/lowrank"
	"surepipe/vjp"
)

func gaussians(rng *rand.Rand, n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = rng.NormFloat64()
	}
	return x
}

// Where the derivative is hard to compute the divergence is right, or the risk says
// that it is not to be trusted: never a wrong number passed for a right one.
func TestIllConditionedProblemsDoNotLie(t *testing.T) {
	if testing.Short() {
		t.Skip("thousands of iterations")
	}
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		rng := rand.New(rand.NewPCG(21, 4))
		type hard struct {
			name string
			a    linops.Operator
			r    prox.Prox
			y    []float64
			want float64 // divergence
			// must says that the right value is expected, not just honesty.
			must bool
		}
		var cases []hard

		// A lambda so small that the active set is as large as d allows, columns in
		// general position: the divergence is the rank of the active columns.
		const d, p = 30, 80
		x := mat.NewDense(d, p, gaussians(rng, d*p))
		for _, lambda := range []float64{1e-3, 1e-6, 1e-9} {
			cases = append(cases, hard{"lambda at almost nothing", linops.NewDense(dev, x), prox.NewL1(lambda),
				gaussians(rng, d), d, false})
		}
		// Every column twice, or three times with noise of 1e-9: as many directions as
		// the columns by themselves have.
		twice, nearly := mat.NewDense(d, 2*20, nil), mat.NewDense(d, 3*20, nil)
		single := mat.NewDense(d, 20, nil)
		for i := range d {
			for j := range 20 {
				single.Set(i, j, x.At(i, j))
				for c := range 2 {
					twice.Set(i, 20*c+j, x.At(i, j))
				}
				for c := range 3 {
					nearly.Set(i, 20*c+j, x.At(i, j)+1e-9*float64(c)*rng.NormFloat64())
				}
			}
		}
		y := gaussians(rng, d)
		for i := range y {
			for j := range 6 {
				y[i] += 2 * x.At(i, j)
			}
		}
		want := divergence(t, dev, linops.NewDense(dev, single), prox.NewL1(3), y)
		cases = append(cases,
			hard{"columns twice", linops.NewDense(dev, twice), prox.NewL1(3), y, want, true},
			hard{"columns thrice, nearly", linops.NewDense(dev, nearly), prox.NewL1(3), y, want, false},
			hard{"columns twice, elastic net", linops.NewDense(dev, twice), prox.NewElasticNet(3, 2e-12), y, want,
				true},
		)
		// Groups of equal columns: the penalty of a group is shared between them.
		var groups [][]int
		for j := range 20 {
			groups = append(groups, []int{j, 20 + j})
		}
		group, err := prox.NewGroupL2(dev, 40, 3*math.Sqrt2, groups, nil)
		if err != nil {
			t.Fatal(err)
		}
		cases = append(cases, hard{"groups of equal columns", linops.NewDense(dev, twice), group, y, want, true})

		// H has eigenvalues from 1 down to 1e-12.
		for _, small := range []float64{1e-3, 1e-6} {
			u, v := orthonormal(rng, d, 12), orthonormal(rng, 12, 12)
			for j := range 12 {
				scale := math.Pow(small, float64(j)/11)
				for i := range d {
					u.Set(i, j, u.At(i, j)*scale)
				}
			}
			var bad mat.Dense
			bad.Mul(u, v.T())
			cases = append(cases, hard{"H down to the square of a small number", linops.NewDense(dev, &bad),
				prox.NewL1(1e-14), gaussians(rng, d), 12, false})
		}

		// Singular values 1e-10 from the threshold, on either side, and equal to it.
		shape := array.Shape{Rows: 9, Cols: 7}
		for _, off := range []float64{1e-10, -1e-10, 1e-13, 0} {
			sigma := []float64{5, 3, 2 + off, 1, 0.5, 0.25, 0.1}
			u, v := orthonormal(rng, shape.Rows, shape.Cols), orthonormal(rng, shape.Cols, shape.Cols)
			for j, s := range sigma {
				for i := range shape.Rows {
					u.Set(i, j, u.At(i, j)*s)
				}
			}
			var m mat.Dense
			m.Mul(u, v.T())
			data := mat.DenseCopyOf(&m).RawMatrix().Data
			all := make([]int, shape.Len())
			for i := range all {
				all[i] = i
			}
			sel, err := linops.NewSelection(dev, shape.Len(), all)
			if err != nil {
				t.Fatal(err)
			}
			want := thresholdDivergence(shape, sigma, 2)
			cases = append(cases,
				hard{"sigma at the threshold", linops.Identity(shape.Len()), lowrank.NewNuclear(shape, 2), data, want,
					math.Abs(off) > 1e-12},
				hard{"sigma at the threshold, completion", sel, lowrank.NewNuclear(shape, 2), data, want,
					math.Abs(off) > 1e-12},
			)
		}

		solvers, estimators := []string{"fista", "admm"}, []string{pipeline.Auto, hutch.Exact}
		if arraytest.Emulated(t, dev) {
			t.Logf("%s is emulated: one case of each name, by admm and the exact trace", dev.Name())
			cases = slices.CompactFunc(cases, func(a, b hard) bool { return a.name == b.name })
			solvers, estimators = solvers[1:], estimators[1:]
		}
		for _, c := range cases {
			rows, _ := c.a.Dims()
			for _, name := range solvers {
				for _, estimator := range estimators {
					s, err := vjp.NewSolver(t.Context(), name, vjp.Problem{A: c.a, R: c.r, Device: dev},
						vjp.Options{MaxIter: 5000})
					if err != nil {
						t.Fatal(err)
					}
					pipe, err := pipeline.New(s, pipeline.Options{Sigma2: 1, Estimator: estimator, Queries: rows})
					if err != nil {
						t.Fatal(err)
					}
					risk, err := pipe.Estimate(t.Context(), c.y)
					s.Release()
					if err != nil {
						t.Errorf("%s, %s: %v", c.name, name, err)
						continue
					}
					// At the kink itself any value between the two sides is right.
					right := math.Abs(risk.Trace.Trace-c.want) <= 1e-5*(1+c.want)
					if c.name == "sigma at the threshold" || c.name == "sigma at the threshold, completion" {
						right = right || !c.must && risk.Trace.Trace >= c.want-10 && risk.Trace.Trace <= c.want+10
					}
					if c.must && !risk.Trusted() {
						t.Errorf("%s, %s, %s: not trusted: %+v", c.name, name, estimator, risk.Convergence)
					}
					if risk.Trusted() && !right {
						t.Errorf("%s, %s, %s: divergence %.9g passes for right, want %.9g (%+v)", c.name, name,
							estimator, risk.Trace.Trace, c.want, risk.Convergence)
					}
					t.Logf("%s, %s, %s: %.9g, want %.9g, trusted %v", c.name, name, estimator, risk.Trace.Trace,
						c.want, risk.Trusted())
				}
			}
		}
	})
}

func divergence(t *testing.T, dev array.Device, a linops.Operator, r prox.Prox, y []float64) float64 {
	t.Helper()
	s, err := vjp.NewSolver(t.Context(), "admm", vjp.Problem{A: a, R: r, Device: dev}, vjp.Options{Tol: 1e-10})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Release()
	pipe, err := pipeline.New(s, pipeline.Options{Sigma2: 1, Estimator: hutch.Exact})
	if err != nil {
		t.Fatal(err)
	}
	risk, err := pipe.Estimate(t.Context(), y)
	if err != nil || !risk.Trusted() {
		t.Fatal(err, risk)
	}
	return risk.Trace.Trace
}

// orthonormal is a random m x n matrix with orthonormal columns.
func orthonormal(rng *rand.Rand, m, n int) *mat.Dense {
	var qr mat.QR
	qr.Factorize(mat.NewDense(m, n, gaussians(rng, m*n)))
	var q mat.Dense
	qr.QTo(&q)
	return mat.DenseCopyOf(q.Slice(0, m, 0, n))
}

// thresholdDivergence is that of singular value thresholding (Candes, Sing-Long and
// Trzasko 2013); a value at the threshold counts as below.
func thresholdDivergence(s array.Shape, sigma []float64, tau float64) float64 {
	sum := 0.0
	for i, si := range sigma {
		f := math.Max(si-tau, 0)
		if f > 0 {
			sum += 1 + math.Abs(float64(s.Rows-s.Cols))*f/si
		}
		for j, sj := range sigma {
			if i != j {
				sum += 2 * si * f / (si*si - sj*sj)
			}
		}
	}
	return sum
}
