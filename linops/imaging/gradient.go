package imaging

import (
	"fmt"
	"math"
	"slices"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/internal/parallel"
	"surepipe/linops"
	"surepipe/linops/internal/product"
)

// Edge is how the differences of a [Gradient] end at the far border of an axis.
type Edge int

const (
	// Reflecting takes no difference past the last entry: it is 0 (Neumann).
	Reflecting Edge = iota
	// Periodic takes the difference of the first entry and the last.
	Periodic
	// Grounded takes the difference of 0 and the last entry (Dirichlet).
	Grounded
	// Open is Reflecting without the entries that are 0: the differences of an axis of n entries are n - 1.
	Open
)

// String is "reflecting", "periodic", "grounded" or "open".
func (e Edge) String() string {
	if names := []string{"reflecting", "periodic", "grounded", "open"}; e >= 0 && int(e) < len(names) {
		return names[e]
	}
	return fmt.Sprintf("Edge(%d)", int(e))
}

// mirrors says that no difference is taken past the last entry.
func (e Edge) mirrors() bool { return e == Reflecting || e == Open }

// Gradient takes the forward differences of an array along some of its axes. For each of these axes
// the image has an array of the same shape, one after the other,
//
//	(D_a b)_i = b_{i + e_a} - b_i,
//
// and at the last entry of the axis what the [Edge] says. The differences of one entry along all
// axes are at the same place of these arrays, so that isotropic total variation is a norm across
// them (prox.NewVectorialL2); with open edges they are not. The adjoint is the negative divergence.
//
// With reflecting or open edges D*D is the Laplacian of a path or a grid, which the cosine transform C diagonalizes
// (Strang, The discrete cosine transform, SIAM Review 41, 1999):
//
//	D*D = C* diag(u_k + v_l) C,    u_k = 4 sin(pi k / (2 rows))^2,
//	                               v_l = 4 sin(pi l / (2 cols))^2.
//
// Where one or two axes are taken, the last of the array, (eta D*D + I)^{-1} takes O(n log n), on the host, and after
// [Gradient.Load] on another device too, for images with sides of up to 4096. A step on the dual of total variation is
// one pass over memory with reflecting edges. The largest eigenvalue of D*D is known: the sum over the axes of that of
// a path, a cycle or a path with one end held at 0.
//
// Both products take one pass over memory on the host, and a few on another device or with open edges.
type Gradient struct {
	mapped
	shape, axes []int
	edge        Edge
	n           int   // entries of an array
	length      []int // of each axis that is taken
	inner       []int // the distance of neighbours along it
	at          []int // where the differences along it begin, and the end
	line        int   // entries of the last axis of the array
	laplacian
}

// NewDifference1D returns the n - 1 differences of neighbours in a vector of length n.
func NewDifference1D(n int) *Gradient { return NewGradient([]int{n}, nil, Open) }

// NewDifference2D returns those of neighbours in an image, row-major, rows x cols pixels: its (rows-1) cols
// differences down the columns, as a row-major (rows-1) x cols image, and then its rows (cols-1) differences along the
// rows, as a rows x (cols-1) image.
func NewDifference2D(rows, cols int) *Gradient { return NewGradient([]int{rows, cols}, nil, Open) }

// NewGradient returns the differences of arrays of a shape along the given axes, in increasing
// order, all of them where axes is nil. It panics where the shape or the axes are not such.
func NewGradient(shape, axes []int, edge Edge) *Gradient {
	if axes == nil {
		axes = lists.Upto(len(shape))
	}
	n := lists.Product(shape)
	if len(shape) == 0 || len(axes) == 0 || n <= 0 || slices.Min(shape) < 1 || edge < Reflecting || edge > Open {
		panic(fmt.Sprintf("linops: differences of an array of shape %v along axes %v with edges %v", shape, axes, edge))
	}
	g := &Gradient{shape: slices.Clone(shape), axes: slices.Clone(axes), edge: edge, n: n, line: shape[len(shape)-1],
		at: []int{0}}
	for i, a := range axes {
		if a < 0 || a >= len(shape) || i > 0 && a <= axes[i-1] {
			panic(fmt.Sprintf("linops: differences along axes %v of an array with %d axes, want increasing "+
				"axes from 0", axes, len(shape)))
		}
		inner := lists.Product(shape[a+1:])
		g.length, g.inner = append(g.length, shape[a]), append(g.inner, inner)
		g.at = append(g.at, g.at[i]+n/(shape[a]*inner)*g.run(i))
	}
	g.mapped = mapped{twin: twin{host: g.vector, shares: n >= parallel.Share && n > g.line, on: g.multiply},
		name: "Gradient", d: g.at[len(axes)], p: n}
	if edge == Open {
		g.host = nil
	}
	norm := 0.0
	for _, m := range g.length {
		norm += largestDifference(m, edge)
	}
	s := linops.Structure{Norm2: linops.Known(norm), ColumnNorms2: g.columnNorms2, Pairs: g.pairs,
		BallStep: g.ballStep, Spectra: linops.Spectra{Cosines: g.cosines(), Circulant: g.waves()}}
	if images := len(shape) - len(axes); edge.mirrors() && len(axes) <= 2 && axes[0] == images {
		rows := 1
		if len(axes) == 2 {
			rows = g.length[0]
		}
		g.laplacian = newLaplacian(rows, g.line)
		s.SolveNormal = g.solveNormal
	}
	if g.d == 1 && edge == Open {
		s.Rows = linops.Known(2) // a single difference
	}
	g.structure = linops.Complete(g, s)
	return g
}

