package steps

// mostTrials is that of lengths of a step: one shorter than 2^-40 changes a function by rounding errors only.
const mostTrials = 41

// Backtrack returns the first t of 1, 1/2, 1/4, ... at which try accepts a step of that length, and 0 where none
// does. An error of try ends the search.
func Backtrack(try func(t float64) (bool, error)) (float64, error) {
	t := 1.0
	for range mostTrials {
		if ok, err := try(t); ok || err != nil {
			return t, err
		}
		t /= 2
	}
	return 0, nil
}

// leastCut of the interval is cut off at least, on either side.
const leastCut = 0.1

// Flatten returns a step t in [0, 1] along which a convex function falls, by its slope at t: 1 where slope(1) <= 0,
// else a t with
//
//	share slope(0) <= slope(t) <= 0,    0 <= share <= 1,
//
// by secants that cut at least a tenth off the interval on either side, or what it has after mostTrials. first is
// slope(0); where it is not negative t is 0. At every t with slope(t) <= 0 the function is less than at 0.
func Flatten(first, share float64, slope func(t float64) (float64, error)) (float64, error) {
	if !(first < 0) {
		return 0, nil
	}
	high, err := slope(1)
	if err != nil {
		return 0, err
	}
	if high <= 0 {
		return 1, nil
	}
	lo, hi, low := 0.0, 1.0, first
	for range mostTrials {
		t := lo + (hi-lo)*min(max(-low/(high-low), leastCut), 1-leastCut)
		s, err := slope(t)
		if err != nil {
			return 0, err
		}
		if s > 0 {
			hi, high = t, s
			continue
		}
		if lo, low = t, s; s >= share*first {
			break
		}
	}
	return lo, nil
}

// Quartic is the polynomial q_0 t + q_1 t^2 + q_2 t^3 + q_3 t^4 of a step t.
type Quartic [4]float64

func (q Quartic) At(t float64) float64 { return t * (q[0] + t*(q[1]+t*(q[2]+t*q[3]))) }

const (
	// quarticGrid points are tried for the least value, and quarticSteps of Newton's method lead on from the best.
	quarticGrid  = 64
	quarticSteps = 8
)

// Least is the t in [0, most] at which it is least, to a grid of 1/64 and from there to rounding errors; 0 where it
// does not fall.
func (q Quartic) Least(most float64) float64 {
	best := 0.0
	for i := 1; i <= quarticGrid; i++ {
		if t := most * float64(i) / quarticGrid; q.At(t) < q.At(best) {
			best = t
		}
	}
	for range quarticSteps {
		slope := q[0] + best*(2*q[1]+best*(3*q[2]+best*4*q[3]))
		if bend := 2*q[1] + best*(6*q[2]+best*12*q[3]); bend > 0 {
			if t := best - slope/bend; t > 0 && q.At(t) < q.At(best) {
				best = t
			}
		}
	}
	return best
}
