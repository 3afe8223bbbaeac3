package denoise

import (
	"gonum.org/v1/gonum/mat"

	"surepipe/internal/parallel"
	"surepipe/prox"
)

// onPatches calls f with the parts 0 to n-1 on all processors, in any order; it returns the first error in
// the order of the parts.
func onPatches(n int, f func(i int, w *patchWork) error) error {
	return parallel.Each(n, func() *patchWork { return new(patchWork) }, f)
}

// patchWork is the memory of one goroutine.
type patchWork struct {
	x, out, left, m, scaled mat.Dense
}

// gather sets w.x to a patch as a matrix with no more rows than columns: frames x pixels, or its
// transpose.
func (w *patchWork) gather(s prox.Series, x []float64, p prox.Patch) {
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

func (w *patchWork) scatter(s prox.Series, dst []float64, p prox.Patch, factor float64) {
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
