package imaging

import (
	"fmt"

	"surepipe/array"
	"surepipe/internal/parallel"
	"surepipe/linops/internal/product"
)

// projectionWork projects batches: it holds the images of several vectors in the order in which rays
// meet them, their transposes, and the sums of the rays.
type projectionWork struct {
	p              *Projection
	upright, level pass
	in, out        []float64 // of batches that are copied from another device
	phase          projectionPhase
	count          int
	dst, src       [lanes][]float64
}

// projectionPhase is a loop over lines or rays that runs on all processors.
type projectionPhase int

const (
	layLines projectionPhase = iota // the images into both passes, or zero
	layRays                         // the sums: weights times z, or zero
	readLines
	readRays
)

// batches sets dst from src, by copies where they are on another device.
func (w *projectionWork) batches(way product.Direction, dst, src array.Batch) {
	k, n, m := dst.K(), dst.N(), src.N()
	_, onHost := src.HostRow(0)
	if _, ok := dst.HostRow(0); ok != onHost {
		panic(fmt.Sprintf("linops: %s is on device %q and %s on device %q, want one device", src, src.Device().Name(),
			dst, dst.Device().Name()))
	}
	if !onHost {
		w.in, w.out = product.Resize(w.in, k*m), product.Resize(w.out, k*n)
		src.Device().Download(w.in, src)
	}
	for at := 0; at < k; at += w.count {
		w.count = min(lanes, k-at)
		width := lanes
		if k == 1 {
			width = 1
		}
		for j := range w.count {
			i := at + j
			if onHost {
				w.dst[j], _ = dst.HostRow(i)
				w.src[j], _ = src.HostRow(i)
			} else {
				w.dst[j], w.src[j] = w.out[i*n:(i+1)*n], w.in[i*m:(i+1)*m]
			}
		}
		w.project(way, width)
	}
	if !onHost {
		dst.Device().Upload(dst, w.out)
	}
	clear(w.dst[:])
	clear(w.src[:])
}

// project maps w.count vectors in the given number of lanes.
func (w *projectionWork) project(way product.Direction, width int) {
	p := w.p
	d, _ := p.Dims()
	sums := product.Resize(w.upright.sums, d*width)
	for _, s := range []struct {
		pass *pass
		rays *rayset
	}{{&w.upright, &p.upright}, {&w.level, &p.level}} {
		s.pass.rayset, s.pass.way, s.pass.lanes = s.rays, way, width
		s.pass.plane = product.Resize(s.pass.plane, s.rays.lines*(s.rays.width+2)*width)
		s.pass.sums = sums
	}
	w.loop(layLines, p.rows+p.cols)
	w.loop(layRays, parallel.Parts(d, raysPerPart))
	parallel.Do(w.upright.parts(), &w.upright)
	parallel.Do(w.level.parts(), &w.level)
	if way == product.Forward {
		w.loop(readRays, parallel.Parts(d, raysPerPart))
	} else {
		w.loop(readLines, p.rows)
	}
}

func (w *projectionWork) loop(phase projectionPhase, n int) {
	w.phase = phase
	parallel.Do(n, w)
}

func (w *projectionWork) Part(i int) {
	d, _ := w.p.Dims()
	from, to := i*raysPerPart, min((i+1)*raysPerPart, d)
	switch w.phase {
	case layLines:
		w.layLine(i)
	case layRays:
		w.layRays(from, to)
	case readLines:
		w.readRow(i)
	case readRays:
		w.readRays(from, to)
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
	if pass.way == product.Adjoint {
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
	if w.upright.way == product.Forward {
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

// weigh multiplies sums by the weights of their rays.
func (w *projectionWork) weigh(from, to int) {
	n := w.upright.lanes
	for u := from; u < to; u++ {
		weight := w.p.weights[u]
		for j := range n {
			w.upright.sums[u*n+j] *= weight
		}
	}
}
