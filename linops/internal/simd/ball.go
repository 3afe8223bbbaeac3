package simd

import "math"

// ballLanes is the number of entries that are taken together: sums are those of as many partial sums.
const ballLanes = 4

// BallLine is a line of an image in a step on the dual of total variation: the multipliers before the step and
// the one before that, of the differences to the line below and to the next column.
type BallLine struct {
	Down, Along, DownBefore, AlongBefore []float64
}

// Extrapolate sets down and along to the multipliers x = u + m (u - before) of a line, and primal to
//
//	b + c (below down - up) + c (along_j - along_{j-1}),
//
// with 0 in the place of along_{-1} and of the last one of along. up is down of the line above, and below is 0 on
// the last line, where down does not count, and else 1. All have the length of b.
func (l *BallLine) Extrapolate(primal, down, along, up, b []float64, m, c, below float64) {
	n := len(b)
	primal, down, along, up = primal[:n], down[:n], along[:n], up[:n]
	u0, u1, p0, p1 := l.Down[:n], l.Along[:n], l.DownBefore[:n], l.AlongBefore[:n]
	from, before := 0, 0.0
	if blocks := n / ballLanes; Fast && blocks > 0 {
		extrapolate4(&primal[0], &down[0], &along[0], &u0[0], &u1[0], &p0[0], &p1[0], &up[0], &b[0],
			blocks, m, c, below)
		from = blocks * ballLanes
		before = along[from-1]
	}
	for j := from; j < n; j++ {
		down[j] = u0[j] + float64(m*(u0[j]-p0[j]))
		along[j] = u1[j] + float64(m*(u1[j]-p1[j]))
		primal[j] = b[j] + float64(c*(float64(below*down[j])-up[j])) + float64(c*(along[j]-before))
		before = along[j]
	}
	if n > 0 { // the last one of along does not count
		before = 0
		if n > 1 {
			before = along[n-2]
		}
		primal[n-1] = b[n-1] + float64(c*(float64(below*down[n-1])-up[n-1])) + float64(c*(0-before))
	}
}

type BallStep struct {
	Step, Radius float64
	Joint        bool // pairs are projected, else every entry by itself
}

// Project sets d_0 and d_1 to the projection of x_0 + Step (below - b) and x_1 + Step (b_{j+1} - b_j), where b has an
// entry more than below, and returns the sum of <x - d, d - u>.
func (s *BallStep) Project(d0, d1, u0, u1, x0, x1, b, below []float64) float64 {
	n := len(below)
	d0, d1, u0, u1, x0, x1, b = d0[:n], d1[:n], u0[:n], u1[:n], x0[:n], x1[:n], b[:n+1]
	var sums [ballLanes]float64
	from := 0
	if blocks := n / ballLanes; Fast && blocks > 0 {
		joint := 0
		if s.Joint {
			joint = 1
		}
		project4(&sums, &d0[0], &d1[0], &u0[0], &u1[0], &x0[0], &x1[0], &b[0], &below[0],
			blocks, joint, s.Step, s.Radius)
		from = blocks * ballLanes
	}
	inside := s.Radius * s.Radius
	for j := from; j < n; j++ {
		v0, v1 := x0[j]+float64(s.Step*(below[j]-b[j])), x1[j]+float64(s.Step*(b[j+1]-b[j]))
		if !s.Joint {
			v0, v1 = max(-s.Radius, min(s.Radius, v0)), max(-s.Radius, min(s.Radius, v1))
		} else if square := float64(v0*v0) + float64(v1*v1); !(square <= inside) {
			f := s.Radius / math.Sqrt(square)
			v0, v1 = f*v0, f*v1
		}
		sums[j%ballLanes] += float64((x0[j]-v0)*(v0-u0[j])) + float64((x1[j]-v1)*(v1-u1[j]))
		d0[j], d1[j] = v0, v1
	}
	return (sums[0] + sums[1]) + (sums[2] + sums[3])
}
