package faces

import (
	"math"
	"slices"

	"surepipe/internal/parallel"
)

// Program is a problem on a working set of coordinates whose penalty is a sum over coordinates.
type Program struct {
	Point
	Penalty

	sign   []float64 // of the coordinates in active; 0 where there is no kink
	barred []bool    // coordinates that have turned out to be of no use
	f      factor
	// columns are the factor's: S, and coordinates that it holds at 0. place is the inverse, -1 for
	// coordinates that have no column.
	columns, place []int
	batch          int  // of coordinates that join S at once
	tried          bool // some have joined before the minimum over the face was reached

	dir, onColumns []float64
}

// Clone is the same problem at the same point. Both may be used at the same time, and one of them may be extended: the
// Gram matrix, to which that only adds, is that of both.
func (p *Program) Clone() *Program {
	c := *p
	c.B, c.Grad, c.in, c.active = slices.Clone(p.B), slices.Clone(p.Grad), slices.Clone(p.in), slices.Clone(p.active)
	c.scale, c.top, c.image, c.wide = slices.Clone(p.scale), slices.Clone(p.top), nil, nil
	c.W, c.Q, c.Positive = slices.Clone(p.W), slices.Clone(p.Q), slices.Clone(p.Positive)
	c.sign, c.barred, c.dir, c.onColumns = slices.Clone(p.sign), slices.Clone(p.barred), nil, nil
	c.f, c.columns, c.place = p.f.clone(), slices.Clone(p.columns), slices.Clone(p.place)
	return &c
}

// Extend adds coordinates at b = 0 with a penalty and a gradient; the caller then fills in their rows
// and columns of G by Set, and calls Ready.
func (p *Program) Extend(more Penalty, grad []float64) {
	p.grow(grad)
	p.Penalty.extend(more)
	p.sign = append(p.sign, make([]float64, len(grad))...)
	p.barred = append(p.barred, make([]bool, len(grad))...)
	for range grad {
		p.place = append(p.place, -1)
	}
}

func (p *Program) Ready() { p.rescale(p.Q) }

func (p *Program) kink(j int) bool { return p.W[j] > 0 || p.Positive[j] }

// Start sets B, and S to its support. Coordinates that depend on others are set to 0, as are those
// of the wrong sign. Grad is the gradient at b = 0.
func (p *Program) Start(b []float64) {
	var list []int
	for j, v := range b {
		if v == 0 || p.Positive[j] && v < 0 {
			continue
		}
		if p.B[j] = v; p.kink(j) {
			p.sign[j] = math.Copysign(1, v)
		}
		list = append(list, j)
	}
	p.join(list)
	for _, j := range list {
		if !p.in[j] {
			p.B[j], p.sign[j] = 0, 0
			continue
		}
		lin(p.Grad, p.B[j], p.Gram(j))
	}
}

// join adds coordinates to S, but for those that depend on it, and returns how many were added.
func (p *Program) join(list []int) (added int) {
	var rest, back []int
	for _, j := range list {
		if p.place[j] < 0 {
			rest = append(rest, j)
			continue
		}
		back = append(back, p.place[j])
		p.in[j] = true
	}
	p.f.free(back)
	p.f.grow(p.f.n + len(rest))
	if p.begin(rest) {
		rest = nil
	}
	for len(rest) > 0 {
		some := rest[:min(block, len(rest))]
		if !p.append(some) && len(p.f.held) > 0 {
			// They depend on the columns held, perhaps.
			p.renew(0)
			p.append(slices.DeleteFunc(slices.Clone(some), func(j int) bool { return p.in[j] }))
		}
		rest = rest[len(some):]
	}
	if p.f.dependent() {
		p.renew(slices.Min(p.f.held))
	}
	p.list()
	for _, j := range list {
		if p.in[j] {
			added++
		}
	}
	return added
}

