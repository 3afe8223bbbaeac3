package hutch

import (
	"fmt"
	"math"
)

// DiagonalMean is an estimate of 1/d sum_i f_i(h_i).
type DiagonalMean struct {
	Value float64
	// ProbesErr is the standard error of Value for the choice of probes, from 9 degrees of freedom,
	// with the largest effect, to first order, of the truncation of the oracle: the h_i are too small
	// by a total of at most Truncation, wherever that is. Spread is the standard error of a mean over d terms
	// f_i(h_i) that are independent, about what it is for the exact h_i.
	ProbesErr, Spread float64
	// Entries are the estimates of the h_i. Influences has the ProbesErr's random part as its norm, one
	// number for each group of probes: for another matrix and the same probes the norm of the difference
	// is, to first order, the error of the difference.
	Entries, Influences []float64
}

// FullError says that h_i of an entry is 1 as far as the probes can tell.
type FullError struct{ Entry int }

func (e *FullError) Error() string {
	return fmt.Sprintf("hutch: entry %d of the diagonal is 1 up to the accuracy of its estimate", e.Entry)
}

// Mean estimates 1/d sum_i f(i, h_i) for a smooth f on 0 <= h < 1, which may grow without bound
// towards h = 1. The means of the samples have errors that are far from small against 1 - h_i where
// that is small, and f of them would be biased without bound. Three steps, after the RandALO of
// Nobel, LeJeune and Candes (2024), reduce the bias.
//
// An estimate of h_i that respects 0 <= M <= I. The m samples x_ij of an entry are sums of many
// signs, about normal with mean t_i = (M P)_ii and a variance v_i of which 0 <= M <= I says
//
//	v_i = (M P M)_ii - t_i^2 <= u_i = h_i - sum_k (M q_k)_i^2 - t_i^2,
//
// with equality where M is a projection (h_i (1 - h_i) without a basis): the spread of the samples
// falls to 0 as h_i goes to 1, and says as much of 1 - h_i as the mean does, or more. RandALO's
// truncated normal means use only 0 <= h_i <= 1. Here v_i = rho(h_i) u_i, where the line rho is
// fitted to the mean and spread of all entries (with unbiased estimates of the moments of h_i), and
// h_i maximizes the likelihood of the mean and the spread s_i^2 of its samples,
//
//	-(m/2) ((mean - t)^2/v + alpha (log v + s^2/v)),   v = rho(h) u(t).
//
// The spread has the weight alpha = 1/(1 + m tau^2/2), where tau is the relative deviation of the v_i
// from the line beyond what the sampling error explains, and at least half the line's distance from
// the bound: alpha is 1 where M is a projection. Where M does not follow the line the mean decides, as
// it does for large m.
//
// Extrapolation to m = infinity. A bias of f at the estimates is about c/m. RandALO fits a line in
// 1/m to random subsets of the probes; the same line goes through the estimate from all of them and
// those without one of the groups in turn, the jackknife (Quenouille 1956; for groups of unequal
// size Busing, Meijer and van der Leeden 1999). What remains is of second order, and for f = 1/(1 -
// h)^2 much smaller for the reciprocal of the mean's excess over that of f(i, 0), which is
// extrapolated where the bias is upwards: for a Z that is chi-squared over its m degrees of freedom
// E Z^-2 = m^2/((m - 2)(m - 4)), whose reciprocal is nearly linear in 1/m.
//
// The error. The influence of each probe on the likelihood's maximum, times f', is summed over the
// entries for each group, and the groups' spread gives the standard error: entries are correlated
// through their common signs. f' is taken at estimates that are shrunk towards their mean by the
// share of noise in their spread, those far from the mean by less (as Efron and Morris 1972 limit
// translations), because errors in f' would count as errors of the probes.
//
// The error is a [*FullError] where h_i is 1 up to the accuracy of the samples.
func (l *Leverages) Mean(f func(i int, h float64) float64) (DiagonalMean, error) {
	e := l.newEntries()
	if i := e.full(l.Truncation); i >= 0 {
		return DiagonalMean{}, &FullError{i}
	}
	e.fit()
	all, without, base := e.values(f)
	out := DiagonalMean{Value: extrapolated(all, without, base, e.sums.count, e.m)}
	var group [groups]float64
	group, out.ProbesErr, out.Spread = e.errors(f)
	influences, offset := e.controlled(group)
	out.Value -= offset
	out.Entries, out.Influences = e.h, influences[:]
	random := 0.0
	for _, v := range influences {
		random = math.Hypot(random, v)
	}
	out.ProbesErr = math.Hypot(random, out.ProbesErr*l.Truncation/float64(e.d))
	if sum := out.Value + out.ProbesErr + out.Spread; math.IsNaN(sum) || math.IsInf(sum, 0) {
		return out, fmt.Errorf("hutch: a mean over the diagonal is %v +- %v, expected finite numbers", out.Value, out.ProbesErr)
	}
	return out, nil
}

