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
//	b + c (below down - up) + c (along_j - along_{j-apart}),
//
// with 0 in the place of entries before the first and of the last apart ones of along. up is down of the line above,
// and below is 0 on the last line, where down does not count, and else 1. All have the length of b, but for along,
// whose first apart entries are 0 and come before those of the line.
func (l *BallLine) Extrapolate(primal, down, along, up, b []float64, m, c, below float64, apart int) {
	n := len(b)
	primal, down, up, along = primal[:n], down[:n], up[:n], along[:apart+n]
	momentum(down, l.Down[:n], l.DownBefore[:n], m)
	momentum(along[apart:], l.Along[:n], l.AlongBefore[:n], m)
	from := 0
	if blocks := n / ballLanes; Fast && blocks > 0 {
		primal4(&primal[0], &down[0], &up[0], &along[apart], &along[0], &b[0], blocks, c, below)
		from = blocks * ballLanes
	}
	for j := from; j < n; j++ {
		primal[j] = b[j] + float64(c*(float64(below*down[j])-up[j])) + float64(c*(along[apart+j]-along[j]))
	}
	for j := max(n-apart, 0); j < n; j++ { // the last ones of along do not count
		primal[j] = b[j] + float64(c*(float64(below*down[j])-up[j])) + float64(c*(0-along[j]))
	}
}

// momentum sets x = u + m (u - before).
func momentum(x, u, before []float64, m float64) {
	from := 0
	if blocks := len(x) / ballLanes; Fast && blocks > 0 {
		momentum4(&x[0], &u[0], &before[0], blocks, m)
		from = blocks * ballLanes
	}
	for j := from; j < len(x); j++ {
		x[j] = u[j] + float64(m*(u[j]-before[j]))
	}
}

// BallStep is what a step has in common for all lines. With Channels pairs of entries are projected together, with
// those of so many neighbours; without every entry by itself.
type BallStep struct {
	Step, Radius float64
	Channels     int
}

// Project sets d_0 and d_1 to the projection of x_0 + Step (below - b) and x_1 + Step (b_{j+apart} - b_j), where b has
// apart entries more than below, and returns the sum of <x - d, d - u>. work is memory of the length of a line.
func (s *BallStep) Project(d0, d1, u0, u1, x0, x1, b, below []float64, apart int, work []float64) float64 {
	n := len(below)
	d0, d1, u0, u1, x0, x1, b = d0[:n], d1[:n], u0[:n], u1[:n], x0[:n], x1[:n], b[:n+apart]
	var sums [ballLanes]float64
	if s.Channels > 1 {
		s.together(&sums, d0, d1, u0, u1, x0, x1, b, below, apart, work[:n])
		return (sums[0] + sums[1]) + (sums[2] + sums[3])
	}
	from := 0
	if blocks := n / ballLanes; Fast && blocks > 0 {
		project4(&sums, &d0[0], &d1[0], &u0[0], &u1[0], &x0[0], &x1[0], &b[0], &b[apart], &below[0], blocks, s.Channels,
			s.Step, s.Radius)
		from = blocks * ballLanes
	}
	inside := s.Radius * s.Radius
	for j := from; j < n; j++ {
		v0, v1 := x0[j]+float64(s.Step*(below[j]-b[j])), x1[j]+float64(s.Step*(b[j+apart]-b[j]))
		if s.Channels == 0 {
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

// together is Project of pairs with those of some neighbours: all arguments first, then the factor of each entry.
func (s *BallStep) together(sums *[ballLanes]float64, d0, d1, u0, u1, x0, x1, b, below []float64, apart int,
	factor []float64) {
	n, blocks, from := len(below), 0, 0
	if Fast {
		blocks = n / ballLanes
	}
	if blocks > 0 {
		ahead4(&d0[0], &d1[0], &factor[0], &x0[0], &x1[0], &b[0], &b[apart], &below[0], blocks, s.Step)
		from = blocks * ballLanes
	}
	for j := from; j < n; j++ {
		v0, v1 := x0[j]+float64(s.Step*(below[j]-b[j])), x1[j]+float64(s.Step*(b[j+apart]-b[j]))
		d0[j], d1[j], factor[j] = v0, v1, float64(v0*v0)+float64(v1*v1)
	}
	inside := s.Radius * s.Radius
	for j := 0; j < n; j += s.Channels {
		squares := factor[j:][:s.Channels]
		square := 0.0
		for _, v := range squares {
			square += v
		}
		f := 1.0
		if !(square <= inside) {
			f = s.Radius / math.Sqrt(square)
		}
		for c := range squares {
			squares[c] = f
		}
	}
	if blocks > 0 {
		shorten4(sums, &d0[0], &d1[0], &u0[0], &u1[0], &x0[0], &x1[0], &factor[0], blocks)
	}
	for j := from; j < n; j++ {
		v0, v1 := factor[j]*d0[j], factor[j]*d1[j]
		sums[j%ballLanes] += float64((x0[j]-v0)*(v0-u0[j])) + float64((x1[j]-v1)*(v1-u1[j]))
		d0[j], d1[j] = v0, v1
	}
}
