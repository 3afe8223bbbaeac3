package stages

import (
	"context"
	"fmt"
	"math"
	"time"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"surepipe/hutch"
	"surepipe/verify"
	"surepipe/vjp"
)

// Risk is what is known about one sample's estimator at the end: Stein's
// unbiased risk estimate and what it is made of.
type Risk struct {
	// Index is the sample's place in the stream.
	Index int
	// SURE = -d sigma2 + Residual + 2 sigma2 Divergence.
	SURE float64
	// StdErr estimates the root mean square of SURE - ||mu_hat - mu||^2,
	//
	//	sqrt(4 sigma2 Residual + 4 sigma2^2 ||D mu_hat||_F^2 - 2 sigma2^2 d),
	//
	// where the radicand is an unbiased estimate (Bellec and Zhang 2021), or half the root of
	//
	//	2 sigma2^2 ||I - 2 D mu_hat||_F^2 = 2 sigma2^2 (d - 4 div + 4 ||D mu_hat||_F^2)
	//
	// where that is larger. The radicand's expectation is at least this: for f = y - mu_hat
	// the terms of first order of its expansion in Hermite polynomials give
	// E||f||^2 >= sigma2 ||E Df||_F^2 (Cacoullos 1982), with Df = I - D mu_hat; sigma2 times
	// ||I - D||_F^2 = d - 2 div + ||D||_F^2 in the place of Residual gives the root above, D at this y
	// standing for its expectation. (Half of it: an estimate that is often near its least
	// expectation, as that of a LASSO is, would be biased by the maximum of the two.) An error bar of 0 is
	// thus that of a Jacobian whose eigenvalues are all 1/2, at least within the error of the
	// trace. See Floored.
	StdErr float64
	// Floored reports that the unbiased estimate of StdErr's square is not positive, and StdErr is its
	// floor: sigma2 is larger than what the residual allows, or the draw is a rare one.
	Floored bool
	// Residual is ||y - mu_hat||^2.
	Residual float64
	// Trace is the estimate of the divergence tr(D mu_hat) and of ||D mu_hat||_F^2. The
	// divergence's error is Trace.Error(): that of the probes, and what conjugate gradients cut short
	// leave out.
	Trace hutch.Estimate
	// DivergenceLow and DivergenceHigh are the least and the largest divergence that decisions
	// within rounding errors and the solver's tolerance allow for ([vjp.Closed]); both are
	// Trace.Trace where none is in doubt or nothing is known of them.
	DivergenceLow, DivergenceHigh float64
	// RankMargin is the factor by which the smallest direction that was counted as seen by A
	// exceeds what would have counted as rounding errors; 0 where no rank was decided.
	RankMargin float64
	// D is the number of observations and Sigma2 the variance of their noise that the numbers
	// are made with.
	D      int
	Sigma2 float64
	// Convergence is the solver's record; Derivative how it was differentiated.
	vjp.Convergence
	Derivative string
	// Choices tells how the solver went about the problem by its structure, and why.
	Choices []vjp.Choice
	// InnerSteps is the largest number of inner iterations that the implicit
	// derivative has taken for a probe, and Unsolved how many probes stopped short of
	// their tolerance: then Trace is not to be trusted.
	InnerSteps, Unsolved int
	// Implausible reports a Trace that no Jacobian of such an estimator has: its
	// eigenvalues lie in [0, 1], so that 0 <= tr D mu_hat <= d. The unrolled derivative
	// of an iterate far from the solution can be like that.
	Implausible bool
	// Verification is what an independent check found; nil where none was asked for. Its time is
	// no part of those below.
	Verification *verify.Verification
	// CacheBytes is the device memory that the linearization held.
	CacheBytes int64
	// MuHat (length d) and B (length p) are the estimates.
	MuHat, B []float64
	// Solve, Divergence and Total are wall-clock times: of the solver, from
	// there to the last probe, and both.
	Solve, Divergence, Total time.Duration
}

// Outcome is what has become of sample Risk.Index: its risk, or, where Err is not nil,
// its failure, and then nothing but the index is set in Risk.
type Outcome struct {
	Risk Risk
	Err  error
}

// Assemble is the stage that waits for all probes of a job, computes its risk, or
// reports its failure as a [SampleError], and frees what the job held. It must run as one worker, for it counts each
// job's probes. progress, if not nil, is told after every batch how many
// of the job's probes are done.
func Assemble(sigma2 float64, jobs *Jobs, progress func(sample, done, total int)) Stage[Probes, Outcome] {
	return func(ctx context.Context, in <-chan Probes, out chan<- Outcome) error {
		done := map[*Job]int{}
		return each(ctx, in, func(p Probes) error {
			job := p.Job
			done[job] += p.Count
			total := job.planned
			if progress != nil && !job.failed() {
				progress(job.Index, job.Plan.Sketch+done[job], job.Plan.Sketch+total)
			}
			if done[job] < total {
				return nil
			}
			delete(done, job)
			var risk Risk
			if !job.failed() {
				var err error
				risk, err = assemble(sigma2, job)
				if err := job.settle(ctx, job.device(), err); err != nil {
					return err
				}
			}
			jobs.Release(job)
			if failure := job.failure.Load(); failure != nil {
				return send(ctx, out, Outcome{Risk{Index: job.Index}, failure})
			}
			return send(ctx, out, Outcome{Risk: risk})
		})
	}
}

