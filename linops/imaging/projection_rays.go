package imaging

import (
	"math"
	"runtime"

	"surepipe/array"
	"surepipe/internal/parallel"
	"surepipe/linops/internal/simd"
)

// rayThrough is a ray that meets line l at the place at + slope l, where at 0 the first pixel of the line has its
// centre. The lines have a pixel of value 0 on either side, so that places between -1 and width lie between two of
// their pixels.
func rayThrough(lines, width int, at, slope float64) array.Ray {
	r := array.Ray{At: at + 1, Slope: slope}
	inside := func(line int) bool {
		x := r.Place(line)
		return x >= 0 && x < float64(width+1)
	}
	// The lines at which the place is 0 and width + 1, and then the lines next to these.
	from, to := 0, lines
	if slope != 0 {
		a, b := -r.At/slope, (float64(width+1)-r.At)/slope
		a, b = min(a, b), max(a, b)
		from = int(max(0, min(float64(lines), math.Floor(a)-1)))
		to = int(max(0, min(float64(lines), math.Ceil(b)+2)))
	}
	for from < to && !inside(from) {
		from++
	}
	for to > from && !inside(to-1) {
		to--
	}
	if from < to {
		r.From, r.To = from, to
	}
	return r
}

const (
	// lanes is the number of vectors that are projected together.
	lanes = simd.Lanes
	// bandValues is about the number of values in a band of lines, which should stay in a core's
	// cache while all rays pass through it.
	bandValues  = 1 << 16
	raysPerPart = 1 << 8
)

// pass is the rays that take one step for each row, or the level ones that take one for each column, of the transposed
// image, and the lines that they meet, on their way in one direction, for one vector or for several: pixel i of a line
// has the values of all vectors side by side.
type pass struct {
	rays         []array.Ray // of both kinds
	level        bool
	lines, width int
	way          actionKind
	lanes        int
	plane        []float64 // lines x (width + 2) x lanes
	sums         []float64 // d x lanes
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
		lo, hi := max(from, r.From), min(to, r.To)
		if r.Level != p.level || lo >= hi {
			continue
		}
		sums := p.sums[i*p.lanes:][:p.lanes]
		part := simd.Ray{At: r.At, Slope: r.Slope, From: lo, To: hi, Width: p.width + 2}
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
