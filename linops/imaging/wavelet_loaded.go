package imaging

import (
	"slices"

	"surepipe/array"
	"surepipe/linops"
)

// loadedWavelet is a wavelet transform on a device, as products with matrices: of a vector with one
// for all levels, of an image with two for every level, 4 (rows + cols) operations a pixel or less in
// all.
type loadedWavelet struct {
	whole  array.Batch // of vectors: their transform's matrix, transposed
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
	if inHostMemory(dev) || a.on != nil || a.rows*a.cols == 0 || max(a.rows, a.cols) > mostCosines {
		return
	}
	upload := func(values []float64) array.Batch {
		b := dev.Alloc(1, len(values))
		dev.Upload(b, values)
		return b
	}
	on := &loadedWavelet{}
	if a.oneD {
		on.whole = upload(linops.Images(array.NewHost(), a).ToHost())
		a.on = on
		return
	}
	place := make([]int, a.rows*a.cols)
	for l := range a.levels {
		r, c := a.size(l)
		level := loadedLevel{from: array.Shape{Rows: r, Cols: c}, to: array.Shape{Rows: r, Cols: c}, at: on.results}
		if l == 0 {
			level.from = array.Shape{Rows: a.height, Cols: a.width}
		} else {
			level.averages = dev.NewIndex(block(0, r, 0, c, 2*c))
		}
		level.down, level.along = upload(a.splitMatrix(r, level.from.Rows)), upload(a.splitMatrix(c, level.from.Cols))
		merged := block(0, r, 0, c, a.cols)
		for i, j := range merged {
			place[j] = on.results + i
			if u, v := i/c, i%c; l < a.levels-1 && u < r/2 && v < c/2 {
				merged[i] = a.rows*a.cols + u*(c/2) + v
			}
		}
		level.merged = dev.NewIndex(merged)
		on.levels = append(on.levels, level)
		on.results += r * c
	}
	on.place = dev.NewIndex(place)
	a.on = on
}

// Release frees the memory of Load. The operator is dead on that device afterwards.
func (a *Wavelet) Release() {
	if a.on == nil {
		return
	}
	a.on.whole.Free()
	for _, l := range a.on.levels {
		l.down.Free()
		l.along.Free()
		l.merged.Free()
		if l.averages != nil {
			l.averages.Free()
		}
	}
	if a.on.place != nil {
		a.on.place.Free()
	}
	a.on = nil
}

// apply is mapOnHost for a batch on the device.
func (a *Wavelet) apply(dst, src array.Batch, do action) {
	if a.on == nil || !elsewhere(dst) {
		mapOnHost(dst, src, a, do)
		return
	}
	back := do.kind == doAdjoint
	if a.oneD {
		dst.Device().Gemm(false, back, 1, src, a.on.whole.Reshape(a.width, a.cols), 0, dst)
		return
	}
	inGroups(dst, src, 4*a.rows*a.cols, func(dst, src array.Batch) {
		if back {
			a.on.merge(dst, src)
		} else {
			a.on.split(dst, src)
		}
	})
}

// split computes the results of all levels and picks the coefficients from them.
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
		results.Free()
		between.Free()
	}
	all.Free()
}
