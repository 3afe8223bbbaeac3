package hutch

import (
	"context"

	"surepipe/array"
)

// Oracle sets dst_i = M v_i for every vector of the batch, where M is a d x d matrix. dst and v are
// k x d, on one device, and do not overlap; v must not be changed. dst_i must not depend on k or on
// the other vectors.
//
// left has k numbers, all 0. An oracle that is a truncated iterative method sets them to
// bounds,
//
//	0 <= <v_i, M v_i - dst_i> <= left_i   and   ||M v_i - dst_i||^2 <= left_i;
//
// for conjugate gradients with a symmetric positive semidefinite M the same number bounds both.
type Oracle func(ctx context.Context, dst, v array.Batch, left []float64) error

// Apply calls the oracle, unless ctx is done, and reports a fault of the device
// as an error. left may be nil if the bounds are not wanted.
//
// The only operation of a device whose bits depend on the size of a batch is a
// matrix product with a single vector. Apply therefore passes a single vector to the
// oracle as two equal ones: a batch of one costs as much as a batch of two.
func (m Oracle) Apply(ctx context.Context, dst, v array.Batch, left []float64) error {
	if left == nil {
		left = make([]float64, v.K())
	}
	clear(left)
	if err := ctx.Err(); err != nil {
		return err
	}
	dev := v.Device()
	if v.K() == 1 {
		pair, image := dev.Alloc(2, v.N()), dev.Alloc(2, v.N())
		defer array.Free(pair, image)
		dev.Copy(pair, v)
		both := make([]float64, 2)
		if err := m(ctx, image, pair, both); err != nil {
			return err
		}
		left[0] = both[0]
		dev.Copy(dst, image.Rows(0, 1))
		return dev.Err()
	}
	if err := m(ctx, dst, v, left); err != nil {
		return err
	}
	return dev.Err()
}
