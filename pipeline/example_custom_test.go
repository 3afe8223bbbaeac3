package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"surepipe/array"
	"surepipe/hutch"
	"surepipe/linops"
	"surepipe/linops/linopstest"
	"surepipe/pipeline"
	"surepipe/prox"
	"surepipe/prox/proxtest"
	"surepipe/vjp"
)

// rotation is the operator that moves every coordinate s places on, around the circle
// of n. Its adjoint moves them back.
func rotation(n, s int) linops.Operator {
	return linops.NewFunc(n, n,
		func(dst, b []float64) { copy(dst[copy(dst, b[n-s:]):], b) },
		func(dst, z []float64) { copy(dst[copy(dst, z[s:]):], z) })
}

// exponential is the regularizer r(b) = lambda sum_j b_j where b >= 0, else +Inf: minus
// the logarithm of the density of independent exponential variables. With v > t lambda,
//
//	prox_{t r}(v)_j = v_j - t lambda, J_jj = 1, and otherwise both are 0.
func exponential(lambda float64) prox.Prox {
	return prox.NewFunc(0,
		func(dst, v []float64, t float64) error {
			for j := range v {
				dst[j] = max(v[j]-t*lambda, 0)
			}
			return nil
		},
		func(dst, v, z []float64, t float64) {
			for j := range v {
				if dst[j] = 0; v[j] > t*lambda {
					dst[j] = z[j]
				}
			}
		},
		func(b []float64) (r float64) {
			for j := range b {
				if r += lambda * b[j]; b[j] < 0 {
					return math.Inf(1)
				}
			}
			return r
		})
}

// Your own operator and regularizer, as closures on slices: the conformance suites first, then the
// risk, here beside its closed form. The operator is orthogonal, so that y_i contributes min(y_i,
// lambda)^2 to the residual, and 1 to the divergence where it is above lambda.
func Example_custom() {
	const d, lambda, sigma2 = 200, 1.5, 0.25
	ctx, dev := context.Background(), array.NewHost()

	a, r := rotation(d, 7), exponential(lambda)
	if err := errors.Join(linopstest.Check(dev, a), proxtest.Check(dev, r, d)); err != nil {
		panic(err) // in a test: t.Fatal
	}
	solver, err := vjp.NewSolver(ctx, "fista", vjp.Problem{A: a, R: r, Device: dev}, vjp.Options{})
	if err != nil {
		panic(err)
	}
	defer solver.Release()
	p, err := pipeline.New(solver, pipeline.Options{Sigma2: sigma2, Estimator: hutch.Exact})
	if err != nil {
		panic(err)
	}

	rng := rand.New(rand.NewPCG(1, 2))
	y := make([]float64, d)
	residual, divergence := 0.0, 0.0
	for i := range y {
		y[i] = rng.ExpFloat64() + 0.5*rng.NormFloat64()
		residual += math.Pow(min(y[i], lambda), 2)
		if y[i] > lambda {
			divergence++
		}
	}
	risk, err := p.Estimate(ctx, y)
	if err != nil {
		panic(err)
	}
	fmt.Printf("divergence %.6f, by hand %.0f\n", risk.Trace.Trace, divergence)
	fmt.Printf("SURE %.6f, by hand %.6f\n", risk.SURE, -d*sigma2+residual+2*sigma2*divergence)
	// Output:
	// divergence 46.000000, by hand 46
	// SURE 171.005113, by hand 171.005113
}