// append appends columns to the factor, but for those that depend on it, and reports whether all
// were.
func (p *Program) append(some []int) bool {
	k, n := len(some), len(p.columns)
	cross, corner := make([]float64, n*k), make([]float64, k*k)
	parallel.Ranges(n, parallel.Rows(k), func(lo, hi int) {
		for c, j := range some {
			row := p.Gram(j)
			for i, s := range p.columns[lo:hi] {
				cross[(lo+i)*k+c] = row[s] * p.scale[s] * p.scale[j]
			}
		}
	})
	for c, j := range some {
		row := p.Gram(j)
		for i, s := range some {
			corner[i*k+c] = row[s] * p.scale[s] * p.scale[j]
		}
		corner[c*k+c] = p.scale[j] * p.scale[j] * (row[j] + p.Q[j])
	}
	all := true
	for c, ok := range p.f.append(k, cross, corner, p.Cut) {
		all = all && ok
		if j := some[c]; ok {
			p.place[j] = len(p.columns)
			p.columns = append(p.columns, j)
			p.in[j] = true
		}
	}
	return all
}

// begin makes many coordinates the columns of a factor that has none, and reports whether they are.
func (p *Program) begin(all []int) bool {
	if len(p.columns) > 0 || len(all) <= block {
		return false
	}
	row := func(i int, to []float64) {
		j := all[i]
		g := p.Gram(j)
		for c := range to {
			s := all[i+c]
			to[c] = g[s] * p.scale[s] * p.scale[j]
		}
		to[0] = p.scale[j] * p.scale[j] * (g[j] + p.Q[j])
	}
	if !p.f.whole(len(all), row, p.Cut) {
		return false
	}
	for _, j := range all {
		p.place[j], p.in[j] = len(p.columns), true
		p.columns = append(p.columns, j)
	}
	return true
}

func (p *Program) list() {
	p.active = p.active[:0]
	for _, j := range p.columns {
		if p.in[j] {
			p.active = append(p.active, j)
		}
	}
}

// leave takes the places, in increasing order, out of S.
func (p *Program) leave(places []int) {
	if len(places) == 0 {
		return
	}
	var columns []int
	for _, i := range places {
		j := p.active[i]
		p.in[j], p.sign[j], p.B[j] = false, 0, 0
		columns = append(columns, p.place[j])
	}
	if p.f.crowded(len(places)) {
		p.renew(slices.Min(append(columns, p.f.held...)))
	} else {
		if p.f.hold(columns); p.f.dependent() {
			p.renew(slices.Min(p.f.held))
		}
	}
	p.list()
}

// settle makes the factor that of S alone, and reports whether it was not.
func (p *Program) settle() bool {
	if len(p.f.held) == 0 {
		return false
	}
	p.renew(slices.Min(p.f.held))
	p.list()
	return true
}

// renew makes the factor anew from a column on, without columns held at 0.
func (p *Program) renew(from int) {
	rest := slices.Clone(p.columns[from:])
	p.columns = p.columns[:from]
	p.f.truncate(from)
	for _, j := range rest {
		p.place[j] = -1
	}
	rest = slices.DeleteFunc(rest, func(j int) bool { return !p.in[j] })
	for _, j := range rest {
		p.in[j] = false
	}
	if !p.begin(rest) {
		for some := range slices.Chunk(rest, block) {
			p.append(some)
		}
	}
	for _, j := range rest {
		if !p.in[j] {
			p.drop(j)
		}
	}
}

func (p *Program) solve(x []float64) {
	p.onColumns = slices.Grow(p.onColumns[:0], len(p.columns))[:len(p.columns)]
	clear(p.onColumns)
	for i, j := range p.active {
		p.onColumns[p.place[j]] = x[i]
	}
	p.f.solve(p.onColumns)
	for i, j := range p.active {
		x[i] = p.onColumns[p.place[j]]
	}
}

func (p *Program) drop(j int) {
	lin(p.Grad, -p.B[j], p.Gram(j))
	p.in[j], p.sign[j], p.B[j] = false, 0, 0
}
