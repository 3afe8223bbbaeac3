package imaging

import (
	"fmt"
	"math"
	"slices"

	"surepipe/array"
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
)

// String is "reflecting", "periodic" or "grounded".
func (e Edge) String() string {
	switch e {
	case Reflecting:
		return "reflecting"
	case Periodic:
		return "periodic"
	case Grounded:
		return "grounded"
	}
	return fmt.Sprintf("Edge(%d)", int(e))
}

// Gradient takes the forward differences of an array along some of its axes. For each of these axes
// the image has an array of the same shape, one after the other,
//
//	(D_a b)_i = b_{i + e_a} - b_i,
//
// and at the last entry of the axis what the [Edge] says. The differences of one entry along all
// axes are at the same place of these arrays, so that isotropic total variation is a norm across
// them (prox.NewJointL2). The adjoint is the negative divergence.
//
// With reflecting edges D*D is the Laplacian of a grid, which the cosine transform diagonalizes (see
// [Difference]): where one or two axes are taken, the last of the array, (eta D*D + I)^{-1} takes
// O(n log n), and a step on the dual of total variation is one pass over memory. The largest eigenvalue of D*D
// is known: the sum over the axes of that of a path, a cycle or a path with one end held at 0.
//
// Both products take one pass over memory on the host, and a few on another device.
type Gradient struct {
	mapped
	shape, axes []int
	edge        Edge
	n           int   // entries of an array
	length      []int // of each axis that is taken
	inner       []int // the distance of neighbours along it
	line        int   // entries of the last axis of the array
	laplacian
}

// NewGradient returns the differences of arrays of a shape along the given axes, in increasing
// order, all of them where axes is nil. It panics where the shape or the axes are not such.
func NewGradient(shape, axes []int, edge Edge) *Gradient {
	if axes == nil {
		for a := range shape {
			axes = append(axes, a)
		}
	}
	n := 1
	for _, m := range shape {
		n *= m
	}
	if len(shape) == 0 || len(axes) == 0 || n <= 0 || slices.Min(shape) < 1 || edge < Reflecting || edge > Grounded {
		panic(fmt.Sprintf("linops: differences of an array of shape %v along axes %v with edges %v", shape, axes, edge))
	}
	g := &Gradient{shape: slices.Clone(shape), axes: slices.Clone(axes), edge: edge, n: n, line: shape[len(shape)-1]}
	for i, a := range axes {
		if a < 0 || a >= len(shape) || i > 0 && a <= axes[i-1] {
			panic(fmt.Sprintf("linops: differences along axes %v of an array with %d axes, want increasing "+
				"axes from 0", axes, len(shape)))
		}
		inner := 1
		for _, m := range shape[a+1:] {
			inner *= m
		}
		g.length, g.inner = append(g.length, shape[a]), append(g.inner, inner)
	}
	g.mapped = mapped{twin: twin{host: g, on: g.multiply}, name: "Gradient", d: len(axes) * n, p: n}
	norm := 0.0
	for _, m := range g.length {
		norm += largestDifference(m, edge)
	}
	s := linops.Structure{Norm2: linops.Known(norm), ColumnNorms2: g.columnNorms2, Pairs: g.pairs,
		BallStep: g.ballStep, Spectra: linops.Spectra{Cosines: g.cosines(), Circulant: g.waves()}}
	if images := len(shape) - len(axes); edge == Reflecting && len(axes) <= 2 && axes[0] == images {
		rows := 1
		if len(axes) == 2 {
			rows = g.length[0]
		}
		g.laplacian = newLaplacian(rows, g.line)
		s.SolveNormal = g.solveNormal
	}
	g.structure = linops.Complete(g, s)
	return g
}

// largestDifference is the largest eigenvalue of D*D along one axis of n entries.
func largestDifference(n int, edge Edge) float64 {
	angle := 0.0
	switch {
	case edge == Reflecting:
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

// multiply takes differences, or sums them, by operations of another device.
func (g *Gradient) multiply(dst, src array.Batch, do action) {
	dev := dst.Device()
	if do.kind == doAdjoint {
		dev.Fill(dst, 0)
	}
	for a := range g.axes {
		at, to := a*g.n, (a+1)*g.n
		if do.kind == doAdjoint {
			g.eachArray(a, dst, src.Cols(at, to), func(dst, z array.Batch) { g.adjointOn(dev, dst, z, a) })
		} else {
			g.eachArray(a, dst.Cols(at, to), src, func(dst, b array.Batch) { g.forwardOn(dev, dst, b, a) })
		}
	}
}

// eachArray calls f with the arrays of x and y, as batches of those parts along which differences
// are taken: once where that is the whole array, else once for each vector.
func (g *Gradient) eachArray(a int, x, y array.Batch, f func(x, y array.Batch)) {
	run := g.length[a] * g.inner[a]
	if run == g.n {
		f(x, y)
		return
	}
	for i := range x.K() {
		f(x.Rows(i, i+1).Reshape(g.n/run, run), y.Rows(i, i+1).Reshape(g.n/run, run))
	}
}

func (g *Gradient) forwardOn(dev array.Device, d, x array.Batch, a int) {
	inner, run := g.inner[a], g.length[a]*g.inner[a]
	last := run - inner
	if last > 0 {
		dev.Lin(d.Cols(0, last), 1, x.Cols(inner, run), -1, x.Cols(0, last))
	}
	switch end := d.Cols(last, run); g.edge {
	case Reflecting:
		dev.Fill(end, 0)
	case Periodic:
		dev.Lin(end, 1, x.Cols(0, inner), -1, x.Cols(last, run))
	case Grounded:
		dev.Lin(end, -1, x.Cols(last, run), 0, array.Batch{})
	}
}

func (g *Gradient) adjointOn(dev array.Device, d, x array.Batch, a int) {
	inner, run := g.inner[a], g.length[a]*g.inner[a]
	last := run - inner
	add := func(to array.Batch, c float64, from array.Batch) { dev.Lin(to, 1, to, c, from) }
	if last > 0 {
		add(d.Cols(0, last), -1, x.Cols(0, last))
		add(d.Cols(inner, run), 1, x.Cols(0, last))
	}
	if g.edge != Reflecting {
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
	plus, minus := make([]int32, len(g.axes)*g.n), make([]int32, len(g.axes)*g.n)
	for a := range g.axes {
		inner, run := g.inner[a], g.length[a]*g.inner[a]
		for i := range g.n {
			at := a*g.n + i
			plus[at], minus[at] = int32(i+inner), int32(i)
			if i%run < run-inner {
				continue
			}
			switch g.edge {
			case Reflecting:
				plus[at], minus[at] = -1, -1
			case Periodic:
				plus[at] = int32(i + inner - run)
			case Grounded:
				plus[at] = -1
			}
		}
	}
	return &linops.Pairs{Plus: plus, Minus: minus}
}

// shares reports that a long vector is shared among processors, by lines.
func (g *Gradient) shares() bool { return g.n >= shareFrom && g.n > g.line }

// vector takes groups of lines in parallel. A line is a row of the last axis.
func (g *Gradient) vector(dst, src []float64, do action, shared bool) {
	parallel.RangesIf(shared, g.n/g.line, rowsPerPart(g.line), func(lo, hi int) {
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
