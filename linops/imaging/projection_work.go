package imaging

import (
	"sync"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/internal/parallel"
	"surepipe/linops/internal/product"
)

// projectionWork projects batches: it holds the images of several vectors in the order in which rays
// meet them, their transposes, and the sums of the rays.
type projectionWork struct {
	p              *Projection
	upright, level pass
	count          int
	dst, src       [lanes][]float64
}

var projectionWorks = sync.Pool{New: func() any { return new(projectionWork) }}

func (p *Projection) onHost(dst, src array.Batch, way actionKind) {
	w := projectionWorks.Get().(*projectionWork)
	w.p = p
	vectors, done := product.OnHost(dst, src)
	k := dst.K()
	for at := 0; at < k; at += w.count {
		w.count = min(lanes, k-at)
		width := lanes
		if k == 1 {
			width = 1
		}
		for j := range w.count {
			w.dst[j], w.src[j] = vectors(at + j)
		}
		w.project(way, width)
	}
	done()
	clear(w.dst[:])
	clear(w.src[:])
	w.p, w.upright.rays, w.level.rays = nil, nil, nil
	projectionWorks.Put(w)
}

// project maps w.count vectors in the given number of lanes.
func (w *projectionWork) project(way actionKind, width int) {
	p := w.p
	sums := lists.Resize(w.upright.sums, p.d*width)
	w.upright.level, w.upright.lines, w.upright.width = false, p.rows, p.cols
	w.level.level, w.level.lines, w.level.width = true, p.cols, p.rows
	for _, s := range []*pass{&w.upright, &w.level} {
		s.rays, s.way, s.lanes, s.sums = p.rays, way, width, sums
		s.plane = lists.Resize(s.plane, s.lines*(s.width+2)*width)
	}
	parallel.For(p.rows+p.cols, w.layLine)
	parallel.Ranges(p.d, raysPerPart, w.layRays)
	w.upright.run()
	w.level.run()
	if way == doForward {
		parallel.Ranges(p.d, raysPerPart, w.readRays)
	} else {
		parallel.For(p.rows, w.readRow)
	}
}

// layLine lays a row of the images, or a column after the last row, or clears it.
func (w *projectionWork) layLine(i int) {
	pass, start, step := &w.upright, i*w.p.cols, 1
	if i >= w.p.rows {
		i -= w.p.rows
		pass, start, step = &w.level, i, w.p.cols
	}
	n, width := pass.lanes, pass.width
	line := pass.plane[i*(width+2)*n:][:(width+2)*n]
	if pass.way == doAdjoint {
		clear(line)
		return
	}
	clear(line[:n])
	clear(line[(width+1)*n:])
	for j := range n {
		at := line[n+j:]
		if j >= w.count {
			for u := range width {
				at[u*n] = 0
			}
			continue
		}
		src := w.src[j]
		for u := range width {
			at[u*n] = src[start+u*step]
		}
	}
}

// readRow adds what rays of both kinds have left in a row of the images.
func (w *projectionWork) readRow(r int) {
	cols, n := w.p.cols, w.upright.lanes
	row := w.upright.plane[(r*(cols+2)+1)*n:]
	column := w.level.plane[(r+1)*n:]
	height := (w.p.rows + 2) * n
	for j := range w.count {
		dst := w.dst[j][r*cols:][:cols]
		for c := range dst {
			dst[c] = row[c*n+j] + column[c*height+j]
		}
	}
}

// layRays clears the sums of some entries of the sinograms, or weighs the sinograms.
func (w *projectionWork) layRays(from, to int) {
	n := w.upright.lanes
	sums := w.upright.sums[from*n : to*n]
	clear(sums)
	if w.upright.way == doForward {
		return
	}
	for j := range w.count {
		for u, z := range w.src[j][from:to] {
			sums[u*n+j] = z
		}
	}
	w.weigh(from, to)
}

// readRays weighs the sums of some entries of the sinograms.
func (w *projectionWork) readRays(from, to int) {
	w.weigh(from, to)
	n := w.upright.lanes
	sums := w.upright.sums[from*n : to*n]
	for j := range w.count {
		for u := range w.dst[j][from:to] {
			w.dst[j][from+u] = sums[u*n+j]
		}
	}
}

func (w *projectionWork) weigh(from, to int) {
	n := w.upright.lanes
	for u := from; u < to; u++ {
		weight := w.p.rays[u].Weight
		for j := range n {
			w.upright.sums[u*n+j] *= weight
		}
	}
}
