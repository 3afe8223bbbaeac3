package imaging

import (
	"sync"

	"gonum.org/v1/gonum/floats"

	"surepipe/internal/parallel"
	"surepipe/linops"
	"surepipe/linops/internal/product"
	"surepipe/linops/internal/simd"
)

// ballStep is [linops.Structure].BallStep for images, with reflecting edges and the differences down the
// columns and along the rows: of anisotropic (one plane) and of isotropic total variation (two), where what axes
// follow these are channels, each by itself or all in one norm.
func (g *Gradient) ballStep(s linops.BallStep) (uphill float64, ok bool) {
	if g.edge != Reflecting || len(g.axes) != 2 || g.axes[1] != g.axes[0]+1 || s.Planes > 2 ||
		s.Channels != 1 && (s.Planes != 2 || s.Channels != g.inner[1]) {
		return 0, false
	}
	product.CheckForward(g.name, g.d, g.p, s.Dst, s.B)
	product.CheckForward(g.name, g.d, g.p, s.U, s.B)
	product.CheckForward(g.name, g.d, g.p, s.Before, s.B)
	w := &ballWork{s: s, rows: g.length[0], numbers: g.inner[0], apart: g.inner[1]}
	if w.dst, ok = s.Dst.HostRow(0); !ok {
		return 0, false
	}
	w.u, _ = s.U.HostRow(0)
	w.before, _ = s.Before.HostRow(0)
	w.b, _ = s.B.HostRow(0)
	lines := max(ballLines, rowsPerPart(w.numbers))
	sums := make([]float64, parallel.Parts(g.n/w.numbers, lines))
	parallel.RangesIf(g.shares(), g.n/w.numbers, lines, func(from, to int) { sums[from/lines] = w.part(from, to) })
	return floats.Sum(sums), true
}

// ballLines is the least number of lines in a part: each part computes two more than it sets.
const ballLines = 16

// ballWork is one step.
type ballWork struct {
	s                 linops.BallStep
	rows, numbers     int // of an image, and its numbers in a row
	apart             int // of neighbours in a row: the number of channels
	dst, u, before, b []float64
}

// ballLine is x on the two sorts of differences of a line, those along it after zeros for the column before the first,
// and the primal point B - Back A* x there, whose last column stands twice: a difference past it is 0.
type ballLine struct{ down, along, b []float64 }

// ballBuffers are the memory of a part: the line above, this one and the next, zeros, and one to work in.
type ballBuffers struct {
	memory, zeros, work []float64
	lines               [3]ballLine
}

var ballMemory = sync.Pool{New: func() any { return new(ballBuffers) }}

// part takes the step on the lines from to to-1 of all images, and returns their <x - dst, dst - u>.
func (w *ballWork) part(from, to int) float64 {
	m := ballMemory.Get().(*ballBuffers)
	n, a := w.numbers, w.apart
	size := 3*n + 2*a
	m.memory, m.zeros, m.work = product.Resize(m.memory, 3*size), product.Resize(m.zeros, n), product.Resize(m.work, n)
	clear(m.zeros)
	for j := range m.lines {
		at := m.memory[j*size:]
		m.lines[j] = ballLine{at[:n], at[n : 2*n+a], at[2*n+a : size]}
		clear(m.lines[j].along[:a])
	}
	above, this, next := &m.lines[0], &m.lines[1], &m.lines[2]
	step := simd.BallStep{Step: w.s.Step, Radius: w.s.Radius}
	if w.s.Planes == 2 {
		step.Channels = w.s.Channels
	}
	sum, all := 0.0, len(w.b)
	for r := from; r < to; r++ {
		if r%w.rows == 0 {
			w.line(this, m.zeros, r)
		} else if r == from {
			w.line(above, m.zeros, r-1) // of which down counts alone
			w.line(this, above.down, r)
		}
		below := this.b
		if r%w.rows < w.rows-1 {
			w.line(next, this.down, r+1)
			below = next.b
		}
		at := r * n
		sum += step.Project(w.dst[at:][:n], w.dst[all+at:][:n], w.u[at:][:n], w.u[all+at:][:n], this.down,
			this.along[a:], this.b, below[:n], a, m.work)
		above, this, next = this, next, above
	}
	ballMemory.Put(m)
	return sum
}

// line sets x and the primal point on a line, given down of the line above.
func (w *ballWork) line(l *ballLine, up []float64, r int) {
	n, size, below := w.numbers, len(w.b), 1.0
	if r%w.rows == w.rows-1 {
		below = 0
	}
	at := r * n
	u := simd.BallLine{Down: w.u[at:][:n], Along: w.u[size+at:][:n], DownBefore: w.before[at:][:n],
		AlongBefore: w.before[size+at:][:n]}
	u.Extrapolate(l.b, l.down, l.along, up, w.b[at:][:n], w.s.Momentum, w.s.Back, below, w.apart)
	copy(l.b[n:], l.b[n-w.apart:n])
}