// extrapolated is the value at m = infinity from that of all probes and those without a group each;
// base is that of h = 0.
func extrapolated(all float64, without [groups]float64, base float64, count [groups]int, m int) float64 {
	c := 0.0
	for b, n := range count {
		if n > 0 {
			c += (1 - float64(n)/float64(m)) * (all - without[b])
		}
	}
	if excess := all - base; excess > 0 && c < 0 {
		return base + excess/(1-c/excess)
	}
	return all + c
}

// entries is the work of [Leverages.Mean].
type entries struct {
	*Leverages
	m, d  int
	flip  []bool    // the samples of the complement are used
	mean  []float64 // of the samples in use
	s2    []float64 // their variance, unbiased
	t     []float64 // estimates of their expectation
	h     []float64 // those of the diagonal
	at    float64   // rho(h) = level + slope (h - at), where h is cut off at a distance of reach
	reach float64
	level float64
	slope float64
	alpha float64
}

// better is the ratio of variances that decides between the samples of M and those of I - M where the
// diagonal speaks for the other ones.
const better = 4.0

// noSpread is the variance of samples below which they are all the same up to rounding errors.
const noSpread = 4 * quantum

func (l *Leverages) newEntries() *entries {
	d := l.sums.d
	e := &entries{Leverages: l, m: l.sums.probes(), d: d, flip: make([]bool, d), mean: make([]float64, d), s2: make([]float64, d), t: make([]float64, d), h: make([]float64, d)}
	n := float64(e.m)
	moments := func(s *sampleSums, i int) (mean, s2 float64) {
		square := 0.0
		for b, sum := range s.sum {
			if sum != nil {
				mean += sum[i]
				square += s.square[b][i]
			}
		}
		mean /= n
		return mean, max(square/n-mean*mean, 0) * n / (n - 1)
	}
	for i := range d {
		e.mean[i], e.s2[i] = moments(&l.direct, i)
		if l.complement.known != nil {
			mean, s2 := moments(&l.complement, i)
			// The bound of the variance falls to 0 where t does: towards h = 0 or towards h = 1.
			favor := better
			if known := l.direct.known[i] - l.complement.known[i]; known+e.mean[i]-mean > 0 {
				favor = 1 / better
			}
			if s2*favor < e.s2[i] {
				e.flip[i], e.mean[i], e.s2[i] = true, mean, s2
			}
		}
	}
	return e
}

// used are the samples in use for an entry, with the basis' part of its expectation and the
// difference between that and the basis' part of the bound of the variance.
func (e *entries) used(i int) (s *sampleSums, known, gap float64) {
	s = &e.direct
	if e.flip[i] {
		s = &e.complement
	}
	if s.known == nil {
		return s, 0, 0
	}
	return s, s.known[i], s.known[i] - s.seen[i]
}

// leverage is h_i for the expectation t of the samples.
func (e *entries) leverage(i int, known, t float64) float64 {
	if e.flip[i] {
		return 1 - known - t
	}
	return known + t
}

// full is an entry whose h_i is 1 up to the accuracy of the samples, -1 for none: E (g_i - (M g)_i)^2
// = ||(I - M) e_i||^2 <= 1 - h_i without a basis.
func (e *entries) full(truncation float64) int {
	least := max(1e-8, 4*truncation/float64(e.d))
	for i := range e.d {
		_, known, _ := e.used(i)
		rest := 1 - e.leverage(i, known, e.mean[i])
		if rest*rest+e.s2[i] <= least*least || rest <= least && e.s2[i] <= least {
			return i
		}
	}
	return -1
}

