package surepipe

import (
	"context"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/loss"
	"surepipe/problems"
	"surepipe/prox"
	"surepipe/study"
	"surepipe/study/request"
)

// Own is an estimator of one's own, in place of [Options].Problem: b(y) = argmin_b l(A b; y) + r(K b).
type Own struct {
	// Name is what results call it, "own" by default.
	Name string
	// Operator is A, d x p: [linops.NewFunc] makes one of two functions. Behind is K, nil where r penalizes b.
	Operator, Behind linops.Operator
	// Regularizer returns r at weights: [prox.NewFunc] makes one of three functions. Weights are the names of those
	// that it uses, nil for lambda alone; the others are NaN.
	Regularizer func(lambda, lambda2, gamma float64) (prox.Prox, error)
	Weights     []string
	// Loss is l, nil for 1/2 ||A b - y||^2: [loss.Scalar] makes one of a function and its derivatives.
	Loss loss.Loss
	// Device is that of the batches of the parts, which the estimator then closes; nil where these work on any.
	Device array.Device
}

// BlackBox is an estimator of which only the values are known, in place of [Options].Problem.
type BlackBox struct {
	// Eval returns mu_hat(y), at the weights that are given, by their names. It must give the same answer each
	// time, does not modify y, and is called from several goroutines, up to [Compute].Parallel.
	Eval func(ctx context.Context, weights map[string]float64, y []float64) ([]float64, error)
	// Divergence is monte-carlo, differences along random probes with the step Eps, for continuous estimators; for any,
	// antithetic or coupled-bootstrap, at noise (1 + Alpha) sigma2; or thinning, for counts. 0 stands for the defaults.
	Divergence string
	Eps, Alpha float64
}

func (o *Own) of(r *request.Request) error {
	switch {
	case o.Operator == nil:
		return study.Errorf("--operator is nil, expected one")
	case o.Regularizer == nil:
		return study.Errorf("--regularizer is nil, expected a function of the weights")
	}
	r.Own = &problems.Own{Name: o.Name, Operator: o.Operator, Behind: o.Behind, Regularizer: o.Regularizer,
		Weights: o.Weights, Loss: o.Loss}
	if o.Weights == nil {
		r.Own.Weights = []string{"lambda"}
	}
	if o.Name == "" {
		r.Own.Name = "own"
	}
	r.Machine.On = o.Device
	return nil
}

func (b *BlackBox) of(r *request.Request, given map[string]bool) error {
	if b.Eval == nil {
		return study.Errorf("--eval is nil, expected a function of y")
	}
	r.Program.Func = b.Eval
	set(given, "divergence", &r.Program.Divergence, b.Divergence, b.Divergence != "")
	set(given, "eps", &r.Program.Eps, b.Eps, b.Eps != 0)
	set(given, "alpha", &r.Program.Alpha, b.Alpha, b.Alpha != 0)
	return nil
}
