package pipeline

import (
	"context"

	"surepipe/hutch"
	"surepipe/vjp"
)

func (p SweepPoint) bare() SweepPoint {
	p.MuHat, p.B, p.Factors, p.LeftOut, p.LeftOutTogether = nil, nil, nil, nil, nil
	return p
}

func (s *sweep) shown(p SweepPoint) SweepPoint {
	if p.solved = (held{}); s.o.KeepPath {
		return p
	}
	return p.bare()
}

// origin is the grid's minimizer as the start of other solves. If it was known before, it is
// solved for again when it is first needed.
type origin struct {
	s  *sweep
	of candidate
	held
}

// refine is the start of a point that is not on the grid, with an empty path.
func (g *origin) refine(ctx context.Context, on *instance, path *vjp.Path) (from start, err error) {
	if from.held, err = g.get(ctx, on); err == nil && g.s.chained {
		from.path = path
	}
	return from, err
}

// get is b at the grid's minimizer, nil where solves start at 0.
func (g *origin) get(ctx context.Context, on *instance) (_ held, err error) {
	switch {
	case !g.s.chained || !g.none():
	case g.of.point != nil:
		g.held = g.of.point.solved
	default:
		var path vjp.Path
		defer path.Release()
		from, err := on.start(ctx, g.of.index, &path)
		if err != nil {
			return held{}, err
		}
		if g.held, err = on.solution(ctx, g.of.index, GridStage, g.of.Weights, from); err != nil {
			return held{}, err
		}
	}
	return g.held, nil
}

// minimizer yields the best of all points with its estimate, and the chosen one where that is
// another.
func (s *sweep) minimizer(ctx context.Context, grid candidate, minimum *origin) error {
	best := s.best
	last, err := s.again(ctx, best, minimum)
	if err != nil {
		return err
	}
	last.Stage = MinimizerStage
	last.Edge = s.outermost(s.edge(s.place(grid.index)), last)
	last.Choice = s.choice(best.index)
	chosen := last.Choice.Chosen
	if chosen == best.index {
		if last.Audits, err = s.audits(ctx, &last); err != nil {
			return err
		}
	}
	if !s.yield(last, nil) {
		return errStopped
	}
	if chosen == best.index {
		return nil
	}
	if last, err = s.again(ctx, candidate{SweepValue: s.values[chosen], index: chosen}, minimum); err != nil {
		return err
	}
	last.Stage = ChosenStage
	if last.Audits, err = s.audits(ctx, &last); err != nil {
		return err
	}
	if !s.yield(last, nil) {
		return errStopped
	}
	return nil
}

// again is a point with its estimate, which is computed again, to the same bits, unless it is kept.
func (s *sweep) again(ctx context.Context, c candidate, minimum *origin) (SweepPoint, error) {
	point, err := c.point, error(nil)
	if point == nil {
		err = s.onDevice(ctx, func(on *instance) (err error) {
			point, err = on.again(ctx, c, minimum)
			return err
		})
	}
	if err == nil {
		err = s.onDevice(ctx, func(on *instance) (err error) {
			point, err = on.answered(ctx, point)
			return err
		})
	}
	if err != nil {
		return SweepPoint{}, err
	}
	return *point, nil
}

func (s *instance) again(ctx context.Context, c candidate, minimum *origin) (*SweepPoint, error) {
	stage := RefineStage
	var path vjp.Path
	defer path.Release()
	var from start
	var err error
	if c.index < s.total {
		stage = GridStage
		from, err = s.start(ctx, c.index, &path)
	} else {
		from, err = minimum.refine(ctx, s, &path)
	}
	if err != nil {
		return nil, err
	}
	point, err := s.estimate(ctx, c.index, stage, c.Weights, from)
	if err == nil && stage == GridStage {
		point.Place = s.place(c.index)
	}
	return point, err
}

func (s *sweep) edge(place []int) []int {
	edge := make([]int, len(place))
	for a, at := range place {
		switch n := len(s.grid[a]); {
		case n == 1:
		case at == 0:
			edge[a] = -1
		case at == n-1:
			edge[a] = 1
		}
	}
	return edge
}

// A sweep with SweepOptions.Estimate has two accuracies. Its points serve a comparison: they are solved to pointShare
// of the error of the difference to the point before, by an estimate ([vjp.Effort]), and have the first probes of the
// trace's estimator, which are the same at every weight: with k of them the error that they leave in a difference is
// at most sqrt(2/k) of its part 2 sigma2 ||J_a - J_b||_F, half of it for 8, which makes the error at most an eighth
// larger. The answer, which is the minimizer or the point that the rule chooses, is computed again as a [Pipeline] does
// it, with leave-one-out where the loss is not squared, and no other criterion says what a prediction costs.
const pointShare = 0.1

// pointTraceError is the share for [hutch.Estimator].First at points: 8 probes.
const pointTraceError = 0.36

func (s *sweep) effort() vjp.Effort {
	if !s.o.Estimate || s.f.BlackBox != nil || s.f.Settings.Derivative == vjp.Unrolled {
		return vjp.Effort{}
	}
	return vjp.Effort{Share: pointShare}
}

func (s *sweep) probing(o *Options) {
	if !s.o.Estimate || s.o.Criterion.Rule().Diagonal || o.ALO {
		return
	}
	name := o.Estimator
	if name == "" || name == Auto {
		name = hutch.Hutchinson
	}
	if e, ok := hutch.ByName(name); ok && o.Queries == 0 && (o.TraceError == 0 || o.TraceError == DefaultTraceError) {
		if o.Queries = e.First(pointTraceError); o.Queries > 0 {
			o.TraceError = 0
		}
	}
	o.unwatched = !s.o.Criterion.Rule().Predicts
}

func (s *instance) answered(ctx context.Context, p *SweepPoint) (*SweepPoint, error) {
	if s.f.BlackBox != nil {
		return p, nil
	}
	of, full := s.options(p.Index, false), s.options(p.Index, true)
	alike := p.Trace.Exact || of.Queries == full.Queries && !of.unwatched
	if of.ALO == full.ALO && (!s.o.Estimate || p.Change == 0 && alike) {
		return p, nil
	}
	answer, err := s.estimate(ctx, p.Index, p.Stage, p.Weights, start{held: p.solved, answer: true})
	if err == nil {
		answer.Place = p.Place
	}
	return answer, err
}
