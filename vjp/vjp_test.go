package vjp_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/linops"
	"surepipe/prox"
	"surepipe/prox/lowrank"
	"surepipe/solve/solvetest"
	"surepipe/vjp"
)

// A fixture is a small problem of one kind.
type fixture struct {
	name    string
	problem vjp.Problem
	y       []float64
	solvers []string
}

func scaled(a float64, x []float64) []float64 {
	for i := range x {
		x[i] *= a
	}
	return x
}

// fixtures are well-posed problems: the solution is a smooth function of y
// around the y given.
func fixtures(dev array.Device) []fixture {
	rng := rand.New(rand.NewPCG(7, 11))
	iterative := []string{"ista", "fista", "admm"}
	x := func(d, p int) *linops.Dense {
		return linops.NewDense(dev, mat.NewDense(d, p, solvetest.Gaussian(rng, d*p)))
	}
	var fs []fixture
	add := func(name string, a linops.Operator, r prox.Prox, scale float64, solvers ...string) {
		d, _ := a.Dims()
		fs = append(fs, fixture{name, vjp.Problem{A: a, R: r, Device: dev}, scaled(scale, solvetest.Gaussian(rng, d)),
			solvers})
	}
	add("ols", x(12, 5), prox.Zero(), 1, "direct", "ista", "fista", "admm")
	add("ridge tall", x(12, 5), prox.NewSquaredL2(0.7), 1, "direct", "ista", "fista", "admm")
	add("ridge wide", x(5, 12), prox.NewSquaredL2(0.7), 1, "direct", "ista", "fista", "admm")
	add("lasso tall", x(14, 6), prox.NewL1(1.5), 2, iterative...)
	add("lasso wide", x(8, 16), prox.NewL1(2), 2, iterative...)
	add("elastic net", x(8, 16), prox.NewElasticNet(1, 0.5), 2, iterative...)
	add("nonnegative", x(10, 6), prox.NonNegative(), 2, iterative...)
	add("norm", x(10, 6), must(prox.NewGroupL2(dev, 6, 0.5, [][]int{{0, 1, 2, 3, 4, 5}}, nil)), 2, iterative...)
	group, err := prox.NewGroupL2(dev, 12, 1.2, [][]int{{0, 1, 2}, {3, 4, 5}, {6, 7, 8}, {9, 10, 11}}, nil)
	if err != nil {
		panic(err)
	}
	add("group lasso", x(9, 12), group, 2, iterative...)
	add("svt", linops.Identity(30), lowrank.NewNuclear(array.Shape{Rows: 6, Cols: 5}, 2), 2, iterative...)
	var observed []int
	for i := range 63 {
		if i%4 != 1 {
			observed = append(observed, i)
		}
	}
	for _, s := range []array.Shape{{Rows: 9, Cols: 7}, {Rows: 7, Cols: 9}} {
		sel, err := linops.NewSelection(dev, 63, observed)
		if err != nil {
			panic(err)
		}
		add(fmt.Sprintf("matrix completion %dx%d", s.Rows, s.Cols), sel, lowrank.NewNuclear(s, 2.5), 2, iterative...)
	}
	add("robust pca", linops.HStack(linops.Identity(40), linops.Identity(40)),
		prox.NewSeparable(prox.Block{Prox: lowrank.NewNuclear(array.Shape{Rows: 8, Cols: 5}, 4), N: 40},
			prox.Block{Prox: prox.NewL1(2), N: 40}), 2.5, iterative...)
	return fs
}

// fewFixtures are those of a test of many solves: all, or on an emulated card one of each
// kind.
func fewFixtures(t *testing.T, dev array.Device) []fixture {
	t.Helper()
	all := fixtures(dev)
	if !arraytest.Emulated(t, dev) {
		return all
	}
	all = slices.DeleteFunc(all, func(f fixture) bool {
		return !slices.Contains([]string{"ridge wide", "lasso wide", "group lasso", "svt"}, f.name)
	})
	for i := range all {
		all[i].solvers = slices.DeleteFunc(slices.Clone(all[i].solvers),
			func(name string) bool { return name == "ista" })
	}
	t.Logf("%s is emulated: %d of the problems, without ista", dev.Name(), len(all))
	return all
}