// largestDifference is the largest eigenvalue of D*D along one axis of n entries.
func largestDifference(n int, edge Edge) float64 {
	angle := 0.0
	switch {
	case edge.mirrors():
		angle = math.Pi * float64(n-1) / float64(n)
	case edge == Periodic:
		angle = 2 * math.Pi * float64(n/2) / float64(n)
	case edge == Grounded:
		angle = math.Pi * float64(2*n-1) / float64(2*n+1)
	}
	s := math.Sin(angle / 2)
	return 4 * s * s
}

func (g *Gradient) solveNormal(dst, rhs array.Batch, eta float64) bool {
	product.CheckSolve(g.name, g.d, g.p, dst, rhs, eta)
	return g.solve(dst, rhs, eta)
}

// run is the number of differences in the part of an array along which those of axis a are taken.
func (g *Gradient) run(a int) int {
	if g.edge == Open {
		return (g.length[a] - 1) * g.inner[a]
	}
	return g.length[a] * g.inner[a]
}

// multiply takes differences, or sums them, by operations of another device.
func (g *Gradient) multiply(dst, src array.Batch, do action) {
	dev := dst.Device()
	for a := range g.axes {
		at, to := g.at[a], g.at[a+1]
		if do.kind == doAdjoint {
			g.eachArray(a, src.Cols(at, to), dst, func(z, dst array.Batch) { g.adjointOn(dev, dst, z, a) })
		} else {
			g.eachArray(a, dst.Cols(at, to), src, func(dst, b array.Batch) { g.forwardOn(dev, dst, b, a) })
		}
	}
}

// eachArray calls f with differences along axis a and the arrays that they are of, as batches of those parts along
// which they are taken: once where that is the whole array, else once for each vector.
func (g *Gradient) eachArray(a int, d, x array.Batch, f func(d, x array.Batch)) {
	run := g.length[a] * g.inner[a]
	if run == g.n {
		f(d, x)
		return
	}
	for i := range x.K() {
		f(d.Rows(i, i+1).Reshape(g.n/run, g.run(a)), x.Rows(i, i+1).Reshape(g.n/run, run))
	}
}

func (g *Gradient) forwardOn(dev array.Device, d, x array.Batch, a int) {
	inner, run := g.inner[a], g.length[a]*g.inner[a]
	last := run - inner
	if last > 0 {
		dev.Lin(d.Cols(0, last), 1, x.Cols(inner, run), -1, x.Cols(0, last))
	}
	switch g.edge {
	case Reflecting:
		dev.Fill(d.Cols(last, run), 0)
	case Periodic:
		dev.Lin(d.Cols(last, run), 1, x.Cols(0, inner), -1, x.Cols(last, run))
	case Grounded:
		dev.Lin(d.Cols(last, run), -1, x.Cols(last, run), 0, array.Batch{})
	}
}

// adjointOn adds the adjoint of the differences x along axis a to d, which is 0 before the first axis.
func (g *Gradient) adjointOn(dev array.Device, d, x array.Batch, a int) {
	inner, run := g.inner[a], g.length[a]*g.inner[a]
	last := run - inner
	add := func(to array.Batch, c float64, from array.Batch) { dev.Lin(to, 1, to, c, from) }
	switch {
	case a > 0 && last > 0:
		add(d.Cols(0, last), -1, x.Cols(0, last))
		add(d.Cols(inner, run), 1, x.Cols(0, last))
	case last > 0:
		dev.Lin(d.Cols(0, inner), -1, x.Cols(0, inner), 0, array.Batch{})
		dev.Lin(d.Cols(inner, last), 1, x.Cols(0, last-inner), -1, x.Cols(inner, last))
		dev.Lin(d.Cols(last, run), 1, x.Cols(last-inner, last), 0, array.Batch{})
	case a == 0:
		dev.Fill(d, 0)
	}
	if !g.edge.mirrors() {
		add(d.Cols(last, run), -1, x.Cols(last, run))
	}
	if g.edge == Periodic {
		add(d.Cols(0, inner), 1, x.Cols(last, run))
	}
}

