package imaging_test

import (
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/linops"
	"surepipe/linops/imaging"
)

// rayThrough is a ray by a point and a direction of length 1.
type rayThrough struct{ x, y, dx, dy float64 }

// joseph is the weight of a pixel in a ray, from the distance between the pixel's centre and the
// ray along the axis that the ray runs across: the triangle of width 2 around the centre.
func (r rayThrough) joseph(axis imaging.Axis, rows, cols, row, col int) float64 {
	x, y := float64(col)-float64(cols-1)/2-axis.Col, float64(rows-1)/2+axis.Row-float64(row)
	if math.Abs(r.dy) >= math.Abs(r.dx) {
		return max(0, 1-math.Abs(r.x+(y-r.y)*r.dx/r.dy-x)) / math.Abs(r.dy)
	}
	return max(0, 1-math.Abs(r.y+(x-r.x)*r.dy/r.dx-y)) / math.Abs(r.dx)
}

func (r rayThrough) unit() rayThrough {
	l := math.Hypot(r.dx, r.dy)
	r.dx, r.dy = r.dx/l, r.dy/l
	return r
}

func TestProjectionsAreTheirMatrices(t *testing.T) {
	angles := []float64{0, 17, 44.9, 45.1, 90, 133.7, 180, 201, 270, -35}
	rad := math.Pi / 180
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		for k, s := range [][3]int{{1, 1, 1}, {1, 5, 4}, {6, 1, 3}, {7, 9, 13}, {12, 8, 5}} {
			rows, cols, detectors := s[0], s[1], s[2]
			axis := []imaging.Axis{{}, {0.5, 0, 0.5}, imaging.ScikitImage(6, 1, 3), {-1.3, 0.25, 2},
				imaging.ScikitImage(12, 8, 5)}[k]
			const spacing, source, detector = 0.9, 40.0, 25.0
			at := func(i int) (s, c, u float64) {
				s, c = math.Sincos(angles[i/detectors] * rad)
				return s, c, (float64(i%detectors) - float64(detectors-1)/2 - axis.Detector) * spacing
			}
			parallel := must(imaging.NewParallelBeam(rows, cols, angles, detectors, spacing, axis))
			isConforming(t, dev, fmt.Sprintf("parallel beam %v", s), parallel)
			isMatrix(t, dev, fmt.Sprintf("parallel beam %v", s), parallel, 1e-13, func(i, j int) float64 {
				s, c, u := at(i)
				return rayThrough{u * c, u * s, -s, c}.unit().joseph(axis, rows, cols, j/cols, j%cols)
			})
			fan := must(imaging.NewFanBeam(rows, cols, angles, detectors, spacing, source, detector, axis))
			isConforming(t, dev, fmt.Sprintf("fan beam %v", s), fan)
			isMatrix(t, dev, fmt.Sprintf("fan beam %v", s), fan, 1e-12, func(i, j int) float64 {
				s, c, u := at(i)
				return rayThrough{source * s, -source * c, u*c - (detector+source)*s,
					u*s + (detector+source)*c}.unit().joseph(axis, rows, cols, j/cols, j%cols)
			})
		}
	})
}

// The projection of a disc of density 1 is its chord, 2 sqrt(R^2 - s^2).
func TestProjectionOfADiscIsItsChord(t *testing.T) {
	const n, radius, fine = 64, 24.0, 8
	image := make([]float64, n*n)
	for i := range image {
		for u := range fine * fine {
			x := float64(i%n) - float64(n)/2 + (float64(u%fine)+0.5)/fine
			y := float64(i/n) - float64(n)/2 + (float64(u/fine)+0.5)/fine
			if x*x+y*y < radius*radius {
				image[i] += 1. / (fine * fine)
			}
		}
	}
	dev := array.NewHost()
	defer dev.Close()
	angles := []float64{0, 30, 45, 77, 90, 160}
	const detectors = 41
	for name, a := range map[string]linops.Operator{
		"parallel": must(imaging.NewParallelBeam(n, n, angles, detectors, 1, imaging.Axis{})),
		// At a distance of 1e6 the rays are parallel up to 1e-4.
		"fan": must(imaging.NewFanBeam(n, n, angles, detectors, 1, 1e6, 0, imaging.Axis{})),
	} {
		b, y := dev.Alloc(1, n*n), dev.Alloc(1, len(angles)*detectors)
		dev.Upload(b, image)
		a.Forward(y, b)
		for i, v := range y.ToHost() {
			s := float64(i%detectors) - float64(detectors-1)/2
			if want := 2 * math.Sqrt(radius*radius-s*s); math.Abs(v-want) > 0.35 {
				t.Errorf("%s: the ray at %g degrees and distance %g is %.4g, the chord is %.4g", name,
					angles[i/detectors], s, v, want)
			}
		}
		b.Free()
		y.Free()
	}
}

func TestProjectionBitsDoNotDependOnTheProcessors(t *testing.T) {
	dev := array.NewHost()
	defer dev.Close()
	angles := make([]float64, 40)
	for i := range angles {
		angles[i] = 4.5 * float64(i)
	}
	a := must(imaging.NewParallelBeam(80, 70, angles, 101, 1, imaging.Axis{}))
	d, p := a.Dims()
	results := map[int][]float64{}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, procs := range []int{1, 2, 5} {
		runtime.GOMAXPROCS(procs)
		b, z := dev.Alloc(11, p), dev.Alloc(11, d)
		dev.Upload(b, gaussian(11*p, 3))
		a.Forward(z, b)
		a.Adjoint(b, z)
		results[procs] = append(z.ToHost(), b.ToHost()...)
		b.Free()
		z.Free()
	}
	for procs, got := range results {
		for i, v := range got {
			if v != results[1][i] {
				t.Fatalf("on %d processors value %d is %v, on 1 it is %v", procs, i, v, results[1][i])
			}
		}
	}
}

func TestProjectionRefusesBadGeometry(t *testing.T) {
	for want, err := range map[string]error{
		"an image of 0 x 4 pixels": errorOf(imaging.NewParallelBeam(0, 4, []float64{0}, 3, 1, imaging.Axis{})),
		"at no angles":             errorOf(imaging.NewParallelBeam(4, 4, nil, 3, 1, imaging.Axis{})),
		"with 0 detectors":         errorOf(imaging.NewParallelBeam(4, 4, []float64{0}, 0, 1, imaging.Axis{})),
		"spacing of the detectors": errorOf(imaging.NewParallelBeam(4, 4, []float64{0}, 3, math.NaN(), imaging.Axis{})),
		"angle 1 is +Inf": errorOf(imaging.NewParallelBeam(4, 4, []float64{0, math.Inf(1)}, 3, 1,
			imaging.Axis{})),
		"from the middle": errorOf(imaging.NewParallelBeam(4, 4, []float64{0}, 3, 1,
			imaging.Axis{Detector: math.NaN()})),
		"the source is at":     errorOf(imaging.NewFanBeam(6, 8, []float64{0}, 3, 1, 5, 1, imaging.Axis{})),
		"the detectors are at": errorOf(imaging.NewFanBeam(6, 8, []float64{0}, 3, 1, 6, -1, imaging.Axis{})),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error with %q", err, want)
		}
	}
}

func errorOf[T any](_ T, err error) error { return err }
