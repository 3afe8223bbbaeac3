package lowrank

import (
	"surepipe/array"
	"surepipe/solve/engine"
)

// split is a solution (L, S) as a function of y and L: S = y - L - clip(y - L), computed by panels of
// rows. It refers to y.
type split struct {
	y     array.Batch // m x n
	low   factored
	gamma float64
}

func newSplit(w *huber) *split { return &split{y: w.y, gamma: w.gamma, low: w.now.clone()} }

// each calls f for the panels of rows from to to-1, with y - L and clip(y - L) there, which f may
// overwrite.
func (s *split) each(from, to int, f func(i, j int, rest, clip array.Batch)) {
	dev := s.y.Device()
	work := newPanels(dev, s.y.K(), s.y.N(), s.gamma)
	defer work.free()
	for i := from; i < to; i += work.rows {
		j := min(i+work.rows, to)
		rest, clip := work.rest.Rows(0, j-i), work.clip.Rows(0, j-i)
		dev.Copy(rest, s.y.Rows(i, j))
		s.low.addRows(-1, rest, i, j)
		work.clipped(clip, rest)
		f(i, j, rest, clip)
	}
}

// implied is the solution b = (L, S), or (S, L), which takes over s.
func (s *split) implied(sparseFirst bool) *engine.Implied {
	d := s.y.K() * s.y.N()
	low := func(i, j int, rest, _ array.Batch) {
		rest.Device().Fill(rest, 0)
		s.low.addRows(1, rest, i, j)
	}
	sparse := func(_, _ int, rest, clip array.Batch) { rest.Device().Lin(rest, 1, rest, -1, clip) }
	sum := func(i, j int, rest, clip array.Batch) { rest.Device().Lin(rest, 1, s.y.Rows(i, j), -1, clip) }
	first, second := low, sparse
	if sparseFirst {
		first, second = sparse, low
	}
	out := &engine.Implied{
		D: d, P: 2 * d, Free: s.low.free,
		MuHat: func(dst []float64, from int) { s.read(dst, from, sum) },
		B: func(dst []float64, from int) {
			count := min(max(d-from, 0), len(dst))
			s.read(dst[:count], from, first)
			s.read(dst[count:], from+count-d, second)
		},
	}
	s.each(0, s.y.K(), func(_, _ int, _, clip array.Batch) { out.Residual2 += dot(clip, clip) })
	return out
}

// read sets dst to the entries from, from+1, ... of a matrix that set computes from y - L and clip(y
// - L), in the place of the former.
func (s *split) read(dst []float64, from int, set func(i, j int, rest, clip array.Batch)) {
	if len(dst) == 0 {
		return
	}
	n := s.y.N()
	s.each(from/n, (from+len(dst)+n-1)/n, func(i, j int, rest, clip array.Batch) {
		set(i, j, rest, clip)
		a, b := max(from, i*n), min(from+len(dst), j*n)
		rest.Device().Download(dst[a-from:b-from], rest.Reshape(1, (j-i)*n).Cols(a-i*n, b-i*n))
	})
}
