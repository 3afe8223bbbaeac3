package pipeline

import (
	"context"
	"math"
	"slices"

	"surepipe/prox"
)

// mostBeyond is how many points a sweep computes beyond an end of an axis at which the minimizer of the grid is.
const mostBeyond = 8

// extend goes on beyond the end of an axis at which the grid's minimizer is, by the steps of the grid, while the value
// falls by what matters, and leaves the least weight in at, the value in least and the number of all points in next. b
// are the logarithms of the least weight and of its neighbours, with the values of these in ends, NaN where they are
// not known; open says that the value was still falling, or that nothing is known beyond.
func (s *sweep) extend(ctx context.Context, a, end int, at []float64, least *float64, next *int,
	minimum *origin) (b [3]float64, ends [2]float64, open bool, err error) {
	axis := s.grid[a]
	last, inner := math.Log(axis[0]), math.Log(axis[1])
	if end > 0 {
		last, inner = math.Log(axis[len(axis)-1]), math.Log(axis[len(axis)-2])
	}
	step, within := last-inner, math.NaN() // the value at the inner neighbour
	for range min(mostBeyond, s.o.Refine) {
		if levels, undecided := s.settled(a, end); levels || undecided {
			break
		}
		weights := slices.Clone(at)
		weights[a] = math.Exp(last + step)
		if weights[a] == 0 || math.IsInf(weights[a], 0) {
			break
		}
		v, err := s.refined(ctx, *next, weights, minimum)
		*next++
		switch {
		case err != nil:
			return b, ends, true, err
		case !v.usable() || v.competes() == *least:
			return b, ends, true, nil
		case v.competes() > *least:
			b, ends = [3]float64{last + step, last, last - step}, [2]float64{v.competes(), within}
			if end > 0 {
				slices.Reverse(b[:])
				slices.Reverse(ends[:])
			}
			return b, ends, false, nil
		}
		last, within, *least, at[a] = last+step, *least, v.competes(), weights[a]
	}
	return b, ends, true, nil
}

// edgeShare is the share of the value's standard error below which it does not matter what lies below an end.
const edgeShare = 0.01

// outermost is edge with 0 for axes along which there are points beyond the best that are not alike, or beyond whose
// end nothing is left to gain. Beyond an upper end a fit that pays no penalty says so, not two values that are equal:
// those of tiny weights are, too.
func (s *sweep) outermost(edge []int, best SweepPoint) []int {
	for a, end := range edge {
		if levels, _ := s.settled(a, end); levels && end < 0 || end > 0 && s.null(best, a) {
			edge[a] = 0
		}
		for _, v := range s.values {
			if v.usable() && float64(end)*(v.Weights[a]-s.best.Weights[a]) > 0 && v.competes() > s.best.competes() {
				edge[a] = 0
				break
			}
		}
	}
	return edge
}

// null reports whether the share of a weight in r(K b) is 0 at a point up to the tolerance, as in the null model,
// so that b is the fit at all larger weights too.
func (s *sweep) null(p SweepPoint, a int) bool {
	if s.f.BlackBox != nil || p.solved.none() {
		return false
	}
	if f := p.solved.factors; f != nil {
		return len(s.grid) == 1 && len(f.S) == 0 && len(f.Parts) == 0
	}
	larger := slices.Clone(p.Weights)
	larger[a] *= 2
	r, err := s.f.Regularizer(slices.Clone(p.Weights))
	if err != nil {
		return false
	}
	defer prox.Release(r)
	more, err := s.f.Regularizer(larger)
	if err != nil {
		return false
	}
	defer prox.Release(more)
	value, with := prox.StructureOf(r).Value, prox.StructureOf(more).Value
	if value == nil || with == nil {
		return false
	}
	b := slices.Clone(p.solved.list())
	paid := func() float64 {
		vector := s.f.Problem.Device.Put(b, 1, len(b))
		defer vector.Free()
		if k := s.f.Problem.K; k != nil {
			rows, _ := k.Dims()
			images := vector.Device().Alloc(1, rows)
			defer images.Free()
			k.Forward(images, vector)
			return with(images) - value(images)
		}
		return with(vector) - value(vector)
	}
	least := paid()
	largest := 0
	for j, v := range b {
		if math.Abs(v) > math.Abs(b[largest]) {
			largest = j
		}
	}
	for j := range b {
		if j != largest {
			b[j] = 0
		}
	}
	return least <= nullShare*paid()
}

// nullShare bounds r(K b) where b is constant to the tolerance of the solver, or 0, against r where b has its largest
// entry alone.
const nullShare = 1e-5

// settled reports why steps beyond the best point, the last one towards that end of an axis, are not worth their work.
// levels says that the value has nearly reached its limit at the weight 0: as it is linear in the weight there, what is
// left is the fall from the point before times r / (1 - r), with r the ratio of the two weights. So a table whose best
// fit is that of least squares needs no smaller weights. At the other end it says that two points have the same value,
// as where their fit pays no penalty and is that at all larger weights, so that a step more would tell nothing.
// undecided says that the last step gained less than decidedShare of the error of that difference: where the values go
// on like that, no step beyond decides anything.
func (s *sweep) settled(a, end int) (levels, undecided bool) {
	near, before := math.Inf(1), SweepValue{}
	for _, v := range s.values {
		if !v.usable() {
			continue
		}
		beside := slices.Clone(v.Weights)
		beside[a] = s.best.Weights[a]
		d := math.Abs(math.Log(v.Weights[a] / s.best.Weights[a]))
		if d > 0 && d < near && slices.Equal(beside, s.best.Weights) {
			near, before = d, v
		}
	}
	if math.IsInf(near, 1) {
		return false, false
	}
	fall := before.competes() - s.best.competes()
	levels = end < 0 && fall > 0 && fall/math.Expm1(near) < edgeShare*s.best.StdErr ||
		end > 0 && fall == 0 && s.f.BlackBox == nil
	undecided = s.o.Estimate && s.o.Refine > 0 && len(s.grid) == 1 &&
		fall < decidedShare*s.comparison().Difference(before.fit(), s.best.fit()).StdErr
	return levels, undecided
}
