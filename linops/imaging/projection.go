package imaging

import (
	"fmt"
	"math"
	"slices"
	"sync"

	"surepipe/array"
	"surepipe/linops"
)

// Projection is the X-ray transform of images: line integrals along the rays of a scanner, by the
// method of Joseph (1982). The image has rows x cols pixels of side 1; the origin is the axis of rotation, and pixel
// (r, c) has its centre at x = c - (cols-1)/2 - axis.Col, y = (rows-1)/2 + axis.Row - r ([Axis]). A ray that
// is nearer to vertical than to horizontal meets the line through the centres of each row of pixels at one
// place, between two pixels, and interpolates between them:
//
//	Forward: dst_i = l_i sum_r ((1 - f) b_{r,c} + f b_{r,c+1}),   c + f the place at which ray i meets row r,
//	Adjoint: dst_{r,c} = sum of the same weights times z_i
//
// where l_i is the length of the ray between two rows. A nearer to horizontal ray exchanges rows and
// columns. Pixels outside of the image are 0. d is angles times detectors, a row-major sinogram with
// one row for each angle.
//
// No matrix is stored: beside images, a Projection holds a few numbers a ray. It computes on the host,
// on all of its processors, where eight vectors at a time share the computation of the places. After
// [Projection.Load] it computes on another device too; else the vectors of that device are copied to
// the host and back.
//
// Joseph, An improved algorithm for reprojecting rays through pixel images, IEEE Trans. Medical
// Imaging 1 (1982).
type Projection struct {
	mapped
	rows, cols int
	rays       []array.Ray // whose weights are their lengths between two lines
	loaded     array.Rays  // of another device; nil without one
}

// mostPixels bounds the sides of an image, so that its pixels and rays have 32 bit numbers.
const mostPixels = 1 << 15

// Axis is where the axis of rotation is: behind the middle of the row of detectors by so many of them, and
// at so many rows and columns after the middle of the image. The zero Axis is in the middle of both.
type Axis struct{ Detector, Row, Col float64 }

// ScikitImage is the axis of the functions radon and iradon of scikit-image: in pixel (rows/2, cols/2) of
// the image and detector detectors/2, counted from 0 and rounded down. It is the middle where these numbers
// are odd.
func ScikitImage(rows, cols, detectors int) Axis {
	after := func(n int) float64 { return float64(n/2) - float64(n-1)/2 }
	return Axis{after(detectors), after(rows), after(cols)}
}

// NewParallelBeam returns the projection of images of rows x cols pixels along parallel rays. At
// angle theta, in degrees, the rays have the direction (-sin theta, cos theta), and detector t meets
// the ray at the signed distance (t - (detectors-1)/2 - axis.Detector) spacing from the axis, along (cos
// theta, sin theta): at 0 degrees the rays run along the columns. spacing is in pixels.
func NewParallelBeam(rows, cols int, angles []float64, detectors int, spacing float64, axis Axis) (*Projection, error) {
	if err := checkProjection(rows, cols, angles, detectors, spacing, axis); err != nil {
		return nil, err
	}
	return newProjection(rows, cols, len(angles), detectors, axis, func(a, t int) (from, to point) {
		s, c := sincosDegrees(angles[a])
		at := axis.distance(t, detectors, spacing)
		from = point{at * c, at * s}
		return from, point{from.x - s, from.y + c}
	}), nil
}

// NewFanBeam returns the projection of images of rows x cols pixels along rays from one point. At
// angle theta, in degrees, the source is at the distance source from the axis, in direction (sin
// theta, -cos theta), and the detectors lie on a line at the distance detector on the other side,
// where detector t is at (t - (detectors-1)/2 - axis.Detector) spacing along (cos theta, sin theta). Lengths
// are in pixels. The source must lie outside of the circle that the image fills as it turns.
func NewFanBeam(rows, cols int, angles []float64, detectors int, spacing, source, detector float64,
	axis Axis) (*Projection, error) {
	if err := checkProjection(rows, cols, angles, detectors, spacing, axis); err != nil {
		return nil, err
	}
	radius := math.Hypot(float64(rows)/2+math.Abs(axis.Row), float64(cols)/2+math.Abs(axis.Col))
	switch {
	case !(source > radius) || math.IsInf(source, 0):
		return nil, fmt.Errorf("linops: the source is at a distance of %g from the axis of rotation, expected "+
			"more than %.4g, that of the farthest corner of the image of %d x %d", source, radius, rows, cols)
	case !(detector >= 0) || math.IsInf(detector, 0):
		return nil, fmt.Errorf("linops: the detectors are at a distance of %g from the axis of rotation, "+
			"expected 0 or more", detector)
	}
	return newProjection(rows, cols, len(angles), detectors, axis, func(a, t int) (from, to point) {
		s, c := sincosDegrees(angles[a])
		at := axis.distance(t, detectors, spacing)
		return point{source * s, -source * c}, point{at*c - detector*s, at*s + detector*c}
	}), nil
}

