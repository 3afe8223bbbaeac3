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
	"surepipe/prox"
	"surepipe/vjp"
)

// A sum of maximum norms of groups has one solution, on working sets (fista) or not
// (admm).
func TestGroupLinfIsTheSameByEverySolver(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		const d, p = 150, 600
		rng := rand.New(rand.NewPCG(4, 2))
		x, y := mat.NewDense(d, p, nil), make([]float64, d)
		var groups [][]int
		for j := 0; j < p; j += 4 {
			groups = append(groups, []int{j, j + 1, j + 2, j + 3})
		}
		for i := range d {
			for j := range p {
				x.Set(i, j, rng.NormFloat64())
				if j < 20 {
					y[i] += 2 * x.At(i, j)
				}
			}
			y[i] += rng.NormFloat64()
		}
		r, err := prox.NewGroupLinf(dev, p, 200, groups, nil)
		if err != nil {
			t.Fatal(err)
		}
		a := linops.NewDense(dev, x)
		var first pipeline.Risk
		for i, name := range []string{"admm", "fista", "ista"} {
			solver, err := vjp.NewSolver(context.Background(), name, vjp.Problem{A: a, R: r, Device: dev},
				vjp.Options{Tol: 1e-10, MaxIter: 20000})
			if err != nil {
				t.Fatal(err)
			}
			line, err := pipeline.New(solver, pipeline.Options{Sigma2: 1, Estimator: "exact"})
			if err != nil {
				t.Fatal(err)
			}
			risk, err := line.Estimate(context.Background(), y)
			if err != nil {
				t.Fatal(err)
			}
			if !risk.Converged || !(risk.Trace.Trace > 1) {
				t.Errorf("%s: converged is %v, the divergence %g", name, risk.Converged, risk.Trace.Trace)
			}
			if i == 0 {
				first = risk
			}
			if math.Abs(risk.Residual-first.Residual) > 1e-6*first.Residual ||
				math.Abs(risk.Trace.Trace-first.Trace.Trace) > 1e-6*first.Trace.Trace {
				t.Errorf("%s: residual %g and divergence %g, expected %g and %g", name, risk.Residual,
					risk.Trace.Trace, first.Residual, first.Trace.Trace)
			}
			solver.Release()
		}
	})
}
