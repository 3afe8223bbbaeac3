package active_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/loss"
	"surepipe/prox"
	"surepipe/prox/clustered"
	"surepipe/solve"
	"surepipe/solve/internal/roomtest"
	"surepipe/solve/solvetest"
)

// lossProblem is a random problem whose loss is not quadratic.
type lossProblem struct {
	l      *loss.Pointwise
	x, y   []float64
	d, p   int
	family int
}

// drawProblem draws a problem; its columns are in units that differ, or nearly equal, or neither.
func drawProblem(t *testing.T, seed uint64) lossProblem {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 2))
	c := lossProblem{d: 10 + rng.IntN(50), p: 4 + 2*rng.IntN(20), family: int(seed % 3)}
	c.x, c.y = make([]float64, c.d*c.p), make([]float64, c.d)
	kind := seed / 3 % 3
	for i := range c.d {
		common, z := rng.NormFloat64(), 0.5
		for j := range c.p {
			v := rng.NormFloat64()
			if j < 3 {
				z += v * math.Sin(float64(j+1))
			}
			switch kind {
			case 1:
				v *= math.Pow(10, float64(j%5)-2)
			case 2:
				v = common + 0.01*v
			}
			c.x[i*c.p+j] = v
		}
		switch c.family {
		case 0:
			if rng.Float64() < 1/(1+math.Exp(-z)) {
				c.y[i] = 1
			}
		case 1:
			c.y[i] = math.Floor(math.Exp(z) * rng.ExpFloat64())
		default:
			if c.y[i] = z + rng.NormFloat64(); rng.IntN(4) == 0 {
				c.y[i] += 100 * rng.NormFloat64()
			}
		}
	}
	make := []func() (*loss.Pointwise, error){
		func() (*loss.Pointwise, error) { return loss.Logistic(nil) },
		func() (*loss.Pointwise, error) { return loss.Poisson(nil) },
		func() (*loss.Pointwise, error) { return loss.Huber(1, nil) },
	}[c.family]
	var err error
	if c.l, err = make(); err != nil {
		t.Fatal(err)
	}
	return c
}

// Newton steps on the loss converge from 0 on random problems with several regularizers, some of
// them nearly singular or in other units, to points that satisfy the optimality conditions, and
// where gradient steps converge too the two agree. Optimality and the error's bound are true.
func TestNewtonStepsOnLosses(t *testing.T) {
	dev := array.NewHost()
	arraytest.NoLeak(t, dev)
	compared := 0
	for seed := range uint64(90) {
		c := drawProblem(t, seed)
		a, y := roomtest.Dense(t, dev, c.d, c.p, c.x), roomtest.On(t, dev, c.y)
		g, ag := dev.Alloc(1, c.d), dev.Alloc(1, c.p)
		dev.Fill(g, 0)
		c.l.Gradient(g, g, y)
		a.Adjoint(ag, g)
		var top [1]float64
		dev.MaxAbs(top[:], ag)
		lambda := top[0] * math.Pow(10, -float64(seed%7)/2-0.2)
		var groups [][]int
		for j := 0; j < c.p; j += 2 {
			groups = append(groups, []int{j, j + 1})
		}
		group, err := prox.NewGroupL2(dev, c.p, lambda, groups, nil)
		if err != nil {
			t.Fatal(err)
		}
		cases := []struct {
			solver string
			r      prox.Prox
		}{{"active-set", prox.NewL1(lambda)}, {"active-set", prox.NewElasticNet(lambda, lambda/10)},
			{"active-set", prox.NonNegative()}, {"newton", group}, {"newton", clustered.NewTV1D(c.p, lambda)}}
		if c.family == 0 {
			cases[2].r = prox.NewSquaredL2(lambda) // of separated data b >= 0 need not have a fit
		}
		k := cases[seed/9%5]
		problem := solve.Problem{A: a, Loss: c.l, R: k.r, Device: dev}
		sol := roomtest.At(t, roomtest.NewSolver(t, k.solver, problem, solve.Options{}), y)
		if !sol.Converged {
			t.Errorf("seed %d, %s: %+v", seed, c.l.Structure().Name, sol.Convergence)
		}
		roomtest.CheckChoice(t, sol, "method", "Newton steps on the loss")
		if seed/9%5 == 0 {
			checkL1(t, seed, c, lambda, sol)
		}
		if seed/3%3 == 0 {
			other := roomtest.At(t, roomtest.NewSolver(t, "fista", problem, solve.Options{MaxIter: 20000}), y)
			if other.Converged {
				compared++
				roomtest.Near(t, "mu_hat of gradient steps", other.MuHat.ToHost(), sol.MuHat.ToHost(), 1e-3)
			}
		}
		prox.Release(group)
		g.Free()
		ag.Free()
	}
	if compared < 20 {
		t.Errorf("gradient steps converged %d times", compared)
	}
}

