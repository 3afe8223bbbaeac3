package imaging

import (
	"math"
	"runtime"

	"surepipe/internal/parallel"
	"surepipe/linops/internal/simd"
)

// rayset is a set of rays, each of which meets every line of an image at one place, at + slope line,
// where at 0 the first pixel of the line has its centre. The lines have a pixel of value 0 on either
// side, so that places between -1 and width lie between two of their pixels.
type rayset struct {
	lines, width int
	rays         []ray
}

// ray is a line through the image. It meets the lines from to to-1 between two of their pixels.
type ray struct {
	// at is the place in line 0, with 1 added for the pixel before the first.
	at, slope float64
	from, to  int32
	// index is the ray's entry of the sinogram.
	index int32
}

// place is where the ray meets a line: a pixel, and the part of the way to the next. The conversion
// keeps a compiler from fusing product and sum, so that every direction computes the same place.
func (r *ray) place(line int) (pixel int, part float64) {
	x := r.at + float64(r.slope*float64(line))
	pixel = int(x)
	return pixel, x - float64(pixel)
}

// inside reports whether the ray meets the line between two pixels.
func (s *rayset) inside(r *ray, line int) bool {
	x := r.at + float64(r.slope*float64(line))
	return x >= 0 && x < float64(s.width+1)
}

func (s *rayset) add(index int, at, slope float64) {
	r := ray{at: at + 1, slope: slope, index: int32(index)}
	// The lines at which the place is 0 and width + 1, and then the lines next to these.
	from, to := 0, s.lines
	if slope != 0 {
		a, b := -r.at/slope, (float64(s.width+1)-r.at)/slope
		a, b = min(a, b), max(a, b)
		from = int(max(0, min(float64(s.lines), math.Floor(a)-1)))
		to = int(max(0, min(float64(s.lines), math.Ceil(b)+2)))
	}
	for from < to && !s.inside(&r, from) {
		from++
	}
	for to > from && !s.inside(&r, to-1) {
		to--
	}
	if from < to {
		r.from, r.to = int32(from), int32(to)
		s.rays = append(s.rays, r)
	}
}

// each calls f with the share of every ray in every pixel that it meets.
func (s *rayset) each(f func(index, line, at int, part float64)) {
	for i := range s.rays {
		r := &s.rays[i]
		for line := int(r.from); line < int(r.to); line++ {
			pixel, part := r.place(line)
			if pixel > 0 {
				f(int(r.index), line, pixel-1, 1-part)
			}
			if pixel < s.width {
				f(int(r.index), line, pixel, part)
			}
		}
	}
}

const (
	// lanes is the number of vectors that are projected together.
	lanes = simd.Lanes
	// bandValues is about the number of values in a band of lines, which should stay in a core's
	// cache while all rays pass through it.
	bandValues  = 1 << 16
	raysPerPart = 1 << 10
)

// pass is one set of rays and the lines that they meet, on their way in one direction, for one
// vector or for several: pixel i of a line has the values of all vectors side by side.
type pass struct {
	*rayset
	way   actionKind
	lanes int
	plane []float64 // lines x (width + 2) x lanes
	sums  []float64 // d x lanes
}

// run takes, on the way forward, a number of rays at a time through all bands of lines, and on the way back all rays
// through one band of lines at a time, of which there is at least one for each processor. Every sum is in the order of
// the lines or of the rays, whatever the parts.
func (p *pass) run() {
	band := max(1, bandValues/((p.width+2)*p.lanes))
	if p.way == doAdjoint {
		procs := runtime.GOMAXPROCS(0)
		band = min(band, (p.lines+procs-1)/procs)
		parallel.Ranges(p.lines, band, func(lo, hi int) { p.through(0, len(p.rays), lo, hi) })
		return
	}
	parallel.Ranges(len(p.rays), raysPerPart, func(from, to int) {
		for line := 0; line < p.lines; line += band {
			p.through(from, to, line, min(line+band, p.lines))
		}
	})
}

func (p *pass) through(first, last, from, to int) {
	for i := first; i < last; i++ {
		r := &p.rays[i]
		lo, hi := max(from, int(r.from)), min(to, int(r.to))
		if lo >= hi {
			continue
		}
		sums := p.sums[int(r.index)*p.lanes:][:p.lanes]
		part := simd.Ray{At: r.at, Slope: r.slope, From: lo, To: hi, Width: p.width + 2}
		switch {
		case p.lanes == 1 && p.way == doForward:
			sums[0] += simd.Gather(p.plane, part)
		case p.lanes == 1:
			simd.Spread(p.plane, part, sums[0])
		case p.way == doForward:
			simd.GatherLanes((*[lanes]float64)(sums), p.plane, part)
		default:
			simd.SpreadLanes((*[lanes]float64)(sums), p.plane, part)
		}
	}
}
