package pipeline

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"surepipe/risk"
	"surepipe/stages"
)

// BlackBox is an estimator of which only the values are known: a Go function, or a program
// ([Command]).
type BlackBox struct {
	// Name is for messages and results.
	Name string
	// D is the length of y.
	D int
	// Eval returns mu_hat(y), D numbers, at the weights. It must give the same answer each time, does
	// not modify y, and is called from several goroutines at once, up to Options.Parallel.
	Eval func(ctx context.Context, weights, y []float64) ([]float64, error)
	// Divergence says how the risk is estimated, by default by MonteCarlo.
	Divergence BlackBoxMethod
	// Eps is the step of the differences of MonteCarlo, in units of y; 0 stands for DefaultStep
	// sigma, or where sigma2 is not known that share of the standard deviation of y.
	Eps float64
	// Alpha is the share of the noise that CoupledBootstrap adds, 0 for DefaultAlpha.
	Alpha float64
}

// BlackBoxMethod is a way to estimate the risk of a black box.
type BlackBoxMethod string

// The methods.
const (
	// MonteCarlo estimates the divergence by differences along random probes w of signs,
	//
	//	w . (f(y + eps w) - f(y)) / eps
	//
	// (Ramani, Blu and Unser, Monte-Carlo SURE, IEEE Trans. Image Processing 17, 2008), for an f
	// that is weakly differentiable: continuous, but for kinks. Everything that needs the
	// derivative follows from it: SURE, GCV, and so on, with their errors. The number of probes
	// follows from Options as for any estimator.
	//
	// The step must be small against the scale on which f bends, and large against its rounding
	// errors. The differences along the first probes are repeated with a step CheckFactor times as
	// large. Where they disagree, by more than chance and a quarter of sqrt(2d), or where their
	// squared norm falls like that of a jump, the result has the warning NotSmooth and is not
	// Trusted.
	MonteCarlo BlackBoxMethod = "monte-carlo"
	// CoupledBootstrap needs no derivative. With w ~ N(0, I),
	//
	//	y* = y + sqrt(alpha) sigma w   and   y' = y - sigma w / sqrt(alpha)
	//
	// are independent, so that the mean over w of
	//
	//	||y' - f(y*)||^2 - sigma2 ||w||^2/alpha - d sigma2
	//
	// is an unbiased estimate of the risk of any f, at noise of variance (1 + alpha) sigma2
	// (Oliveira, Lei and Tibshirani, Unbiased risk estimation in the normal means problem via
	// coupled bootstrap techniques, 2021). Draws are used in pairs w and -w, which cancels most of
	// the variance. It needs sigma2.
	CoupledBootstrap BlackBoxMethod = "coupled-bootstrap"
)

// BlackBoxMethods lists the methods.
func BlackBoxMethods() []BlackBoxMethod { return []BlackBoxMethod{MonteCarlo, CoupledBootstrap} }

// Defaults of a BlackBox.
const (
	// DefaultStep is the default of Eps, as a share of sigma: 1% of the noise is far above the rounding
	// errors of single precision, and kinks within it are few.
	DefaultStep = 0.01
	// CheckFactor is the factor between the steps that are compared.
	CheckFactor = 10
	// DefaultAlpha is the default of Alpha.
	DefaultAlpha = 0.1
)

