package pipeline

import (
	"context"

	"surepipe/stages"
)

// Event is what Options.Observe receives about a sample: that work on it has begun, and later,
// exactly once, that it has ended.
type Event struct {
	// Sample is the sample's index in its stream; under a sweep it is the point's position in the
	// sweep, the index of its [SweepPoint].
	Sample int
	// Stage and Weights name the point of a sweep, in all of its events: the stage of the sweep
	// that computes it, and its hyperparameters, one for each axis. Both are empty elsewhere.
	Stage   SweepStage
	Weights []float64
	// Ended distinguishes the end of the work from its beginning.
	Ended bool
	// Risk is the result of a sample that succeeded, else nil. It holds quantities worth measuring:
	// Solve and Divergence times, Trace.Queries, Iterations, Converged, CacheBytes. It must not be
	// modified.
	Risk *Risk
	// Err is why a sample ended without a result: its own error, the one of another sample that
	// ended the stream, or the context's; context.Canceled where the consumer stopped. For a point
	// of a sweep it is a [PointError] or the context's error.
	Err error
}

// InFlight is the number of samples that all calls of the pipeline together are
// working on.
func (p *Pipeline) InFlight() int { return int(p.inFlight.Load()) }

func (p *Pipeline) begin(ctx context.Context, sample int) {
	p.inFlight.Add(1)
	if p.o.Observe != nil {
		p.o.Observe(ctx, Event{Sample: sample})
	}
}

func (p *Pipeline) end(ctx context.Context, o stages.Outcome) {
	p.inFlight.Add(-1)
	if p.o.Observe == nil {
		return
	}
	e := Event{Sample: o.Risk.Index, Ended: true, Err: o.Err}
	if o.Err == nil {
		risk := o.Risk
		e.Risk = &risk
	}
	p.o.Observe(ctx, e)
}
