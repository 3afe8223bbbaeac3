package pipeline

import (
	"cmp"
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"surepipe/risk"
	"surepipe/vjp"
)

// refineShare is the accuracy of the refinement, as a share of the distance between the points of
// the grid.
const refineShare = 0.01

// refine searches for the minimum between the neighbours of the grid's minimizer, along one axis
// after the other. It returns the number of all points, the grid's included.
func (s *sweep) refine(ctx context.Context, minimum *origin) (next int, err error) {
	grid := s.best
	next = s.total
	if s.o.Refine < 0 || !grid.usable() {
		return next, nil
	}
	place := s.place(grid.index)
	edge := s.edge(place)
	at := slices.Clone(grid.Weights)
	least := grid.competes()
	for a, axis := range s.grid {
		if len(axis) == 1 {
			continue
		}
		var b [3]float64
		var ends [2]float64
		if edge[a] != 0 && len(s.grid) > 1 { // a map ends at the ends of its axes
			continue
		}
		if edge[a] != 0 {
			var open bool
			if b, ends, open, err = s.extend(ctx, a, edge[a], at, &least, &next, minimum); err != nil {
				return next, err
			}
			if open {
				continue
			}
		} else {
			// The values of the neighbours are known only at the other weights of the grid's minimizer.
			for k, step := range []int{-1, 1} {
				ends[k] = math.NaN()
				beside := slices.Clone(place)
				beside[a] += step
				if v := s.values[s.number(beside)]; v.usable() && slices.Equal(at, grid.Weights) {
					ends[k] = v.competes()
				}
			}
			b = [3]float64{math.Log(axis[place[a]-1]), math.Log(axis[place[a]]), math.Log(axis[place[a]+1])}
		}
		below, middle, above := b[0], b[1], b[2]
		search := brent{tol: refineShare * min(middle-below, above-middle), most: s.o.Refine}
		if s.o.Estimate {
			search.error = s.errors(a, at)
		}
		u, value, err := search.run(b, [3]float64{ends[0], least, ends[1]},
			func(u float64) (float64, error) {
				weights := slices.Clone(at)
				weights[a] = math.Exp(u)
				i := next
				next++
				v, err := s.refined(ctx, i, weights, minimum)
				if !v.usable() {
					return math.Inf(1), err
				}
				return v.competes(), err
			})
		if err != nil {
			return next, err
		}
		if u != middle {
			at[a] = math.Exp(u)
			least = value
		}
	}
	return next, nil
}

func (s *sweep) refined(ctx context.Context, i int, weights []float64, minimum *origin) (SweepValue, error) {
	if i < len(s.o.Known) {
		if err := s.checkKnown(i, weights); err != nil {
			return SweepValue{}, err
		}
		s.offer(i, s.o.Known[i], nil)
		return s.o.Known[i], nil
	}
	var point *SweepPoint
	err := s.onDevice(ctx, func(on *instance) error {
		var path vjp.Path // of one point, whose factors serve its derivative
		defer path.Release()
		from, err := minimum.refine(ctx, on, &path)
		if err == nil {
			point, err = on.estimate(ctx, i, RefineStage, weights, from)
		}
		return err
	})
	if err != nil {
		return SweepValue{}, err
	}
	v := s.valueOf(point)
	s.offer(i, v, point)
	if !s.yield(s.shown(*point), nil) {
		return v, errStopped
	}
	return v, nil
}

// goldenShare is (3 - sqrt 5)/2.
var goldenShare = (3 - math.Sqrt(5)) / 2

// decidedShare is the share of the error of a difference below which a gain decides nothing.
const decidedShare = 0.1

// errors returns the error of the difference between two points along an axis, at the other weights in at, over their
// distance.
func (s *sweep) errors(axis int, at []float64) func(x, w float64) float64 {
	by, weights := s.comparison(), slices.Clone(at)
	fit := func(u float64) risk.Fit {
		weights[axis] = math.Exp(u)
		return slices.MinFunc(s.values, func(a, b SweepValue) int {
			return cmp.Compare(floats.Distance(a.Weights, weights, 2), floats.Distance(b.Weights, weights, 2))
		}).fit()
	}
	return func(x, w float64) float64 { return by.Difference(fit(x), fit(w)).StdErr / math.Abs(x-w) }
}

