package faces

import (
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"surepipe/internal/numerics"
	"surepipe/internal/parallel"
)

// Penalty describes that of some coordinates,
//
//	sum_j w_j |b_j| + q_j/2 b_j^2,   b_j >= 0 where positive_j,
//
// or where Group is not nil, with Q and Positive left out,
//
//	sum_g w_g ||b_g||_2,
//
// for coordinates j of the group Group[j], which all have the weight W[j] = w_g.
type Penalty struct {
	W, Q     []float64
	Positive []bool
	Group    []int
}

func (p *Penalty) extend(more Penalty) {
	p.W, p.Q, p.Positive = append(p.W, more.W...), append(p.Q, more.Q...), append(p.Positive, more.Positive...)
	p.Group = append(p.Group, more.Group...)
}

// Point is what the problems of this package share: a point, the Gram matrix G of a working set of
// coordinates, and the coordinates S that are active.
type Point struct {
	// B is the point, and Grad the gradient G b - c there. Where these come from elsewhere they may
	// be set between calls; zeros must stay zeros.
	B, Grad []float64
	// Floor is the size of rounding errors of the gradient, in units of the columns' lengths.
	Floor float64
	// Cut is the squared pivot up to which a column depends on others.
	Cut             float64
	Steps, Products int
	// Outcomes is k where the coordinates are those of X (x) I for the k x k identity, else 0 or 1: coordinate i is
	// outcome i%k of column i/k. G is then that of the columns.
	Outcomes int

	stride int
	g      []float64 // G, row-major, of columns
	scale  []float64 // 1/sqrt(G_jj + q_j), 0 where that is 0
	in     []bool    // active
	active []int     // S, in the order of the factor's columns
	top    []float64 // Norm's vector
	image  []float64 // G times the step at hand
	wide   []float64
}

// Here is the point itself.
func (p *Point) Here() *Point { return p }

func (p *Point) Len() int { return len(p.B) }

// Active lists S. The caller must not modify it.
func (p *Point) Active() []int { return p.active }

func (p *Point) IsActive(j int) bool { return p.in[j] }

func (p *Point) outcomes() int { return max(p.Outcomes, 1) }

// columns are those of which the coordinates are the outcomes.
func (p *Point) columns() int { return (len(p.B) + p.outcomes() - 1) / p.outcomes() }

// row is that of a column in G.
func (p *Point) row(c int) []float64 { return p.g[c*p.stride : c*p.stride+p.columns()] }

// Gram is row i of G, with several outcomes a copy.
func (p *Point) Gram(i int) []float64 {
	k := p.outcomes()
	if k == 1 {
		return p.row(i)
	}
	all := make([]float64, len(p.B))
	for c, v := range p.row(i / k) {
		if j := c*k + i%k; j < len(all) {
			all[j] = v
		}
	}
	return all
}

// Diagonal is G_ii.
func (p *Point) Diagonal(i int) float64 {
	c := i / p.outcomes()
	return p.g[c*p.stride+c]
}

// Set is G_ij = G_ji = v. The first outcomes of two columns speak for the others.
func (p *Point) Set(i, j int, v float64) {
	if k := p.outcomes(); k > 1 {
		if i%k != 0 || j%k != 0 {
			return
		}
		i, j = i/k, j/k
	}
	p.g[i*p.stride+j], p.g[j*p.stride+i] = v, v
}

// shift adds v times column i of G to the gradient.
func (p *Point) shift(i int, v float64) {
	k := p.outcomes()
	blas64.Axpy(v, vector(p.row(i/k)), blas64.Vector{N: p.columns(), Inc: k, Data: p.Grad[i%k:]})
}

func (p *Point) times(e []float64) {
	n := len(p.B)
	p.image, p.wide = slices.Grow(p.image[:0], n)[:n], slices.Grow(p.wide[:0], n)[:n]
	clear(p.wide)
	for i, j := range p.active {
		p.wide[j] = e[i]
	}
	p.multiply(p.wide, p.image)
}

// multiply sets y = G x.
func (p *Point) multiply(x, y []float64) {
	n, k := p.columns(), p.outcomes()
	g := blas64.General{Rows: n, Cols: n, Stride: p.stride, Data: p.g}
	if k == 1 {
		multiply(false, 1, g, x, 0, y)
		return
	}
	by := func(x []float64) blas64.General { return blas64.General{Rows: n, Cols: k, Stride: k, Data: x} }
	multiplyEach(blas.NoTrans, blas.NoTrans, 1, g, by(x), 0, by(y))
}

// timesExact sets the image of a step d on S with G d = known there: the rows of the other coordinates are left.
func (p *Point) timesExact(d, known []float64) {
	n := len(p.B)
	p.image, p.wide = slices.Grow(p.image[:0], n)[:n], slices.Grow(p.wide[:0], n)[:n]
	clear(p.wide)
	for i, j := range p.active {
		p.wide[j], p.image[j] = d[i], known[i]
	}
	parallel.Ranges(n, strip, func(lo, hi int) {
		for j := lo; j < hi; j++ {
			if !p.in[j] {
				p.image[j] = dot(p.Gram(j), p.wide)
			}
		}
	})
}

// move goes by t e, whose image has been computed for t = 1.
func (p *Point) move(t float64, e []float64) {
	for i, j := range p.active {
		p.B[j] += t * e[i]
	}
	lin(p.Grad, t, p.image)
}

// grow adds coordinates at b = 0 with a gradient, whose rows and columns of G are still to come.
func (p *Point) grow(grad []float64) {
	p.Reserve(len(p.B) + len(grad))
	p.Grad = append(p.Grad, grad...)
	p.B = append(p.B, make([]float64, len(grad))...)
	p.in = append(p.in, make([]bool, len(grad))...)
}

// Reserve makes room for the Gram matrix of n coordinates.
func (p *Point) Reserve(n int) {
	if n = (n + p.outcomes() - 1) / p.outcomes(); n <= p.stride {
		return
	}
	stride := max(n, p.stride+p.stride/4)
	g := make([]float64, stride*stride)
	parallel.Ranges(p.columns(), strip, func(lo, hi int) {
		for c := lo; c < hi; c++ {
			copy(g[c*stride:], p.row(c))
		}
	})
	p.g, p.stride = g, stride
}

// rescale computes the scales of the coordinates that have none, with the squares q of the penalty,
// nil for zeros.
func (p *Point) rescale(q []float64) {
	for j := len(p.scale); j < len(p.B); j++ {
		v := p.Diagonal(j)
		if q != nil {
			v += q[j]
		}
		p.scale = append(p.scale, numerics.OverRoot(v))
	}
}