func (g *Gradient) columnNorms2() []float64 {
	norms := make([]float64, g.n)
	p := g.pairs()
	for i, plus := range p.Plus {
		minus := p.Minus[i]
		if plus == minus {
			continue // a periodic axis of one entry
		}
		if plus >= 0 {
			norms[plus]++
		}
		if minus >= 0 {
			norms[minus]++
		}
	}
	return norms
}

func (g *Gradient) pairs() *linops.Pairs {
	p := &linops.Pairs{Plus: make([]int32, 0, g.d), Minus: make([]int32, 0, g.d)}
	for a := range g.axes {
		inner, run := g.inner[a], g.length[a]*g.inner[a]
		for i := range g.n {
			plus, minus := i+inner, i
			if i%run >= run-inner {
				switch g.edge {
				case Reflecting:
					plus, minus = -1, -1
				case Periodic:
					plus -= run
				case Grounded:
					plus = -1
				case Open:
					continue
				}
			}
			p.Plus, p.Minus = append(p.Plus, int32(plus)), append(p.Minus, int32(minus))
		}
	}
	return p
}

// vector takes groups of lines in parallel. A line is a row of the last axis.
func (g *Gradient) vector(dst, src []float64, do action, shared bool) {
	parallel.RangesIf(shared, g.n/g.line, parallel.Rows(g.line), func(lo, hi int) {
		for at := lo * g.line; at < hi*g.line; at += g.line {
			if do.kind == doAdjoint {
				g.adjointLine(dst[at:at+g.line], src, at)
			} else {
				g.forwardLine(dst, src, at)
			}
		}
	})
}

func (g *Gradient) forwardLine(dst, src []float64, lo int) {
	b := src[lo : lo+g.line]
	for a, inner := range g.inner {
		d := dst[a*g.n+lo:][:g.line]
		run := g.length[a] * inner
		if g.axes[a] == len(g.shape)-1 { // along the line
			for i := range len(b) - 1 {
				d[i] = b[i+1] - b[i]
			}
			last := len(b) - 1
			switch g.edge {
			case Reflecting:
				d[last] = 0
			case Periodic:
				d[last] = b[0] - b[last]
			case Grounded:
				d[last] = -b[last]
			}
			continue
		}
		next := lo + inner
		if lo%run >= run-inner { // at the end of the axis
			switch g.edge {
			case Reflecting:
				clear(d)
				continue
			case Grounded:
				for i, v := range b {
					d[i] = -v
				}
				continue
			}
			next -= run
		}
		x := src[next:][:len(b)]
		for i, v := range b {
			d[i] = x[i] - v
		}
	}
}

// adjointLine sums d, the line at lo, over all axes.
func (g *Gradient) adjointLine(d, src []float64, lo int) {
	clear(d)
	for a, inner := range g.inner {
		z := src[a*g.n:][:g.n]
		here := z[lo:][:len(d)]
		run := g.length[a] * inner
		if g.axes[a] == len(g.shape)-1 {
			g.alongLine(d, here)
			continue
		}
		at := lo % run
		ends := at >= run-inner
		if !ends || g.edge != Reflecting {
			for i, v := range here {
				d[i] -= v
			}
		}
		before := lo - inner
		if at < inner {
			if g.edge != Periodic {
				continue
			}
			before += run
		}
		for i, v := range z[before:][:len(d)] {
			d[i] += v
		}
	}
}

// alongLine adds the adjoint of the differences along a line.
func (g *Gradient) alongLine(d, z []float64) {
	last := len(d) - 1
	end := 0.0 // what counts of the difference at the end
	if g.edge != Reflecting {
		end = z[last]
	}
	if last == 0 {
		if g.edge == Grounded {
			d[0] -= end
		}
		return
	}
	d[0] -= z[0]
	if g.edge == Periodic {
		d[0] += end
	}
	for i := 1; i < last; i++ {
		d[i] += z[i-1] - z[i]
	}
	d[last] += z[last-1] - end
}