// brent is a search for a minimum as of Brent, Algorithms for Minimization without Derivatives, 1973, chapter 5. It
// stops when the minimum is known to tol, or after most evaluations. Where the errors of differences are known it also
// stops where the gain that a parabola promises is less than decidedShare of its error; after a step that gained
// nothing, and lost less than the error of that, where it is less than two errors: values are then no smoother.
type brent struct {
	tol  float64
	most int
	// error is that of the difference between two values over their distance, nil where it is not known.
	error func(x, w float64) float64
}

// run searches for a minimum of f between at[0] and at[2], which enclose at[1], by steps to the vertex of a parabola,
// or by golden sections where that fails. values are those of f at these points; the outer ones may be NaN: not known.
// It returns the best point and its value: those in the middle if none is better.
func (s brent) run(at, values [3]float64, f func(u float64) (float64, error)) (float64, float64, error) {
	a, x, b, fx := at[0], at[1], at[2], values[1]
	w, v, fw, fv := x, x, fx, fx    // the second best, and what it was before
	t, ft := math.NaN(), math.NaN() // the last of three such points that a step has left behind
	if fa, fb := values[0], values[2]; !math.IsNaN(fa) && !math.IsNaN(fb) {
		w, v, fw, fv = a, b, fa, fb
		if fb < fa {
			w, v, fw, fv = b, a, fb, fa
		}
	}
	tol := s.tol
	step, before := b-a, b-a // the last step and the one before
	lost := false            // the last step gained nothing, and lost less than the error of that
	for range s.most {
		middle := (a + b) / 2
		if math.Abs(x-middle)+(b-a)/2 <= 2*tol {
			break
		}
		golden := true
		if math.Abs(before) > tol {
			r, q := (x-w)*(fx-fv), (x-v)*(fx-fw)
			p := (x-v)*q - (x-w)*r
			if q = 2 * (q - r); q > 0 {
				p = -p
			}
			q = math.Abs(q)
			earlier := before
			before = step
			// False for NaN, which results from infinite values.
			if math.Abs(p) < math.Abs(q*earlier/2) && p > q*(a-x) && p < q*(b-x) {
				golden = false
				step = p / q
				gain, slack := promise(x, w, v, t, fx, fw, fv, ft, step)
				if s.below(decidedShare, slack*gain, x, w, step) || lost && s.below(2, gain, x, w, step) {
					break
				}
				if u := x + step; u-a < 2*tol || b-u < 2*tol {
					step = math.Copysign(tol, middle-x)
				}
			}
		}
		if golden {
			if before = a - x; x < middle {
				before = b - x
			}
			step = goldenShare * before
		}
		u := x + step
		if math.Abs(step) < tol {
			u = x + math.Copysign(tol, step)
		}
		fu, err := f(u)
		if err != nil {
			return x, fx, err
		}
		lost = fu > fx && s.below(1, fu-fx, x, u, u-x)
		if fu <= fx {
			if u < x {
				b = x
			} else {
				a = x
			}
			t, ft, v, fv, w, fw, x, fx = v, fv, w, fw, x, fx, u, fu
			continue
		}
		if u < x {
			a = u
		} else {
			b = u
		}
		if fu <= fw || w == x {
			t, ft, v, fv, w, fw = v, fv, w, fw, u, fu
		} else if fu <= fv || v == x || v == w {
			t, ft, v, fv = v, fv, u, fu
		} else {
			t, ft = u, fu
		}
	}
	return x, fx, nil
}

// promise is the gain of a step from x to the vertex of the parabola through x, w and v, and the factor by which the
// step may be too short: through the point t that a step has left behind, NaN for none, the parabola's slope at x is
// off by about the term of third order.
func promise(x, w, v, t, fx, fw, fv, ft, step float64) (gain, slack float64) {
	half := differences(x, w, v, fx, fw, fv)
	third := (half - differences(w, v, t, fw, fv, ft)) / (x - t)
	return half * step * step, 1 + math.Abs(third*(x-w)*(x-v)/(2*half*step))
}

// below reports whether a gain by a step is below a share of its error, by the error of the difference between x and w.
func (s brent) below(share, gain, x, w, step float64) bool {
	return s.error != nil && gain < share*s.error(x, w)*math.Abs(step)
}

// differences is the divided difference of second order of a function.
func differences(x, w, v, fx, fw, fv float64) float64 {
	return ((fw-fx)/(w-x) - (fv-fx)/(v-x)) / (w - v)
}
