package stages

import (
	"context"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"surepipe/hutch"
	"surepipe/progress"
)

// Refine is the step that adds residual probes to a job whose planned ones are done, until the
// trace's share of the error, 2 sigma2 Trace.Error(), is at most share times SURE's own error bar
// (or sigma2 sqrt(2d)/10 where that is larger), or until there were as many queries as the exact
// trace takes. Jobs whose plan has no residual phase pass unchanged. Where sigma2 is 0, not known,
// the residual variance stands in for it.
//
// The number of probes is decided by the spread of the planned probes alone ([hutch.Run.Missing]),
// since otherwise the error would be understated. A second round, which is rare, follows where the
// probes of the first show that SURE's own error bar is smaller. The number of probes depends
// neither on batches nor on what runs at the same time. A round is swept by up to workers
// goroutines.
func Refine(sigma2, share float64, workers int) Step[Probes, Probes] {
	return func(ctx context.Context, p Probes, send func(Probes) error) error {
		job := p.Job
		if job.last(&job.finished, p.Count) && !job.failed() && !job.known() && job.run.Plan().Residual > 0 {
			if err := job.settle(ctx, refine(ctx, job, sigma2, share, workers)); err != nil {
				return err
			}
		}
		return send(p)
	}
}

func refine(ctx context.Context, job *Job, sigma2, share float64, workers int) error {
	for {
		trace, err := job.estimate()
		if err != nil {
			return err
		}
		// The error bar is sigma2 sqrt(2d) for a projection, and smaller where eigenvalues are
		// near 1/2.
		terms := job.weighing(sigma2, trace)
		bar := terms.Scale(terms.UnbiasedStdErr())
		known := job.count(hutch.Residual)
		more, err := job.run.Missing(terms.TraceErr(share * bar))
		if more = min(more, len(job.Y)-trace.Queries); err != nil || more <= 0 {
			return err
		}
		job.run.Grow(more)
		g, inner := errgroup.WithContext(ctx)
		g.SetLimit(workers)
		var done atomic.Int64
		err = split(more, job.batch, func(first, n int) error {
			g.Go(func() error {
				return Guard(func() error {
					err := job.query(inner, Probes{Job: job, Phase: hutch.Residual, First: known + first, Count: n})
					if report := job.settings.Report; report != nil && err == nil {
						if done := int(done.Add(int64(n))); done < more {
							report(job.Index, progress.Report{Stage: progress.Probes, Step: trace.Queries + done,
								Steps: trace.Queries + more})
						}
					}
					return err
				})
			})
			return nil
		})
		if waited := g.Wait(); err == nil {
			err = waited
		}
		if err != nil {
			return err
		}
	}
}
