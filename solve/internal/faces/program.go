package faces

import (
	"math"
	"slices"
)

// Program is a problem on a working set of coordinates, and a point.
type Program struct {
	// W, Q and Positive are the penalty's.
	W, Q     []float64
	Positive []bool
	// B is the point, and Grad the gradient G b - c there. Where these come from elsewhere they may
	// be set between calls; zeros must stay zeros.
	B, Grad []float64
	// Floor is the size of rounding errors of the gradient, in units of the columns' lengths.
	Floor float64
	// Cut is the squared pivot up to which a column depends on others.
	Cut float64
	// Steps counts Newton steps, and Products those of Norm.
	Steps, Products int

	stride int
	g      []float64 // G, row-major
	scale  []float64 // 1/sqrt(G_jj + q_j), 0 where that is 0
	sign   []float64 // of the coordinates in active; 0 where there is no kink
	in     []bool    // active
	barred []bool    // coordinates that have turned out to be of no use
	active []int     // S, in the order of the factor's columns
	f      factor
	// columns are the factor's: S, and coordinates that it holds at 0. place is the inverse, -1 for
	// coordinates that have no column.
	columns, place []int
	batch          int // of coordinates that join S at once

	dir, image, wide []float64
	top              []float64 // Norm's vector
}

// Len is the size of the working set.
func (p *Program) Len() int { return len(p.B) }

// Active lists S. The caller must not modify it.
func (p *Program) Active() []int { return p.active }

// IsActive reports that coordinate j is in S.
func (p *Program) IsActive(j int) bool { return p.in[j] }

// Gram is row i of G.
func (p *Program) Gram(i int) []float64 { return p.g[i*p.stride : i*p.stride+len(p.B)] }

// Extend adds n coordinates at b = 0 with a gradient; the caller then fills in their rows and
// columns of G by Set, and calls Ready.
func (p *Program) Extend(w, q []float64, positive []bool, grad []float64) {
	n := len(p.B) + len(w)
	if n > p.stride {
		stride := max(n, p.stride+p.stride/4)
		g := make([]float64, stride*stride)
		for i := range p.B {
			copy(g[i*stride:], p.g[i*p.stride:i*p.stride+len(p.B)])
		}
		p.g, p.stride = g, stride
	}
	p.W, p.Q, p.Positive = append(p.W, w...), append(p.Q, q...), append(p.Positive, positive...)
	p.Grad = append(p.Grad, grad...)
	p.B = append(p.B, make([]float64, len(w))...)
	p.sign = append(p.sign, make([]float64, len(w))...)
	p.in, p.barred = append(p.in, make([]bool, len(w))...), append(p.barred, make([]bool, len(w))...)
	for range w {
		p.place = append(p.place, -1)
	}
}

// Set is G_ij = G_ji = v.
func (p *Program) Set(i, j int, v float64) { p.g[i*p.stride+j], p.g[j*p.stride+i] = v, v }

// Ready computes the scales of the coordinates that have joined.
func (p *Program) Ready() {
	for j := len(p.scale); j < len(p.B); j++ {
		s := 1 / math.Sqrt(p.g[j*p.stride+j]+p.Q[j])
		if math.IsInf(s, 0) || math.IsNaN(s) {
			s = 0
		}
		p.scale = append(p.scale, s)
	}
	p.image = make([]float64, len(p.B))
}

// kink reports that the penalty has one at b_j = 0.
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
	var rest []int
	for _, j := range list {
		if p.place[j] < 0 {
			rest = append(rest, j)
			continue
		}
		p.f.free(p.place[j])
		p.in[j] = true
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
	for c, j := range some {
		row := p.Gram(j)
		for i, s := range p.columns {
			cross[i*k+c] = row[s] * p.scale[s] * p.scale[j]
		}
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

// list lists S in the order of the factor's columns.
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
	for some := range slices.Chunk(rest, block) {
		p.append(some)
	}
	for _, j := range rest {
		if !p.in[j] {
			p.drop(j)
		}
	}
}

// solve overwrites x, one number for each of S, with K^{-1} x.
func (p *Program) solve(x []float64) {
	p.wide = slices.Grow(p.wide[:0], len(p.columns))[:len(p.columns)]
	clear(p.wide)
	for i, j := range p.active {
		p.wide[p.place[j]] = x[i]
	}
	p.f.solve(p.wide)
	for i, j := range p.active {
		x[i] = p.wide[p.place[j]]
	}
}

// drop sets a coordinate that is not in S any more to 0.
func (p *Program) drop(j int) {
	lin(p.Grad, -p.B[j], p.Gram(j))
	p.in[j], p.sign[j], p.B[j] = false, 0, 0
}
