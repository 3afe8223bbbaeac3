package imaging

import (
	"sync"

	"gonum.org/v1/gonum/floats"

	"surepipe/internal/lists"
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
	w := &simd.BallStep{Momentum: s.Momentum, Back: s.Back, Step: s.Step, Radius: s.Radius, Row: g.inner[0],
		Apart: g.inner[1], Uphill: s.Uphill}
	if s.Planes == 2 {
		w.Channels = s.Channels
	}
	if w.Dst, ok = s.Dst.HostRow(0); !ok {
		return 0, false
	}
	w.U, _ = s.U.HostRow(0)
	w.Before, _ = s.Before.HostRow(0)
	w.B, _ = s.B.HostRow(0)
	g.clearPastEdges(w.U)
	g.clearPastEdges(w.Before)
	lines := max(ballLines, parallel.Rows(w.Row))
	sums := make([]float64, parallel.Parts(g.n/w.Row, lines))
	parallel.RangesIf(g.shares, g.n/w.Row, lines, func(from, to int) {
		sums[from/lines] = ballPart(w, g.length[0], from, to)
	})
	return floats.Sum(sums), true
}

// ballLines is the least number of lines in a part: each part computes one more than it sets.
const ballLines = 16

// clearPastEdges sets the multipliers of the differences past the edges to 0.
func (g *Gradient) clearPastEdges(u []float64) {
	row, apart, image := g.inner[0], g.inner[1], g.length[0]*g.inner[0]
	for at := image; at <= g.n; at += image {
		clear(u[at-row : at])
	}
	for at := g.n + row; at <= 2*g.n; at += row {
		clear(u[at-apart : at])
	}
}

// ballPad keeps the parts of a row apart in the cache where its length is a power of 2.
const ballPad = 32

var ballMemory = sync.Pool{New: func() any { return new([]float64) }}

// ballPart takes the step on the lines from to to-1 of all images of so many rows, and returns their sum of <x - dst,
// dst - u>.
func ballPart(s *simd.BallStep, rows, from, to int) float64 {
	m := ballMemory.Get().(*[]float64)
	n := s.Row
	apart := n + ballPad
	*m = lists.Resize(*m, 4*apart+s.Apart)
	l := simd.BallRow{Down: (*m)[:n], Along: (*m)[apart:][:n], Squares: (*m)[2*apart:][:n], Primal: (*m)[3*apart:]}
	sum := 0.0
	for r := from; r < to; r++ {
		if first := r%rows == 0; first || r == from {
			s.Begin(&l, r, first)
		}
		sum += s.Advance(&l, r, r%rows == rows-1)
	}
	ballMemory.Put(m)
	return sum
}
