package pipeline

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"surepipe/stages"
)

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
