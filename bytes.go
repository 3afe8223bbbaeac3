package surepipe

import (
	"context"
	"math"

	"surepipe/array"
	"surepipe/study"
	"surepipe/study/load"
)

// MemoryError says that an estimate needs more memory than [Compute].Memory.
type MemoryError = array.MemoryError

// The memory of an estimate, in numbers: copies of the data, square matrices on the shorter side of the largest matrix,
// vectors of its sides and signals, such as probes and their images. Measured peaks are below
// (TestEstimateBytesBoundsTheMemory), often far below: it is for admission, not for accounts.
const (
	copiesOfData   = 4
	squares        = 6
	vectors        = 512
	leastEstimated = 16 << 20
)

// EstimateBytes is about how much memory an estimate takes at most, by the sizes of its data, of which only headers are
// read. A service admits by it; with [Compute].Memory a call that needs more ends with a [MemoryError].
func EstimateBytes(ctx context.Context, d Data, o Options) (int64, error) {
	return call(ctx, func() (int64, error) {
		r, err := o.request()
		if err != nil {
			return 0, err
		}
		d.of(r)
		s, err := r.Sizes(ctx)
		return bytesOf(s, max(o.Parallel, 1)), err
	}, nil)
}

// bytesOf is the estimate for data of these sizes, with so many samples in flight.
func bytesOf(s load.Sizes, parallel int) int64 {
	short := min(s.Rows, s.Columns)
	flight := squares*short*short + vectors*(s.Rows+s.Columns+s.Signal) + copiesOfData*s.Numbers
	return int64(math.Min(8*(copiesOfData*s.Numbers+flight*float64(parallel))+leastEstimated, math.MaxInt64/2))
}

// admit refuses data that need more than the limit.
func (o *Options) admit(ctx context.Context, d Data) error {
	if o.Memory == 0 {
		return nil
	}
	need, err := EstimateBytes(ctx, d, *o)
	if err != nil {
		return err
	}
	if need > o.Memory {
		return study.Because(&MemoryError{Needed: need, Limit: o.Memory}, "--memory is %d bytes, but an estimate of "+
			"these data takes up to %d", o.Memory, need)
	}
	return nil
}
