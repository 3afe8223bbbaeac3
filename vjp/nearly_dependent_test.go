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
	"surepipe/solve/solvetest"
	"surepipe/vjp"
)

// decided checks that a divergence is known, and not in doubt.
func decided(t *testing.T, what string, sol *vjp.Solution, want float64) {
	t.Helper()
	c := sol.Linearization.Closed()
	if !sol.Converged || !c.Known || c.Low != c.High || math.Abs(c.Trace-want) > 1e-9 {
		t.Errorf("%s: converged %v, a divergence of %g in [%g, %g], want %g", what, sol.Converged, c.Trace, c.Low,
			c.High, want)
	}
}

// The solution of a LASSO whose columns nearly depend on each other, made from its optimality conditions: with
// b and its signs s, y = X b + lambda X (X*X)^{-1} s. All columns are active, and the divergence is their number.
func TestNearlyDependentColumns(t *testing.T) {
	dev := array.NewHost()
	defer dev.Close()
	const d, p, weight = 60, 12, 1e-5
	for _, apart := range []float64{1e-3, 1e-4, 1e-5} {
		rng := rand.New(rand.NewPCG(15, 16))
		x, few := mat.NewDense(d, p, nil), mat.NewDense(d, p/2, solvetest.Gaussian(rng, d*p/2))
		x.Mul(few, mat.NewDense(p/2, p, solvetest.Gaussian(rng, p/2*p)))
		x.Apply(func(_, _ int, v float64) float64 { return v + apart*rng.NormFloat64() }, x)
		b, signs := make([]float64, p), make([]float64, p)
		for j := range b {
			signs[j] = float64(1 - 2*(j%2))
			b[j] = signs[j] * (1 + float64(j)/p)
		}
		var qr mat.QR
		qr.Factorize(x)
		var r mat.VecDense
		if err := qr.SolveVecTo(&r, true, mat.NewVecDense(p, signs)); err != nil { // X (X*X)^{-1} s
			t.Fatal(err)
		}
		y := make([]float64, d)
		mat.NewVecDense(d, y).MulVec(x, mat.NewVecDense(p, b))
		floats.AddScaled(y, weight, r.RawVector().Data)
		a := linops.NewDense(dev, x)
		s := newSolver(t, "active-set", vjp.Problem{A: a, R: prox.NewL1(weight), Device: dev}, vjp.Options{})
		sol := solved(t, s, dev, y)
		decided(t, "columns nearly dependent", sol, p)
		sol.Release()
		a.Release()
	}
}

// The rank behind a dense K is that of the same problem in units in which A's columns have equal length.
func TestRankBehindKInAnyUnits(t *testing.T) {
	dev := array.NewHost()
	defer dev.Close()
	rng := rand.New(rand.NewPCG(23, 44))
	const d, p, q = 44, 30, 15
	x, k := mat.NewDense(d, p, solvetest.Gaussian(rng, d*p)), mat.NewDense(q, p, solvetest.Gaussian(rng, q*p))
	y := scaled(5, solvetest.Gaussian(rng, d))
	stretch := func(m *mat.Dense, power float64) *mat.Dense {
		out := mat.DenseCopyOf(m)
		out.Apply(func(_, j int, v float64) float64 {
			return v * math.Pow(10, power*(10*float64((7*j)%p)/(p-1)-5))
		}, out)
		return out
	}
	divergence := func(x, k *mat.Dense) *vjp.Solution {
		a, behind := linops.NewDense(dev, x), linops.NewDense(dev, k)
		t.Cleanup(a.Release)
		t.Cleanup(behind.Release)
		s := newSolver(t, "active-set", vjp.Problem{A: a, K: behind, R: prox.NewL1(0.01), Device: dev},
			vjp.Options{Sigma2: 1})
		return solved(t, s, dev, y)
	}
	even := divergence(x, stretch(k, -1))
	defer even.Release()
	want := even.Linearization.Closed().Trace
	if !(want > p-q && want < p) {
		t.Fatalf("a divergence of %g: nothing is tested", want)
	}
	decided(t, "columns of one length", even, want)
	uneven := divergence(stretch(x, 1), k)
	defer uneven.Release()
	decided(t, "columns over ten decades", uneven, want)
}
