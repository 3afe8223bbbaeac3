//go:build cuda

package cuda

import (
	"math"

	"surepipe/array"
)

// dft is the discrete Fourier transform of complex arrays on the card, in passes each of which
// multiplies the number of frequencies by a factor of the axis's length. Its lists are the roots of unity for rows and
// for columns.
type dft struct {
	lists
	shape array.Shape
	pass  []dftPass
}

// dftPass is what the kernel does to an axis of the given length.
type dftPass struct {
	axis                        int
	length, done, radix, spaced int64
}

func (f *dft) Shape() array.Shape { return f.shape }

// radices are factors with the product n. A pass does a factor's number of operations an entry, and
// reads and writes it once: up to 8 the memory is the bound.
func radices(n int) (factors []int) {
	for _, q := range [...]int{8, 4, 2} {
		for n%q == 0 {
			factors = append(factors, q)
			n /= q
		}
	}
	for q := 3; n > 1; q += 2 {
		if q > n/q {
			q = n // a prime
		}
		for n%q == 0 {
			factors = append(factors, q)
			n /= q
		}
	}
	return factors
}

// rootsOfUnity are exp(-2 pi i j / n), by angles up to an eighth of a turn.
func rootsOfUnity(n int) []float64 {
	w := make([]float64, 2*n)
	for j := range n {
		octant, rest := 8*j/n, 8*j%n
		if octant%2 == 1 {
			rest = n - rest
		}
		s, c := math.Sincos(math.Pi / 4 * float64(rest) / float64(n))
		if octant%4 == 1 || octant%4 == 2 {
			s, c = c, s
		}
		if octant >= 2 && octant < 6 {
			c = -c
		}
		if octant >= 4 {
			s = -s
		}
		w[2*j], w[2*j+1] = c, -s
	}
	return w
}

func (d *Device) NewDFT(s array.Shape) array.DFT {
	array.CheckDFT(s)
	f := &dft{shape: s}
	for axis, length := range [...]int{s.Cols, s.Rows} {
		put(d, &f.lists, "NewDFT", rootsOfUnity(length))
		spaced := 1
		if axis == 1 {
			spaced = s.Cols
		}
		done := 1
		for _, radix := range radices(length) {
			f.pass = append(f.pass, dftPass{axis, int64(length), int64(done), int64(radix), int64(spaced)})
			done *= radix
		}
	}
	return f
}

// MulDFT sets dst_i = alpha F x_i, or alpha F* x_i. It borrows memory of dst's size for more than one
// pass.
func (d *Device) MulDFT(adjoint bool, alpha float64, dst array.Batch, transform array.DFT, x array.Batch) {
	d = d.into(dst, x)
	f := onCard[*dft](d, "MulDFT", transform)
	array.CheckMulDFT(dst, f, x)
	if dst.K() == 0 {
		return
	}
	if len(f.pass) == 0 {
		d.Lin(dst, alpha, x, 0, array.Batch{})
		return
	}
	var between array.Batch
	if len(f.pass) > 1 {
		between = d.Alloc(dst.K(), dst.N())
		defer d.Free(between)
	}
	sign := 1.0
	if adjoint {
		sign = -1
	}
	from := x
	for i, p := range f.pass {
		to, scale := between, 1.0
		if (len(f.pass)-i)%2 == 1 {
			to = dst
		}
		if i == len(f.pass)-1 {
			scale = alpha
		}
		d.entries("MulDFT", to, dst.K(), f.shape.Len(), func(g grid, k, n int64) error {
			return d.launchFourier(g, operandOf(to), operandOf(from), f.at(p.axis), p.length, p.done, p.radix, p.spaced,
				sign, scale, k, n)
		})
		from = to
	}
}
