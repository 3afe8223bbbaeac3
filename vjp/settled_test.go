package vjp_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/prox"
	"surepipe/prox/clustered"
	"surepipe/prox/lowrank"
	"surepipe/solve"
	"surepipe/solve/solvetest"
	"surepipe/vjp"
)

// Just above the least weight at which the nodes of a cycle merge, which is the maximum of |sum_S (y -
// mean)|/2 over its arcs S, the divergence is 1.
func TestCyclesAboveTheirMerging(t *testing.T) {
	dev := array.NewHost()
	rng := rand.New(rand.NewPCG(28, 1))
	for i := range 20 {
		n := 4 + i%5
		x, d, y := mat.NewDense(n, n, nil), mat.NewDense(n+2, n, nil), solvetest.Gaussian(rng, n)
		mean, most := floats.Sum(y)/float64(n), 0.0
		for j := range n {
			x.Set(j, j, 1)
			d.Set(j, j, 1)
			d.Set(j, (j+1)%n, -1)
			sum := 0.0
			for l := range n - 1 {
				sum += y[(j+l)%n] - mean
				most = math.Max(most, math.Abs(sum)/2)
			}
		}
		rows := n + i%2 // also with a row of zeros
		a, k := linops.NewDense(dev, x), linops.NewDense(dev, mat.DenseCopyOf(d.Slice(0, rows, 0, n)))
		problem := vjp.Problem{A: a, K: k, R: prox.NewL1(most * (1 + math.Pow(10, -3-float64(i%4)))), Device: dev}
		got := solved(t, newSolver(t, solve.Default(problem), problem, vjp.Options{Sigma2: 1}), dev, y)
		c := got.Linearization.Closed()
		if !(math.Abs(c.Trace-1) < 1e-9 && c.Low == c.Trace && c.High == c.Trace && c.SpaceMargin >= 10) {
			t.Errorf("cycle %d of %d nodes: divergence %g, %g to %g, margin %g, expected 1", i, n, c.Trace, c.Low,
				c.High, c.SpaceMargin)
		}
		got.Release()
		a.Release()
		k.Release()
	}
}

// At ties both one-sided derivatives are possible.
func TestTiesAreRanges(t *testing.T) {
	dev := array.NewHost()
	slope, err := clustered.NewSortedL1([]float64{1, 0, 0})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		y         []float64
		r         prox.Prox
		low, high float64
	}{
		"opposite signs":  {[]float64{3, -2, 0.5}, slope, 2, 3},
		"a norm's weight": {[]float64{3, -4}, must(prox.NewGroupL2(dev, 2, 5, [][]int{{0, 1}}, nil)), 0, 1},
	} {
		problem := vjp.Problem{A: linops.Identity(len(c.y)), R: c.r, Device: dev}
		got := solved(t, newSolver(t, solve.Default(problem), problem, vjp.Options{Sigma2: 1}), dev, c.y)
		if k := got.Linearization.Closed(); !(math.Abs(k.Low-c.low) < 1e-6 && math.Abs(k.High-c.high) < 1e-6) {
			t.Errorf("%s: %g to %g, expected %g to %g", name, k.Low, k.High, c.low, c.high)
		}
		got.Release()
	}
}

// Where A and K share a null space, mu_hat and its divergence are those without it.
func TestSharedNullSpace(t *testing.T) {
	dev := array.NewHost()
	rng := rand.New(rand.NewPCG(28, 10))
	const d, p, q = 8, 5, 7
	x, k := mat.NewDense(d, p, solvetest.Gaussian(rng, d*p)), mat.NewDense(q, p, solvetest.Gaussian(rng, q*p))
	onto := mat.NewDense(p, p+1, solvetest.Gaussian(rng, p*(p+1))) // b = onto b'
	var wide [2]mat.Dense
	wide[0].Mul(x, onto)
	wide[1].Mul(k, onto)
	y := solvetest.Gaussian(rng, d)
	var mu [2][]float64
	var trace [2]float64
	for i, of := range [2][2]*mat.Dense{{x, k}, {&wide[0], &wide[1]}} {
		problem := vjp.Problem{A: linops.NewDense(dev, of[0]), K: linops.NewDense(dev, of[1]), R: prox.NewL1(0.2),
			Device: dev}
		got := solved(t, newSolver(t, solve.Default(problem), problem, vjp.Options{Sigma2: 1}), dev, y)
		mu[i], trace[i] = got.MuHat.ToHost(), got.Linearization.Closed().Trace
		got.Release()
	}
	if off := floats.Distance(mu[0], mu[1], 2); !(off < 1e-6) || !(math.Abs(trace[0]-trace[1]) < 1e-9) {
		t.Errorf("mu_hat is %g off, divergence %g, expected %g", off, trace[1], trace[0])
	}
}