// checkL1 checks the optimality conditions of the LASSO, column by column.
func checkL1(t *testing.T, seed uint64, c lossProblem, lambda float64, sol *solve.Solution) {
	t.Helper()
	b, z := sol.B.ToHost(), sol.MuHat.ToHost()
	for j := range c.p {
		v, length := 0.0, 0.0
		for i := range c.d {
			x := c.x[i*c.p+j]
			s := z[i] - c.y[i]
			switch c.family {
			case 0:
				s = 1/(1+math.Exp(-z[i])) - c.y[i]
			case 1:
				s = math.Exp(z[i]) - c.y[i]
			default:
				s = math.Max(-1, math.Min(s, 1))
			}
			v += x * s
			length += x * x
		}
		if v += math.Copysign(lambda, b[j]); b[j] == 0 {
			v = math.Max(math.Abs(v-lambda)-lambda, 0)
		}
		if math.Abs(v) > 1e-6*math.Sqrt(length*float64(c.d)) {
			t.Errorf("seed %d: coordinate %d violates its condition by %g", seed, j, v)
		}
	}
}

// Steps on the likelihood of times of events have its second derivative, not the diagonal above it, with which they end
// slowly where risk sets differ in their means: columns that are far from 0, one of which the times follow.
func TestNewtonStepsOnTimes(t *testing.T) {
	const d, p = 400, 4
	dev, rng := array.NewHost(), rand.New(rand.NewPCG(8, 9))
	arraytest.NoLeak(t, dev)
	for _, strata := range []float64{1, 3} {
		x, y, o := make([]float64, d*p), make([]float64, d), loss.Observed{}
		for i := range d {
			for j := range p {
				x[i*p+j] = 3 + rng.NormFloat64()
			}
			y[i] = float64(rng.IntN(2))
			o.Time = append(o.Time, math.Ceil(50*math.Exp(-1.5*x[i*p]+rng.NormFloat64())))
			o.Strata = append(o.Strata, math.Floor(strata*rng.Float64()))
		}
		l, err := loss.NewCox(o, true)
		if err != nil {
			t.Fatal(err)
		}
		a, on := roomtest.Dense(t, dev, d, p, x), roomtest.On(t, dev, y)
		sol := roomtest.At(t, roomtest.NewSolver(t, "active-set", solve.Problem{A: a, Loss: l, R: prox.NewL1(2),
			Device: dev}, solve.Options{}), on)
		if !sol.Converged || sol.Iterations > 10 {
			t.Errorf("%g strata: %+v", strata, sol.Convergence)
		}
	}
}

// With classes that a plane separates a logistic fit has no limit as the weight falls: the solve ends
// all the same, with finite numbers, at any weight.
func TestSeparatedClassesEnd(t *testing.T) {
	dev := array.NewHost()
	arraytest.NoLeak(t, dev)
	rng := rand.New(rand.NewPCG(4, 4))
	const d = 40
	for _, p := range []int{5, 90} {
		x, y := solvetest.Gaussian(rng, d*p), make([]float64, d)
		for i := range y {
			if x[i*p] > 0 {
				y[i] = 1
			}
		}
		l, err := loss.Logistic(nil)
		if err != nil {
			t.Fatal(err)
		}
		a, at0 := roomtest.Dense(t, dev, d, p, x), roomtest.On(t, dev, y)
		for _, lambda := range []float64{1e-2, 1e-6, 1e-10, 1e-14} {
			for _, r := range []prox.Prox{prox.NewL1(lambda), prox.NewSquaredL2(lambda)} {
				sol := roomtest.At(t, roomtest.NewSolver(t, "active-set",
					solve.Problem{A: a, Loss: l, R: r, Device: dev}, solve.Options{Point: true}), at0)
				for _, v := range append(sol.B.ToHost(), sol.Optimality) {
					if math.IsNaN(v) || math.IsInf(v, 0) {
						t.Fatalf("p = %d, weight %g: %g after %d iterations", p, lambda, v, sol.Iterations)
					}
				}
				if sol.Iterations > 200 {
					t.Errorf("p = %d, weight %g: %+v", p, lambda, sol.Convergence)
				}
			}
		}
	}
}

