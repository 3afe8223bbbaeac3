package hutch

import (
	"math"

	"gonum.org/v1/gonum/floats"
)

// errors are the influences of the groups of probes on the mean, the largest slope of f, and the standard
// error over the entries.
func (e *entries) errors(f func(i int, h float64) float64) (group [groups]float64, steepest, spread float64) {
	m, d := float64(e.m), float64(e.d)
	noise := func(i int) float64 { // the variance of t
		if e.s2[i] < noSpread {
			return 0
		}
		if v, dv, _ := e.variance(i, e.t[i]); !e.plain(i) {
			return 1 / (m * (1/v + e.alpha*dv*dv/(2*v*v)))
		}
		return e.s2[i] / m
	}
	var center, total, random float64
	for i := range e.d {
		center += e.h(i) / d
	}
	for i := range e.d {
		total += (e.h(i) - center) * (e.h(i) - center) / d
		random += noise(i) / d
	}
	share := 1.0
	if total > random {
		share = random / total
	}
	var first, second float64
	for i := range e.d {
		off := e.h(i) - center
		h := min(max(e.h(i)-min(share, noise(i)/(off*off+tiny))*off, 1e-9), most)
		value, slope := f(i, h), slopeOf(f, i, h)
		steepest = max(steepest, math.Abs(slope))
		next := value - first
		first += next / float64(i+1) // Welford
		second += next * (value - first)
		t, a, b := h-e.known(i), 1.0, 0.0
		if v, dv, _ := e.variance(i, t); e.s2[i] >= noSpread && v > 0 && !e.plain(i) {
			information := 1/v + e.alpha*dv*dv/(2*v*v)
			a, b = 1/(v*information), e.alpha*dv/(2*v*v*information)
		}
		for k, n := range e.sums.count {
			all := e.sums.sum[k].at(i)
			sum, square := all-float64(n)*t, e.sums.square[k].at(i)-2*t*all+float64(n)*t*t
			group[k] += slope / d * (a*sum + b*(square-float64(n)*e.s2[i]))
		}
	}
	return group, steepest, math.Sqrt(second / (d - 1) / d)
}

func slopeOf(f func(i int, h float64) float64, i int, h float64) float64 {
	step := 1e-4 * min(h, 1-h)
	return (f(i, h+step) - f(i, h-step)) / (2 * step)
}

// notLinear is the share of the explained part that stays in the error: the estimates of the entries
// are not linear in the samples, and the line is one through ten groups.
const notLinear = 0.1

// controlled are the influences of the groups, in units in which their norm is the standard error of
// the mean over all probes, widened for its degrees of freedom. Where the trace is known, the groups'
// estimates of it explain a part of the influences, by a line fitted to both: offset is that part of
// the mean, and the error is that of the rest.
func (e *entries) controlled(influence [groups]float64) (rest [groups]float64, offset float64) {
	m := float64(e.m)
	centered := func(sum [groups]float64) (rest [groups]float64, mean float64) {
		for _, v := range sum {
			mean += v / m
		}
		for b, n := range e.sums.count {
			rest[b] = sum[b] - float64(n)*mean
		}
		return rest, mean
	}
	rest, _ = centered(influence)
	free, lever, explained := groups-1, 0.0, 0.0
	if !math.IsNaN(e.total) {
		var traces [groups]float64
		for b := range traces {
			for i := range e.d {
				traces[b] += e.sums.sum[b].at(i)
			}
		}
		off, mean := centered(traces)
		if square := floats.Dot(off[:], off[:]); square > 0 {
			slope := floats.Dot(rest[:], off[:]) / square
			floats.AddScaled(rest[:], -slope, off[:])
			offset, free = slope*(mean-e.total), free-1
			lever = (mean - e.total) * (mean - e.total) / square // for the error of the slope
			explained = notLinear * math.Abs(slope) * math.Sqrt(square)
		}
	}
	unit := math.Sqrt((groups/m/m+lever)/float64(free)) * Widened(free)
	if left := floats.Norm(rest[:], 2); left > 0 {
		unit *= math.Hypot(left, explained) / left
	}
	floats.Scale(unit, rest[:])
	return rest, offset
}

// mostCurved is the largest curvature at which the mean is known.
const mostCurved = 3

// leastRest is the distance from 1 of an entry that is 1 up to rounding errors.
const leastRest = 1e-8

// curvature is the ratio of the growth of f, up to the largest h_i that the samples allow, to that by its
// slope, for the root of the sum of squares over the entries; n is the number of entries at which it is
// above mostCurved.
func (e *entries) curvature(f func(i int, h float64) float64) (ratio float64, n int) {
	curve, line := 0.0, 0.0
	for i := range e.d {
		h, to := max(e.h(i), 1-most), e.upper(i)+4*e.Truncation/float64(e.d)
		if to <= h {
			continue
		}
		a, b := f(i, min(to, most))-f(i, h), slopeOf(f, i, min(h, most))*(to-h)
		if to >= most {
			a = math.Inf(1) // also where f is 0 but at 1
		}
		if math.Abs(a) > mostCurved*math.Abs(b) {
			n++
		}
		curve += a * a
		line += b * b
	}
	if curve == 0 {
		return 1, 0
	}
	return math.Sqrt(curve / line), n
}

// upper is the largest value of entry i with a likelihood within two standard deviations of the
// largest; 1 where there is none.
func (e *entries) upper(i int) float64 {
	if e.plain(i) {
		return min(e.h(i)+2*math.Sqrt(e.s2[i]/float64(e.m)), most)
	}
	known, s2 := e.known(i), e.s2[i]*float64(e.m-1)/float64(e.m)
	limit := e.unlikely(i, e.mean[i], s2, e.t[i]) + 2
	possible := func(h float64) bool { return e.unlikely(i, e.mean[i], s2, h-known) <= limit }
	lo, hi := e.h(i), most
	switch {
	case 1-lo <= leastRest || e.s2[i] >= noSpread && possible(hi):
		return 1
	case e.s2[i] < noSpread:
		return lo
	}
	for 1-lo > 1.01*(1-hi) {
		if mid := 1 - math.Sqrt((1-lo)*(1-hi)); possible(mid) {
			lo = mid
		} else {
			hi = mid
		}
	}
	return hi
}
