package imaging

import (
	"math"

	"surepipe/array"
	"surepipe/linops/internal/product"
)

// loadedFourier is what a Fourier keeps on a device.
type loadedFourier struct {
	n       int
	dft     array.DFT
	pixels  array.Index // the places of an image's values in the complex array; nil where they are its own
	samples array.Index
	shrink  product.Cache
}

// Load puts the transform and the places of pixels and samples on a device, unless that computes in
// the host's memory. It comes before the first product.
func (a *Fourier) Load(dev array.Device) {
	n := a.rows * a.cols
	if inHostMemory(dev) || a.on != nil || n > math.MaxInt32/2 {
		return
	}
	on := &loadedFourier{n: n, dft: dev.NewDFT(array.Shape{Rows: a.rows, Cols: a.cols})}
	if a.layout.Centered || !a.layout.Complex {
		var places []int
		for i := range n {
			at := a.fromCentre(i/a.cols, a.rows)*a.cols + a.fromCentre(i%a.cols, a.cols)
			places = append(places, 2*at)
			if a.layout.Complex {
				places = append(places, 2*at+1)
			}
		}
		on.pixels = dev.NewIndex(places)
	}
	samples := make([]int, 2*a.places)
	for k := range a.rows {
		for i := a.first[k]; i < a.first[k+1]; i++ {
			at := 2 * (k*a.cols + a.col[i])
			samples[2*a.index[i]], samples[2*a.index[i]+1] = at, at+1
		}
	}
	on.samples = dev.NewIndex(samples)
	a.on = on
}

// Release frees the memory of Load. The operator is dead on that device afterwards.
func (a *Fourier) Release() {
	if a.on == nil {
		return
	}
	a.on.shrink.Clear()
	a.on.dft.Free()
	a.on.samples.Free()
	if a.on.pixels != nil {
		a.on.pixels.Free()
	}
	a.on = nil
}

// apply is mapOnHost for a batch on the device.
func (a *Fourier) apply(dst, src array.Batch, do action) {
	if a.on == nil || !elsewhere(dst) {
		mapOnHost(dst, src, a, do)
		return
	}
	on := a.on
	dev := dst.Device()
	var weights *product.Entry
	if do.kind == doNormal {
		weights = on.shrink.Acquire(dev, do.eta, func(dev array.Device) array.Batch {
			return product.UploadShrinkage(dev, pairwise(a.gains), do.eta)
		})
		defer on.shrink.Release(weights)
	}
	scale := 1 / math.Sqrt(float64(on.n))
	inGroups(dst, src, 3*2*on.n, func(dst, src array.Batch) {
		spectrum := dev.Alloc(dst.K(), 2*on.n)
		defer spectrum.Free()
		if do.kind == doAdjoint {
			dev.Scatter(spectrum, src, on.samples)
			on.image(dst, spectrum, scale)
			return
		}
		on.transform(spectrum, src, scale)
		if do.kind == doForward {
			dev.Gather(dst, spectrum, on.samples)
			return
		}
		dev.Mul(spectrum, spectrum, weights.Value)
		on.image(dst, spectrum, scale)
	})
}

// transform sets the spectrum to alpha F b for images b.
func (f *loadedFourier) transform(spectrum, b array.Batch, alpha float64) {
	dev := spectrum.Device()
	if f.pixels == nil {
		dev.MulDFT(false, alpha, spectrum, f.dft, b)
		return
	}
	grid := dev.Alloc(b.K(), 2*f.n)
	dev.Scatter(grid, b, f.pixels)
	dev.MulDFT(false, alpha, spectrum, f.dft, grid)
	grid.Free()
}

// image sets dst to the images alpha F* spectrum.
func (f *loadedFourier) image(dst, spectrum array.Batch, alpha float64) {
	dev := dst.Device()
	if f.pixels == nil {
		dev.MulDFT(true, alpha, dst, f.dft, spectrum)
		return
	}
	grid := dev.Alloc(dst.K(), 2*f.n)
	dev.MulDFT(true, alpha, grid, f.dft, spectrum)
	dev.Gather(dst, grid, f.pixels)
	grid.Free()
}