// tight is the tolerance of solves that stand for the exact estimator.
var tight = vjp.Options{Tol: 4e-12, MaxIter: 400000}

func muHat(t *testing.T, s vjp.Solver, dev array.Device, y []float64) []float64 {
	t.Helper()
	sol := solved(t, s, dev, y)
	defer sol.Release()
	return sol.MuHat.ToHost()
}

func solved(t *testing.T, s vjp.Solver, dev array.Device, y []float64) *vjp.Solution {
	t.Helper()
	b := dev.Alloc(1, len(y))
	defer b.Free()
	dev.Upload(b, y)
	sol, err := s.Solve(context.Background(), b)
	if err != nil {
		t.Fatal(err)
	}
	if !sol.Converged {
		t.Fatalf("not converged: %+v", sol.Convergence)
	}
	return sol
}

// jacobian is the d x d matrix whose rows are (D mu_hat)* e_i.
func jacobian(t *testing.T, l vjp.Linearization, dev array.Device, d int) *mat.Dense {
	t.Helper()
	e, out := dev.Alloc(d, d), dev.Alloc(d, d)
	defer e.Free()
	defer out.Free()
	id := make([]float64, d*d)
	for i := range d {
		id[i*d+i] = 1
	}
	dev.Upload(e, id)
	if err := l.VJP(context.Background(), out, e); err != nil {
		t.Fatal(err)
	}
	return mat.NewDense(d, d, out.ToHost())
}

func newSolver(t *testing.T, name string, p vjp.Problem, o vjp.Options) vjp.Solver {
	t.Helper()
	s, err := vjp.NewSolver(context.Background(), name, p, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Release)
	return s
}

// derivatives are those of a solver.
func derivatives(solver string) []vjp.Derivative {
	if solver == "direct" {
		return []vjp.Derivative{vjp.Auto}
	}
	return []vjp.Derivative{vjp.Implicit, vjp.Unrolled}
}

// Every solver's VJP is that of the converged estimator: central differences
// with step h are off by O(h^2) and by the solver's error over h.
func TestVJPMatchesCentralDifferences(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		if testing.Short() {
			t.Skip("thousands of solves on one goroutine")
		}
		for _, f := range fewFixtures(t, dev) {
			for _, name := range f.solvers {
				t.Run(f.name+"/"+name, func(t *testing.T) {
					plainOptions := tight
					plainOptions.Derivative = vjp.None
					plain := newSolver(t, name, f.problem, plainOptions)
					d := len(f.y)
					var js []*mat.Dense
					for _, derivative := range derivatives(name) {
						o := tight
						o.Derivative = derivative
						sol := solved(t, newSolver(t, name, f.problem, o), dev, f.y)
						js = append(js, jacobian(t, sol.Linearization, dev, d))
						t.Logf("%s: %d iterations, optimality %.1e", sol.Linearization.Kind(), sol.Iterations,
							sol.Optimality)
						sol.Release()
					}
					const h = 1e-5
					worst := make([]float64, len(js))
					for i := range d {
						y := append([]float64(nil), f.y...)
						y[i] = f.y[i] + h
						up := muHat(t, plain, dev, y)
						y[i] = f.y[i] - h
						down := muHat(t, plain, dev, y)
						for k := range d {
							for n, j := range js {
								worst[n] = math.Max(worst[n], math.Abs((up[k]-down[k])/(2*h)-j.At(k, i)))
							}
						}
					}
					t.Logf("worst errors %.1e", worst)
					for n, w := range worst {
						if w > 1e-6 {
							t.Errorf("the %s Jacobian is off by %g", derivatives(name)[n], w)
						}
					}
				})
			}
		}
	})
}

