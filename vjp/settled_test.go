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
			t.Errorf("cycle %d of %d nodes: divergence %g, %g to %g, margin %g, expected 1", i, n, c.Trace, c.Low, c.High, c.SpaceMargin)
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
		"a norm's weight": {[]float64{3, -4}, prox.NewL2(5), 0, 1},
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
		problem := vjp.Problem{A: linops.NewDense(dev, of[0]), K: linops.NewDense(dev, of[1]), R: prox.NewL1(0.2), Device: dev}
		got := solved(t, newSolver(t, solve.Default(problem), problem, vjp.Options{Sigma2: 1}), dev, y)
		mu[i], trace[i] = got.MuHat.ToHost(), got.Linearization.Closed().Trace
		got.Release()
	}
	if off := floats.Distance(mu[0], mu[1], 2); !(off < 1e-6) || !(math.Abs(trace[0]-trace[1]) < 1e-9) {
		t.Errorf("mu_hat is %g off, divergence %g, expected %g", off, trace[1], trace[0])
	}
}
