package vjp_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/linops"
	"surepipe/loss"
	"surepipe/prox"
	"surepipe/solve"
	"surepipe/solve/solvetest"
	"surepipe/vjp"
)

// Where K's rows are independent, active sets in the coordinates of K b have the solution and the derivative
// that alternating directions find with a dual variable; also along a path, with weighted
// observations and with more columns than rows.
func TestActiveSetsBehindAMatrix(t *testing.T) {
	if testing.Short() {
		t.Skip("short: an algorithm above the device, shown by the full run")
	}
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		arraytest.NoLeak(t, dev)
		rng := rand.New(rand.NewPCG(31, 32))
		const p = 24
		second := mat.NewDense(p-2, p, nil)
		for i := range p - 2 {
			second.SetRow(i, append(make([]float64, i), append([]float64{1, -2, 1}, make([]float64, p-3-i)...)...))
		}
		for name, k := range map[string]*mat.Dense{
			"square": mat.NewDense(p, p, solvetest.Gaussian(rng, p*p)), "differences": differencesMatrix(p),
			"many differences": differencesMatrix(64), "second differences": second,
		} {
			_, p := k.Dims()
			for _, d := range []int{40, 16} {
				for _, weighted := range []bool{false, true} {
					x := mat.NewDense(d, p, solvetest.Gaussian(rng, d*p))
					b := make([]float64, p)
					for i := range b {
						b[i] = float64(i / 8)
					}
					y := make([]float64, d)
					mat.NewVecDense(d, y).MulVec(x, mat.NewVecDense(p, b))
					floats.Add(y, solvetest.Gaussian(rng, d))
					behindMatrix(t, dev, fmt.Sprintf("%s, d = %d, weighted %t", name, d, weighted), x, k, y, weighted)
				}
			}
		}
	})
}

func behindMatrix(t *testing.T, dev array.Device, name string, x, k *mat.Dense, y []float64, weighted bool) {
	t.Helper()
	a, behind := linops.NewDense(dev, x), linops.NewDense(dev, k)
	defer a.Release()
	defer behind.Release()
	problem := vjp.Problem{A: a, K: behind, R: prox.NewL1(1), Device: dev}
	if weighted {
		w := make([]float64, len(y))
		for i := range w {
			w[i] = 0.5 + float64(i%3)
		}
		l, err := loss.WeightedSquared(dev, w)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Release()
		problem.Loss = l
	}
	if got := solve.Default(problem); got != "active-set" {
		t.Errorf("%s: the default is %s", name, got)
	}
	data := dev.Alloc(1, len(y))
	defer data.Free()
	dev.Upload(data, y)
	u, err := solve.Multiplier(context.Background(), problem, data)
	if err != nil {
		t.Fatal(err)
	}
	largest := floats.Norm(u.ToHost(), math.Inf(1))
	u.Free()
	first, err := vjp.NewSolver(context.Background(), "active-set", problem, vjp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer first.Release()
	path := new(vjp.Path)
	defer path.Release()
	for _, share := range []float64{1.0001, 0.4, 0.1} {
		at := func(solver string, lambda float64) *vjp.Solution {
			other := problem
			other.R = prox.NewL1(lambda)
			return solved(t, newSolver(t, solver, other, vjp.Options{Tol: 1e-9, MaxIter: 50000}), dev, y)
		}
		lambda := share * largest
		s, err := first.Reweight(context.Background(), prox.NewL1(lambda))
		if err != nil {
			t.Fatal(err)
		}
		sol, err := s.SolveFrom(context.Background(), data, vjp.From{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(sol.Choices); !strings.Contains(got, "K b and a few of b's") ||
			!strings.Contains(got, "active sets") {
			t.Errorf("%s: choices %s", name, got)
		}
		if share > 1 {
			kb := mat.NewVecDense(behindRows(k), nil)
			kb.MulVec(k, mat.NewVecDense(len(sol.B.ToHost()), sol.B.ToHost()))
			if e := mat.Norm(kb, math.Inf(1)); e > 1e-10 {
				t.Errorf("%s: K b is %g beyond the largest weight", name, e)
			}
			sol.Release()
			s.Release()
			continue
		}
		want := at("admm", lambda)
		near(t, name+": b", sol.B.ToHost(), want.B.ToHost(), 1e-3)
		if e := floats.Distance(sol.MuHat.ToHost(), want.MuHat.ToHost(), 2); !(e <= 2*want.Error) {
			t.Errorf("%s at %g: mu_hat differs by %g, alternating directions by at most %g from the exact one", name,
				share, e, want.Error)
		}
		got, other := sol.Linearization.Closed(), want.Linearization.Closed()
		if !got.Known || math.Abs(got.Trace-other.Trace) > 1e-8 || math.Abs(got.Frobenius2-other.Frobenius2) > 1e-8 {
			t.Errorf("%s at %g: traces %g and %g, expected %g and %g", name, share, got.Trace, got.Frobenius2,
				other.Trace, other.Frobenius2)
		}
		sol.Release()
		want.Release()
		s.Release()
	}
}

func behindRows(k *mat.Dense) int {
	q, _ := k.Dims()
	return q
}

// Where the rows of K depend on each other the solver is that of other small problems behind K, and where the
// derivative of iterations is wanted it is that of alternating directions; where K has more rows than columns
// active sets cannot be asked for.
func TestActiveSetsBehindDependentRows(t *testing.T) {
	dev := array.NewHost()
	defer dev.Close()
	rng := rand.New(rand.NewPCG(41, 42))
	const d, p = 30, 12
	a := linops.NewDense(dev, mat.NewDense(d, p, solvetest.Gaussian(rng, d*p)))
	defer a.Release()
	y := scaled(3, solvetest.Gaussian(rng, d))
	twice := mat.NewDense(p, p, nil)
	for i := range p {
		twice.Set(i, i/2, 1)
		twice.Set(i, p-1-i/2, -1)
	}
	for name, c := range map[string]struct {
		k    *mat.Dense
		o    vjp.Options
		name string
	}{"dependent": {twice, vjp.Options{}, "interior-point"},
		"unrolled": {differencesMatrix(p), vjp.Options{Derivative: vjp.Unrolled}, "admm"}} {
		k := linops.NewDense(dev, c.k)
		s := newSolver(t, "active-set", vjp.Problem{A: a, K: k, R: prox.NewL1(1), Device: dev}, c.o)
		if s.Name() != c.name {
			t.Errorf("%s: solved by %s", name, s.Name())
		}
		solved(t, s, dev, y).Release()
		k.Release()
	}
	k := linops.NewDense(dev, mat.NewDense(p+1, p, solvetest.Gaussian(rng, (p+1)*p)))
	defer k.Release()
	if _, err := vjp.NewSolver(context.Background(), "active-set", vjp.Problem{A: a, K: k, R: prox.NewL1(1),
		Device: dev}, vjp.Options{}); err == nil || !strings.Contains(err.Error(), "expected one of direct, admm") {
		t.Errorf("more rows than columns: %v", err)
	}
}
