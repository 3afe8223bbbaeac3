package faces

import (
	"cmp"
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"

	"surepipe/internal/lists"
	"surepipe/internal/numerics/steps"
	"surepipe/solve/internal/limits"
)

const (
	// short is the length of a Newton step, relative to every group, up to which it is taken as it
	// is: the curvature changes by less than half on the way.
	short = 0.25
	// fresh is the relative change of the groups up to which a factor serves as that of the point, and
	// near that up to which it serves for steps: each is then as exact as that share of its length, at
	// the cost of a few products with a vector.
	fresh = 1e-10
	near  = 0.02
	// A search along a step ends where the slope has fallen to flat of the first.
	flat = 1e-10
	// F is the same where it differs by less than same of a group's penalty.
	same = 1e-9
)

// Minimize goes to the minimum over the working set, in at most so many Newton steps. It reports
// whether S changed. It calls stepped after every step.
func (p *Groups) Minimize(ctx context.Context, stepped func(), most int) (changed bool, err error) {
	best, since, all := math.Inf(1), 0, false
	if p.other && p.stale() <= near && most > 0 {
		// To first order the solution moves so with the weights.
		most--
		p.Steps++
		p.step()
		stepped()
	}
	for first := true; most > 0; first = false {
		if err := ctx.Err(); err != nil {
			return changed, err
		}
		other := p.sweep(all)
		changed = changed || other
		now := p.violation()
		if now <= p.Floor && !(first && len(p.active) > 0) {
			if !p.empty() {
				return changed, nil
			}
			changed = true
		}
		if since++; now < best/2 {
			best, since = now, 0
		}
		if since > limits.MostIdle {
			return changed, nil
		}
		if len(p.active) == 0 {
			all, most = true, most-1
			continue
		}
		most--
		p.Steps++
		p.refresh(near)
		full := p.step()
		all = !full
		stepped()
	}
	return changed, nil
}

// factorize makes the inverse of G + Q anew.
func (p *Groups) factorize() {
	p.columns, p.other = append(p.columns[:0], p.active...), false
	p.at = p.at[:0]
	for _, j := range p.active {
		p.at = append(p.at, p.B[j])
	}
	if several := p.several(); several != nil {
		p.inverse = several
		return
	}
	p.dense.factorize(p)
	p.inverse = &p.dense
}

// curve calls add with the entries of Q on S at the point that are not 0.
func (p *Groups) curve(add func(i, c int, q float64)) {
	places := make([][]int, len(p.members))
	for i, j := range p.active {
		places[p.group[j]] = append(places[p.group[j]], i)
	}
	for g, list := range places {
		if len(list) < 2 || p.w[g] == 0 {
			continue
		}
		x := p.part(p.B, g)
		size := norm(x)
		for a, i := range list {
			for b, c := range list {
				v := -(x[a] / size) * (x[b] / size)
				if a == b {
					v++
				}
				add(i, c, p.w[g]/size*v)
			}
		}
	}
}

// refresh makes the factor anew where the point has moved away from it by more than so much, relative
// to the norms of the groups.
func (p *Groups) refresh(most float64) {
	if p.other || !(p.stale() <= most) {
		p.factorize()
	}
}

// Decrement is the distance to the minimum over the manifold of S in the norm of G + Q, to first
// order; same reports that it is so short that the curvature is about the same there.
func (p *Groups) Decrement() (off float64, same bool) {
	if len(p.active) == 0 {
		return 0, true
	}
	p.refresh(near)
	e := p.slopes()
	d := slices.Clone(e)
	p.inverse.solve(d)
	return 2 * math.Sqrt(max(dot(d, e), 0)), p.ratio(d) < short/2 && !p.inverse.singular()
}

// step is a Newton step on S; it reports whether it was taken in full.
func (p *Groups) step() (full bool) {
	e := p.slopes()
	d := slices.Clone(e)
	p.inverse.solve(d)
	slope := 0.0
	for i := range d {
		d[i] = -d[i]
		slope += d[i] * e[i]
	}
	if math.IsNaN(slope) || math.IsInf(slope, 0) {
		return false
	}
	p.times(d)
	far := false
	p.ratios(d, func(g int, v float64) {
		if v > short {
			p.loose[g], far = true, true
		}
	})
	if !far {
		p.move(1, d)
		return true
	}
	if p.project(d, slope) {
		return true
	}
	t := p.search(d)
	p.move(t, d)
	p.list()
	return t == 1
}

