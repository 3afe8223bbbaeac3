package banded

import (
	"math"

	"surepipe/internal/lists"
)

// end is what is eliminated from one end: columns 0 to n-1 by rows 0 to n+left-1, counted from there. The rows that are
// left have entries in the next 2 width columns.
type end struct {
	*Saddle
	last    bool // it is the end of the order, not its beginning
	n, left int
	below   []float64 // what row i was multiplied by when it was subtracted from that k+1 below, at i width + k
	u       []float64 // entry k from the diagonal on of row i, at i (2 width + 1) + k
	pivot   []uint16  // how far below row i the row was that was exchanged with it
	rest    []float64 // width + 1 rows of 2 width + 1 entries: those under way, and in the end those that are left
}

// place is that of row i.
func (e *end) place(i int) int {
	if e.last {
		return len(e.order) - 1 - i
	}
	return i
}

// eliminate returns false where a pivot is 0 or not finite.
func (e *end) eliminate(c, d []float64) bool {
	w, stride := e.width, 2*e.width+1
	for i := range min(w, e.n+e.left) {
		e.enter(e.rest[i*stride:][:stride], i, c, d)
	}
	for i := range e.n {
		e.enter(e.rest[w*stride:], i+w, c, d)
		best, at := 0.0, 0
		for r := 0; r <= w; r++ {
			if v := math.Abs(e.rest[r*stride]); v > best {
				best, at = v, r
			}
		}
		if !(best > 0) || math.IsInf(best, 1) {
			return false
		}
		top, found, first := e.u[i*stride:][:stride], e.rest[at*stride:][:stride], e.rest[:stride]
		for k := range top { // a copy of few numbers takes longer
			top[k], found[k] = found[k], first[k]
		}
		e.pivot[i] = uint16(at)
		below := e.below[i*w:][:w]
		for r := range below {
			// The rows below move up, and to the left.
			from, to := e.rest[(r+1)*stride:][:stride], e.rest[r*stride:][:stride]
			l := from[0] / top[0]
			below[r] = l
			for k := 1; k < len(from) && k < len(top); k++ {
				to[k-1] = from[k] - l*top[k]
			}
			to[stride-1] = 0
		}
	}
	return true
}

// least is the smallest of the pivots' absolute values over the largest entry of their rows.
func (e *end) least() float64 {
	least, stride := math.Inf(1), 2*e.width+1
	for i := range e.n {
		least = min(least, pivotShare(e.u[i*stride:][:stride]))
	}
	return least
}

// enter writes row i of the matrix down, from column i - width on, or 0 if that is less.
func (e *end) enter(row []float64, i int, c, d []float64) {
	w, at, r := e.width, min(i, e.width), e.place(i)
	before, after := row[:at], row[at+1:][:w]
	for k := range row {
		row[k] = 0
	}
	switch o := int(e.order[r]); {
	case o >= e.p:
		row[at] = -d[o-e.p]
	case c != nil:
		row[at] = c[o]
	default:
		row[at] = 1
	}
	near := e.above[r*w:][:w]
	if !e.last {
		for k := range w {
			after[k] = near[k]
		}
		for k := range before {
			before[len(before)-1-k] = e.above[(r-1-k)*w+k]
		}
		return
	}
	for k := range min(w, r) {
		after[k] = e.above[(r-1-k)*w+k]
	}
	for k := range before {
		before[len(before)-1-k] = near[k]
	}
}

// atATime is the number of rows whose right-hand sides are taken from their places at a time, and window holds these
// and their neighbours without memory from the heap, unless the band is wider than most.
const atATime = 512

type window [atATime + 2*MostWidth]float64

// forward solves with the lower triangle: n numbers go to y, and those that are left to the middle.
func (e *end) forward(y, x, z, middle []float64) {
	w := e.width
	var room window
	v := lists.Resize(room[:], atATime+w)
	e.gather(v[:min(w, e.n+e.left)], 0, x, z)
	for lo := 0; lo < e.n; lo += atATime {
		n := min(atATime, e.n-lo)
		e.gather(v[w:][:n], lo+w, x, z)
		for i := range n {
			at := i + int(e.pivot[lo+i])
			top := v[at]
			v[at], v[i] = v[i], top
			rows := v[i+1:][:w]
			for k, l := range e.below[(lo+i)*w:][:w] {
				rows[k] -= l * top
			}
		}
		copy(y[lo:], v[:n])
		copy(v, v[n:n+w])
	}
	for i := range e.left {
		middle[e.inMiddle(i, len(middle))] = v[i]
	}
}

// backward solves with the upper triangle, given the solution in the middle.
func (e *end) backward(y, x, z, middle []float64) {
	w, stride := 2*e.width, 2*e.width+1
	var room window
	v := lists.Resize(room[:], atATime+w)
	for i := range min(w, len(middle)) {
		v[i] = middle[e.inMiddle(i, len(middle))]
	}
	for hi := e.n; hi > 0; hi -= atATime {
		n := min(atATime, hi)
		lo := hi - n
		copy(v[n:], v[:w])
		copy(v, y[lo:hi])
		for i := n - 1; i >= 0; i-- {
			row, next := e.u[(lo+i)*stride:][:stride], v[i+1:][:w]
			sum := v[i]
			for k := len(next) - 1; k >= 0; k-- { // the nearest, which has just become known, last
				sum -= row[k+1] * next[k]
			}
			v[i] = sum / row[0]
		}
		e.scatter(v[:n], lo, x, z)
	}
}

// gather sets v to the numbers of rows from a first one on.
func (e *end) gather(v []float64, first int, x, z []float64) {
	at, step := e.place(first), e.place(1)-e.place(0)
	for i := range v {
		if o := int(e.order[at]); o < e.p {
			v[i] = x[o]
		} else {
			v[i] = z[o-e.p]
		}
		at += step
	}
}

// scatter sets the numbers of rows from a first one on to v.
func (e *end) scatter(v []float64, first int, x, z []float64) {
	at, step := e.place(first), e.place(1)-e.place(0)
	for _, b := range v {
		if o := int(e.order[at]); o < e.p {
			x[o] = b
		} else {
			z[o-e.p] = b
		}
		at += step
	}
}

// inMiddle is the place of the end's i-th neighbour among n in the middle.
func (e *end) inMiddle(i, n int) int {
	if e.last {
		return n - 1 - i
	}
	return i
}
