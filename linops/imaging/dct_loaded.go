package imaging

import (
	"math"

	"surepipe/array"
)

// mostCosines bounds the sides of images whose cosine transforms are products with matrices. Where
// they are not, they are computed on the host, where mostHostCosines bounds them: a product of two
// matrices does more operations, and more of them at a time.
const (
	mostCosines     = 1 << 12
	mostHostCosines = 1 << 9
)

func cosineMatrix(n int) []float64 {
	c := make([]float64, n*n)
	for k := range n {
		scale := math.Sqrt(2 / float64(n))
		if k == 0 {
			scale = math.Sqrt(1 / float64(n))
		}
		for j := range n {
			c[k*n+j] = scale * math.Cos(math.Pi*float64(k*(2*j+1)%(4*n))/float64(2*n))
		}
	}
	return c
}

// Load puts the matrices of the transform on a device, which in the host's memory serves small images alone. It comes
// before the first product. The transform of an image X is there C_rows X C_cols^T: 2 (rows + cols) operations a pixel,
// which a card does faster than it copies the image to the host and back.
func (a *DCT) Load(dev array.Device) {
	here := inHostMemory(dev)
	most := mostCosines
	if here {
		most = mostHostCosines
	}
	if a.on != nil || a.p == 0 || max(a.rows, a.cols) > most || here && a.rows == 1 {
		return
	}
	a.here = here
	down, along := array.Shape{Rows: a.rows, Cols: a.rows}, array.Shape{Rows: a.cols, Cols: a.cols}
	cols, rows := a.put(dev, cosineMatrix(a.cols)), array.Batch{}
	if a.rows > 1 {
		rows = a.put(dev, cosineMatrix(a.rows))
	}
	// transform sets dst to the coefficients of src, or with back to the images with the coefficients src.
	transform := func(dst, src array.Batch, back bool) {
		dev, image := dst.Device(), array.Shape{Rows: a.rows, Cols: a.cols}
		if a.rows == 1 {
			dev.Gemm(false, !back, 1, src, cols.Reshape(a.cols, a.cols), 0, dst)
			return
		}
		half := dev.Alloc(dst.K(), a.p)
		dev.GemmEach(false, !back, 1, src, image, cols, along, 0, half)
		dev.GemmEach(back, false, 1, rows, down, half, image, 0, dst)
		half.Free()
	}
	a.on = func(dst, src array.Batch, do action) {
		if do.kind != doNormal {
			inGroups(dst, src, a.p, func(dst, src array.Batch) { transform(dst, src, do.kind == doAdjoint) })
			return
		}
		dev, sums := dst.Device(), func() []float64 { return outerSums(a.u, a.v) }
		a.shrunk(dev, do.eta, sums, func(w array.Batch) {
			inGroups(dst, src, 2*a.p, func(dst, src array.Batch) {
				spectrum := dev.Alloc(dst.K(), a.p)
				transform(spectrum, src, false)
				dev.Mul(spectrum, spectrum, w)
				transform(dst, spectrum, true)
				spectrum.Free()
			})
		})
	}
}

func outerSums(u, v []float64) []float64 {
	sums := make([]float64, 0, len(u)*len(v))
	for _, x := range u {
		for _, y := range v {
			sums = append(sums, x+y)
		}
	}
	return sums
}
