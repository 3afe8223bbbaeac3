package prox

import (
	"context"
	"fmt"
	"math"

	"surepipe/array"
	"surepipe/prox/internal/vector"
)

// Follower evaluates prox_{t r} along the iterates of one solve, where each evaluation starts from
// the result of the last one. It is an inexact proximal operator: an evaluation is the proximal
// point of some v' near v, and Certify bounds ||v' - v||. Since (v' - dst)/t is a subgradient of r
// at dst, a solver whose optimality is the norm of a subgradient adds ||v' - v||/t to it.
//
// A Follower depends on the points that it has seen, and belongs to one goroutine.
type Follower interface {
	// Eval sets dst = prox_{t r}(v'), for a batch of one vector, where ||v' - v|| is at most near,
	// unless v has structure that earlier points did not have. dst and v may be the same batch.
	Eval(ctx context.Context, dst, v array.Batch, t, near float64) error
	// Certify returns a bound of ||v' - v|| for the last evaluation, whose v it is given again, and
	// whether the bound is at most want. If it is not, later evaluations are closer.
	Certify(ctx context.Context, v array.Batch, want float64) (slack float64, ok bool, err error)
	// Release frees the device memory that it holds.
	Release()
}

// scaledFollower is a Follower of c r.
type scaledFollower struct {
	c float64
	Follower
}

func (f scaledFollower) Eval(ctx context.Context, dst, v array.Batch, t, near float64) error {
	return f.Follower.Eval(ctx, dst, v, f.c*t, near)
}

// separableFollower is a Follower of sum_i r_i(b_i): ||v' - v||^2 is the sum over the blocks.
type separableFollower struct {
	p      *separable
	blocks []Follower // nil where a block is evaluated exactly
	count  int        // of those that are not nil
}

// share is the part of a distance that is allotted to each block.
func (f *separableFollower) share(distance float64) float64 {
	return distance / math.Sqrt(float64(f.count))
}

func (f *separableFollower) Eval(ctx context.Context, dst, v array.Batch, t, near float64) error {
	vector.CheckLinearize("separable", f.p.Dim(), dst, v, t)
	for i, q := range f.p.blocks {
		lo, hi := f.p.at[i], f.p.at[i+1]
		di, vi := dst.Cols(lo, hi), v.Cols(lo, hi)
		var err error
		if follower := f.blocks[i]; follower != nil {
			err = follower.Eval(ctx, di, vi, t, f.share(near))
		} else {
			err = q.Eval(di, vi, t)
		}
		if err != nil {
			return fmt.Errorf("block %d: %w", i, err)
		}
	}
	return nil
}

func (f *separableFollower) Certify(ctx context.Context, v array.Batch, want float64) (float64, bool, error) {
	slack, all := 0.0, true
	for i, follower := range f.blocks {
		if follower == nil {
			continue
		}
		s, ok, err := follower.Certify(ctx, v.Cols(f.p.at[i], f.p.at[i+1]), f.share(want))
		if err != nil {
			return 0, false, fmt.Errorf("block %d: %w", i, err)
		}
		slack, all = math.Hypot(slack, s), all && ok
	}
	return slack, all, nil
}

func (f *separableFollower) Release() {
	for _, follower := range f.blocks {
		if follower != nil {
			follower.Release()
		}
	}
}