// D mu_hat is symmetric with spectrum in [0, 1], whoever computes it.
func TestJacobianIsSymmetricWithSpectrumInUnitInterval(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		for _, f := range fewFixtures(t, dev) {
			for _, name := range f.solvers {
				for _, derivative := range derivatives(name) {
					t.Run(f.name+"/"+name+"/"+string(derivative), func(t *testing.T) {
						o := tight
						o.Derivative = derivative
						sol := solved(t, newSolver(t, name, f.problem, o), dev, f.y)
						defer sol.Release()
						d := len(f.y)
						j := jacobian(t, sol.Linearization, dev, d)
						sym := mat.NewSymDense(d, nil)
						for i := range d {
							for k := range i + 1 {
								if a := math.Abs(j.At(i, k) - j.At(k, i)); a > 1e-8 {
									t.Fatalf("asymmetric by %g at (%d, %d)", a, i, k)
								}
								sym.SetSym(i, k, (j.At(i, k)+j.At(k, i))/2)
							}
						}
						var eig mat.EigenSym
						if !eig.Factorize(sym, false) {
							t.Fatal("eigenvalues did not converge")
						}
						v := eig.Values(nil)
						if v[0] < -1e-8 || v[d-1] > 1+1e-8 {
							t.Errorf("spectrum [%g, %g]", v[0], v[d-1])
						}
						if c := sol.Linearization.Closed(); c.Known {
							trace, norm2 := c.Trace, c.Frobenius2
							var square float64
							for _, x := range v {
								square += x * x
							}
							if want := mat.Trace(sym); math.Abs(trace-want) > 1e-7*(1+want) ||
								math.Abs(norm2-square) > 1e-7*(1+square) {
								t.Errorf("trace %.10g and squared norm %.10g, want %.10g and %.10g", trace, norm2,
									want, square)
							}
						}
					})
				}
			}
		}
	})
}

// Groups of columns in units from 1e-2 to 1e3: the implicit derivative agrees with
// that of the iterations, in systems on both sides of the size that is factored
// without looking at their structure.
func TestImplicitGroupLassoInRawUnits(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		sizes := []int{3, 150}
		if arraytest.Emulated(t, dev) {
			t.Logf("%s is emulated: no system of 150 groups", dev.Name())
			sizes = sizes[:1]
		}
		for _, groups := range sizes {
			rng := rand.New(rand.NewPCG(1, 2))
			d, p := 60, 2*groups
			x := mat.NewDense(d, p, solvetest.Gaussian(rng, d*p))
			y := solvetest.Gaussian(rng, d)
			units := []float64{1e3, 1, 1e-2}
			if groups > 3 {
				units = []float64{5, 1, 0.2} // what first-order methods can still solve
			}
			var list [][]int
			var weights []float64
			for g := range groups {
				list = append(list, []int{2 * g, 2*g + 1})
				weights = append(weights, units[g%3])
			}
			for i := range d {
				for j := range p {
					y[i] += x.At(i, j) / float64(1+j*j)
					x.Set(i, j, x.At(i, j)*units[j/2%3])
				}
			}
			// Small groups are barely penalized, many must be to leave some out.
			lambda := 0.001
			if groups > 3 {
				lambda = 12
			}
			r, err := prox.NewGroupL2(dev, p, lambda, list, weights)
			if err != nil {
				t.Fatal(err)
			}
			if groups == 3 {
				r, err = prox.NewGroupL2(dev, p, lambda, list, nil)
				if err != nil {
					t.Fatal(err)
				}
			}
			var js []*mat.Dense
			for _, derivative := range derivatives("admm") {
				s := newSolver(t, "admm", vjp.Problem{A: linops.NewDense(dev, x), R: r, Device: dev},
					vjp.Options{Tol: 1e-11, MaxIter: 20000, Derivative: derivative})
				sol := solved(t, s, dev, y)
				js = append(js, jacobian(t, sol.Linearization, dev, d))
				sol.Release()
			}
			for _, j := range js[1:] {
				var diff mat.Dense
				diff.Sub(js[0], j)
				if e := mat.Norm(&diff, math.Inf(1)); e > 1e-5 {
					t.Errorf("%d groups: Jacobians differ by %g, traces %g and %g", groups, e, mat.Trace(js[0]),
						mat.Trace(j))
				}
			}
		}
	})
}
