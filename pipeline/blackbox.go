package pipeline

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"surepipe/input"
	"surepipe/internal/lists"
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
	// Alpha is the share of the noise that is added, 0 for that of the method's row.
	Alpha float64
}

// BlackBoxMethod is a way to estimate the risk of a black box.
type BlackBoxMethod string

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
	// large. Where they disagree, by more than chance and a quarter of sqrt(2d), where their squared
	// norm falls like that of a jump, or where small steps change nothing that large ones do, the result
	// has the warning NotSmooth and is not Trusted.
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
	// coupled bootstrap techniques, 2021). Draws are those of Antithetic, and only the default of alpha is
	// another. It needs sigma2.
	CoupledBootstrap BlackBoxMethod = "coupled-bootstrap"
	// Antithetic is the same mean over sets of K draws w_k ~ N(0, I) that sum to zero,
	//
	//	w_k = sqrt(K/(K - 1)) (x_k - mean x),   x_k ~ N(0, I) independent
	//
	// so that what is linear in w cancels in a set, and the variance stays bounded as alpha falls (Liu, Panigrahi and
	// Soloff, Cross-validation with antithetic Gaussian randomization, JRSS B 2026): alpha can be small, and the
	// risk is that at almost the noise of y.
	Antithetic BlackBoxMethod = "antithetic"
	// Thinning is for counts y_i ~ Poisson(mu_i), without sigma2. The units of each count fall into K = 1 + 1/alpha
	// folds at random; what is in fold k, y_k, and the rest, y - y_k, are then independent, and with epsilon = 1/K
	//
	//	sum_i mean_k f_ik^2 - 2 (y_ik/epsilon) f_ik + y_i (y_i - 1),   f_k = f(y - y_k)/(1 - epsilon),
	//
	// is an unbiased estimate of E||f_k - mu||^2, the squared error at 1/(1 + alpha) of the exposure (Neufeld,
	// Dharamshi, Gao and Witten, Data thinning for convolution-closed distributions, 2024).
	Thinning BlackBoxMethod = "thinning"
)

// BlackBoxRow is all that is known of a method.
type BlackBoxRow struct {
	Name BlackBoxMethod
	// Help explains it in lines of at most 66 columns.
	Help string
	// Sigma2 says that it needs sigma2, and Counts that y are counts, which it needs no sigma2 for.
	Sigma2, Counts bool
	// Alpha is the default of BlackBox.Alpha, 0 where the method has none; Least is the least number of values.
	Alpha float64
	Least int
	// Risk says which risk the estimate is of, with a verb for alpha; "" for that at y's own noise.
	Risk string

	estimate func(*evaluations, context.Context, Options) (Risk, error)
}

// BlackBoxRows is the table of the methods.
func BlackBoxRows() []BlackBoxRow {
	return []BlackBoxRow{
		{Name: MonteCarlo, estimate: (*evaluations).monteCarlo, Least: 2,
			Help: `the divergence by differences along random signs w (Ramani, Blu, Unser
2008), w . (f(y + eps w) - f(y))/eps: for an f that is continuous. All
that follows from the derivative is in the output: sure, gcv, ... The
first differences are repeated with ten times the step: where they
disagree the result is marked not-smooth, and the exit status is 3.
--eps is the step, by default 0.01 sigma`},
		{Name: Antithetic, estimate: (*evaluations).antithetic, Sigma2: true, Alpha: 0.01, Least: 4,
			Risk: atMoreNoise,
			Help: `needs no derivative: hard thresholding, selection, rounding are fine.
sure is the risk at noise (1 + alpha) sigma2, with --alpha 0.01 by
default, unbiased, from sets of draws that sum to zero (Liu, Panigrahi,
Soloff 2026). 2 sigma2 divergence_stderr is its error over the draws,
and sure_stderr that of infinitely many. jacobian_fro2 is tr(D g)^2,
where g is the mean of the command's answers over the draws`},
		{Name: CoupledBootstrap, estimate: (*evaluations).antithetic, Sigma2: true, Alpha: DefaultAlpha, Least: 4,
			Risk: atMoreNoise,
			Help: `the same with --alpha 0.1 by default (Oliveira, Lei, Tibshirani 2021):
for an f with many jumps, whose error over the draws grows as alpha
falls`},
		{Name: Thinning, estimate: (*evaluations).thinning, Counts: true, Alpha: DefaultAlpha, Least: 4,
			Risk: "the squared error of an estimate from 1/(1 + alpha) of the counts, for alpha = %g",
			Help: `for counts (Poisson noise), without --sigma2: y is divided into
1 + 1/alpha folds of independent counts; f of the others predicts each.
sure is the squared error of mu_hat at 1/(1 + alpha) of the exposure,
unbiased; sigma2 stands for the mean of y`},
	}
}

const atMoreNoise = "the squared error at noise of variance (1 + alpha) sigma2, for alpha = %g"

// BlackBoxMethods lists the methods.
func BlackBoxMethods() []BlackBoxMethod {
	return lists.Map(BlackBoxRows(), func(r BlackBoxRow) BlackBoxMethod { return r.Name })
}

// Row is the method's row, that of MonteCarlo for "" and for a name that is none.
func (m BlackBoxMethod) Row() BlackBoxRow {
	rows := BlackBoxRows()
	return rows[max(0, slices.IndexFunc(rows, func(r BlackBoxRow) bool { return r.Name == m }))]
}