// fit fits the variance of the samples to their expectation.
func (e *entries) fit() {
	m, d := float64(e.m), float64(e.d)
	e.at, e.level, e.slope, e.alpha = 0, 1, 0, 1
	mean := func(i int) float64 {
		_, known, _ := e.used(i)
		return e.leverage(i, known, e.mean[i])
	}
	for i := range e.d {
		e.at += mean(i) / d
	}
	spread := 0.0
	for i := range e.d {
		spread += (mean(i)-e.at)*(mean(i)-e.at)/d - e.s2[i]/m/d
	}
	e.reach = within * math.Sqrt(max(spread, 0))
	// With weights 1 and h - at: sums of u, of u (h - at) and of u (h - at)^2, and of s^2.
	var u0, u1, u2, y0, y1 float64
	for i := range e.d {
		u, hu, hhu := e.bounds(i)
		u0 += u
		u1 += hu - e.at*u
		u2 += hhu - 2*e.at*hu + e.at*e.at*u
		y0 += e.s2[i]
		y1 += (mean(i) - e.at) * e.s2[i]
	}
	if !(u0 > 0) || !(y0 > 0) {
		return
	}
	e.level = y0 / u0
	if left := u2 - u1*u1/u0; left > 0 {
		slope, noise := (y1-u1*e.level)/left, 0.0
		for i := range e.d {
			u, _, _ := e.bounds(i)
			r := (mean(i) - e.at) * (e.s2[i] - e.level*u) / left
			noise += r * r
		}
		if slope*slope > noise {
			e.slope = slope - noise/slope
			e.level = (y0 - u1*e.slope) / u0
		}
	}
	off, all := 0.0, 0.0
	for i := range e.d {
		u, _, _ := e.bounds(i)
		rho, _ := e.rho(mean(i))
		r, s2, du := e.s2[i]-rho*u, e.s2[i], rho*(1-2*e.mean[i])
		off += r*r - 2*s2*s2/(m+1) - du*du*s2/m
		all += rho * u * rho * u
	}
	if all > 0 {
		bend := bent * max(1-e.level, 0)
		e.alpha = 1 / (1 + m*(max(off/all, 0)+bend*bend)/2)
	}
}

// bounds are unbiased estimates of u, u h and u h^2, where u = t + gap - t^2, from those of the
// moments of t for normal samples.
func (e *entries) bounds(i int) (u, hu, hhu float64) {
	m := float64(e.m)
	_, known, gap := e.used(i)
	x, v := e.mean[i], e.s2[i]/m
	x2 := x*x - v
	x3 := x*x*x - 3*x*v
	x4 := x*x*x*x - 6*x*x*v + 3*v*v*(m-1)/(m+1)
	u = x + gap - x2
	tu := x2 + gap*x - x3
	ttu := x3 + gap*x2 - x4
	hu, hhu = known*u+tu, known*known*u+2*known*tu+ttu
	if e.flip[i] {
		return u, u - hu, u - 2*hu + hhu
	}
	return u, hu, hhu
}

// within is the number of standard deviations of the diagonal around its mean within which the line
// is taken for the curve.
const within = 2

// bent is the relative deviation of the variance from the line that is allowed for where M is not a
// projection, as a share of its distance from the bound: a line need not be the right curve.
const bent = 0.5

// leastRho bounds the variance of the model from below.
const leastRho = 0.02

// rho is v/u for an entry h, and its derivative.
func (e *entries) rho(h float64) (value, slope float64) {
	value = e.level + e.slope*min(max(h-e.at, -e.reach), e.reach)
	switch {
	case math.Abs(h-e.at) > e.reach:
		return min(max(value, leastRho), 1), 0
	case value < leastRho:
		return leastRho, 0
	case value > 1:
		return 1, 0
	}
	return value, e.slope
}

// variance is v at t, and its first two derivatives.
func (e *entries) variance(i int, known, gap, t float64) (v, dv, ddv float64) {
	rho, slope := e.rho(e.leverage(i, known, t))
	if e.flip[i] {
		slope = -slope
	}
	u, du := t+gap-t*t, 1-2*t
	return rho * u, rho*du + slope*u, 2*slope*du - 2*rho
}

// maximum is the t with the largest likelihood for the mean and the variance (over n) of samples.
// start is a guess.
func (e *entries) maximum(i int, mean, s2, start float64) float64 {
	_, known, gap := e.used(i)
	lo, hi := -known, 1-known
	if s2 < noSpread {
		return min(max(mean, lo), hi)
	}
	root := math.Sqrt(max(1+4*gap, 0)) // where u is 0
	lo, hi = max(lo, (1-root)/2), min(hi, (1+root)/2)
	if !(lo < hi) {
		return min(max(mean, -known), 1-known)
	}
	edge := 1e-9 * (hi - lo)
	lo, hi = lo+edge, hi-edge
	t := min(max(start, lo), hi)
	for range 100 {
		v, dv, ddv := e.variance(i, known, gap, t)
		spread := (mean-t)*(mean-t) + e.alpha*s2
		g := dv*(e.alpha*v-spread) - 2*(mean-t)*v // minus the score, times 2 v^2/m
		if g > 0 {
			hi = t
		} else {
			lo = t
		}
		next := t - g/(ddv*(e.alpha*v-spread)+e.alpha*dv*dv+2*v)
		if !(next > lo && next < hi) {
			next = (lo + hi) / 2
		}
		done := math.Abs(next-t) <= 1e-10*min(1, next-lo+edge, hi-next+edge) || hi-lo <= 1e-12
		if t = next; done {
			break
		}
	}
	return t
}