// Estimate is the estimate of the risk at one y and one choice of the weights. The options are those
// of a [Pipeline]; ALO needs the exact trace, and Verify is refused.
//
// With MonteCarlo the fields of the result have their usual meaning, with differences in the place
// of the derivative. ||D f||_F^2 stands for tr(D f)^2 in SURE's own error bar, which it exceeds
// where D f is not symmetric. With CoupledBootstrap
//
//	SURE        the estimate of the risk, at noise (1 + alpha) sigma2
//	Residual    ||y - f(y)||^2
//	Trace       the divergence by which SURE = -d sigma2 + Residual + 2 sigma2 Trace; its StdErr
//	            times 2 sigma2 is the standard error of SURE over the draws, and Queries is the
//	            number of values of f that were used
//	StdErr      the error of infinitely many draws: that of SURE for g, the mean of f(y*) over w,
//	            from ||y - g||^2 and tr(D g)^2, both estimated from pairs of draws
//
// and GCV, AIC and BIC are not defined. An error of Eval is returned as it is, a wrong number of
// values or one that is not finite is an error too.
func (b *BlackBox) Estimate(ctx context.Context, weights, y []float64, o Options) (Risk, error) {
	if o.Parallel < 0 {
		return Risk{}, refuse("Parallel", o.Parallel, "%d calls at once, expected at least 0", o.Parallel)
	}
	return b.at(ctx, 0, weights, y, o, make(chan struct{}, max(o.Parallel, 1)))
}

// estimate is the estimate at a sample.
func (e *evaluations) estimate(ctx context.Context, o Options) (Risk, error) {
	if err := e.box.check(); err != nil {
		return Risk{}, err
	}
	if o.Verify != nil {
		return Risk{}, refuse("Verify", o.Verify, "a black box has nothing to compare with, expected no Verify")
	}
	if err := checkSample(e.y, e.box.D, o.Sigma2); err != nil {
		return Risk{}, fmt.Errorf("pipeline: %w", err)
	}
	if e.box.Divergence == CoupledBootstrap {
		return e.bootstrap(ctx, o)
	}
	return e.monteCarlo(ctx, o)
}

func (b *BlackBox) check() error {
	switch {
	case b.Eval == nil || b.D < 1:
		return fmt.Errorf("pipeline: a black box with D = %d, expected a positive number and a function", b.D)
	case b.Divergence != "" && !slices.Contains(BlackBoxMethods(), b.Divergence):
		return refuse("Divergence", b.Divergence, "the divergence of a black box is by %q, expected one of %q",
			b.Divergence, BlackBoxMethods())
	case !(b.Eps >= 0) || math.IsInf(b.Eps, 0):
		return refuse("Eps", b.Eps, "eps is %g, expected a positive number, or 0 for the default", b.Eps)
	case !(b.Alpha >= 0) || math.IsInf(b.Alpha, 0):
		return refuse("Alpha", b.Alpha, "alpha is %g, expected a positive number, or 0 for the default", b.Alpha)
	}
	return nil
}

// evaluations calls a black box at one choice of the weights.
type evaluations struct {
	box        *BlackBox
	weights, y []float64
	calls      chan struct{} // holds one value for each call in progress
	sample     int           // the sample's number, which its probes and draws depend on
}

// at is f(x), when a call may begin.
func (e *evaluations) at(ctx context.Context, x []float64) (f []float64, err error) {
	select {
	case e.calls <- struct{}{}:
		defer func() { <-e.calls }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer recovered(&err)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if f, err = e.box.Eval(ctx, e.weights, x); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, err
	}
	if len(f) != e.box.D {
		return nil, fmt.Errorf("%s has returned %d values, expected %d, as y has", e.box.Name, len(f), e.box.D)
	}
	for i, v := range f {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("%s has returned %g at [%d], expected finite numbers", e.box.Name, v, i)
		}
	}
	return f, nil
}

// step is y + h v.
func step(y []float64, h float64, v []float64) []float64 {
	x := make([]float64, len(y))
	for i, u := range y {
		x[i] = u + h*v[i]
	}
	return x
}

// undefined are the criteria of a result that has none.
var undefined = risk.Criteria{
	GCV: math.NaN(), GCVStdErr: math.NaN(), GCVTraceErr: math.NaN(), AIC: math.NaN(), BIC: math.NaN(),
	Sigma2DF: math.NaN(), ALO: math.NaN(), ALOStdErr: math.NaN(),
}

// own is the cause of an error of a sample: an estimate has one sample, whose number says nothing.
func own(err error) error {
	if sample := (*stages.SampleError)(nil); errors.As(err, &sample) {
		return sample.Err
	}
	return err
}
