package interior

import (
	"math"

	"gonum.org/v1/gonum/floats"

	"surepipe/internal/parallel"
	"surepipe/prox"
	"surepipe/solve/engine"
)

// rowGroups are disjoint groups of all rows.
type rowGroups struct {
	first []int32 // of every group in rows, and the end
	rows  []int32
}

func (g *rowGroups) inTurn(f func(g int, rows []int32)) {
	for i := range len(g.first) - 1 {
		f(i, g.rows[g.first[i]:g.first[i+1]])
	}
}

// each calls f on all processors.
func (g *rowGroups) each(f func(g int, rows []int32)) {
	if g == nil {
		return
	}
	parallel.Ranges(len(g.first)-1, parallel.Share, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			f(i, g.rows[g.first[i]:g.first[i+1]])
		}
	})
}

// groupBalls are the inequalities of a sum of norms,
//
//	r(z) = sum_g w_g ||z_g||_2.
//
// The multiplier is in a ball, and z_g points where it touches: with s_g = (w_g^2 - ||u_g||^2)/2 and x_g,
//
//	z_g = x_g u_g,   x_g s_g = 0,   x_g, s_g >= 0,   J_g = x_g (I + u_g u_g* / s_g).
//
// Newton's steps for total variation take the multiplier as an unknown of its own since Chan, Golub and Mulet
// (1999).
type groupBalls struct {
	groups *rowGroups
	w      []float64
}

// ballsOf are those of a problem with r(K b) and positive finite weights; nil where it is none.
func ballsOf(p engine.Problem) conditions {
	if p.K == nil || p.Loss != nil {
		return nil
	}
	q, _ := p.K.Dims()
	l := &groupBalls{groups: &rowGroups{rows: make([]int32, q)}}
	known := prox.StructureOf(p.R)
	switch {
	case known.Balls.Planes > 0 && q%(known.Balls.Planes*known.Balls.Channels) == 0:
		planes, channels := known.Balls.Planes, known.Balls.Channels
		n := q / planes
		for from := 0; from < n; from += channels {
			l.groups.first, l.w = append(l.groups.first, int32(from*planes)), append(l.w, known.Balls.Radius)
			for k := range planes * channels {
				l.groups.rows[from*planes+k] = int32(k/channels*n + from + k%channels)
			}
		}
		l.groups.first = append(l.groups.first, int32(q))
	case known.Groups != nil:
		var owner []int
		owner, l.w = known.Groups()
		l.groups.first = make([]int32, len(l.w)+1)
		for _, g := range owner {
			l.groups.first[g+1]++
		}
		for g := range l.w {
			l.groups.first[g+1] += l.groups.first[g]
		}
		next := append([]int32(nil), l.groups.first...)
		for i, g := range owner {
			l.groups.rows[next[g]] = int32(i)
			next[g]++
		}
	default:
		return nil
	}
	for _, w := range l.w {
		if !(w > 0) || math.IsInf(w, 1) {
			return nil
		}
	}
	return l
}

func conditionsOf(p engine.Problem) conditions {
	if l := boundsOf(p); l != nil {
		return l
	}
	return ballsOf(p)
}

func (l *groupBalls) mean() float64 { return meanOf(l.w) }

func (l *groupBalls) new() inequalities {
	n := len(l.w)
	vector := func(n int) []float64 { return make([]float64, n) }
	return &ballPairs{groupBalls: l, x: vector(n), s: vector(n), dx: vector(n), ds: vector(n), rest: vector(n),
		du2: vector(n), also: vector(len(l.groups.rows))}
}

// ballPairs are those of a solve. s follows from u.
type ballPairs struct {
	*groupBalls
	x, dx, s, ds []float64
	rest         []float64 // what x s lacks
	also         []float64 // what z lacks, of second order
	du2          []float64 // ||du||^2
}

func (l *ballPairs) start(_ []float64, size, weight float64) {
	for g, w := range l.w {
		l.x[g], l.s[g] = size/weight, w*w/2
	}
}

func (l *ballPairs) center(z, u []float64, size, weight float64) {
	gap := 0.0
	l.groups.inTurn(func(g int, rows []int32) {
		along, square, length := 0.0, 0.0, 0.0
		for _, i := range rows {
			along += z[i] * u[i]
			square += z[i] * z[i]
			length += u[i] * u[i]
		}
		along *= math.Min(1, l.w[g]/math.Sqrt(math.Max(length, math.SmallestNonzeroFloat64)))
		l.x[g] = math.Sqrt(square) / l.w[g]
		gap += math.Max(l.w[g]*l.w[g]*l.x[g]-along, 0)
	})
	l.groups.each(func(g int, rows []int32) {
		square, most := 0.0, l.w[g]*l.w[g]/2
		for _, i := range rows {
			square += u[i] * u[i]
		}
		x, s := central(l.x[g]*weight/size, math.Max(1-square/(2*most), 0),
			max(gap/(float64(len(l.w))*most*size/weight), leastCentral))
		l.x[g], l.s[g] = x*size/weight, math.Min(s, 1)*most
		if square > 0 {
			f := math.Sqrt(2 * (most - l.s[g]) / square)
			for _, i := range rows {
				u[i] *= f
			}
		} else {
			l.s[g] = most
		}
	})
}

