package imaging

import (
	"math"

	"surepipe/array"
	"surepipe/linops/internal/product"
)

// mostCosines bounds the sides of images whose cosine transforms are products with matrices. Where
// they are not, they are computed on the host.
const mostCosines = 1 << 12

// loadedCosines is the cosine transform on a device, C_rows X C_cols^T of an image X: 2 (rows + cols)
// operations a pixel, which a card does faster than it copies the image to the host and back.
type loadedCosines struct {
	down, along array.Batch // C_rows and C_cols; down is the zero Batch of images with one row
	shrink      product.Cache
}

// cosineMatrix is the orthonormal matrix of the cosine transform, row-major.
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

// load puts the matrices on a device, unless that computes in the host's memory.
func (g *cosineGrid) load(dev array.Device) {
	if inHostMemory(dev) || g.on != nil || g.len() == 0 || max(g.rows, g.cols) > mostCosines {
		return
	}
	g.on = &loadedCosines{along: dev.Alloc(1, g.cols*g.cols)}
	dev.Upload(g.on.along, cosineMatrix(g.cols))
	if g.rows > 1 {
		g.on.down = dev.Alloc(1, g.rows*g.rows)
		dev.Upload(g.on.down, cosineMatrix(g.rows))
	}
}

func (g *cosineGrid) release() {
	if g.on != nil {
		g.on.shrink.Clear()
		g.on.along.Free()
		g.on.down.Free()
		g.on = nil
	}
}

// apply is mapOnHost for a batch on the device.
func (g *cosineGrid) apply(dst, src array.Batch, do action) {
	if g.on == nil || !elsewhere(dst) {
		mapOnHost(dst, src, g, do)
		return
	}
	dev := dst.Device()
	if do.kind != doNormal {
		inGroups(dst, src, g.len(), func(dst, src array.Batch) { g.transform(dst, src, do.kind == doAdjoint) })
		return
	}
	weights := g.on.shrink.Acquire(dev, do.eta, func(dev array.Device) array.Batch {
		sums := make([]float64, 0, g.len())
		for _, u := range g.u {
			for _, v := range g.v {
				sums = append(sums, u+v)
			}
		}
		return product.UploadShrinkage(dev, sums, do.eta)
	})
	inGroups(dst, src, 2*g.len(), func(dst, src array.Batch) {
		spectrum := dev.Alloc(dst.K(), g.len())
		g.transform(spectrum, src, false)
		dev.Mul(spectrum, spectrum, weights.Value)
		g.transform(dst, spectrum, true)
		spectrum.Free()
	})
	g.on.shrink.Release(weights)
}

// transform sets dst to the coefficients of src, or to the images with the coefficients src. They must
// not overlap.
func (g *cosineGrid) transform(dst, src array.Batch, back bool) {
	dev, image := dst.Device(), array.Shape{Rows: g.rows, Cols: g.cols}
	along, down := array.Shape{Rows: g.cols, Cols: g.cols}, array.Shape{Rows: g.rows, Cols: g.rows}
	if g.rows == 1 {
		dev.Gemm(false, !back, 1, src, g.on.along.Reshape(g.cols, g.cols), 0, dst)
		return
	}
	half := dev.Alloc(dst.K(), g.len())
	dev.GemmEach(false, !back, 1, src, image, g.on.along, along, 0, half)
	dev.GemmEach(back, false, 1, g.on.down, down, half, image, 0, dst)
	half.Free()
}
