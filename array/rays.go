package array

import (
	"fmt"
	"math"
)

// Ray is a row of a sparse matrix that acts on images and has, in every line of the image that the
// ray passes, two entries side by side, as line integrals by interpolation have (Joseph, An improved
// algorithm for reprojecting rays through pixel images, IEEE Trans. Medical Imaging 1, 1982). A line
// is a row of the image, or of a Level ray a column. The ray meets line l, From <= l < To, at the
// place
//
//	x = At + Slope l,    0 <= x < width + 1,
//
// each operation rounded, where the pixels of the line are at the places 1 to width. With q the
// integer part of x and f = x - q, its entries are Weight (1 - f) at pixel q and Weight f at pixel q
// + 1; places 0 and width + 1 are outside of the image. A ray with From >= To is a row of zeros.
type Ray struct {
	At, Slope, Weight float64
	From, To          int
	Level             bool
}

// Rays is a matrix of rays on a device.
type Rays interface {
	// Dims is the number of rays and of pixels.
	Dims() (rays, pixels int)
	// Bytes is the device memory it holds.
	Bytes() int64
	// Free gives the memory back.
	Free()
}

// Place is where the ray meets a line. The conversion keeps a compiler from fusing product and sum.
func (r *Ray) Place(line int) float64 { return r.At + float64(r.Slope*float64(line)) }

func (r *Ray) misses() bool { return r.From >= r.To }

// lines is the number of lines that a ray of an image can meet, and the pixels of each.
func (s Shape) lines(level bool) (n, width int) {
	if level {
		return s.Cols, s.Rows
	}
	return s.Rows, s.Cols
}

const (
	// mostPlace bounds At and Slope l, so that a place has an error far below PlaceMargin.
	mostPlace = 1 << 30
	// PlaceMargin is more than the rounding error of a place.
	PlaceMargin = 1e-6
)

// CheckRays panics unless rays meet lines of images of a shape between two of their pixels. It is for
// implementations of [Device].
func CheckRays(s Shape, rays []Ray) {
	if s.Rows < 0 || s.Cols < 0 || s.Rows > math.MaxInt32 || s.Cols > math.MaxInt32 || s.Len() > math.MaxInt32 ||
		len(rays) > math.MaxInt32 {
		panic(fmt.Sprintf("array: %d rays through an image of %d x %d", len(rays), s.Rows, s.Cols))
	}
	for i := range rays {
		r := &rays[i]
		if r.misses() {
			continue
		}
		n, width := s.lines(r.Level)
		first, last := r.Place(r.From), r.Place(r.To-1)
		inside := func(x float64) bool { return x >= 0 && x < float64(width+1) }
		if r.From < 0 || r.To > n || !inside(first) || !inside(last) || !(math.Abs(r.At) <= mostPlace) ||
			!(math.Abs(r.Slope)*float64(n) <= mostPlace) {
			panic(fmt.Sprintf("array: ray %d meets lines %d to %d at the places %v to %v, the image of %d x %d "+
				"has %d lines with places from 0 to below %d", i, r.From, r.To-1, first, last, s.Rows, s.Cols, n,
				width+1))
		}
	}
}

// RayRun is rays one after the other, First to Last-1, all of them Level or none, whose places
// increase from ray to ray in every line, or, Falling, decrease; PlaceMargin is left for rounding.
// The rays of a run that meet a pixel are therefore next to each other.
type RayRun struct {
	First, Last    int
	Level, Falling bool
}

// RayRuns divides rays into runs, such as one for each angle of a scanner. Those of the given rays
// that meet no line get the places of the ray before, so that they end no run. It is for implementations of [Device].
func RayRuns(s Shape, rays []Ray) []RayRun {
	var runs []RayRun
	rising, falling := true, true // what the last run can be
	for i := range rays {
		r := &rays[i]
		if i > 0 && r.misses() {
			before := rays[i-1]
			r.At, r.Slope, r.Level = before.At, before.Slope, before.Level
		} else if r.misses() {
			r.At, r.Slope, r.Level = 0, 0, false
		}
		if i > 0 && r.Level == rays[i-1].Level {
			n, _ := s.lines(r.Level)
			a, b := &rays[i-1], r
			up := a.At <= b.At && a.Place(n-1) <= b.Place(n-1)
			down := a.At >= b.At && a.Place(n-1) >= b.Place(n-1)
			if rising && up || falling && down {
				rising, falling = rising && up, falling && down
				run := &runs[len(runs)-1]
				run.Last, run.Falling = i+1, !rising
				continue
			}
		}
		runs = append(runs, RayRun{First: i, Last: i + 1, Level: r.Level})
		rising, falling = true, true
	}
	return runs
}

// hostRays is a list of rays through images of a shape.
type hostRays struct {
	held
	shape Shape
	rays  []Ray
}

func (a *hostRays) Dims() (rays, pixels int) { return len(a.rays), a.shape.Len() }

const rayBytes = 48

func (h *Host) NewRays(s Shape, rays []Ray) Rays {
	CheckRays(s, rays)
	a := &hostRays{shape: s, rays: append([]Ray(nil), rays...)}
	a.held = h.hold(rayBytes * int64(len(rays)))
	return a
}

func (h *Host) MulRays(trans bool, dst Batch, rays Rays, x Batch) {
	h.own(dst)
	h.own(x)
	a := onHost[*hostRays]("MulRays", rays)
	CheckMulRays(trans, dst, rays, x)
	kernel, total, grain := projectKernel, dst.k*dst.n, 1<<8
	if trans {
		kernel, total, grain = backProjectKernel, dst.k, 1
	}
	t := h.newTask(kernel, total, grain)
	t.dst, t.x, t.on = dst, x, a
	t.run()
}

// CheckMulRays panics unless dst and x fit the rays. It is for implementations of [Device].
func CheckMulRays(trans bool, dst Batch, a Rays, x Batch) {
	d, p := a.Dims()
	if trans {
		d, p = p, d
	}
	if dst.k != x.k || dst.n != d || x.n != p {
		d, p := a.Dims()
		panic(fmt.Sprintf("array: MulRays (trans %t) of %s into %s with %d rays through %d pixels", trans, x, dst, d,
			p))
	}
}

// each calls f with the pixels and the entries of a ray, in the order of the lines.
func (a *hostRays) each(i int, f func(pixel int, entry float64)) {
	r := &a.rays[i]
	_, width := a.shape.lines(r.Level)
	along, across := a.shape.Cols, 1
	if r.Level {
		along, across = across, along
	}
	for line := r.From; line < r.To; line++ {
		x := r.Place(line)
		q := int(x)
		part := x - float64(q)
		if q > 0 {
			f(line*along+(q-1)*across, r.Weight*(1-part))
		}
		if q < width {
			f(line*along+q*across, r.Weight*part)
		}
	}
}

func projectKernel(t *task, lo, hi int) {
	a := t.on.(*hostRays)
	for lo < hi {
		v, p, q := t.segment(lo, hi)
		d, x := t.dst.row(v), t.x.row(v)
		for i := p; i < q; i++ {
			s := 0.0
			a.each(i, func(pixel int, entry float64) { s += entry * x[pixel] })
			d[i] = s
		}
		lo += q - p
	}
}

// backProjectKernel adds up the rays in their order, for whole vectors.
func backProjectKernel(t *task, lo, hi int) {
	a := t.on.(*hostRays)
	for v := lo; v < hi; v++ {
		d, z := t.dst.row(v), t.x.row(v)
		clear(d)
		for i, value := range z {
			a.each(i, func(pixel int, entry float64) { d[pixel] += entry * value })
		}
	}
}
