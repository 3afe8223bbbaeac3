package arraytest

import (
	"fmt"
	"math"
	"math/rand/v2"

	"surepipe/array"
)

// within sets the lines at which a ray is between two pixels of an image.
func within(s array.Shape, r array.Ray) array.Ray {
	n, width := s.Rows, s.Cols
	if r.Level {
		n, width = width, n
	}
	inside := func(line int) bool { x := r.Place(line); return x >= 0 && x < float64(width+1) }
	r.From, r.To = 0, n
	for r.From < r.To && !inside(r.From) {
		r.From++
	}
	for r.To > r.From && !inside(r.To-1) {
		r.To--
	}
	return r
}

// scannerRays are those of parallel beams and of fans at several angles.
func scannerRays(s array.Shape, angles, detectors int) []array.Ray {
	var rays []array.Ray
	for a := range angles {
		slope := -1 + 2*float64(a)/float64(angles)
		for t := range detectors {
			at := float64(s.Cols+1)/2 + 0.7*(float64(t)-float64(detectors-1)/2) - slope*float64(s.Rows)/2
			r := array.Ray{At: at, Slope: slope, Weight: 1 + float64(a)/10, Level: a%2 == 1}
			if a%3 == 2 { // a fan
				r.Slope += 0.3 * float64(t) / float64(detectors)
			}
			if a%4 == 3 { // from the other end
				r.At = float64(s.Cols+1) - r.At
			}
			rays = append(rays, within(s, r))
		}
	}
	return rays
}

// anyRays have no order, and places between pixels, on pixels and outside.
func anyRays(rng *rand.Rand, s array.Shape, n int) []array.Ray {
	var rays []array.Ray
	for i := range n {
		r := array.Ray{At: 1.5 * rng.NormFloat64() * float64(s.Rows), Slope: 2 * rng.NormFloat64(),
			Weight: rng.NormFloat64(), Level: rng.IntN(2) == 1}
		switch i % 5 {
		case 1:
			r.At, r.Slope = math.Round(r.At), math.Round(r.Slope)
		case 2:
			r.Slope = 0
		case 3:
			r.At = 1e300 // none
		}
		rays = append(rays, within(s, r))
	}
	if n > 6 {
		rays[6].From += (rays[6].To - rays[6].From) / 2 // half of a ray
		rays[5] = array.Ray{At: math.NaN(), From: 1, To: 1}
	}
	return rays
}

// rayMatrix is the dense matrix of rays, from the distance between a pixel and the ray's place.
func rayMatrix(s array.Shape, rays []array.Ray) table {
	m := table{len(rays), s.Len(), make([]float64, len(rays)*s.Len())}
	for i, r := range rays {
		for j := range s.Len() {
			line, pixel := j/s.Cols, j%s.Cols
			if r.Level {
				line, pixel = pixel, line
			}
			if line >= r.From && line < r.To {
				m.v[i*m.n+j] = r.Weight * max(0, 1-math.Abs(r.Place(line)-float64(pixel+1)))
			}
		}
	}
	return m
}

func rayProducts(dev array.Device) error {
	rng := rand.New(rand.NewPCG(21, 0))
	for _, c := range []struct {
		s array.Shape
		k int
		r []array.Ray
	}{
		{array.Shape{Rows: 1, Cols: 1}, 1, scannerRays(array.Shape{Rows: 1, Cols: 1}, 4, 1)},
		{array.Shape{Rows: 1, Cols: 1}, 3, anyRays(rng, array.Shape{Rows: 1, Cols: 1}, 9)},
		{array.Shape{Rows: 3, Cols: 4}, 2, nil},
		{array.Shape{Rows: 0, Cols: 4}, 2, anyRays(rng, array.Shape{Rows: 0, Cols: 4}, 3)},
		{array.Shape{Rows: 1, Cols: 7}, 5, scannerRays(array.Shape{Rows: 1, Cols: 7}, 6, 4)},
		{array.Shape{Rows: 9, Cols: 1}, 4, scannerRays(array.Shape{Rows: 9, Cols: 1}, 5, 3)},
		{array.Shape{Rows: 11, Cols: 8}, 0, scannerRays(array.Shape{Rows: 11, Cols: 8}, 2, 3)},
		{array.Shape{Rows: 11, Cols: 8}, 37, scannerRays(array.Shape{Rows: 11, Cols: 8}, 9, 13)},
		{array.Shape{Rows: 16, Cols: 23}, 3, scannerRays(array.Shape{Rows: 16, Cols: 23}, 12, 61)},
		{array.Shape{Rows: 13, Cols: 17}, 6, anyRays(rng, array.Shape{Rows: 13, Cols: 17}, 83)},
	} {
		rays := dev.NewRays(c.s, c.r)
		if d, p := rays.Dims(); d != len(c.r) || p != c.s.Len() {
			return fmt.Errorf("%d rays through %d pixels say that they are %d through %d", len(c.r), c.s.Len(), d, p)
		}
		m := rayMatrix(c.s, c.r)
		var sides [2]held
		for _, trans := range flags {
			from, to := maybeSwap(trans, m.n, m.k)
			x := newTable(rng, c.k, from)
			want := product(false, !trans, 1, x, m, from, 0, table{c.k, to, make([]float64, c.k*to)})
			l := layouts[rng.IntN(len(layouts))]
			in, out := put(dev, x, l), put(dev, table{c.k, to, constant(c.k*to, math.NaN())}, l)
			dev.MulRays(trans, out.Batch, rays, in.Batch)
			err := out.check(want, sumTol, "MulRays (trans %t) of %s with %d rays through %v", trans, in.Batch,
				len(c.r), c.s)
			out.free()
			if err != nil {
				return err
			}
			sides[indexOf(trans)] = in
		}
		// <A x, z> = <x, A* z>
		ax, az := dev.Alloc(c.k, m.k), dev.Alloc(c.k, m.n)
		dev.MulRays(false, ax, rays, sides[0].Batch)
		dev.MulRays(true, az, rays, sides[1].Batch)
		one, other, size := make([]float64, c.k), make([]float64, c.k), make([]float64, c.k)
		dev.Dot(one, ax, sides[1].Batch)
		dev.Dot(other, az, sides[0].Batch)
		dev.Dot(size, ax, ax)
		for i := range one {
			if tol := 1e-14 * float64(1+m.k) * (1 + math.Sqrt(size[i])); math.Abs(one[i]-other[i]) > tol {
				return fmt.Errorf("MulRays of vector %d with %d rays through %v: <A x, z> = %v and <x, A* z> = %v", i,
					len(c.r), c.s, one[i], other[i])
			}
		}
		for _, b := range []array.Batch{ax, az, sides[0].whole, sides[1].whole} {
			b.Free()
		}
		rays.Free()
	}
	return nil
}

func constant(n int, v float64) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = v
	}
	return x
}

func indexOf(flag bool) int {
	if flag {
		return 1
	}
	return 0
}
