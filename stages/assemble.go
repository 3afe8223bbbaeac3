package stages

import (
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"sync"

	"gonum.org/v1/gonum/floats"

	"surepipe/hutch"
	"surepipe/progress"
	"surepipe/risk"
	"surepipe/vjp"
)

// Outcome is the result for sample Risk.Index: its risk, or its failure Err, and then only the
// index of Risk is set.
type Outcome struct {
	Risk Risk
	Err  error
}

// Assemble is the step that waits for all probes of a job, computes its risk, or reports its
// failure as a [SampleError], and frees what the job held. report, if not nil, is called after every batch
// with the number of the job's probes that are done.
func Assemble(sigma2 float64, jobs *Jobs, report func(sample int, r progress.Report)) Step[Probes, Outcome] {
	return func(ctx context.Context, p Probes, send func(Outcome) error) error {
		job := p.Job
		done, total := int(job.ready.Add(int64(p.Count))), job.planned
		if report != nil && !job.failed() {
			report(job.Index, job.counted(done))
		}
		if done < total {
			return nil
		}
		var result Risk
		if !job.failed() {
			var err error
			result, err = assemble(ctx, sigma2, job)
			if err := job.settle(ctx, err); err != nil {
				return err
			}
		}
		jobs.Release(job)
		if failure := job.failure.Load(); failure != nil {
			return send(Outcome{Risk{Index: job.Index}, failure})
		}
		return send(Outcome{Risk: result})
	}
}

// counted is the report that so many of the planned probes after the sketch are done. Those that
// Refine has added are done with the last one.
func (j *Job) counted(done int) progress.Report {
	r := progress.Report{Stage: progress.Probes, Step: j.count(hutch.Sketching) + done,
		Steps: j.count(hutch.Sketching) + j.planned}
	if done >= j.planned {
		r.Steps = j.count(hutch.Sketching) + j.count(hutch.Projected) + j.count(hutch.Residual)
		r.Step = r.Steps
	}
	return r
}

func assemble(ctx context.Context, sigma2 float64, job *Job) (Risk, error) {
	// The numbers of a view that has failed are meaningless, so its fault is reported.
	dev := job.view
	if err := dev.Sync(); err != nil {
		return Risk{}, err
	}
	trace, err := job.estimate()
	if err != nil {
		return Risk{}, err
	}
	terms, solverTrace, sol := job.terms(sigma2, trace), trace, job.solution
	implausible := terms.Implausible(trace.Error())
	unknown := implausible && sol.Linearization.Kind() == string(vjp.Unrolled)
	if unknown {
		terms, trace.StdErr = terms.Bounded(), float64(terms.D)
	}
	trace.Trace, trace.Frobenius2 = terms.Divergence, terms.Frobenius2
	known := sol.Linearization.Closed()
	r := Risk{
		Index:       job.Index,
		SURE:        terms.SURE(),
		StdErr:      terms.StdErr(),
		Floored:     terms.Floored(),
		Residual:    job.residual,
		Trace:       trace,
		D:           len(job.Y),
		Sigma2:      sigma2,
		stand:       job.weighing(sigma2, solverTrace).Sigma2,
		Convergence: sol.Convergence,
		Derivative:  sol.Linearization.Kind(),
		Choices:     slices.Concat(sol.Choices, job.chosen),
		Implausible: implausible,

		Verification: job.verification, MeanWeight: job.meanWeight,

		DivergenceLow:  trace.Trace - (known.Trace - known.Low),
		DivergenceHigh: trace.Trace + (known.High - known.Trace),
		Neighbours:     known.Neighbours,

		CacheBytes: sol.Linearization.Bytes(),
		MuHat:      job.muHat(),
	}
	job.spent(&r)
	if job.settings.KeepB {
		r.B, r.Factors = job.b()
	}
	if !math.IsInf(known.Margin, 1) {
		r.RankMargin = known.Margin
	}
	if !math.IsInf(known.SpaceMargin, 1) {
		r.SpaceMargin = known.SpaceMargin
	}
	inner := sol.Linearization.Inner()
	r.InnerSteps, r.Unsolved = inner.Steps, inner.Failed
	if err := dev.Err(); err != nil {
		return Risk{}, err
	}
	if job.rewritten() {
		if err := job.deliver(r.MuHat); err != nil {
			return Risk{}, err
		}
	}
	if sum := r.Residual + trace.Trace; sigma2 == 0 && (math.IsNaN(sum) || math.IsInf(sum, 0)) {
		return Risk{}, fmt.Errorf("residual %g, divergence %g", r.Residual, trace.Trace)
	}
	if sigma2 > 0 && (math.IsNaN(r.SURE) || math.IsInf(r.SURE, 0)) {
		return Risk{}, fmt.Errorf("SURE is %g: residual %g, divergence %g", r.SURE, r.Residual, trace.Trace)
	}
	if err := job.criteria(ctx, &r); err != nil {
		return Risk{}, err
	}
	if unknown {
		r.SURE, r.StdErr, r.Floored, r.Criteria = math.NaN(), math.NaN(), false, risk.Undefined()
	}
	if job.leverages != nil {
		r.Leverages = risk.LeveragesOf(job.leverages, job.determined())
	}
	r.Digest, r.LeftOut = job.digest(r), job.left
	return r, dev.Sync()
}

