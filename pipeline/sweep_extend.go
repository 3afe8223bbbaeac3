package pipeline

import (
	"context"
	"math"
	"slices"
)

// mostBeyond is how many points a sweep computes beyond an end of an axis at which the minimizer of the grid is.
const mostBeyond = 8

// extend goes on beyond the end of an axis at which the grid's minimizer is, by the steps of the grid, while the value
// falls, and leaves the least weight in at, the value in least and the number of all points in next. b are the
// logarithms of the least weight and of its neighbours, with the values of these in ends, NaN where they are not known;
// open says that the value was still falling, or that nothing is known beyond.
func (s *sweep) extend(ctx context.Context, a, end int, at []float64, least *float64, next *int,
	minimum *origin) (b [3]float64, ends [2]float64, open bool, err error) {
	axis := s.grid[a]
	last, inner := math.Log(axis[0]), math.Log(axis[1])
	if end > 0 {
		last, inner = math.Log(axis[len(axis)-1]), math.Log(axis[len(axis)-2])
	}
	step, within := last-inner, math.NaN() // the value at the inner neighbour
	for range min(mostBeyond, s.o.Refine) {
		weights := slices.Clone(at)
		weights[a] = math.Exp(last + step)
		if weights[a] == 0 || math.IsInf(weights[a], 0) {
			break
		}
		minimum.ranges = append(minimum.ranges, &bracket{axis: a, at: slices.Clone(at), below: min(last, last+step),
			above: max(last, last+step)})
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

// outermost is edge with 0 for axes along which there are points beyond the best that are not alike, or below whose end
// the value hardly falls.
func (s *sweep) outermost(edge []int) []int {
	for a, end := range edge {
		if end < 0 && s.levels(a) {
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

// levels reports whether the value has nearly reached its limit at the best point, the least along an axis: as it is
// linear in the weight near 0, what is left below is the fall from the point before times r / (1 - r), with r the ratio
// of the two weights. So a table whose best fit is that of least squares needs no smaller weights.
func (s *sweep) levels(a int) bool {
	near, before := math.Inf(1), math.NaN()
	for _, v := range s.values {
		if !v.usable() || len(v.Weights) == 0 {
			continue
		}
		beside := slices.Clone(v.Weights)
		beside[a] = s.best.Weights[a]
		d := math.Abs(math.Log(v.Weights[a] / s.best.Weights[a]))
		if d > 0 && d < near && slices.Equal(beside, s.best.Weights) {
			near, before = d, v.competes()
		}
	}
	fall := before - s.best.competes()
	return fall > 0 && fall/math.Expm1(near) < edgeShare*s.best.StdErr
}
