package simd

import "math"

// ballLanes is the number of entries that are taken together: sums are those of as many partial sums.
const ballLanes = 4

// BallStep is a step on the dual of total variation of images, with x = U + Momentum (U - Before) and the primal point
// b = B - Back A* x,
//
//	Dst = P(x + Step A b),
//
// row by row. U, Before and Dst hold the multipliers of the differences to the row below, and then as many of those
// to the next column; those of differences past the edges, which are 0, have to be 0.
type BallStep struct {
	Dst, U, Before, B            []float64
	Momentum, Back, Step, Radius float64
	Row, Apart                   int // the numbers in a row, and the distance of neighbours in it
	// Channels is how many neighbours' pairs of entries are projected together; 0 projects every entry by itself.
	Channels int
	Uphill   bool // whether <x - Dst, Dst - U> is asked for
}

// BallRow is x on the differences of a row, and the primal point there, followed by its last column once more: a
// difference past it is 0. Squares is memory to work in.
type BallRow struct{ Down, Along, Primal, Squares []float64 }

// x is that of the step.
func (s *BallStep) x(i int) float64 { return s.U[i] + float64(s.Momentum*(s.U[i]-s.Before[i])) }

// primal is the primal point, with x on the differences there and of the row above; -Apart of the first entry is 0,
// as it is the last of a row.
func (s *BallStep) primal(i int, down, up, along float64) float64 {
	return s.B[i] + float64(s.Back*(down-up)) + float64(s.Back*(along-s.x(len(s.B)+i-s.Apart)))
}

// Begin sets l to a row; first says that no row is above.
func (s *BallStep) Begin(l *BallRow, row int, first bool) {
	for j := range s.Row {
		i, up := row*s.Row+j, 0.0
		if !first {
			up = s.x(i - s.Row)
		}
		l.Down[j], l.Along[j] = s.x(i), s.x(len(s.B)+i)
		l.Primal[j] = s.primal(i, l.Down[j], up, l.Along[j])
	}
	l.repeat(s)
}

func (l *BallRow) repeat(s *BallStep) { copy(l.Primal[s.Row:], l.Primal[s.Row-s.Apart:s.Row]) }

// Advance sets Dst on a row, at which l is, and returns <x - Dst, Dst - U>, where that is asked for. Unless the row is
// the last of its image, l goes on to the next one.
func (s *BallStep) Advance(l *BallRow, row int, last bool) float64 {
	var sums [ballLanes]float64
	n, all, at, from, joint, summed := s.Row, len(s.B), row*s.Row, 0, min(s.Channels, 2), 0
	if s.Uphill {
		summed = 1
	}
	d0, d1 := s.Dst[at:][:n], s.Dst[all+at:][:n]
	if blocks := n / ballLanes; Fast && blocks > 0 && !last {
		at := at + n
		advance4(&sums, &d0[0], &d1[0], &s.U[at], &s.U[all+at], &s.Before[at], &s.Before[all+at], &s.B[at], &l.Down[0],
			&l.Along[0], &l.Primal[0], &l.Squares[0], n, s.Apart, blocks, joint, summed, s.Momentum, s.Back, s.Step,
			s.Radius)
		from = blocks * ballLanes
	}
	for j := from; j < n; j++ {
		x0, x1, b := l.Down[j], l.Along[j], l.Primal[j]
		below, ahead := b, l.Primal[j+s.Apart]
		if i := at + n + j; !last {
			l.Down[j], l.Along[j] = s.x(i), s.x(all+i)
			below = s.primal(i, l.Down[j], x0, l.Along[j])
			l.Primal[j] = below
		}
		v0, v1 := x0+float64(s.Step*(below-b)), x1+float64(s.Step*(ahead-b))
		switch joint {
		case 0:
			v0, v1 = max(-s.Radius, min(s.Radius, v0)), max(-s.Radius, min(s.Radius, v1))
		case 1:
			f := s.factor(float64(v0*v0) + float64(v1*v1))
			v0, v1 = f*v0, f*v1
		}
		if d0[j], d1[j] = v0, v1; joint == 2 {
			l.Squares[j] = float64(v0*v0) + float64(v1*v1)
		} else if s.Uphill {
			sums[j%ballLanes] += float64((x0-v0)*(v0-s.U[at+j])) + float64((x1-v1)*(v1-s.U[all+at+j]))
		}
	}
	if joint == 2 {
		s.together(&sums, l.Squares[:n], at, summed)
	}
	if !last {
		l.repeat(s)
	}
	return (sums[0] + sums[1]) + (sums[2] + sums[3])
}

// factor shortens a vector with this square to the radius. Which vectors are longer is no branch: none foretells it.
func (s *BallStep) factor(square float64) float64 {
	if square == 0 {
		return 1
	}
	return min(1, s.Radius/math.Sqrt(square))
}

// together projects the pairs of neighbours in Dst, whose squares are given.
func (s *BallStep) together(sums *[ballLanes]float64, squares []float64, at, summed int) {
	n, all, from := len(squares), len(s.B), 0
	for j := 0; j < n; j += s.Channels {
		pixel := squares[j:][:s.Channels]
		square := 0.0
		for _, v := range pixel {
			square += v
		}
		f := s.factor(square)
		for c := range pixel {
			pixel[c] = f
		}
	}
	if blocks := n / ballLanes; Fast && blocks > 0 {
		shorten4(sums, &s.Dst[at], &s.Dst[all+at], &s.U[at], &s.U[all+at], &s.Before[at], &s.Before[all+at],
			&squares[0], blocks, summed, s.Momentum)
		from = blocks * ballLanes
	}
	for j := from; j < n; j++ {
		i0, i1, f := at+j, all+at+j, squares[j]
		v0, v1 := f*s.Dst[i0], f*s.Dst[i1]
		if s.Uphill {
			sums[j%ballLanes] += float64((s.x(i0)-v0)*(v0-s.U[i0])) + float64((s.x(i1)-v1)*(v1-s.U[i1]))
		}
		s.Dst[i0], s.Dst[i1] = v0, v1
	}
}