// errorBar is the unbiased estimate of Risk.StdErr: 0 where that of its square is negative.
func errorBar(sigma2, residual, frobenius2 float64, d int) float64 {
	// In units of sigma2: the squares of large data stay in range.
	return sigma2 * math.Sqrt(max(0, 4*(residual/sigma2+frobenius2)-2*float64(d)))
}

// bar is Risk.StdErr and Risk.Floored for the solver's part of the trace.
func (j *Job) bar(sigma2 float64, trace hutch.Estimate) (bar float64, floored bool) {
	trace.Trace += j.constants
	trace.Frobenius2 += j.constants
	bar = errorBar(sigma2, j.Residual, trace.Frobenius2, len(j.Y))
	return max(bar, floor(sigma2, trace, len(j.Y))/2), bar == 0
}

// floor is twice the least value of Risk.StdErr. An estimate of ||I - 2 D||_F^2 may come out below
// the square of the trace over d, which it never is.
func floor(sigma2 float64, trace hutch.Estimate, d int) float64 {
	n := float64(d)
	least := n - 2*trace.Trace
	return sigma2 * math.Sqrt(2*max(n-4*trace.Trace+4*trace.Frobenius2, least*least/n))
}

// addMean adds the intercept's part to the solver's estimate, which must have none.
func (j *Job) addMean(muHat []float64) error {
	const most = 1e-6
	d := float64(len(muHat))
	if constant := stat.Mean(muHat, nil); math.Abs(constant)*math.Sqrt(d) > most*(floats.Norm(muHat, 2)+math.Sqrt(j.Residual)) {
		return fmt.Errorf("the estimate has mean %g without the intercept, expected 0: the columns of A are not centered", constant)
	}
	floats.AddConst(j.mean, muHat)
	return nil
}

func assemble(sigma2 float64, job *Job) (Risk, error) {
	// A device that has failed gives numbers that are none: its fault is what to report.
	dev := job.view
	if err := dev.Sync(); err != nil {
		return Risk{}, err
	}
	trace, err := job.estimate()
	if err != nil {
		return Risk{}, err
	}
	bar, floored := job.bar(sigma2, trace)
	trace.Trace += job.constants
	trace.Frobenius2 += job.constants
	now := time.Now()
	if !job.ended.IsZero() {
		now = job.ended
	}
	d := float64(len(job.Y))
	r := Risk{
		Index:       job.Index,
		SURE:        -d*sigma2 + job.Residual + 2*sigma2*trace.Trace,
		StdErr:      bar,
		Floored:     floored,
		Residual:    job.Residual,
		Trace:       trace,
		D:           len(job.Y),
		Sigma2:      sigma2,
		Convergence: job.Solution.Convergence,
		Derivative:  job.Solution.Linearization.Kind(),
		Choices:     job.Solution.Choices,

		Verification: job.verification,

		CacheBytes: job.Solution.Linearization.Bytes(),
		MuHat:      job.Solution.MuHat.ToHost(),
		B:          job.Solution.B.ToHost(),
		Solve:      job.Solved.Sub(job.Begun),
		Divergence: now.Sub(job.Solved),
		Total:      now.Sub(job.Begun),
	}
	r.DivergenceLow, r.DivergenceHigh = trace.Trace-job.lower, trace.Trace+job.higher
	if !math.IsInf(job.margin, 1) {
		r.RankMargin = job.margin
	}
	inner := job.Solution.Linearization.Inner()
	r.InnerSteps, r.Unsolved = inner.Steps, inner.Failed
	slack := 4*trace.Error() + 1e-3*d
	r.Implausible = trace.Trace < -slack || trace.Trace > d+slack || trace.Frobenius2 > 2*d
	if err := dev.Err(); err != nil {
		return Risk{}, err
	}
	if job.constants > 0 {
		if err := job.addMean(r.MuHat); err != nil {
			return Risk{}, err
		}
	}
	if math.IsNaN(r.SURE) || math.IsInf(r.SURE, 0) {
		return Risk{}, fmt.Errorf("SURE is %g: residual %g, divergence %g", r.SURE, r.Residual, trace.Trace)
	}
	return r, dev.Sync()
}