func (l *ballPairs) image(dst, u []float64) {
	l.groups.each(func(g int, rows []int32) {
		for _, i := range rows {
			dst[i] -= l.x[g] * u[i]
		}
	})
}

// sum adds up what f says of the groups.
func (l *ballPairs) sum(f func(g int) float64) float64 {
	return floats.Sum(parallel.Shares(len(l.w), func(lo, hi int) (sum float64) {
		for g := lo; g < hi; g++ {
			sum += f(g)
		}
		return sum
	}))
}

func (l *ballPairs) products() (sum, pieces float64) {
	return l.sum(func(g int) float64 { return l.x[g] * l.s[g] }), float64(len(l.w))
}

func (l *ballPairs) scale(j *scaling, u []float64) {
	j.groups, j.u, j.s = l.groups, u, l.s
	l.groups.each(func(g int, rows []int32) {
		for _, i := range rows {
			j.diag[i] = l.x[g]
		}
	})
}

func (l *ballPairs) predict() {
	clear(l.also)
	l.groups.each(func(g int, _ []int32) { l.rest[g] = -l.x[g] * l.s[g] })
}

func (l *ballPairs) correct(du []float64, target float64) {
	l.groups.each(func(g int, rows []int32) {
		for _, i := range rows {
			l.also[i] = l.dx[g] * du[i]
		}
		l.rest[g] = target - l.x[g]*l.s[g] - l.dx[g]*l.ds[g] + l.x[g]*l.du2[g]/2
	})
}

func (l *ballPairs) toRight(z, u []float64) {
	l.groups.each(func(g int, rows []int32) {
		t := l.rest[g] / l.s[g]
		for _, i := range rows {
			z[i] += l.also[i] + t*u[i]
		}
	})
}

func (l *ballPairs) recover(u, du []float64) {
	l.groups.each(func(g int, rows []int32) {
		along, square := 0.0, 0.0
		for _, i := range rows {
			along += u[i] * du[i]
			square += du[i] * du[i]
		}
		l.ds[g], l.du2[g] = -along, square
		l.dx[g] = (l.rest[g] + l.x[g]*along) / l.s[g]
	})
}

// slack is s after a step: it falls faster than in proportion to the step.
func (l *ballPairs) slack(g int, step float64) float64 {
	return l.s[g] + step*(l.ds[g]-step*l.du2[g]/2)
}

func (l *ballPairs) reach(share float64) float64 {
	least := 1.0
	for _, step := range parallel.Shares(len(l.w), func(lo, hi int) float64 {
		step := 1.0
		for g := lo; g < hi; g++ {
			step = math.Min(step, within(l.x[g], l.dx[g], share))
			if rest := share * l.s[g]; l.slack(g, step) < rest {
				// The root of s + t ds - t^2 du2/2 = rest.
				ds, room := l.ds[g], l.s[g]-rest
				step = math.Min(step, 2*room/(math.Sqrt(ds*ds+2*room*l.du2[g])-ds))
			}
		}
		return step
	}) {
		least = math.Min(least, step)
	}
	return least
}

func (l *ballPairs) after(step float64) float64 {
	return l.sum(func(g int) float64 { return (l.x[g] + step*l.dx[g]) * l.slack(g, step) })
}

func (l *ballPairs) move(u []float64, step float64) {
	l.groups.each(func(g int, rows []int32) {
		l.x[g] += step * l.dx[g]
		square := 0.0
		for _, i := range rows {
			square += u[i] * u[i]
		}
		size := math.Sqrt(square)
		// Rounding may leave nothing of a small difference.
		l.s[g] = math.Max((l.w[g]-size)*(l.w[g]+size)/2, engine.Epsilon*l.w[g]*l.w[g])
	})
}

func (l *ballPairs) keep(u []float64, least, unit float64) {
	l.groups.each(func(g int, rows []int32) {
		most := l.w[g] * l.w[g] / 2
		if l.x[g]*l.s[g] >= least {
			return
		}
		x, s := central(l.x[g]*most/unit, l.s[g], least*most/unit)
		if s = min(s, most); l.s[g] < most {
			f := math.Sqrt((most - s) / (most - l.s[g]))
			for _, i := range rows {
				u[i] *= f
			}
		}
		l.x[g], l.s[g] = x*unit/most, s
	})
}
