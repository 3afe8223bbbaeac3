package hutch

import (
	"context"
	"fmt"

	"surepipe/array"
)

// DefaultBatch is the number of vectors that an oracle is given at a time unless [Options] sets it.
const DefaultBatch = 34

// Trace estimates tr M by the plan, with all vectors on dev: a [Run] from one goroutine. While the oracle works
// it holds at most 2 plan.Sketch + 2 opts.Batch vectors, in between 6 plan.Sketch. When it returns it has freed
// all of its memory. An error of the oracle, or of ctx when that is done, is wrapped with the phase and the
// vectors at which it occurred.
func Trace(ctx context.Context, dev array.Device, plan Plan, m Matrix, opts Options) (Estimate, error) {
	if opts.Batch <= 0 {
		opts.Batch = DefaultBatch
	}
	r := NewRun(dev, plan, m, opts)
	defer r.Free()
	for _, p := range []Phase{Sketching, Projected, Residual} {
		for first, count := 0, r.Count(p); first < count; first += opts.Batch {
			n := min(opts.Batch, count-first)
			if err := r.Do(ctx, p, first, n); err != nil {
				return Estimate{}, fmt.Errorf("hutch: %s vectors %d to %d: %w", p, first, first+n-1, err)
			}
		}
		if p == Sketching {
			if err := r.EndSketch(); err != nil {
				return Estimate{}, err
			}
		}
	}
	if err := dev.Sync(); err != nil {
		return Estimate{}, fmt.Errorf("hutch: %w", err)
	}
	return r.Estimate()
}
