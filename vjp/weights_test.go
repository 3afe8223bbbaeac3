package vjp_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/linops"
	"surepipe/loss"
	"surepipe/prox"
	"surepipe/solve/solvetest"
	"surepipe/vjp"
)

// With weights of the observations the derivative returned is symmetric with eigenvalues in [0, 1],
// and has the trace of D mu_hat and the squared Frobenius norm tr (D mu_hat)^2, by central
// differences of mu_hat; also where observations are left out, columns are in other units, and sets
// confine the problem.
func TestWeightedDerivativeHasTheTracesOfTheJacobian(t *testing.T) {
	if testing.Short() {
		t.Skip("short: an algorithm above the device, shown by the full run")
	}
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		arraytest.NoLeak(t, dev)
		rng := rand.New(rand.NewPCG(1, 5))
		const d = 24
		weights := make([]float64, d)
		for i := range weights {
			weights[i] = []float64{1, 0, 0.3, 2.5}[i%4]
		}
		l, err := loss.WeightedSquared(dev, weights)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Release()
		y := scaled(3, solvetest.Gaussian(rng, d))
		for _, c := range []struct {
			name, solver string
			p            int
			units        float64
			r            prox.Prox
			derivative   vjp.Derivative
		}{
			{"ridge", "direct", 7, 1, prox.NewSquaredL2(2), vjp.Auto},
			{"ridge", "admm", 7, 1, prox.NewSquaredL2(2), vjp.Implicit},
			{"elastic net", "fista", 7, 1, prox.NewElasticNet(3, 2), vjp.Implicit},
			{"elastic net", "fista", 7, 1, prox.NewElasticNet(3, 2), vjp.Unrolled},
			{"elastic net in units", "fista", 7, 50, prox.NewElasticNet(3, 2), vjp.Implicit},
			{"elastic net on a set", "fista", 300, 1, prox.NewElasticNet(12, 2), vjp.Implicit},
		} {
			x := solvetest.Gaussian(rng, d*c.p)
			for i := range x {
				if i%c.p%3 == 0 {
					x[i] *= c.units
				}
			}
			a := linops.NewDense(dev, mat.NewDense(d, c.p, x))
			problem := vjp.Problem{A: a, R: c.r, Loss: l, Device: dev}
			o := vjp.Options{Tol: 1e-12, MaxIter: 100000, Derivative: c.derivative}
			s := newSolver(t, c.solver, problem, o)
			sol := solved(t, s, dev, y)
			got := jacobian(t, sol.Linearization, dev, d)
			closed := sol.Linearization.Closed()
			sol.Release()

			o.Derivative = vjp.None
			plain := newSolver(t, c.solver, problem, o)
			want := mat.NewDense(d, d, nil)
			const h = 1e-5
			for i := range d {
				moved := append([]float64(nil), y...)
				moved[i] += h
				up := muHat(t, plain, dev, moved)
				moved[i] -= 2 * h
				down := muHat(t, plain, dev, moved)
				for k := range d {
					want.Set(k, i, (up[k]-down[k])/(2*h))
				}
			}
			var square, asymmetry mat.Dense
			square.Mul(want, want)
			asymmetry.Sub(got, got.T())
			trace, frobenius2 := mat.Trace(got), math.Pow(mat.Norm(got, 2), 2)
			if math.Abs(trace-mat.Trace(want)) > 1e-5 || math.Abs(frobenius2-mat.Trace(&square)) > 1e-5 ||
				mat.Norm(&asymmetry, 2) > 1e-6 {
				t.Errorf("%s by %s: trace %g and squared norm %g, want %g and %g; asymmetric by %g",
					c.name, c.solver, trace, frobenius2, mat.Trace(want), mat.Trace(&square), mat.Norm(&asymmetry, 2))
			}
			if closed.Known && (math.Abs(closed.Trace-trace) > 1e-6 || math.Abs(closed.Frobenius2-frobenius2) > 1e-6) {
				t.Errorf("%s by %s: in closed form %g and %g, images give %g and %g", c.name, c.solver, closed.Trace,
					closed.Frobenius2, trace, frobenius2)
			}
			a.Release()
		}
	})
}
