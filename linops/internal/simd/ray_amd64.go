package simd

// Gather returns the sum over the lines of (1 - part) times the pixel before the place and part times
// the one after it, in eight sums: see sumsOf.
func Gather(plane []float64, r Ray) float64 {
	var sums [8]float64
	if r.From >= r.To {
		return 0
	}
	r.check(plane, 1)
	from := r.From
	if blocks := (r.To - r.From) / 4; Fast && blocks > 0 {
		gather4(&sums, &plane[from*r.Width], r.At, r.Slope, from, blocks, 8*r.Width)
		from += 4 * blocks
	}
	r.gather(&sums, plane, from)
	return total(&sums)
}

// Spread adds (1 - part) value to the pixel before the place, and part value to the one after it.
func Spread(plane []float64, r Ray, value float64) {
	if r.From >= r.To {
		return
	}
	r.check(plane, 1)
	from := r.From
	if blocks := (r.To - r.From) / 4; Fast && blocks > 0 {
		spread4(&plane[from*r.Width], r.At, r.Slope, value, from, blocks, 8*r.Width)
		from += 4 * blocks
	}
	r.spread(plane, value, from)
}

// GatherLanes adds what the ray meets to the sums of several vectors, line after line.
func GatherLanes(sums *[Lanes]float64, plane []float64, r Ray) {
	if r.From >= r.To {
		return
	}
	r.check(plane, Lanes)
	if !Fast {
		r.gatherLanes(sums, plane)
		return
	}
	gather8(sums, &plane[r.From*r.Width*Lanes], r.At, r.Slope, r.From, r.To, 8*Lanes*r.Width)
}

// SpreadLanes is Spread of several vectors.
func SpreadLanes(values *[Lanes]float64, plane []float64, r Ray) {
	if r.From >= r.To {
		return
	}
	r.check(plane, Lanes)
	if !Fast {
		r.spreadLanes(values, plane)
		return
	}
	spread8(values, &plane[r.From*r.Width*Lanes], r.At, r.Slope, r.From, r.To, 8*Lanes*r.Width)
}

// gather4 adds blocks of four lines to the sums. plane is the first line, stride its bytes.
//
//go:noescape
func gather4(sums *[8]float64, plane *float64, at, slope float64, from, blocks, stride int)

//go:noescape
func spread4(plane *float64, at, slope, value float64, from, blocks, stride int)

//go:noescape
func gather8(sums *[Lanes]float64, plane *float64, at, slope float64, from, to, stride int)

//go:noescape
func spread8(values *[Lanes]float64, plane *float64, at, slope float64, from, to, stride int)