// Defaults of a BlackBox.
const (
	// DefaultStep is the default of Eps, as a share of sigma: 1% of the noise is far above the rounding
	// errors of single precision, and kinks within it are few.
	DefaultStep = 0.01
	// CheckFactor is the factor between the steps that are compared.
	CheckFactor  = 10
	DefaultAlpha = 0.1
)

// Estimate is the estimate of the risk at one y and one choice of the weights. The options are those
// of a [Pipeline]; ALO needs the exact trace, and Verify is refused.
//
// With MonteCarlo the fields of the result have their usual meaning, with differences in the place
// of the derivative. ||D f||_F^2 stands for tr(D f)^2 in SURE's own error bar, which it exceeds
// where D f is not symmetric. With the other methods
//
//	SURE        the estimate of the risk, at noise (1 + alpha) sigma2
//	Residual    ||y - f(y)||^2
//	Trace       the divergence by which SURE = -d sigma2 + Residual + 2 sigma2 Trace; its StdErr
//	            times 2 sigma2 is the standard error of SURE over the draws, and Queries is the
//	            number of values of f that were used
//	StdErr      the error of infinitely many draws: that of SURE for g, the mean of f(y*) over w,
//	            from ||y - g||^2 and tr(D g)^2, both estimated from products of draws; with Thinning from the
//	            spread of the estimate's terms over the coordinates
//
// and GCV, AIC and BIC are not defined. An error of Eval is returned as it is, a wrong number of
// values or one that is not finite is an error too.
func (b *BlackBox) Estimate(ctx context.Context, weights, y []float64, o Options) (Risk, error) {
	if o.Parallel < 0 {
		return Risk{}, refuse("Parallel", o.Parallel, "%d calls at once, expected at least 0", o.Parallel)
	}
	return b.at(ctx, 0, weights, y, o, make(chan struct{}, max(o.Parallel, 1)))
}

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
	return e.box.Divergence.Row().estimate(e, ctx, o)
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
		return nil, input.Errorf("%s has returned %d values, expected %d, as y has", e.box.Name, len(f), e.box.D)
	}
	for i, v := range f {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, input.Errorf("%s has returned %g at [%d], expected finite numbers", e.box.Name, v, i)
		}
	}
	return f, nil
}

func step(y []float64, h float64, v []float64) []float64 {
	return floats.AddScaledTo(make([]float64, len(y)), y, h, v)
}

func own(err error) error {
	if sample := (*stages.SampleError)(nil); errors.As(err, &sample) {
		return sample.Err
	}
	return err
}

// StreamFrom is the estimates at samples numbered first, first+1, ... and one choice of the weights,
// in their order, as of [Pipeline.StreamFrom]: sample i has probes, or draws, of its own. The samples
// come one after the other, each with up to Options.Parallel calls at once. The stream ends at the
// first error, which is yielded last; that of one sample is a [SampleError].
func (b *BlackBox) StreamFrom(ctx context.Context, first int, weights []float64, ys iter.Seq2[[]float64, error],
	o Options) iter.Seq2[Risk, error] {
	return func(yield func(Risk, error) bool) {
		if o.Parallel < 0 {
			yield(Risk{}, refuse("Parallel", o.Parallel, "%d calls at once, expected at least 0", o.Parallel))
			return
		}
		calls := make(chan struct{}, max(o.Parallel, 1))
		index := first
		for y, err := range ys {
			var r Risk
			if err == nil {
				if r, err = b.at(ctx, index, weights, y, o, calls); err != nil && ctx.Err() == nil {
					err = &stages.SampleError{Index: index, Err: err}
				}
			}
			if err != nil {
				yield(Risk{}, err)
				return
			}
			if !yield(r, nil) {
				return
			}
			index++
		}
		if err := ctx.Err(); err != nil {
			yield(Risk{}, err)
		}
	}
}

// Repeat is the estimates at y, as the sample of that index, with each seed in turn in the place of
// Options.Seed. It ends like StreamFrom.
func (b *BlackBox) Repeat(ctx context.Context, index int, weights, y []float64, seeds iter.Seq[uint64],
	o Options) iter.Seq2[Risk, error] {
	one := func(yield func([]float64, error) bool) { yield(y, nil) }
	return func(yield func(Risk, error) bool) {
		for seed := range seeds {
			o.Seed = seed
			for r, err := range b.StreamFrom(ctx, index, weights, one, o) {
				if err != nil {
					err = fmt.Errorf("seed %d: %w", seed, err)
				}
				if !yield(r, err) || err != nil {
					return
				}
			}
		}
	}
}

// at is the estimate at the sample of an index; calls, which other estimates may share, bounds the calls at once.
func (b *BlackBox) at(ctx context.Context, index int, weights, y []float64, o Options, calls chan struct{}) (Risk,
	error) {
	if progress := o.Progress; progress != nil {
		o.Progress = func(p Progress) {
			p.Sample = index
			progress(p)
		}
	}
	e := &evaluations{box: b, weights: slices.Clone(weights), y: y, calls: calls, sample: index}
	r, err := e.estimate(ctx, o)
	r.Index = index
	return r, err
}
