package imaging

import (
	"math"

	"surepipe/array"
	"surepipe/internal/lists"
)

// Load puts the transform and the places of pixels and samples on a device, unless that computes in
// the host's memory. It comes before the first product.
func (a *Fourier) Load(dev array.Device) {
	n := a.rows * a.cols
	if !a.loads(dev) || n > math.MaxInt32/2 {
		return
	}
	dft := dev.NewDFT(array.Shape{Rows: a.rows, Cols: a.cols})
	a.held.Hold(dft)
	var pixels array.Index // the places of an image's values in the complex array; nil where they are its own
	if a.layout.Centered || !a.layout.Complex {
		var places []int
		for i := range n {
			at := a.fromCentre(i/a.cols, a.rows)*a.cols + a.fromCentre(i%a.cols, a.cols)
			places = append(places, 2*at)
			if a.layout.Complex {
				places = append(places, 2*at+1)
			}
		}
		pixels = a.listed(dev, places)
	}
	places := make([]int, 2*a.places)
	for k := range a.rows {
		for i := a.first[k]; i < a.first[k+1]; i++ {
			at := 2 * (k*a.cols + a.col[i])
			places[2*a.index[i]], places[2*a.index[i]+1] = at, at+1
		}
	}
	samples, scale := a.listed(dev, places), 1/math.Sqrt(float64(n))
	// transform sets dst to F x / sqrt(n), or with back to F* x / sqrt(n): from images, or to them.
	transform := func(back bool, dst, x array.Batch) {
		dev := dst.Device()
		if pixels == nil {
			dev.MulDFT(back, scale, dst, dft, x)
			return
		}
		grid := dev.Alloc(x.K(), 2*n)
		if back {
			dev.MulDFT(true, scale, grid, dft, x)
			dev.Gather(dst, grid, pixels)
		} else {
			dev.Scatter(grid, x, pixels)
			dev.MulDFT(false, scale, dst, dft, grid)
		}
		grid.Free()
	}
	grouped := func(dst, src array.Batch, f func(spectrum, dst, src array.Batch)) {
		inGroups(dst, src, 3*2*n, func(dst, src array.Batch) {
			spectrum := dst.Device().Alloc(dst.K(), 2*n)
			f(spectrum, dst, src)
			spectrum.Free()
		})
	}
	a.on = func(dst, src array.Batch, do action) {
		dev := dst.Device()
		switch do.kind {
		case doForward:
			grouped(dst, src, func(spectrum, dst, src array.Batch) {
				transform(false, spectrum, src)
				dev.Gather(dst, spectrum, samples)
			})
		case doAdjoint:
			grouped(dst, src, func(spectrum, dst, src array.Batch) {
				dev.Scatter(spectrum, src, samples)
				transform(true, dst, spectrum)
			})
		default:
			gains := func() []float64 { return lists.Make(2*len(a.gains), func(i int) float64 { return a.gains[i/2] }) }
			a.shrunk(dev, do.eta, gains, func(w array.Batch) {
				grouped(dst, src, func(spectrum, dst, src array.Batch) {
					transform(false, spectrum, src)
					dev.Mul(spectrum, spectrum, w)
					transform(true, dst, spectrum)
				})
			})
		}
	}
}
