package imaging

import (
	"math"

	"surepipe/array"
	"surepipe/linops/internal/product"
)

// loadedConvolution is what a Convolution keeps on a device: an image is a real part of a complex
// array of the size transformed.
type loadedConvolution struct {
	complexPairs
	n      int // complex numbers
	dft    array.DFT
	pixels array.Index
	k      factors
	square array.Batch // |K|^2
	shrink product.Cache
}

// Load puts the transform of the kernel on a device, unless that computes in the host's memory: every
// kernel then takes Fourier transforms there. It comes before the first product.
func (a *Convolution) Load(dev array.Device) {
	n := a.r * a.c
	if inHostMemory(dev) || a.on != nil || a.rows*a.cols == 0 || n > math.MaxInt32/2 {
		return
	}
	on := &loadedConvolution{n: n, complexPairs: newComplexPairs(dev, n),
		dft: dev.NewDFT(array.Shape{Rows: a.r, Cols: a.c})}
	pixels := make([]int, a.rows*a.cols)
	for i := range pixels {
		pixels[i] = 2 * (i/a.cols*a.c + i%a.cols)
	}
	on.pixels = dev.NewIndex(pixels)
	k := a.spectrum()
	pairs, square := make([]float64, 2*n), make([]float64, n)
	for i, v := range k {
		pairs[2*i], pairs[2*i+1], square[i] = real(v), imag(v), squared(v)
	}
	on.k, on.square = newFactors(dev, 1, pairs), dev.Alloc(1, 2*n)
	dev.Upload(on.square, pairwise(square))
	a.on = on
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

// Release frees the memory of Load. The operator is dead on that device afterwards.
func (a *Convolution) Release() {
	on := a.on
	if on == nil {
		return
	}
	on.shrink.Clear()
	on.complexPairs.free()
	on.dft.Free()
	on.pixels.Free()
	on.k.free()
	on.square.Free()
	a.on = nil
}

// apply is mapOnHost for a batch on the device.
func (a *Convolution) apply(dst, src array.Batch, do action) {
	if a.on == nil || !elsewhere(dst) {
		mapOnHost(dst, src, a, do)
		return
	}
	on, dev := a.on, dst.Device()
	var weights *product.Entry
	if do.kind == doNormal {
		weights = on.shrink.Acquire(dev, do.eta, func(dev array.Device) array.Batch {
			return product.UploadShrinkage(dev, on.square.ToHost(), do.eta)
		})
		defer on.shrink.Release(weights)
	}
	inGroups(dst, src, 4*2*on.n, func(dst, src array.Batch) {
		image, spectrum := dev.Alloc(dst.K(), 2*on.n), dev.Alloc(dst.K(), 2*on.n)
		dev.Scatter(image, src, on.pixels)
		dev.MulDFT(false, 1, spectrum, on.dft, image)
		switch do.kind {
		case doSquare:
			dev.Mul(image, spectrum, on.square)
		case doNormal:
			dev.Mul(image, spectrum, weights.Value)
		default:
			on.multiply(image, on.k, do.kind == doAdjoint, spectrum)
		}
		dev.MulDFT(true, 1/float64(on.n), spectrum, on.dft, image)
		dev.Gather(dst, spectrum, on.pixels)
		image.Free()
		spectrum.Free()
	})
}
