package imaging

import (
	"slices"

	"surepipe/array"
	"surepipe/linops"
)

// loadedWavelet is the wavelet transform of an image on a device, as products with two matrices for every level, 4
// (rows + cols) operations a pixel or less in all. That of a vector is a product with one matrix.
type loadedWavelet struct {
	levels []loadedLevel
	// place is where each coefficient is in the results of all levels one after the other, whose
	// number is results.
	place   array.Index
	results int
}

// loadedLevel splits an image of the size from into one of the size to, of which the next level
// splits the averages.
type loadedLevel struct {
	from, to    array.Shape
	down, along array.Batch
	at          int         // the first result of the level
	averages    array.Index // of the level before among its results; nil for the first
	// merged is where the results of the level are in the coefficients, followed by the averages as
	// the next level merges them.
	merged array.Index
}

// splitMatrix is one level of the transform of n values, as an m x n matrix, where values n to m-1
// are zeros.
func (a *Wavelet) splitMatrix(m, n int) []float64 {
	w := make([]float64, m*n)
	for i := range m / 2 {
		for t := range a.h {
			if j := (2*i + t) % m; j < n {
				w[i*n+j] += a.h[t]
				w[(m/2+i)*n+j] += a.g[t]
			}
		}
	}
	return w
}

// Load puts the matrices of the transform on a device, unless that computes in the host's memory or a
// side is longer than 4096. It comes before the first product.
func (a *Wavelet) Load(dev array.Device) {
	if !a.loads(dev) || a.rows*a.cols == 0 || max(a.rows, a.cols) > mostCosines {
		return
	}
	if a.oneD {
		whole := a.put(dev, linops.Images(array.NewHost(), a).ToHost()).Reshape(a.width, a.cols)
		a.on = func(dst, src array.Batch, do action) {
			dst.Device().Gemm(false, do.kind == doAdjoint, 1, src, whole, 0, dst)
		}
		return
	}
	on, place := &loadedWavelet{}, make([]int, a.rows*a.cols)
	for l := range a.levels {
		r, c := a.size(l)
		level := loadedLevel{from: array.Shape{Rows: r, Cols: c}, to: array.Shape{Rows: r, Cols: c}, at: on.results}
		if l == 0 {
			level.from = array.Shape{Rows: a.height, Cols: a.width}
		} else {
			level.averages = a.listed(dev, corner(r, c, 2*c))
		}
		level.down = a.put(dev, a.splitMatrix(r, level.from.Rows))
		level.along = a.put(dev, a.splitMatrix(c, level.from.Cols))
		merged := corner(r, c, a.cols)
		for i, j := range merged {
			place[j] = on.results + i
			if u, v := i/c, i%c; l < a.levels-1 && u < r/2 && v < c/2 {
				merged[i] = a.rows*a.cols + u*(c/2) + v
			}
		}
		level.merged = a.listed(dev, merged)
		on.levels = append(on.levels, level)
		on.results += r * c
	}
	on.place = a.listed(dev, place)
	a.on = func(dst, src array.Batch, do action) {
		inGroups(dst, src, 4*a.rows*a.cols, func(dst, src array.Batch) {
			if do.kind == doAdjoint {
				on.merge(dst, src)
			} else {
				on.split(dst, src)
			}
		})
	}
}

func (w *loadedWavelet) split(dst, src array.Batch) {
	dev, k := dst.Device(), dst.K()
	results := dev.Alloc(k, w.results)
	image := src
	for i, l := range w.levels {
		if i > 0 {
			before := w.levels[i-1]
			image = dev.Alloc(k, l.from.Len())
			dev.Gather(image, results.Cols(before.at, before.at+before.to.Len()), l.averages)
		}
		half := array.Shape{Rows: l.from.Rows, Cols: l.to.Cols}
		between := dev.Alloc(k, half.Len())
		dev.GemmEach(false, true, 1, image, l.from, l.along, array.Shape{Rows: l.to.Cols, Cols: l.from.Cols}, 0,
			between)
		dev.GemmEach(false, false, 1, l.down, array.Shape{Rows: l.to.Rows, Cols: l.from.Rows}, between, half, 0,
			results.Cols(l.at, l.at+l.to.Len()))
		between.Free()
		if i > 0 {
			image.Free()
		}
	}
	dev.Gather(dst, results, w.place)
	results.Free()
}

// merge goes through the levels from the last to the first.
func (w *loadedWavelet) merge(dst, src array.Batch) {
	dev, k, n := dst.Device(), dst.K(), src.N()
	all := dev.Alloc(k, n+(n+3)/4)
	dev.Copy(all.Cols(0, n), src)
	for _, l := range slices.Backward(w.levels) {
		results, between := dev.Alloc(k, l.to.Len()), dev.Alloc(k, l.to.Rows*l.from.Cols)
		dev.Gather(results, all, l.merged)
		half := array.Shape{Rows: l.to.Rows, Cols: l.from.Cols}
		dev.GemmEach(false, false, 1, results, l.to, l.along, array.Shape{Rows: l.to.Cols, Cols: l.from.Cols}, 0,
			between)
		image := dst
		if l.averages != nil {
			image = all.Cols(n, n+l.from.Len())
		}
		dev.GemmEach(true, false, 1, l.down, array.Shape{Rows: l.to.Rows, Cols: l.from.Rows}, between, half, 0, image)
		array.Free(results, between)
	}
	all.Free()
}