// Counts of thousands need steps that are cut, and gradient steps that are found by backtracking.
func TestLargeCounts(t *testing.T) {
	dev := array.NewHost()
	arraytest.NoLeak(t, dev)
	rng := rand.New(rand.NewPCG(5, 4))
	const d, p = 50, 4
	x, y := solvetest.Gaussian(rng, d*p), make([]float64, d)
	for i := range y {
		x[i*p] = 1
		y[i] = math.Round(math.Exp(9 + x[i*p+1]))
	}
	l, err := loss.Poisson(nil)
	if err != nil {
		t.Fatal(err)
	}
	problem := solve.Problem{A: roomtest.Dense(t, dev, d, p, x), Loss: l, R: prox.NewL1(10), Device: dev}
	o := solve.Options{MaxIter: 100000}
	newton := roomtest.At(t, roomtest.NewSolver(t, "active-set", problem, o), roomtest.On(t, dev, y))
	gradients := roomtest.At(t, roomtest.NewSolver(t, "fista", problem, o), roomtest.On(t, dev, y))
	if !newton.Converged || newton.Iterations > 30 || !gradients.Converged {
		t.Errorf("%+v and %+v", newton.Convergence, gradients.Convergence)
	}
	roomtest.Near(t, "b", gradients.B.ToHost(), newton.B.ToHost(), 1e-4)
}

// The bound of the error is above the root of twice the loss's Bregman distance from the solution, at
// points of any accuracy, with and without an unpenalized coordinate.
func TestBoundOfTheErrorOfALoss(t *testing.T) {
	dev := array.NewHost()
	arraytest.NoLeak(t, dev)
	bounds := 0
	for seed := range uint64(9) {
		c := drawProblem(t, seed%3)
		a, y := roomtest.Dense(t, dev, c.d, c.p, c.x), roomtest.On(t, dev, c.y)
		weights := make([]float64, c.p)
		for j := range weights {
			weights[j] = float64(min(j+int(seed/3), 1)) // the first one is 0 at first
		}
		r, err := prox.NewWeightedL1(dev, 1, weights)
		if err != nil {
			t.Fatal(err)
		}
		problem := solve.Problem{A: a, Loss: c.l, R: r, Device: dev}
		exact := roomtest.At(t, roomtest.NewSolver(t, "active-set", problem, solve.Options{Tol: 1e-12}), y)
		slope := dev.Alloc(1, c.d)
		c.l.Gradient(slope, exact.MuHat, y)
		slopes, best := slope.ToHost(), exact.MuHat.ToHost()
		slope.Free()
		for _, steps := range []int{20, 60, 200} {
			sol := roomtest.At(t, roomtest.NewSolver(t, "fista", problem, solve.Options{MaxIter: steps}), y)
			distance := c.l.Value(sol.MuHat, y) - c.l.Value(exact.MuHat, y)
			for i, z := range sol.MuHat.ToHost() {
				distance -= slopes[i] * (z - best[i])
			}
			if math.IsNaN(sol.Error) {
				continue
			}
			bounds++
			if !(math.Sqrt(2*math.Max(distance, 0)) <= sol.Error*(1+1e-9)+1e-6) {
				t.Errorf("seed %d after %d steps: error %g, the bound is %g", seed, steps, math.Sqrt(2*distance),
					sol.Error)
			}
		}
		prox.Release(r)
	}
	if bounds < 12 {
		t.Errorf("%d bounds", bounds)
	}
}