// Behind K too the space of a nuclear norm is settled: just above lambda max b is 0, and the divergence.
func TestNuclearBesideSquaresAboveLambdaMax(t *testing.T) {
	dev := array.NewHost()
	y := []float64{0.5246555193348231, 0.03259209890936782}
	nuclear := lowrank.NewNuclear(array.Shape{Rows: 1, Cols: 2}, math.Hypot(y[0], y[1])*(1+1e-7))
	k, r := solve.Terms(solve.Term{K: linops.Identity(2), R: nuclear},
		solve.Term{K: linops.Identity(2), R: prox.NewSquaredL2(12)},
		solve.Term{K: linops.Identity(2), R: prox.NewSquaredL2(55)})
	problem := vjp.Problem{A: linops.Identity(2), K: k, R: r, Device: dev}
	got := solved(t, newSolver(t, solve.Default(problem), problem, vjp.Options{Sigma2: 1}), dev, y)
	defer got.Release()
	if c := got.Linearization.Closed(); !c.Known || c.Trace != 0 || c.High != 0 || !(c.SpaceMargin > 100) {
		t.Errorf("divergence %g, up to %g, margin %g, known: %t, expected 0", c.Trace, c.High, c.SpaceMargin, c.Known)
	}
}

// Where A* y is a rounding error of y, it is open whether the coordinate is active, in all units.
func TestTieOfARoundingError(t *testing.T) {
	dev := array.NewHost()
	for _, unit := range []float64{1, 0x1.6p-156} {
		x := mat.NewDense(6, 1, []float64{-2, 2, -1, 1, 3, -1 + 0x1p-52})
		x.Scale(unit, x)
		problem := vjp.Problem{A: linops.NewDense(dev, x), R: prox.NonNegative(), Device: dev}
		got := solved(t, newSolver(t, "active-set", problem, vjp.Options{Sigma2: 1}), dev,
			[]float64{1, 1, -1, 1, -1, -1})
		if c := got.Linearization.Closed(); c.Low != 0 || c.High != 1 {
			t.Errorf("in units of %g: %g to %g, expected 0 to 1", unit, c.Low, c.High)
		}
		got.Release()
	}
}

// At lambda max the unrolled derivative is one of two.
func TestTieOfTheUnrolledDerivative(t *testing.T) {
	dev := array.NewHost()
	y := []float64{3, -4, 0}
	pick, err := linops.NewSelection(dev, 8, []int{4, 6, 7})
	if err != nil {
		t.Fatal(err)
	}
	problem := vjp.Problem{A: pick, R: lowrank.NewNuclear(array.Shape{Rows: 4, Cols: 2}, 5), Device: dev}
	got := solved(t, newSolver(t, "ista", problem, vjp.Options{Sigma2: 1, Derivative: vjp.Unrolled}), dev, y)
	defer got.Release()
	if !(got.Lag >= 1) {
		t.Errorf("a lag of %g, expected 1 at least", got.Lag)
	}
}

// Behind K a direction in which A is small beside ||A||, but not beside the columns that it combines, is
// counted, or said to be in doubt.
func TestDirectionsOfShortColumns(t *testing.T) {
	dev := array.NewHost()
	x := mat.NewDense(2, 4, []float64{-0.02, 0, -4e-6, -2e7, 0.02, -8e-5, 4e-6, 2e7})
	d := mat.NewDense(3, 4, []float64{0, -1, 0, 1, 0, 1, 0, -1, 0, -1, 1, 0})
	problem := vjp.Problem{A: linops.NewDense(dev, x), K: linops.NewDense(dev, d), R: prox.NewL1(0.05), Device: dev}
	got := solved(t, newSolver(t, solve.Default(problem), problem, vjp.Options{Sigma2: 1e6}), dev,
		[]float64{2000, -800})
	defer got.Release()
	if c := got.Linearization.Closed(); c.High != 2 {
		t.Errorf("divergence %g to %g, expected up to 2", c.Low, c.High)
	}
}

// Where the columns of A differ in length a gradient that is small beside ||A|| ||y|| may be that of a short
// column: a point that the solver's check refuses settles nothing.
func TestRefusedPointsSettleNothing(t *testing.T) {
	dev := array.NewHost()
	x := mat.NewDense(10, 2, nil)
	for i, v := range []float64{0.42, -0.49, 1.06, 0.78, 1.15, 0.1, 2.09, 1.19, -0.68, -0.37} {
		x.SetRow(i, []float64{v, 210620433})
	}
	r, err := prox.NewGroupLinf(dev, 2, 2657, [][]int{{0, 1}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	k := mat.NewDense(2, 2, []float64{1, -1, 1, -1})
	problem := vjp.Problem{A: linops.NewDense(dev, x), K: linops.NewDense(dev, k), R: r, Device: dev}
	got := solved(t, newSolver(t, solve.Default(problem), problem, vjp.Options{Sigma2: 705600}), dev,
		[]float64{0, 840, 840, 0, 0, -840, 0, 840, -1680, 0})
	defer got.Release()
	if c := got.Linearization.Closed(); !(math.Abs(c.Trace-1) < 1e-9) {
		t.Errorf("divergence %g, margin %g, expected 1", c.Trace, c.SpaceMargin)
	}
}