// values are the means of f at the estimates from all probes, from those without each group, and at
// h = 0.
func (e *entries) values(f func(i int, h float64) float64) (all float64, without [groups]float64, base float64) {
	d, m := float64(e.d), float64(e.m)
	for i := range e.d {
		s, known, _ := e.used(i)
		e.t[i] = e.maximum(i, e.mean[i], e.s2[i]*(m-1)/m, e.mean[i])
		e.h[i] = min(e.leverage(i, known, e.t[i]), most)
		all += f(i, e.h[i]) / d
		base += f(i, 0) / d
		square := e.s2[i]*(m-1) + m*e.mean[i]*e.mean[i]
		for b, n := range e.sums.count {
			if n == 0 {
				continue
			}
			left := m - float64(n)
			mean := (m*e.mean[i] - s.sum[b][i]) / left
			s2 := (square-s.square[b][i])/left - mean*mean
			t := e.maximum(i, mean, s2, e.t[i])
			without[b] += f(i, min(e.leverage(i, known, t), most)) / d
		}
	}
	return all, without, base
}

// tiny keeps a quotient finite.
const tiny = math.SmallestNonzeroFloat64

// most is the largest estimate of an entry.
const most = 1 - 1e-9

// errors are the influences of the groups of probes on the mean, the largest slope of f, and the standard
// error over the entries.
func (e *entries) errors(f func(i int, h float64) float64) (group [groups]float64, steepest, spread float64) {
	m, d := float64(e.m), float64(e.d)
	noise := make([]float64, e.d) // the variance of t
	var center, total, random float64
	for i := range e.d {
		center += e.h[i] / d
	}
	for i := range e.d {
		total += (e.h[i] - center) * (e.h[i] - center) / d
		if e.s2[i] < noSpread {
			continue
		}
		_, known, gap := e.used(i)
		v, dv, _ := e.variance(i, known, gap, e.t[i])
		noise[i] = 1 / (m * (1/v + e.alpha*dv*dv/(2*v*v)))
		random += noise[i] / d
	}
	share := 1.0
	if total > random {
		share = random / total
	}
	var first, second float64
	for i := range e.d {
		s, known, gap := e.used(i)
		off := e.h[i] - center
		h := min(max(e.h[i]-min(share, noise[i]/(off*off+tiny))*off, 1e-9), most)
		value, step := f(i, h), 1e-4*min(h, 1-h)
		slope := (f(i, h+step) - f(i, h-step)) / (2 * step)
		steepest = max(steepest, math.Abs(slope))
		next := value - first
		first += next / float64(i+1) // Welford
		second += next * (value - first)
		t, a, b := h-known, 1.0, 0.0
		if e.flip[i] {
			t, slope = 1-h-known, -slope
		}
		if v, dv, _ := e.variance(i, known, gap, t); e.s2[i] >= noSpread && v > 0 {
			information := 1/v + e.alpha*dv*dv/(2*v*v)
			a, b = 1/(v*information), e.alpha*dv/(2*v*v*information)
		}
		for k, n := range e.sums.count {
			if n > 0 {
				sum, square := s.sum[k][i]-float64(n)*t, s.square[k][i]-2*t*s.sum[k][i]+float64(n)*t*t
				group[k] += slope / d * (a*sum + b*(square-float64(n)*e.s2[i]))
			}
		}
	}
	return group, steepest, math.Sqrt(second / (d - 1) / d)
}

// controlled are the influences of the groups, in units in which their norm is the standard error of
// the mean over all probes. Where the trace is known, the groups' estimates of it explain a part of the influences, by a line
// fitted to both: offset is that part of the mean, and the error is that of the rest.
func (e *entries) controlled(influence [groups]float64) (rest [groups]float64, offset float64) {
	m, used := float64(e.m), 0.0
	centered := func(sum [groups]float64) (rest [groups]float64, mean float64) {
		for _, v := range sum {
			mean += v / m
		}
		for b, n := range e.sums.count {
			rest[b] = sum[b] - float64(n)*mean
		}
		return rest, mean
	}
	for _, n := range e.sums.count {
		if n > 0 {
			used++
		}
	}
	rest, _ = centered(influence)
	free, lever := used-1, 0.0
	if !math.IsNaN(e.total) && used > 3 {
		var traces [groups]float64
		for b, sum := range e.direct.sum {
			for _, v := range sum {
				traces[b] += v
			}
		}
		off, mean := centered(traces)
		var product, square float64
		for b := range rest {
			product += rest[b] * off[b]
			square += off[b] * off[b]
		}
		if square > 0 {
			slope := product / square
			for b := range rest {
				rest[b] -= slope * off[b]
			}
			offset, free = slope*(mean-e.total), free-1
			lever = (mean - e.total) * (mean - e.total) / square // for the error of the slope
		}
	}
	unit := math.Sqrt((used/m/m + lever) / free)
	for b := range rest {
		rest[b] *= unit
	}
	return rest, offset
}
