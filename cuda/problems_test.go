//go:build cuda

package cuda_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/hutch"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/vjp"
)

// A setting is a named problem with data, solver and derivative.
type setting struct {
	name               string
	data               problems.Data
	hyper              problems.Hyper
	solver, derivative string
	// trace is the estimator, by default Hutch++. Conjugate gradients of an implicit
	// derivative stop for a quadratic form at an accuracy of 1e-5, and rounding decides
	// at which step that is: the exact trace goes on to where nothing is left to see.
	trace string
}

func (s setting) String() string { return s.name + "/" + s.solver + "/" + s.derivative }

func regression(t testing.TB, d, p int) problems.Data {
	return must(t)(problems.GenerateLasso(d, p, 3))
}

func must(t testing.TB) func(problems.Data, error) problems.Data {
	return func(data problems.Data, err error) problems.Data {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
}

// completion observes six tenths of a noisy matrix of rank 2.
func completion(m, n int) problems.Data {
	rng := rand.New(rand.NewPCG(7, 7))
	left, right := make([]float64, 2*m), make([]float64, 2*n)
	for _, v := range [][]float64{left, right} {
		for i := range v {
			v[i] = 3 * rng.NormFloat64()
		}
	}
	sigma2, lambda := 2.0, 8.0
	data := problems.Data{Shape: []int{m, n}, Sigma2: &sigma2, Lambda: &lambda}
	for _, at := range rng.Perm(m * n)[:6*m*n/10] {
		i, j := at/n, at%n
		data.Indices = append(data.Indices, at)
		data.Y = append(data.Y, left[2*i]*right[2*j]+left[2*i+1]*right[2*j+1]+math.Sqrt2*rng.NormFloat64())
	}
	data.YShape = []int{len(data.Y)}
	return data
}

// settings has every named problem, every solver and both derivatives.
func settings(t testing.TB) []setting {
	tall, wide := regression(t, 160, 70), regression(t, 130, 190)
	svt := must(t)(problems.GenerateSVT(14, 11, 3))
	mc := completion(16, 12)
	pca := must(t)(problems.GenerateRobustPCA(12, 13, 3))
	weights := problems.Hyper{Lambda: problems.Absolute(20)}
	both := problems.Hyper{Lambda: problems.OfMax(0.2), Lambda2: problems.Absolute(3)}
	return []setting{
		{"ols", tall, problems.Hyper{}, "direct", "auto", ""},
		{"ridge", wide, weights, "direct", "auto", ""},
		{"ridge", wide, weights, "admm", "implicit", ""},
		{"lasso", wide, problems.Hyper{}, "fista", "implicit", ""},
		{"lasso", wide, problems.Hyper{}, "fista", "unrolled", ""},
		{"lasso", tall, problems.Hyper{}, "admm", "unrolled", ""},
		{"elastic-net", wide, both, "fista", "implicit", ""},
		{"elastic-net", tall, both, "ista", "unrolled", ""},
		{"svt", svt, problems.Hyper{}, "ista", "implicit", ""},
		{"matrix-completion", mc, problems.Hyper{}, "fista", "implicit", hutch.Exact},
		{"matrix-completion", mc, problems.Hyper{}, "admm", "unrolled", ""},
		{"robust-pca", pca, problems.Hyper{}, "fista", "implicit", ""},
		{"robust-pca", pca, problems.Hyper{}, "fista", "unrolled", ""},
	}
}

// open builds the setting's pipeline on a device; release gives back what it holds.
func (s setting) open(ctx context.Context, dev array.Device, v vjp.Options, o pipeline.Options) (p *pipeline.Pipeline,
	release func(), err error) {
	defer func() {
		if fault := dev.Err(); err != nil && fault != nil {
			err = fault
		}
	}()
	problem, err := problems.New(s.name, dev, s.data, s.hyper)
	if err != nil {
		return nil, nil, err
	}
	v.Derivative = vjp.Derivative(s.derivative)
	solver, err := vjp.NewSolver(ctx, s.solver, problem.Solve(), v)
	if err != nil {
		problem.Release()
		return nil, nil, err
	}
	release = func() { solver.Release(); problem.Release() }
	o.Sigma2, o.Estimator = *s.data.Sigma2, s.trace
	if p, err = pipeline.New(solver, o); err != nil {
		release()
		return nil, nil, err
	}
	return p, release, nil
}

// estimate is the risk at the setting's own y.
func (s setting) estimate(ctx context.Context, dev array.Device, v vjp.Options, o pipeline.Options) (pipeline.Risk,
	error) {
	p, release, err := s.open(ctx, dev, v, o)
	if err != nil {
		return pipeline.Risk{}, err
	}
	defer release()
	return p.Estimate(ctx, s.data.Y)
}

// differs says where two risks disagree by more than a relative 1e-9.
func differs(got, want pipeline.Risk) error {
	for _, c := range []struct {
		what      string
		got, want float64
	}{
		{"SURE", got.SURE, want.SURE},
		{"divergence", got.Trace.Trace, want.Trace.Trace},
		{"residual", got.Residual, want.Residual},
		{"||D mu_hat||_F^2", got.Trace.Frobenius2, want.Trace.Frobenius2},
	} {
		if !(math.Abs(c.got-c.want) <= 1e-9*math.Abs(c.want)) {
			return fmt.Errorf("%s is %.17g, on the host %.17g", c.what, c.got, c.want)
		}
	}
	if got.Iterations != want.Iterations || got.Converged != want.Converged || got.Derivative != want.Derivative {
		return fmt.Errorf("%d iterations (converged %t, %s), on the host %d (%t, %s)",
			got.Iterations, got.Converged, got.Derivative, want.Iterations, want.Converged, want.Derivative)
	}
	return nil
}

// Solver, derivative and trace run on a card unchanged, and give what they give on the
// host.
func TestProblemsGiveTheHostsRisk(t *testing.T) {
	ctx := context.Background()
	devices := arraytest.Devices(t)
	// Large enough for cuBLAS.
	large := setting{"lasso", regression(t, 480, 620), problems.Hyper{}, "fista", "implicit", hutch.Exact}
	for _, s := range append(settings(t), large) {
		t.Run(s.String(), func(t *testing.T) {
			want, err := s.estimate(ctx, devices[0], vjp.Options{}, pipeline.Options{})
			if err != nil {
				t.Fatal(err)
			}
			for _, dev := range devices[1:] {
				arraytest.NoLeak(t, dev)
				got, err := s.estimate(ctx, dev, vjp.Options{}, pipeline.Options{})
				if err == nil {
					err = differs(got, want)
				}
				if err != nil {
					t.Errorf("%s: %v", dev.Name(), err)
				}
			}
		})
	}
}
