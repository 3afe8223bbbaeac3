package hutch

import (
	"context"
	"fmt"

	"surepipe/array"
)

// DefaultBatch is the number of vectors an oracle is given at a time when
// [Options] does not say.
const DefaultBatch = 34

// Options are the parts of a trace estimate that do not change what is
// estimated. The zero value is ready to use.
type Options struct {
	// Seed and Sample choose the probes, see [Rademacher].
	Seed, Sample uint64
	// Batch is the largest number of vectors the oracle is given at a time;
	// 0 stands for DefaultBatch. The result does not depend on it.
	Batch int
	// Sketch computes the images of a sketch that serves for its span alone, as that of
	// Hutch++ does: any oracle whose images span about what M's do. nil stands for
	// the oracle itself.
	Sketch Oracle
}

// Trace estimates tr M by the plan, with all vectors on dev. While the oracle
// works Trace holds at most 2 plan.Sketch + 2 opts.Batch vectors (3 plan.Sketch +
// 2 opts.Batch for XTrace), in between 6 plan.Sketch; when it returns it has freed
// all it took. An error of the oracle, or of ctx when that is done, comes back
// wrapped with the phase and the vectors it happened at.
func Trace(ctx context.Context, dev array.Device, plan Plan, oracle Oracle, opts Options) (Estimate, error) {
	if opts.Batch <= 0 {
		opts.Batch = DefaultBatch
	}
	e := estimation{ctx, dev, plan, oracle, opts}
	y := dev.Alloc(plan.Sketch, plan.Dim)
	defer func() { y.Free() }()
	yLeft := make([]float64, plan.Sketch)
	if err := e.sketch(y, yLeft); err != nil {
		return Estimate{}, err
	}
	var q, z array.Batch
	rank := 0
	if plan.NeedsBasis() {
		basis := dev.Alloc(plan.Sketch, plan.Dim)
		defer basis.Free()
		var err error
		if rank, err = Orthonormalize(basis, y); err != nil {
			return Estimate{}, err
		}
		q = basis.Rows(0, rank)
	}
	if plan.Combines() && plan.NeedsBasis() {
		z = dev.Alloc(rank, plan.Dim)
		defer z.Free()
	}
	if !plan.Combines() {
		y.Free()
		y = array.Batch{}
	}
	tally := NewTally(plan, rank, opts.Seed)
	zLeft := make([]float64, tally.Projected())
	if err := e.projected(tally, q, z, zLeft); err != nil {
		return Estimate{}, err
	}
	if err := e.residual(tally, q); err != nil {
		return Estimate{}, err
	}
	if err := dev.Sync(); err != nil {
		return Estimate{}, fmt.Errorf("hutch: %w", err)
	}
	if plan.Combines() {
		return Combine(plan, opts.Seed, opts.Sample, y, q, z, yLeft, zLeft)
	}
	return tally.Estimate()
}

// estimation is one call of Trace.
type estimation struct {
	ctx    context.Context
	dev    array.Device
	plan   Plan
	oracle Oracle
	opts   Options
}

// sketch sets y_j = M s_j for the probes of the sketch, and left_j to the oracle's bound.
func (e estimation) sketch(y array.Batch, left []float64) error {
	oracle := e.oracle
	if e.opts.Sketch != nil && e.plan.SpanOnly() {
		oracle = e.opts.Sketch
	}
	return e.inBatches("sketch", y.K(), func(first int, s, _ array.Batch) error {
		Rademacher(s, e.opts.Seed, e.opts.Sample, first)
		return oracle.Apply(e.ctx, y.Rows(first, first+s.K()), s, left[first:first+s.K()])
	})
}

// projected applies M to the basis: q's vectors, or the unit vectors. The images
// are kept in z, unless that is zero, and their bounds in left.
func (e estimation) projected(tally *Tally, q, z array.Batch, left []float64) error {
	return e.inBatches("projected", tally.Projected(), func(first int, v, mv array.Batch) error {
		if e.plan.Exact {
			UnitVectors(v, first)
		} else {
			v = q.Rows(first, first+v.K())
		}
		if !z.IsZero() {
			mv = z.Rows(first, first+v.K())
		}
		left := left[first : first+v.K()]
		if err := e.oracle.Apply(e.ctx, mv, v, left); err != nil {
			return err
		}
		tally.AddProjected(first, v, mv, left)
		return nil
	})
}

// residual applies M to fresh probes deflated by q.
func (e estimation) residual(tally *Tally, q array.Batch) error {
	return e.inBatches("residual", e.plan.Residual, func(first int, x, mx array.Batch) error {
		Rademacher(x, e.opts.Seed, e.opts.Sample, e.plan.Sketch+first)
		Deflate(x, x, q)
		left := make([]float64, x.K())
		if err := e.oracle.Apply(e.ctx, mx, x, left); err != nil {
			return err
		}
		tally.AddResidual(first, x, mx, left)
		return nil
	})
}

// inBatches calls step for n vectors, at most opts.Batch at a time, with two
// batches to work in.
func (e estimation) inBatches(phase string, n int, step func(first int, v, mv array.Batch) error) error {
	k := min(n, e.opts.Batch)
	v, mv := e.dev.Alloc(k, e.plan.Dim), e.dev.Alloc(k, e.plan.Dim)
	defer v.Free()
	defer mv.Free()
	for first := 0; first < n; first += k {
		m := min(k, n-first)
		if err := step(first, v.Rows(0, m), mv.Rows(0, m)); err != nil {
			return fmt.Errorf("hutch: %s vectors %d to %d: %w", phase, first, first+m-1, err)
		}
	}
	return nil
}
