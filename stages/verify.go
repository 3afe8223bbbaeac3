package stages

import (
	"context"
	"math"
	"time"

	"surepipe/array"
	"surepipe/hutch"
	"surepipe/progress"
	"surepipe/verify"
	"surepipe/vjp"
)

// Verify is the step that checks a job's result, when all its probes are done, by means other than
// those that computed it. solver is the one that solved the job.
func Verify(solver vjp.Solver, sigma2 float64, o verify.Options) Step[Probes, Probes] {
	return func(ctx context.Context, p Probes, send func(Probes) error) error {
		job := p.Job
		if job.last(&job.arrived, p.Count) && !job.failed() {
			if err := job.settle(ctx, job.verify(ctx, solver, sigma2, o)); err != nil {
				return err
			}
		}
		return send(p)
	}
}

func (j *Job) verify(ctx context.Context, solver vjp.Solver, sigma2 float64, o verify.Options) error {
	j.ended = time.Now()
	if report := j.settings.Report; report != nil {
		ctx = progress.With(ctx, func(r progress.Report) {
			r.Stage = progress.Verification
			report(j.Index, r)
		})
	}
	trace, err := j.estimate()
	if err != nil {
		return err
	}
	weighing := j.weighing(sigma2, trace)
	r, err := assemble(ctx, sigma2, j)
	if err != nil {
		return err
	}
	j.solution.Expand(j.view)
	at, y := j.solution, j.y
	leftOut := j.leftOutOf(r)
	if j.within != nil {
		at, y, leftOut = j.within.solution, j.within.y, nil
		at.Expand(j.view)
	}
	j.verification, err = verify.Check(ctx, verify.Result{
		Solver: solver, Y: y, B: at.B, MuHat: at.MuHat, Convergence: at.Convergence,
		Images: j.inSweeps(), Closed: j.solution.Linearization.Closed(), Trace: trace, Sigma2: weighing.Sigma2,
		StdErr: weighing.StdErr(), Seed: j.settings.Seed, Sample: uint64(j.Index),
		LeftOut: leftOut,
	}, o)
	return err
}

func (j *Job) leftOutOf(r Risk) *verify.LeftOut {
	if math.IsNaN(r.ALO) || math.IsNaN(j.oneStep.Mean) || j.leverages == nil || r.LossTerms != nil {
		return nil
	}
	one := j.oneStep
	out := &verify.LeftOut{Mean: one.Mean, StdErr: one.StdErr, ProbesErr: one.ProbesErr, Leverages: j.leverages,
		Residuals: j.allResiduals(r.MuHat)}
	j.clear(out.Residuals)
	return out
}

// inSweeps is v -> D mu_hat v in as many sweeps as the device's memory requires. A solver that goes on along a path
// waits for the job, and so its own factors serve, until solves of a verification have gone on. A single vector has
// other last digits than one of several ([hutch.Oracle.Apply]).
func (j *Job) inSweeps() hutch.Oracle {
	l := j.solution.Linearization
	own := l.Closed().Images
	images := hutch.Oracle(func(ctx context.Context, dst, v array.Batch, left []float64) error {
		if own != nil && j.ended.IsZero() && own(dst, v) {
			clear(left)
			return dst.Device().Err()
		}
		return l.Apply(ctx, dst, v, hutch.Accuracy{}, left)
	})
	return func(ctx context.Context, dst, v array.Batch, left []float64) error {
		apply := images.Apply
		if v.K() == 1 {
			apply = images
		}
		return j.sweeps(ctx, v.K(), j.probeBytes(hutch.Projected), func(first, n int) error {
			return apply(ctx, dst.Rows(first, first+n), v.Rows(first, first+n), left[first:first+n])
		})
	}
}
