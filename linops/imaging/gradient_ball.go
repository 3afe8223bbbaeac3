package imaging

import (
	"math"
	"sync"

	"gonum.org/v1/gonum/floats"

	"surepipe/internal/parallel"
	"surepipe/linops"
	"surepipe/linops/internal/product"
)

// ballStep is [linops.Structure].BallStep for images, with reflecting edges and the differences down the
// columns and along the rows: of isotropic (two planes) and of anisotropic total variation (one).
func (g *Gradient) ballStep(s linops.BallStep) (uphill float64, ok bool) {
	if g.edge != Reflecting || len(g.axes) != 2 || g.axes[1] != len(g.shape)-1 || g.axes[0] != len(g.shape)-2 ||
		s.Planes > 2 {
		return 0, false
	}
	product.CheckForward(g.name, g.d, g.p, s.Dst, s.B)
	product.CheckForward(g.name, g.d, g.p, s.U, s.B)
	product.CheckForward(g.name, g.d, g.p, s.Before, s.B)
	w := &ballWork{s: s, rows: g.length[0], cols: g.line}
	if w.dst, ok = s.Dst.HostRow(0); !ok {
		return 0, false
	}
	w.u, _ = s.U.HostRow(0)
	w.before, _ = s.Before.HostRow(0)
	w.b, _ = s.B.HostRow(0)
	lines := max(ballLines, rowsPerPart(g.line))
	sums := make([]float64, parallel.Parts(g.n/g.line, lines))
	parallel.RangesIf(g.shares(), g.n/g.line, lines, func(from, to int) { sums[from/lines] = w.part(from, to) })
	return floats.Sum(sums), true
}

// ballLines is the least number of lines in a part: each part computes two more than it sets.
const ballLines = 16

// ballWork is one step.
type ballWork struct {
	s                 linops.BallStep
	rows, cols        int // of an image
	dst, u, before, b []float64
}

// ballLine is x on the two sorts of differences of a line, and the primal point B - Back A* x there.
type ballLine struct{ down, along, b []float64 }

// ballBuffers are the memory of a part: the line above, this one and the next.
type ballBuffers struct {
	memory []float64
	lines  [3]ballLine
}

var ballMemory = sync.Pool{New: func() any { return new(ballBuffers) }}

// part takes the step on the lines from to to-1 of all images, and returns their <x - dst, dst - u>.
func (w *ballWork) part(from, to int) float64 {
	m := ballMemory.Get().(*ballBuffers)
	m.memory = product.Resize(m.memory, 9*w.cols)
	for j := range m.lines {
		at := m.memory[3*j*w.cols:]
		m.lines[j] = ballLine{at[:w.cols], at[w.cols : 2*w.cols], at[2*w.cols : 3*w.cols]}
	}
	above, this, next := &m.lines[0], &m.lines[1], &m.lines[2]
	sum := 0.0
	for r := from; r < to; r++ {
		if r%w.rows == 0 || r == from {
			if r%w.rows > 0 {
				w.extrapolate(above, r-1)
			}
			w.extrapolate(this, r)
			w.primal(this, above, r)
		}
		below := this.b
		if r%w.rows < w.rows-1 {
			w.extrapolate(next, r+1)
			w.primal(next, this, r+1)
			below = next.b
		}
		sum += w.project(this, below, r)
		above, this, next = this, next, above
	}
	ballMemory.Put(m)
	return sum
}

// extrapolate sets x = (1 + m) u - m before on a line.
func (w *ballWork) extrapolate(l *ballLine, r int) {
	m, n := w.s.Momentum, len(w.b)
	for plane, x := range [2][]float64{l.down, l.along} {
		at := plane*n + r*w.cols
		u, before := w.u[at:][:len(x)], w.before[at:][:len(x)]
		for j := range x {
			x[j] = u[j] + m*(u[j]-before[j])
		}
	}
}

// primal sets B - Back A* x on a line, given x on it and on the line above. Differences past the last
// row and the last column do not count.
func (w *ballWork) primal(l, above *ballLine, r int) {
	c, b := w.s.Back, w.b[r*w.cols:][:w.cols]
	out, down, along := l.b[:len(b)], l.down[:len(b)], l.along[:len(b)]
	within := r % w.rows
	switch {
	case w.rows == 1:
		copy(out, b)
	case within == 0:
		for j, v := range b {
			out[j] = v + c*down[j]
		}
	case within == w.rows-1:
		up := above.down[:len(b)]
		for j, v := range b {
			out[j] = v - c*up[j]
		}
	default:
		up := above.down[:len(b)]
		for j, v := range b {
			out[j] = v + c*(down[j]-up[j])
		}
	}
	last := len(b) - 1
	before := 0.0
	for j := range last {
		out[j] += c * (along[j] - before)
		before = along[j]
	}
	out[last] -= c * before
}

// project takes the step from a line, given the primal point on the line below, and projects the pairs of
// differences, or each by itself. Below the last line is the line itself.
func (w *ballWork) project(l *ballLine, below []float64, r int) float64 {
	step, radius, n, joint := w.s.Step, w.s.Radius, len(w.b), w.s.Planes == 2
	at := r * w.cols
	u0, d0 := w.u[at:][:w.cols], w.dst[at:][:w.cols]
	u1, d1 := w.u[n+at:][:w.cols], w.dst[n+at:][:w.cols]
	b, x0, x1, below := l.b[:w.cols], l.down[:w.cols], l.along[:w.cols], below[:w.cols]
	sum, inside := 0.0, radius*radius
	for j, here := range b {
		right := here
		if j+1 < len(b) {
			right = b[j+1]
		}
		v0, v1 := x0[j]+step*(below[j]-here), x1[j]+step*(right-here)
		if !joint {
			v0, v1 = max(-radius, min(radius, v0)), max(-radius, min(radius, v1))
		} else if square := v0*v0 + v1*v1; !(square <= inside) {
			f := radius / math.Sqrt(square)
			v0, v1 = f*v0, f*v1
		}
		sum += (x0[j]-v0)*(v0-u0[j]) + (x1[j]-v1)*(v1-u1[j])
		d0[j], d1[j] = v0, v1
	}
	return sum
}
