package interior

import (
	"math"

	"gonum.org/v1/gonum/floats"

	"surepipe/internal/lists"
	"surepipe/internal/parallel"
	"surepipe/loss"
	"surepipe/prox"
	"surepipe/solve/engine"
)

// bounds are the inequalities of a sum over coordinates,
//
//	r(z) = sum_i w_i |z_i|,    z_i >= 0 for some i:
//
// z = m - n with m and n >= 0, m (w - u) = 0 and n (w + u) = 0, where n_i = 0 where z_i >= 0, so that
//
//	J = m/(w - u) + n/(w + u).
type bounds struct {
	w      []float64
	oneWay []bool // z_i >= 0
}

// boundsOf are those of a problem with r(K b) and finite weights; nil where it is none.
func boundsOf(p engine.Problem) conditions {
	known := prox.StructureOf(p.R)
	if p.K == nil || p.Loss != nil && !loss.Quadratic(p.Loss) || known.Sparse == nil || known.Groups != nil {
		return nil
	}
	q, _ := p.K.Dims()
	w, quadratic, positive := known.Sparse(q)
	some := func(v float64) bool { return v > 0 }
	if w.Any(func(v float64) bool { return math.IsInf(v, 1) }) || quadratic.Any(some) ||
		w.List != nil && !w.Any(some) {
		return nil
	}
	l := &bounds{w: lists.Make(q, w.At), oneWay: make([]bool, q)}
	copy(l.oneWay, positive)
	least := freeWeight * meanOf(l.w)
	for i, v := range l.w {
		if v < least && !l.oneWay[i] {
			l.w[i] = least
		}
	}
	return l
}

// freeWeight is the least weight relative to the mean: for a weight of 0 no u is inside its inequalities.
const freeWeight = 1e-10

func (l *bounds) mean() float64 { return meanOf(l.w) }

func meanOf(x []float64) float64 {
	mean := 0.0
	for _, v := range x {
		mean += v / float64(len(x))
	}
	return mean
}

func (l *bounds) new() inequalities {
	q := len(l.w)
	pieces := 2 * q
	for _, one := range l.oneWay {
		if one {
			pieces--
		}
	}
	return &boundPairs{l, newSide(q, 1), newSide(q, -1), float64(pieces)}
}

// side is one of the two inequalities of every coordinate: x >= 0 with the multiplier s.
type side struct {
	x, s, dx, ds, rest []float64
	sign               float64 // of x in z, and of -u in s
}

func newSide(q int, sign float64) *side {
	return &side{make([]float64, q), make([]float64, q), make([]float64, q), make([]float64, q), make([]float64, q),
		sign}
}

// boundPairs are those of a solve.
type boundPairs struct {
	*bounds
	plus, minus *side
	pieces      float64 // of the inequalities
}

// each calls f for every pair, on all processors.
func (l *boundPairs) each(f func(v *side, i int)) {
	parallel.Ranges(len(l.w), parallel.Share, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			f(l.plus, i)
			if !l.oneWay[i] {
				f(l.minus, i)
			}
		}
	})
}

// fold continues a value over the pairs of each share of the coordinates, on all processors.
func (l *boundPairs) fold(from float64, f func(value float64, v *side, i int) float64) []float64 {
	return parallel.Shares(len(l.w), func(lo, hi int) float64 {
		value := from
		for i := lo; i < hi; i++ {
			if value = f(value, l.plus, i); !l.oneWay[i] {
				value = f(value, l.minus, i)
			}
		}
		return value
	})
}

func (l *boundPairs) start(z []float64, size, weight float64) {
	l.each(func(v *side, i int) {
		v.x[i] = math.Max(v.sign*z[i], 0) + size
		v.s[i] = l.w[i] + 0.01*weight
	})
}

func (l *boundPairs) center(z, u []float64, size, weight float64) {
	l.each(func(v *side, i int) {
		v.x[i], v.s[i] = math.Max(v.sign*z[i], 0), math.Max(l.slack(v, u, i), 0)
	})
	sum, pieces := l.products()
	l.each(func(v *side, i int) {
		x, s := central(v.x[i]/size, v.s[i]/weight, max(sum/(pieces*size*weight), leastCentral))
		v.x[i], v.s[i] = size*x, weight*s
	})
}

// central are the numbers with a product and the difference x - s.
func central(x, s, product float64) (float64, float64) {
	half := (x - s) / 2
	root := math.Sqrt(half*half + product)
	if half > 0 {
		x = root + half
		return x, product / x
	}
	s = root - half
	return product / s, s
}

// leastCentral is the least product, in units of its size, from which interior points start at an estimate.
const leastCentral = 1e-8

func (l *boundPairs) image(dst, _ []float64) {
	addScaled(dst, -1, l.plus.x)
	addScaled(dst, 1, l.minus.x)
}

func (l *boundPairs) products() (sum, pieces float64) {
	return floats.Sum(l.fold(0, func(sum float64, v *side, i int) float64 { return sum + v.x[i]*v.s[i] })), l.pieces
}

func (l *boundPairs) scale(j *scaling, _ []float64) {
	clear(j.diag)
	l.each(func(v *side, i int) { j.diag[i] += v.x[i] / v.s[i] })
}

func (l *boundPairs) predict() {
	l.each(func(v *side, i int) { v.rest[i] = -v.x[i] * v.s[i] })
}

func (l *boundPairs) correct(_ []float64, target float64) {
	l.each(func(v *side, i int) { v.rest[i] = target - v.x[i]*v.s[i] - v.dx[i]*v.ds[i] })
}

// slack is w - u or w + u, which s is at a feasible point.
func (l *boundPairs) slack(v *side, u []float64, i int) float64 { return l.w[i] - v.sign*u[i] }

func (l *boundPairs) toRight(z, u []float64) {
	l.each(func(v *side, i int) {
		z[i] += v.sign * (v.rest[i] - v.x[i]*(l.slack(v, u, i)-v.s[i])) / v.s[i]
	})
}

func (l *boundPairs) recover(u, du []float64) {
	l.each(func(v *side, i int) {
		v.ds[i] = l.slack(v, u, i) - v.sign*du[i] - v.s[i]
		v.dx[i] = (v.rest[i] - v.x[i]*v.ds[i]) / v.s[i]
	})
}

func (l *boundPairs) reach(share float64) float64 {
	steps := l.fold(1, func(step float64, v *side, i int) float64 {
		return min(step, within(v.x[i], v.dx[i], share), within(v.s[i], v.ds[i], share))
	})
	return floats.Min(append(steps, 1))
}

// within is the step of size 1 at most after which x is at least share of itself.
func within(x, dx, share float64) float64 {
	if dx < 0 {
		return min(1, -(1-share)*x/dx)
	}
	return 1
}

func (l *boundPairs) after(step float64) float64 {
	return floats.Sum(l.fold(0, func(sum float64, v *side, i int) float64 {
		return sum + (v.x[i]+step*v.dx[i])*(v.s[i]+step*v.ds[i])
	}))
}

func (l *boundPairs) move(_ []float64, step float64) {
	l.each(func(v *side, i int) {
		v.x[i] += step * v.dx[i]
		v.s[i] += step * v.ds[i]
	})
}

func (l *boundPairs) keep(_ []float64, least, unit float64) {
	l.each(func(v *side, i int) {
		if v.x[i]*v.s[i] < least {
			x, s := central(v.x[i]/unit, v.s[i], least/unit)
			v.x[i], v.s[i] = unit*x, s
		}
	})
}
