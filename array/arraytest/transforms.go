package arraytest

import (
	"fmt"
	"math"
	"math/cmplx"
	"math/rand/v2"

	"surepipe/array"
)

// transformed is alpha F x, or alpha F* x, by sums over all entries.
func transformed(s array.Shape, adjoint bool, alpha float64, x []float64) []float64 {
	out := make([]float64, len(x))
	sign := -1.0
	if adjoint {
		sign = 1
	}
	for k := range s.Len() {
		sum := complex(0, 0)
		for j := range s.Len() {
			// Products of integers that are reduced first keep the angles small.
			turn := float64(k/s.Cols*(j/s.Cols)%s.Rows)/float64(s.Rows) +
				float64(k%s.Cols*(j%s.Cols)%s.Cols)/float64(s.Cols)
			sum += complex(x[2*j], x[2*j+1]) * cmplx.Exp(complex(0, sign*2*math.Pi*turn))
		}
		out[2*k], out[2*k+1] = alpha*real(sum), alpha*imag(sum)
	}
	return out
}

func fourierTransforms(dev array.Device) error {
	rng := rand.New(rand.NewPCG(22, 0))
	for _, c := range [][3]int{
		{1, 1, 3}, {1, 2, 2}, {2, 1, 1}, {1, 7, 5}, {9, 1, 2}, {3, 5, 0}, {4, 6, 3}, {5, 9, 2},
		{8, 16, 2}, {1, 45, 3}, {64, 1, 1}, {1, 128, 1}, {2, 31, 4}, {15, 14, 2}, {1, 121, 1}, {3, 26, 33},
	} {
		s, k := array.Shape{Rows: c[0], Cols: c[1]}, c[2]
		f := dev.NewDFT(s)
		if f.Shape() != s || f.Bytes() <= 0 {
			return fmt.Errorf("a transform of %v says that it is of %v and holds %d bytes", s, f.Shape(), f.Bytes())
		}
		for _, adjoint := range flags {
			for _, l := range layouts {
				x, alpha := newTable(rng, k, 2*s.Len()), 1+rng.Float64()
				want := table{k, x.n, nil}
				for i := range k {
					want.v = append(want.v, transformed(s, adjoint, alpha, x.v[i*x.n:(i+1)*x.n])...)
				}
				in, out := put(dev, x, l), put(dev, table{k, x.n, constant(k*x.n, math.NaN())}, l)
				dev.MulDFT(adjoint, alpha, out.Batch, f, in.Batch)
				err := out.check(want, sumTol, "MulDFT (adjoint %t) of %s, complex arrays of %v", adjoint, in.Batch, s)
				in.free()
				out.free()
				if err != nil {
					return err
				}
			}
		}
		f.Free()
	}
	return nil
}

// transformMismatches are those of MulRays and MulDFT with batches of 3 x 5, 3 x 2 and 3 x 1.
func transformMismatches(dev array.Device, a, pair, single array.Batch) (cases []mismatch, free func()) {
	row := array.Shape{Rows: 1, Cols: 5}
	rays := dev.NewRays(row, []array.Ray{{At: 1, To: 1}, {At: 6, From: 1}})
	one := dev.NewDFT(array.Shape{Rows: 1, Cols: 1})
	return []mismatch{
		{"MulRays", []string{"3 x 5", "3 x 1", "2", "5"}, func() { dev.MulRays(false, single, rays, a) }},
		{"MulRays, transposed", []string{"3 x 5", "3 x 2", "2", "5"}, func() { dev.MulRays(true, pair, rays, a) }},
		{"NewRays with a line too many", []string{"0", "1"}, func() { dev.NewRays(row, []array.Ray{{At: 1, To: 2}}) }},
		{"MulDFT", []string{"3 x 5", "3 x 2", "1 x 1"}, func() { dev.MulDFT(false, 1, a, one, pair) }},
		{"MulDFT of an array too short", []string{"3 x 1", "3 x 2", "1 x 1"},
			func() { dev.MulDFT(true, 1, pair, one, single) }},
		{"NewDFT of nothing", []string{"0 x 5"}, func() { dev.NewDFT(array.Shape{Cols: 5}) }},
		{"NewRays beside the image", []string{"6"}, func() { dev.NewRays(row, []array.Ray{{At: 6, To: 1}}) }},
	}, func() { rays.Free(); one.Free() }
}

// transformMethods adds the operations of transforms to those on batches.
func transformMethods(dev array.Device, add func(name string, n, out int, do func(dst, x array.Batch))) (free func()) {
	image := array.Shape{Rows: 13, Cols: 19}
	rays := dev.NewRays(image, scannerRays(image, 7, 11))
	add("MulRays", image.Len(), 77, func(dst, x array.Batch) { dev.MulRays(false, dst, rays, x) })
	add("MulRays, transposed", 77, image.Len(), func(dst, x array.Batch) { dev.MulRays(true, dst, rays, x) })
	f := dev.NewDFT(array.Shape{Rows: 6, Cols: 10})
	add("MulDFT", 120, 120, func(dst, x array.Batch) { dev.MulDFT(false, 0.5, dst, f, x) })
	add("MulDFT, adjoint", 120, 120, func(dst, x array.Batch) { dev.MulDFT(true, 0.5, dst, f, x) })
	return func() { rays.Free(); f.Free() }
}