func (j *Job) muHat() []float64 {
	if j.settings.NoMuHat && !j.rewritten() && j.lossTerms == nil {
		return nil
	}
	mu := make([]float64, len(j.Y))
	j.readMuHat(mu, 0)
	return mu
}

// readMuHat sets dst to the entries from, from+1, ... of the solver's mu_hat.
func (j *Job) readMuHat(dst []float64, from int) {
	if implied := j.solution.Implied; implied != nil {
		implied.MuHat(dst, from)
		return
	}
	j.view.Download(dst, j.solution.MuHat.Cols(from, from+len(dst)))
}

func (j *Job) factors() *vjp.Factors {
	if implied := j.solution.Implied; implied != nil && implied.Factors != nil {
		return implied.Factors()
	}
	return nil
}

func (j *Job) b() ([]float64, *vjp.Factors) {
	implied := j.solution.Implied
	if implied == nil {
		return j.solution.B.ToHost(), nil
	}
	if low := j.factors(); low != nil {
		return nil, low
	}
	_, p := j.problem.A.Dims()
	b := make([]float64, p)
	implied.B(b, 0)
	return b, nil
}

const residualPart = 1 << 18

// residuals are y - mu_hat, in parts that are valid until the next one. mu is mu_hat where it is at
// hand.
func (j *Job) residuals(mu []float64) iter.Seq[[]float64] {
	part := make([]float64, min(len(j.Y), residualPart))
	return func(yield func([]float64) bool) {
		for from := 0; from < len(j.Y); from += len(part) {
			part := part[:min(len(part), len(j.Y)-from)]
			if mu != nil {
				copy(part, mu[from:])
			} else {
				j.readMuHat(part, from)
			}
			floats.SubTo(part, j.Y[from:from+len(part)], part)
			if !yield(part) {
				return
			}
		}
	}
}

func (j *Job) allResiduals(mu []float64) []float64 {
	all := make([]float64, 0, len(j.Y))
	for part := range j.residuals(mu) {
		all = append(all, part...)
	}
	return all
}

func (j *Job) criteria(ctx context.Context, r *Risk) error {
	if r.LossTerms = j.lossTerms; r.LossTerms != nil {
		return j.lossCriteria(ctx, r)
	}
	if j.settings.Noise.Rho != 0 {
		return j.correlatedCriteria(ctx, r)
	}
	r.Criteria = r.Terms().CriteriaOf(r.Trace.Error(), j.residuals(r.MuHat))
	plain := sync.OnceValue(func() []float64 { return j.allResiduals(r.MuHat) })
	all := sync.OnceValue(func() []float64 { return j.forLeaving(slices.Clone(plain())) })
	if err := j.leaveGroupsSquared(ctx, r, plain); err != nil || j.several() {
		return err
	}
	left, err := j.leaveOneOut(func(diagonal []float64) (losses []float64, mean, stdErr float64, err error) {
		mean, stdErr, err = risk.LeaveOneOut(all(), diagonal)
		return nil, mean, stdErr, err
	}, func() risk.LeftOut { return risk.SquaredLeftOut(all()) })
	if err == nil {
		j.oneStep = left
		r.Refits, err = j.refitSquares(ctx, &left, all)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err == nil {
		r.ALO, r.ALOStdErr, r.ALOProbesErr = left.Mean, left.StdErr, left.ProbesErr
		r.NotLeftOut = j.notLeftOut()
		return nil
	}
	r.noLeaveOneOut(err, j.settings.ALO)
	return nil
}
