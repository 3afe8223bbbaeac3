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
	batch  int // of coordinates that join S at once

	dir, image []float64
	top        []float64 // Norm's vector
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
func (p *Program) join(list []int) int {
	before := len(p.active)
	for len(list) > 0 {
		k := min(block, len(list))
		some, n := list[:k], len(p.active)
		list = list[k:]
		cross, corner := make([]float64, n*k), make([]float64, k*k)
		for c, j := range some {
			row := p.Gram(j)
			for i, s := range p.active {
				cross[i*k+c] = row[s] * p.scale[s] * p.scale[j]
			}
			for i, s := range some {
				corner[i*k+c] = row[s] * p.scale[s] * p.scale[j]
			}
			corner[c*k+c] = p.scale[j] * p.scale[j] * (row[j] + p.Q[j])
		}
		for c, ok := range p.f.append(k, cross, corner, p.Cut) {
			if ok {
				p.active = append(p.active, some[c])
				p.in[some[c]] = true
			}
		}
	}
	return len(p.active) - before
}

// fewRemoved is the number of columns up to which rotations update the factor.
const fewRemoved = 8

// leave takes the places, in increasing order, out of S.
func (p *Program) leave(places []int) {
	if len(places) == 0 {
		return
	}
	for _, i := range places {
		j := p.active[i]
		p.in[j], p.sign[j], p.B[j] = false, 0, 0
	}
	if len(places) <= fewRemoved {
		for _, i := range slices.Backward(places) {
			p.f.remove(i)
			p.active = slices.Delete(p.active, i, i+1)
		}
		return
	}
	var rest []int
	for _, j := range p.active[places[0]:] {
		if p.in[j] {
			rest = append(rest, j)
		}
	}
	p.active = p.active[:places[0]]
	p.f.truncate(places[0])
	p.join(rest)
	for _, j := range rest {
		if !slices.Contains(p.active[places[0]:], j) {
			p.drop(j)
		}
	}
}

// drop sets a coordinate that is not in S any more to 0.
func (p *Program) drop(j int) {
	lin(p.Grad, -p.B[j], p.Gram(j))
	p.in[j], p.sign[j], p.B[j] = false, 0, 0
}
