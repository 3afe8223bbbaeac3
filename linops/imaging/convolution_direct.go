package imaging

import (
	"math"
	"slices"
	"sync"

	"gonum.org/v1/gonum/mat"

	"surepipe/internal/lists"
	"surepipe/internal/parallel"
	"surepipe/linops/internal/simd"
)

// directTaps is the number of taps a value up to which a kernel is summed tap by tap.
var directTaps = map[bool]int{true: 512, false: 128}[simd.Fast]

// correlation sums tap by tap,
//
//	dst_{i,j} = sum_{s,t} q_{s,t} x_{i+s-up, j+t-left},
//
// where the boundary gives the values outside of the rows x cols image x. A separable q = u v* is
// summed along the rows and then down the columns.
type correlation struct {
	rows, cols int
	q          *mat.Dense
	u, v       []float64 // nil unless q = u v*
	up, left   int
	boundary   Boundary
	lines      sync.Pool // of *correlationLine
}

// newCorrelation returns nil where q has too many taps.
func newCorrelation(rows, cols int, q *mat.Dense, up, left int, boundary Boundary) *correlation {
	c := &correlation{rows: rows, cols: cols, q: q, up: up, left: left, boundary: boundary}
	kr, kc := q.Dims()
	taps := kr * kc
	if c.u, c.v = separate(q); c.u != nil {
		taps = kr + kc
	}
	if taps > directTaps {
		return nil
	}
	c.lines.New = func() any { return &correlationLine{x: make([]float64, cols+kc-1)} }
	return c
}

// separate returns u and v where q = u v* up to rounding errors, 8 eps of the sum of the entries'
// absolute values, and q has more than one row and column; else nil.
func separate(q *mat.Dense) (u, v []float64) {
	kr, kc := q.Dims()
	if kr == 1 || kc == 1 {
		return nil, nil
	}
	top, row, col := 0.0, 0, 0
	for s := range kr {
		for t, x := range q.RawRowView(s) {
			if x = math.Abs(x); x > top {
				top, row, col = x, s, t
			}
		}
	}
	if top == 0 {
		return nil, nil
	}
	u, v = make([]float64, kr), slices.Clone(q.RawRowView(row))
	for s := range u {
		u[s] = q.At(s, col) / q.At(row, col)
	}
	off, sum := 0.0, 0.0
	for s, f := range u {
		for t, x := range q.RawRowView(s) {
			off += math.Abs(x - f*v[t])
			sum += math.Abs(x)
		}
	}
	if off > 8*0x1p-52*sum {
		return nil, nil
	}
	return u, v
}

// correlationLine is one goroutine's memory: a row that is extended beyond both ends, and rows that
// were summed along.
type correlationLine struct{ x, summed []float64 }

// perPart is the number of rows of the result in a part. Of a separable kernel the rows above and
// below are summed along once more, hence a few times as many as those.
func (c *correlation) perPart() int {
	per := parallel.Rows(c.cols)
	if c.u != nil {
		per = max(per, 4*len(c.u))
	}
	return per
}

func (c *correlation) vector(dst, src []float64, shared bool) {
	pooled(&c.lines, shared, c.rows, c.perPart(), func(line *correlationLine, lo, hi int) {
		if c.u != nil {
			c.separable(line, dst, src, lo, hi)
		} else {
			c.whole(line, dst, src, lo, hi)
		}
	})
}

// source is the row of the image that stands at row y, and false where that is 0.
func (c *correlation) source(y int) (int, bool) {
	if c.boundary == Circular {
		return wrap(y, c.rows), true
	}
	return y, y >= 0 && y < c.rows
}

// whole extends every row of x once and adds it to all rows of the result that it reaches, top to
// bottom: row r of the result receives its taps s in order.
func (c *correlation) whole(line *correlationLine, dst, src []float64, lo, hi int) {
	clear(dst[lo*c.cols : hi*c.cols])
	kr, _ := c.q.Dims()
	for y := lo - c.up; y < hi-c.up+kr-1; y++ {
		at, ok := c.source(y)
		if !ok {
			continue
		}
		c.extend(line.x, src[at*c.cols:(at+1)*c.cols])
		for s := range kr {
			if r := y - s + c.up; r >= lo && r < hi {
				simd.Sum(dst[r*c.cols:(r+1)*c.cols], c.q.RawRowView(s), line.x, 1, true)
			}
		}
	}
}

// separable sums every row along, and these sums down.
func (c *correlation) separable(line *correlationLine, dst, src []float64, lo, hi int) {
	n := hi - lo + len(c.u) - 1
	line.summed = lists.Resize(line.summed, n*c.cols)
	for y := range n {
		to := line.summed[y*c.cols : (y+1)*c.cols]
		at, ok := c.source(lo - c.up + y)
		if !ok {
			clear(to)
			continue
		}
		c.extend(line.x, src[at*c.cols:(at+1)*c.cols])
		simd.Sum(to, c.v, line.x, 1, false)
	}
	for r := lo; r < hi; r++ {
		simd.Sum(dst[r*c.cols:(r+1)*c.cols], c.u, line.summed[(r-lo)*c.cols:], c.cols, false)
	}
}

// extend sets to_j = x_{j-left}, where the boundary gives the values outside of x.
func (c *correlation) extend(to, x []float64) {
	copy(to[c.left:], x)
	right := to[c.left+len(x):]
	if c.boundary == ZeroPadded {
		clear(to[:c.left])
		clear(right)
		return
	}
	for j := range c.left {
		to[j] = x[wrap(j-c.left, len(x))]
	}
	for j := range right {
		right[j] = x[j%len(x)]
	}
}

func flipped(k *mat.Dense) *mat.Dense {
	r, c := k.Dims()
	f := mat.NewDense(r, c, nil)
	for i := range r {
		for j := range c {
			f.Set(r-1-i, c-1-j, k.At(i, j))
		}
	}
	return f
}
