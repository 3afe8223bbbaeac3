package prox

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"gonum.org/v1/gonum/mat"
)

// Series is a series of images, frames x rows x cols, row-major, in patches of Patch x Patch pixels:
// every patch is a matrix of frames x pixels. The patches of one tiling are disjoint and cover the
// images; those at the borders may be smaller. There are (Patch/Stride)^2 tilings, shifted against
// one another by Stride pixels.
type Series struct {
	Frames, Rows, Cols int
	Patch, Stride      int
}

// Len is the number of values.
func (s Series) Len() int { return s.Frames * s.Rows * s.Cols }

// Check returns an error unless the stride divides the side of the patches and there is something to
// cover.
func (s Series) Check() error {
	switch {
	case s.Frames < 1 || s.Rows < 1 || s.Cols < 1:
		return fmt.Errorf("prox: a series of %d images of %d x %d pixels, expected some", s.Frames, s.Rows, s.Cols)
	case s.Patch < 1 || s.Patch > max(s.Rows, s.Cols):
		return fmt.Errorf("prox: patches of %d x %d pixels of images of %d x %d, expected a side of 1 to %d", s.Patch, s.Patch, s.Rows, s.Cols, max(s.Rows, s.Cols))
	case s.Stride < 1 || s.Patch%s.Stride != 0:
		return fmt.Errorf("prox: patches of side %d at a stride of %d, expected a divisor of the side", s.Patch, s.Stride)
	}
	return nil
}

// Patch is a rectangle of pixels of all images.
type Patch struct {
	from, to, left, right int // rows from to to-1, columns left to right-1
	// Scale multiplies the threshold: see [NewLocalLowRank].
	Scale float64
}

// Pixels is the number of pixels.
func (p Patch) Pixels() int { return (p.to - p.from) * (p.right - p.left) }

// Patches lists the patches of all tilings.
func (s Series) Patches() []Patch { return slices.Concat(s.tilings()...) }

// tilings lists the patches of every tiling.
func (s Series) tilings() [][]Patch {
	var all [][]Patch
	scale := func(pixels int) float64 { return math.Sqrt(float64(s.Frames)) + math.Sqrt(float64(pixels)) }
	full := scale(min(s.Patch, s.Rows) * min(s.Patch, s.Cols))
	for down := 0; down < s.Patch; down += s.Stride {
		for along := 0; along < s.Patch; along += s.Stride {
			var tiling []Patch
			for from := down - s.Patch*min(down, 1); from < s.Rows; from += s.Patch {
				for left := along - s.Patch*min(along, 1); left < s.Cols; left += s.Patch {
					p := Patch{from: max(from, 0), to: min(from+s.Patch, s.Rows), left: max(left, 0), right: min(left+s.Patch, s.Cols)}
					if p.from < p.to && p.left < p.right {
						p.Scale = scale(p.Pixels()) / full
						tiling = append(tiling, p)
					}
				}
			}
			all = append(all, tiling)
		}
	}
	return all
}

// onPatches calls f with the parts 0 to n-1 on all processors, in any order; it returns the first error in
// the order of the parts.
func onPatches(n int, f func(i int, w *patchWork) error) error {
	errs := make([]error, n)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(n, runtime.GOMAXPROCS(0)) {
		wg.Go(func() {
			w := &patchWork{}
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				errs[i] = f(i, w)
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// patchWork is the memory of one goroutine.
type patchWork struct {
	x, out, left, m, scaled mat.Dense
}

// gather sets w.x to a patch as a matrix with no more rows than columns: frames x pixels, or its
// transpose.
func (s Series) gather(w *patchWork, x []float64, p Patch) {
	m, n := s.Frames, p.Pixels()
	wide := m <= n
	w.x.Reset()
	w.x.ReuseAs(min(m, n), max(m, n))
	raw := w.x.RawMatrix()
	p.Visit(s, func(frame, pixel, at int) {
		if wide {
			raw.Data[frame*raw.Stride+pixel] = x[at]
		} else {
			raw.Data[pixel*raw.Stride+frame] = x[at]
		}
	})
}

// scatter adds factor times w.out to a patch.
func (s Series) scatter(w *patchWork, dst []float64, p Patch, factor float64) {
	wide := s.Frames <= p.Pixels()
	raw := w.out.RawMatrix()
	p.Visit(s, func(frame, pixel, at int) {
		if wide {
			dst[at] += factor * raw.Data[frame*raw.Stride+pixel]
		} else {
			dst[at] += factor * raw.Data[pixel*raw.Stride+frame]
		}
	})
}

// Visit calls f with every value of the patch: its frame, its pixel within the patch, and its place.
func (p Patch) Visit(s Series, f func(frame, pixel, at int)) {
	for frame := range s.Frames {
		pixel := 0
		for r := p.from; r < p.to; r++ {
			start := (frame*s.Rows + r) * s.Cols
			for c := p.left; c < p.right; c++ {
				f(frame, pixel, start+c)
				pixel++
			}
		}
	}
}
