package noise

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"

	"surepipe/internal/lists"
	"surepipe/internal/parallel"
)

const (
	// parts is the number of parts of a sequence, by the level of its values and by place.
	parts = 4
	// A part of a sequence is rough where its first differences, over sqrt 2, have a variance that is larger than that
	// of its second differences, over sqrt 6, by roughFrom or more: what is left of the signal.
	roughFrom = 0.3
	// The variance of the logarithm of a squared MAD of n second differences, which share values, is about madVariance
	// over n.
	madVariance = 7
	// stepErrors are the standard errors, and unevenSteps the ratio, from which variances of parts of a sequence
	// differ.
	stepErrors, unevenSteps = 4.5, 1.6
	// leastSteps are those from which a sequence says how much noise it has, and farStep is the square of a far one,
	// over the variance.
	leastSteps, farStep = 32, 25
)

// step is what a value of a sequence says with its neighbours: their level, and differences that have the variance of
// the noise where there is no signal.
type step struct{ level, first, second float64 }

func stepsOf(y []float64) []step {
	steps := make([]step, 0, len(y))
	for i := 3; i+3 < len(y); i++ {
		s := step{(y[i-3] + y[i-2] + y[i+2] + y[i+3]) / 4, (y[i+1] - y[i]) / math.Sqrt2,
			(y[i-1] - 2*y[i] + y[i+1]) / math.Sqrt(6)}
		if !math.IsNaN(s.level + s.second) {
			steps = append(steps, s)
		}
	}
	return steps
}

// variance is that of the noise by the MAD of second differences, and its relative standard error; white reports that
// there is hardly signal in them.
func variance(steps []step) (v, relative float64, white bool) {
	v = squaredMAD(lists.Map(steps, func(s step) float64 { return math.Abs(s.second) }))
	rough := squaredMAD(lists.Map(steps, func(s step) float64 { return math.Abs(s.first) }))
	relative = math.Sqrt(madVariance / float64(len(steps)))
	return v, relative, v > 0 && rough/v-1 < max(roughFrom, relative)
}

// RangeOfSequence is that of the noise of a sequence by its second differences, to which signal adds. The mean of their
// squares, in which those of jumps count as far ones, is its most, also where it has heavy tails.
func RangeOfSequence(y []float64) (r Range) {
	steps := stepsOf(y)
	if len(steps) < leastSteps {
		return r
	}
	least, relative, white := variance(steps)
	if white {
		r.Least = least
	}
	for _, s := range steps {
		r.Most += min(s.second*s.second, farStep*least) / float64(len(steps))
	}
	r.RelStdErr = relative
	return r
}

// UnevenSequence compares the variances of the noise in parts of a sequence, by the level of its values and by place:
// counts have noise that follows the level. The variance of a part is the squared MAD of its second differences over
// sqrt 6, which jumps do not matter for. The level is that of other values beside them, so that outliers and skewed
// noise do not decide both. Where first differences have more there is signal left, and the part says nothing. Missing
// values are NaN.
// Sequences of fewer than about a hundred values are even.
func UnevenSequence(y []float64) (u Uneven) {
	steps := stepsOf(y)
	for _, by := range []string{ByPlace, ByBrightness} {
		if by == ByBrightness {
			steps = byLevel(steps)
		}
		var all [parts]*part
		parallel.For(parts, func(k int) {
			group := steps[k*len(steps)/parts : (k+1)*len(steps)/parts]
			if len(group) == 0 {
				return
			}
			if v, relative, white := variance(group); white {
				level := stat.Mean(lists.Map(group, func(s step) float64 { return s.level }), nil)
				all[k] = &part{k, v, relative, level}
			}
		})
		var known []part
		for _, p := range all {
			if p != nil {
				known = append(known, *p)
			}
		}
		if len(known) < 2 {
			continue
		}
		low, high := extremes(known)
		if ratio := high.variance / low.variance; ratio > unevenSteps &&
			math.Log(ratio) > stepErrors*math.Hypot(low.relative, high.relative) {
			u = Uneven{low.variance, high.variance, by, low.mean, high.mean, 0}
		}
	}
	return u
}

// byLevel is the steps, part by part of those that a stable sort by level would make; within a part they keep their
// order.
func byLevel(steps []step) []step {
	n := len(steps)
	if n == 0 {
		return nil
	}
	levels := lists.Map(steps, func(s step) float64 { return s.level })
	var first [parts]float64 // the level of each part's first step
	var less, next [parts]int
	for k := range parts {
		first[k], next[k] = lists.Smallest(levels, k*n/parts), k*n/parts
	}
	for _, v := range levels {
		for k, f := range first {
			if v < f {
				less[k]++
			}
		}
	}
	sorted := make([]step, n)
	for _, s := range steps {
		k := parts - 1
		for k > 0 && s.level < first[k] {
			k--
		}
		if s.level == first[k] { // those that are equal to it may be in other parts
			at := less[k]
			less[k]++
			for k = parts - 1; at < k*n/parts; {
				k--
			}
		}
		sorted[next[k]] = s
		next[k]++
	}
	return sorted
}

// squaredMAD is the variance of normal values of which sizes are the absolute ones, in any order, which it changes.
func squaredMAD(sizes []float64) float64 {
	s := lists.Smallest(sizes, len(sizes)/2) / madNormal
	return s * s
}

// part is what a part of a sequence says.
type part struct {
	number                   int
	variance, relative, mean float64
}

// extremes are the parts of the least and the greatest variance.
func extremes(known []part) (low, high part) {
	by := func(a, b part) int { return cmp.Compare(a.variance, b.variance) }
	return slices.MinFunc(known, by), slices.MaxFunc(known, by)
}
