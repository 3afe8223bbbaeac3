package linops

import (
	"sync"

	"gonum.org/v1/gonum/mat"
)

// directTaps is the size of the largest kernel that is summed tap by tap. On one core a tap takes a
// quarter to a half nanosecond a value, and Fourier transforms take 60 nanoseconds or more.
const directTaps = 128

// correlation sums tap by tap,
//
//	dst_{i,j} = sum_{s,t} q_{s,t} x_{i+s-up, j+t-left},
//
// where the boundary gives the values outside of the rows x cols image x.
type correlation struct {
	rows, cols int
	q          *mat.Dense
	up, left   int
	boundary   Boundary
	works      sync.Pool
	lines      sync.Pool
}

func newCorrelation(rows, cols int, q *mat.Dense, up, left int, boundary Boundary) *correlation {
	c := &correlation{rows: rows, cols: cols, q: q, up: up, left: left, boundary: boundary}
	_, kc := q.Dims()
	c.works.New = func() any { return &correlationWork{c: c} }
	c.lines.New = func() any { return &correlationLine{make([]float64, cols+kc-1)} }
	return c
}

// correlationWork is the state of one image's correlation, by parts that run in parallel.
type correlationWork struct {
	c        *correlation
	dst, src []float64
}

// correlationLine is one goroutine's memory for a row that is extended beyond both ends.
type correlationLine struct{ x []float64 }

func (c *correlation) vector(dst, src []float64, shared bool) {
	w := c.works.Get().(*correlationWork)
	w.dst, w.src = dst, src
	run(parts(c.rows, rowsPerPart(c.cols)), w, shared)
	w.dst, w.src = nil, nil
	c.works.Put(w)
}

func (w *correlationWork) part(i int) {
	c := w.c
	per := rowsPerPart(c.cols)
	lo, hi := i*per, min((i+1)*per, c.rows)
	clear(w.dst[lo*c.cols : hi*c.cols])
	kr, _ := c.q.Dims()
	line := c.lines.Get().(*correlationLine)
	// Every row of x is extended once and added to all rows of the result that it reaches, top to
	// bottom: row r of the result receives its taps s in order.
	for y := lo - c.up; y < hi-c.up+kr-1; y++ {
		at := y
		if c.boundary == Circular {
			at = wrap(y, c.rows)
		} else if y < 0 || y >= c.rows {
			continue
		}
		c.extend(line.x, w.src[at*c.cols:(at+1)*c.cols])
		for s := range kr {
			if r := y - s + c.up; r >= lo && r < hi {
				correlate(w.dst[r*c.cols:(r+1)*c.cols], line.x, c.q.RawRowView(s))
			}
		}
	}
	c.lines.Put(line)
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

// correlate adds sum_t q_t x_{j+t} to dst_j, four taps at a time.
func correlate(dst, x, q []float64) {
	for ; len(q) >= 4; q, x = q[4:], x[4:] {
		q0, q1, q2, q3 := q[0], q[1], q[2], q[3]
		x0, x1, x2, x3 := x[:len(dst)], x[1:][:len(dst)], x[2:][:len(dst)], x[3:][:len(dst)]
		for j := range dst {
			dst[j] += (q0*x0[j] + q1*x1[j]) + (q2*x2[j] + q3*x3[j])
		}
	}
	switch len(q) {
	case 3:
		q0, q1, q2 := q[0], q[1], q[2]
		x0, x1, x2 := x[:len(dst)], x[1:][:len(dst)], x[2:][:len(dst)]
		for j := range dst {
			dst[j] += q0*x0[j] + q1*x1[j] + q2*x2[j]
		}
	case 2:
		q0, q1 := q[0], q[1]
		x0, x1 := x[:len(dst)], x[1:][:len(dst)]
		for j := range dst {
			dst[j] += q0*x0[j] + q1*x1[j]
		}
	case 1:
		q0 := q[0]
		x := x[:len(dst)]
		for j := range dst {
			dst[j] += q0 * x[j]
		}
	}
}

// flipped is a kernel with the order of its rows and of its columns reversed.
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
