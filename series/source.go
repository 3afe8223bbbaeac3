package series

import (
	"fmt"
	"math"
)

// Shape is that of a series: an image of voxels along x, y and z, at each of which there are N values, one a volume,
// or N pairs of real and imaginary part.
type Shape struct {
	Image   Extent
	Volumes int
	Complex bool
}

// Parts is the number of real numbers of a value.
func (s Shape) Parts() int {
	if s.Complex {
		return 2
	}
	return 1
}

// course is the number of real numbers at a voxel, and slice that of a slice.
func (s Shape) course() int { return s.Volumes * s.Parts() }
func (s Shape) slice() int  { return s.Image[0] * s.Image[1] * s.course() }

func (s Shape) area() int { return s.Image[0] * s.Image[1] }

func (s Shape) check() error {
	n := 1.0
	for _, k := range append(s.Image[:], s.Volumes) {
		if k < 1 {
			return fmt.Errorf("series: a series of %d volumes of %d x %d x %d voxels, expected some", s.Volumes,
				s.Image[0], s.Image[1], s.Image[2])
		}
		n *= float64(k)
	}
	if n > math.MaxInt/16 {
		return fmt.Errorf("series: %g values are too many", n)
	}
	if s.Volumes < 2 {
		return fmt.Errorf("series: 1 volume, expected a series of 2 or more")
	}
	return nil
}

// Source holds a series, slice by slice.
type Source interface {
	Shape() Shape
	// Slice sets dst to slice z: the values of voxel (x, y) begin at (y * nx + x) * N, twice that for pairs of real
	// and imaginary part. It is called by one goroutine at a time.
	Slice(dst []float64, z int) error
}

// Memory is a source in memory, one slice after the other, each as [Source] has it.
type Memory struct {
	Of   Shape
	Data []float64
}

func (m Memory) Shape() Shape { return m.Of }

func (m Memory) Slice(dst []float64, z int) error {
	n := m.Of.slice()
	if len(m.Data) != n*m.Of.Image[2] {
		return fmt.Errorf("series: %d values for %d slices of %d, expected %d", len(m.Data), m.Of.Image[2], n,
			n*m.Of.Image[2])
	}
	copy(dst, m.Data[z*n:])
	return nil
}

// slab holds the slices of a source that patches are cut from.
type slab struct {
	from   Source
	mask   []bool
	slices map[int][]float64
	free   [][]float64
}

// hold reads the slices z to z+n-1 that are not held, and forgets those before.
func (w *slab) hold(z, n int) error {
	for k, s := range w.slices {
		if k < z {
			w.free = append(w.free, s)
			delete(w.slices, k)
		}
	}
	shape := w.from.Shape()
	for k := z; k < z+n; k++ {
		if w.slices[k] != nil {
			continue
		}
		var s []float64
		if l := len(w.free); l > 0 {
			s, w.free = w.free[l-1], w.free[:l-1]
		} else {
			s = make([]float64, shape.slice())
		}
		if err := w.from.Slice(s, k); err != nil {
			return err
		}
		if err := w.check(s, k); err != nil {
			return err
		}
		w.slices[k] = s
	}
	return nil
}

// ValueError says that a value of a series, of its noise scan or of sigma cannot be used.
type ValueError struct {
	Found    string // such as "volume 4 holds NaN"
	Voxel    Extent // x, y and z, counted from 0
	Expected string
}

func (e *ValueError) Error() string {
	return fmt.Sprintf("series: %s at the voxel (%d, %d, %d), expected %s", e.Found, e.Voxel[0], e.Voxel[1], e.Voxel[2],
		e.Expected)
}

// voxel is the place of voxel i of slice z.
func (s Shape) voxel(z, i int) Extent { return Extent{i % s.Image[0], i / s.Image[0], z} }

// inside reports whether voxel i of slice z is in the mask.
func (w *slab) inside(z, i int) bool {
	return w.mask == nil || w.mask[z*w.from.Shape().area()+i]
}

// check returns an error where a voxel in the mask has a value that is not finite.
func (w *slab) check(s []float64, z int) error {
	shape := w.from.Shape()
	course := shape.course()
	for i := range shape.area() {
		for t, v := range s[i*course : (i+1)*course] {
			if (math.IsNaN(v) || math.IsInf(v, 0)) && w.inside(z, i) {
				return &ValueError{fmt.Sprintf("volume %d holds %g", t/shape.Parts(), v), shape.voxel(z, i),
					"finite numbers, or a mask without that voxel"}
			}
		}
	}
	return nil
}

// gather sets w's patch to the voxels in the mask of a box at (x, y, z), each divided by its standard deviation, which
// scale has by voxel (nil: 1). at receives the voxels: their slices, and their places in the slice. It returns
// whether there are enough to decompose.
func (p *work) gather(w *slab, x, y, z int, box Extent, scale []float64) bool {
	shape := w.from.Shape()
	nx, area, n, parts := shape.Image[0], shape.area(), shape.Volumes, shape.Parts()
	p.at = p.at[:0]
	for dz := range box[2] {
		for dy := range box[1] {
			for dx := range box[0] {
				if i := (y+dy)*nx + x + dx; w.inside(z+dz, i) {
					p.at = append(p.at, place{z + dz, i})
				}
			}
		}
	}
	m := len(p.at)
	if m < 3 {
		return false
	}
	p.reset(parts*m, parts*n, parts)
	norm := 0.0
	for k, at := range p.at {
		values := w.slices[at.z][at.i*n*parts:][:n*parts]
		inverse := 1.0
		if scale != nil {
			inverse = 1 / scale[at.z*area+at.i]
		}
		p.q[k] = inverse // a constant, in these units
		norm += inverse * inverse
		row := p.x[k*parts*n:][:parts*n]
		if parts == 1 {
			for t, v := range values {
				row[t] = v * inverse
			}
			continue
		}
		below := p.x[(m+k)*2*n:][:2*n]
		for t := range n {
			re, im := values[2*t]*inverse, values[2*t+1]*inverse
			row[t], row[n+t] = re, -im
			below[t], below[n+t] = im, re
		}
	}
	for k := range p.q {
		p.q[k] /= math.Sqrt(norm)
	}
	return true
}

// place is a voxel: its slice, and its place there.
type place struct{ z, i int }

type work struct {
	spectrum
	at []place
}
