package imaging

import (
	"math"

	"surepipe/array"
	"surepipe/internal/lists"
)

// Load puts the transform of the kernel on a device, unless that computes in the host's memory: every
// kernel then takes Fourier transforms there, of images that are the real part of a complex array of the size
// transformed. It comes before the first product.
func (a *Convolution) Load(dev array.Device) {
	n := a.r * a.c
	if !a.loads(dev) || a.rows*a.cols == 0 || n > math.MaxInt32/2 {
		return
	}
	places := lists.Make(a.rows*a.cols, func(i int) int { return 2 * (i/a.cols*a.c + i%a.cols) })
	kernel, gains := make([]float64, 2*n), make([]float64, 2*n) // K and |K|^2
	for i, v := range a.spectrum() {
		kernel[2*i], kernel[2*i+1] = real(v), imag(v)
		gains[2*i], gains[2*i+1] = squared(v), squared(v)
	}
	pairs, k := newComplexPairs(&a.twin, dev, n), newFactors(&a.twin, dev, 1, kernel)
	pixels, square := a.listed(dev, places), a.put(dev, gains)
	dft := dev.NewDFT(array.Shape{Rows: a.r, Cols: a.c})
	a.held.Hold(dft)
	filter := func(dst, src array.Batch, multiply func(dst, x array.Batch)) {
		dev := dst.Device()
		inGroups(dst, src, 4*2*n, func(dst, src array.Batch) {
			image, spectrum := dev.Alloc(dst.K(), 2*n), dev.Alloc(dst.K(), 2*n)
			dev.Scatter(image, src, pixels)
			dev.MulDFT(false, 1, spectrum, dft, image)
			multiply(image, spectrum)
			dev.MulDFT(true, 1/float64(n), spectrum, dft, image)
			dev.Gather(dst, spectrum, pixels)
			array.Free(image, spectrum)
		})
	}
	a.on = func(dst, src array.Batch, do action) {
		by := func(w array.Batch) func(dst, x array.Batch) {
			return func(dst, x array.Batch) { dst.Device().Mul(dst, x, w) }
		}
		switch do.kind {
		case doSquare:
			filter(dst, src, by(square))
		case doNormal:
			a.shrunk(dst.Device(), do.eta, square.ToHost, func(w array.Batch) { filter(dst, src, by(w)) })
		default:
			filter(dst, src, func(dst, x array.Batch) { pairs.multiply(dst, k, do.kind == doAdjoint, x) })
		}
	}
}

// spectrum is K, row by row, by the half that is kept of it or that is computed.
func (a *Convolution) spectrum() []complex128 {
	half := a.kernel
	if half == nil {
		half = a.transformKernel(a.grid())
	}
	k := make([]complex128, a.r*a.c)
	for i := range a.r {
		for j := range a.c {
			if 2*j <= a.c {
				k[i*a.c+j] = half[j*a.r+i]
				continue
			}
			v := half[(a.c-j)*a.r+(a.r-i)%a.r]
			k[i*a.c+j] = complex(real(v), -imag(v))
		}
	}
	return k
}
