package pipeline

import (
	"context"

	"surepipe/hutch"
	"surepipe/vjp"
)

// A sweep with SweepOptions.Estimate has two accuracies. Its points serve a comparison: they are solved to pointShare
// of the error of the difference to the point before, by an estimate ([vjp.Effort]), and have the first probes of the
// trace's estimator, which are the same at every weight: with k of them the error that they leave in a difference is
// at most sqrt(2/k) of its part 2 sigma2 ||J_a - J_b||_F, 0.29 for 24. The answer, which is the minimizer or the point
// that the rule chooses, is computed again as a [Pipeline] does it.
const pointShare = 0.1

// effort is that of the solves of points.
func (s *sweep) effort() vjp.Effort {
	if !s.o.Estimate || s.f.BlackBox != nil || s.f.Settings.Derivative == vjp.Unrolled {
		return vjp.Effort{}
	}
	return vjp.Effort{Share: pointShare}
}

// probing sets the probes of a point.
func (s *sweep) probing(o *Options) {
	if !s.o.Estimate || s.o.Criterion.Rule().Diagonal || o.ALO {
		return
	}
	name := o.Estimator
	if name == "" || name == Auto {
		name = hutch.Hutchinson
	}
	if e, ok := hutch.ByName(name); ok && o.Queries == 0 && (o.TraceError == 0 || o.TraceError == DefaultTraceError) {
		if o.Queries = e.First(DefaultTraceError); o.Queries > 0 {
			o.TraceError = 0
		}
	}
	o.unwatched = !s.o.Criterion.Rule().Predicts
}

// answered is a point as the answer of the sweep: itself where it has been computed as one.
func (s *instance) answered(ctx context.Context, p *SweepPoint) (*SweepPoint, error) {
	of := s.o.Options
	s.probing(&of)
	alike := p.Trace.Exact || of.Queries == s.o.Queries && !of.unwatched
	if !s.o.Estimate || p.Change == 0 && alike || s.f.BlackBox != nil {
		return p, nil
	}
	from := start{answer: true}
	if s.chained {
		from.held = heldBy(p)
	}
	answer, err := s.estimate(ctx, p.Index, p.Stage, p.Weights, from)
	if err == nil {
		answer.Place = p.Place
	}
	return answer, err
}