// empty moves b along a direction that changes no fit to where a group is 0, if F does not rise: where columns are
// equal and their coefficients parallel, one can have those of all.
func (p *Groups) empty() bool {
	if p.outcomes() == 1 || len(p.active) == 0 {
		return false
	}
	p.refresh(fresh)
	null := p.inverse.null()
	if null == nil {
		return false
	}
	x := null.RawRowView(0)
	along, size := make([]float64, len(p.members)), make([]float64, len(p.members))
	for i, j := range p.active {
		g := p.group[j]
		along[g], size[g] = along[g]+x[i]*p.B[j], size[g]+p.B[j]*p.B[j]
	}
	floats.DivTo(along, along, lists.Make(len(size), func(g int) float64 { return cmp.Or(size[g], 1) }))
	for _, g := range []int{floats.MaxIdx(along), floats.MinIdx(along)} {
		if along[g] == 0 {
			continue
		}
		e := slices.Clone(x)
		floats.Scale(-1/along[g], e)
		for i, j := range p.active {
			if p.group[j] == g {
				e[i] = -p.B[j]
			}
		}
		p.times(e)
		if p.change(e) <= same*p.w[g]*math.Sqrt(size[g]) {
			p.move(1, e)
			p.list()
			return true
		}
	}
	return false
}

// project takes the step with those groups 0 that it turns around, if F falls enough.
func (p *Groups) project(d []float64, slope float64) bool {
	along := make([]float64, len(p.members))
	for i, j := range p.active {
		along[p.group[j]] += p.B[j] * (p.B[j] + d[i])
	}
	e, any := slices.Clone(d), false
	for i, j := range p.active {
		if g := p.group[j]; p.w[g] > 0 && along[g] <= 0 {
			e[i], any = -p.B[j], true
		}
	}
	if any {
		p.times(e)
	}
	if change := p.change(e); !(change < sufficient*slope) {
		return false
	}
	if p.move(1, e); any {
		p.list()
	}
	return true
}

// change is that of F by a step whose image has been computed.
func (p *Groups) change(e []float64) float64 {
	sum := 0.0
	before, after := make([]float64, len(p.members)), make([]float64, len(p.members))
	for i, j := range p.active {
		g := p.group[j]
		sum += e[i] * (p.Grad[j] + p.image[j]/2)
		before[g], after[g] = math.Hypot(before[g], p.B[j]), math.Hypot(after[g], p.B[j]+e[i])
	}
	for g, w := range p.w {
		if after[g] != before[g] {
			sum += w * (after[g] - before[g])
		}
	}
	return sum
}

// search is the step along d, at most 1, where F is least. Its slope increases with the step.
func (p *Groups) search(d []float64) float64 {
	p.times(d)
	linear, square := 0.0, 0.0
	for i, j := range p.active {
		linear += d[i] * p.Grad[j]
		square += d[i] * p.image[j]
	}
	size, inner := make([]float64, len(p.members)), make([]float64, len(p.members))
	slope := func(t float64) (float64, error) {
		clear(size)
		clear(inner)
		for i, j := range p.active {
			g, v := p.group[j], p.B[j]+t*d[i]
			size[g] += v * v
			inner[g] += v * d[i]
		}
		sum := linear + t*square
		for g, s := range size {
			if s > 0 {
				sum += p.w[g] * (inner[g] / math.Sqrt(s))
			}
		}
		return sum, nil
	}
	first, _ := slope(0)
	t, _ := steps.Flatten(first, flat, slope)
	return t
}

// Condition estimates the condition number of G + Q on S, with ones on its diagonal; +Inf where it is
// singular to rounding.
func (p *Groups) Condition() float64 {
	if len(p.active) == 0 {
		return 1
	}
	if p.refresh(fresh); p.inverse.singular() {
		return math.Inf(1)
	}
	return p.inverse.condition()
}

// Traces are those of D = (G + Q)^{-1} G on S and of D*D. projection reports that Q is 0.
func (p *Groups) Traces() (trace, frobenius2 float64, projection bool) {
	n, projection := len(p.active), true
	for _, j := range p.active {
		g := p.group[j]
		projection = projection && (p.w[g] == 0 || len(p.members[g]) < 2)
	}
	if projection {
		return float64(n), float64(n), true
	}
	p.refresh(fresh)
	trace, frobenius2 = p.inverse.traces()
	return trace, frobenius2, false
}

// SolveEach overwrites k rows of x, each of one number for each of S, with (G + Q)^{-1} times the row.
func (p *Groups) SolveEach(x []float64, k int) {
	if k > 0 && len(p.active) > 0 {
		p.refresh(fresh)
		p.inverse.solveEach(x, k)
	}
}

// Half are k rows of x, as those of SolveEach, times W with W W* = (G + Q)^{-1}; it overwrites x.
func (p *Groups) Half(x []float64, k int) blas64.General {
	if n := len(p.active); n == 0 {
		return blas64.General{Rows: k, Stride: 1, Data: x}
	}
	p.refresh(fresh)
	return p.inverse.half(x, k)
}