func (a Axis) distance(t, detectors int, spacing float64) float64 {
	return (float64(t) - (float64(detectors-1)/2 + a.Detector)) * spacing
}

func checkProjection(rows, cols int, angles []float64, detectors int, spacing float64, axis Axis) error {
	switch {
	case rows < 1 || cols < 1 || rows > mostPixels || cols > mostPixels:
		return fmt.Errorf("linops: projection of an image of %d x %d pixels, expected sides of 1 to %d", rows, cols,
			mostPixels)
	case len(angles) == 0:
		return fmt.Errorf("linops: projection at no angles")
	case detectors < 1 || detectors > math.MaxInt32/len(angles):
		return fmt.Errorf("linops: projection with %d detectors at %d angles, expected 1 to %d", detectors,
			len(angles), math.MaxInt32/len(angles))
	case !(spacing > 0) || math.IsInf(spacing, 0):
		return fmt.Errorf("linops: the spacing of the detectors is %g, expected a positive number of pixels", spacing)
	}
	for _, v := range []float64{axis.Detector, axis.Row, axis.Col} {
		if !(math.Abs(v) <= mostPixels) {
			return fmt.Errorf("linops: the axis of rotation is %g from the middle, expected at most %d", v, mostPixels)
		}
	}
	for i, a := range angles {
		if math.IsNaN(a) || math.IsInf(a, 0) {
			return fmt.Errorf("linops: angle %d is %g, expected degrees", i, a)
		}
	}
	return nil
}

// sincosDegrees are exact at multiples of 90 degrees.
func sincosDegrees(degrees float64) (s, c float64) {
	turn := math.Mod(degrees, 360)
	switch turn {
	case 0:
		return 0, 1
	case 90, -270:
		return 1, 0
	case 180, -180:
		return 0, -1
	case 270, -90:
		return -1, 0
	}
	return math.Sincos(turn * math.Pi / 180)
}

type point struct{ x, y float64 }

func newProjection(rows, cols, angles, detectors int, axis Axis,
	ray func(angle, detector int) (from, to point)) *Projection {
	p := &Projection{rows: rows, cols: cols, rays: make([]array.Ray, angles*detectors)}
	midRow, midCol := float64(rows-1)/2+axis.Row, float64(cols-1)/2+axis.Col
	for i := range angles * detectors {
		from, to := ray(i/detectors, i%detectors)
		dx, dy := to.x-from.x, to.y-from.y
		length := math.Hypot(dx, dy)
		if math.Abs(dy) >= math.Abs(dx) {
			// Column x + midCol at row r, which is at y = midRow - r.
			slope := -dx / dy
			p.rays[i] = rayThrough(rows, cols, from.x+midCol-slope*(midRow-from.y), slope)
			p.rays[i].Weight = length / math.Abs(dy)
		} else {
			// Row midRow - y at column c, which is at x = c - midCol.
			slope := -dy / dx
			p.rays[i] = rayThrough(cols, rows, midRow-from.y-slope*(midCol+from.x), slope)
			p.rays[i].Weight, p.rays[i].Level = length/math.Abs(dx), true
		}
	}
	p.mapped = mapped{twin: twin{on: p.multiply}, name: "Projection", d: angles * detectors, p: rows * cols}
	norms := sync.OnceValue(p.columnNorms2)
	p.structure = linops.Complete(p, linops.Structure{ColumnNorms2: func() []float64 { return slices.Clone(norms()) }})
	return p
}

func (p *Projection) multiply(dst, src array.Batch, do action) {
	switch {
	case dst.K() == 0:
	case p.loaded != nil && elsewhere(src):
		dst.Device().MulRays(do.kind == doAdjoint, dst, p.loaded, src)
	default:
		p.onHost(dst, src, do.kind)
	}
}

// Load puts the rays on a device, 36 bytes each, unless that computes in the host's memory. It comes
// before the first product.
func (p *Projection) Load(dev array.Device) {
	if !inHostMemory(dev) && p.loaded == nil {
		p.loaded = dev.NewRays(array.Shape{Rows: p.rows, Cols: p.cols}, p.rays)
	}
}

// Release frees the memory of Load. The operator is dead on that device afterwards.
func (p *Projection) Release() {
	if p.loaded != nil {
		p.loaded.Free()
		p.loaded = nil
	}
}

func (p *Projection) columnNorms2() []float64 {
	norms := make([]float64, p.rows*p.cols)
	for i := range p.rays {
		r := &p.rays[i]
		width, along, across := p.cols, p.cols, 1
		if r.Level {
			width, along, across = p.rows, 1, p.cols
		}
		for line := r.From; line < r.To; line++ {
			x := r.Place(line)
			pixel := int(x)
			part := x - float64(pixel)
			if pixel > 0 {
				norms[line*along+(pixel-1)*across] += square(r.Weight * (1 - part))
			}
			if pixel < width {
				norms[line*along+pixel*across] += square(r.Weight * part)
			}
		}
	}
	return norms
}

func square(x float64) float64 { return x * x }
