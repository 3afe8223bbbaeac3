package active

import (
	"context"
	"math"
	"sync"
	"sync/atomic"

	"gonum.org/v1/gonum/floats"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/prox"
	"surepipe/solve/engine"
	"surepipe/solve/internal/limits"
	"surepipe/space"
)

// descent minimizes the weighted problem of a Newton step on the loss by coordinate descent, where A is sparse, or
// S + u v* with a sparse S, as of columns without their means, and the regularizer a sum over coordinates (Friedman,
// Hastie and Tibshirani 2010). The factor of a Gram matrix takes n^3/3 operations for n coordinates, and a pass over
// the coordinates 4 for every entry of their columns, of which sparse columns have few; and as most of these columns
// have few rows in common, few passes suffice. It serves where a factor would take more than [limits.Passes] do. Where
// passes of a step have cost what the Gram matrix and its factor would, other methods go on.
type descent struct {
	splitting
	columns *sparseColumns
	chosen  bool // for the steps of this solve

	b, g []float64

	// The columns of the working set, times the roots of the weights, and the image of the step so far.
	set    []int
	start  []int
	rows   []int32
	values []float64
	curve  []float64 // their squared lengths, and the curvature of r
	image  []float64 // of S

	// The same for u v*: u*S and v on the set, u*u, v* of the step so far, and u* of its image.
	cross, right []float64
	left2        float64
	shift, along float64
}

// sparseColumns are what all solves with an operator share: its columns.
type sparseColumns struct {
	counts      []int             // of entries in the columns of S
	entries     float64           // of S
	columns     func() space.Rows // of S, made when they first serve
	left, right []float64         // u, and v, nil where these are 0
	slow        atomic.Bool       // passes have cost what a factor would
}

// newDescent is nil where A is not sparse or the problem does not split over coordinates.
func (n *reweighted) newDescent() *descent {
	a, r := linops.StructureOf(n.s.Problem.A), prox.StructureOf(n.s.Problem.R)
	d, dim := n.s.Problem.A.Dims()
	if a.SparseRows == nil && a.Shifted == nil || !a.Stored.IsZero() || r.Sparse == nil || n.known.Coupled != nil ||
		d > math.MaxInt32 {
		return nil
	}
	columns, ok := n.s.Family.Kept(func() any {
		s := linops.ShiftedOf(n.s.Problem.A)
		counts := make([]int, dim)
		for _, j := range s.Indices {
			counts[j]++
		}
		return &sparseColumns{counts: counts, entries: float64(len(s.Values)), left: s.Left, right: s.Right,
			columns: sync.OnceValue(func() space.Rows { return space.Transpose(s.Rows, dim) })}
	}).(*sparseColumns)
	if !ok || columns.slow.Load() {
		return nil
	}
	return &descent{splitting: splittingOf(r, dim), columns: columns,
		b: make([]float64, dim), g: make([]float64, dim), curve: make([]float64, dim), image: make([]float64, d)}
}

// serves reports whether coordinate descent is to make the step from a point, and the steps after it.
func (s *descent) serves(at *engine.Fit) bool {
	if s == nil || s.columns.slow.Load() {
		return false
	}
	at.B.Device().Download(s.b, at.B)
	at.B.Device().Download(s.g, at.G)
	n, entries := 0.0, 0.0
	for j, b := range s.b {
		if !s.chosen && s.matters(j, b) {
			n, entries = n+1, entries+float64(s.columns.counts[j])
		}
	}
	s.chosen = s.chosen || n*n*n/3 > limits.Passes*memoryBound*4*entries
	return s.chosen
}

// matters reports that a coordinate is not 0, or violates its condition.
func (s *descent) matters(j int, b float64) bool {
	return !held(s.w.At(j)) && (b != 0 || s.subgradient(j, b, s.g[j]) != 0)
}

// minimum is about that of the model at the point where it serves, with the roots of weights. The squared changes of
// the gradient in the last pass are at most share^2 of the squared violations at the point.
func (s *descent) minimum(ctx context.Context, dev array.Device, root []float64, share float64) (array.Batch, error) {
	off := s.choose(root)
	n := float64(len(s.set))
	worth := n*float64(len(s.values)) + n*n*n/3 + memoryBound*roundTrips*2*s.columns.entries
	for spent, moved := 0.0, math.Inf(1); moved > share*share*off; {
		if err := ctx.Err(); err != nil {
			return array.Batch{}, err
		}
		if spent += memoryBound * 4 * float64(len(s.values)); spent > worth {
			s.columns.slow.Store(true)
			break
		}
		moved = s.pass()
	}
	b := dev.Alloc(1, len(s.b))
	dev.Upload(b, s.b)
	return b, dev.Err()
}

// choose makes the working set the support of b and the coordinates that violate their conditions, and returns the
// sum of the squared violations.
func (s *descent) choose(root []float64) (off float64) {
	s.set, s.start, s.rows, s.values = s.set[:0], s.start[:0], s.rows[:0], s.values[:0]
	s.cross, s.right, s.left2, s.shift, s.along = s.cross[:0], s.right[:0], 0, 0, 0
	clear(s.image)
	columns, left := s.columns.columns(), make([]float64, len(root))
	if s.columns.left != nil {
		floats.MulTo(left, s.columns.left, root)
		s.left2 = floats.Dot(left, left)
	}
	for j, b := range s.b {
		if !s.matters(j, b) {
			continue
		}
		e := s.subgradient(j, b, s.g[j])
		off += e * e
		s.set, s.start = append(s.set, j), append(s.start, len(s.rows))
		cross, right := 0.0, 0.0
		if s.columns.right != nil {
			right = s.columns.right[j]
		}
		s.curve[j] = s.q.At(j)
		for u := columns.Indptr[j]; u < columns.Indptr[j+1]; u++ {
			i := columns.Indices[u]
			v := root[i] * columns.Values[u]
			s.rows, s.values = append(s.rows, int32(i)), append(s.values, v)
			s.curve[j] += v * v
			cross += v * left[i]
		}
		s.curve[j] += right * (2*cross + right*s.left2)
		s.cross, s.right = append(s.cross, cross), append(s.right, right)
	}
	s.start = append(s.start, len(s.rows))
	return off
}

// pass minimizes over each coordinate in turn, and returns the sum of the squared changes of their derivatives.
func (s *descent) pass() (moved float64) {
	for k, j := range s.set {
		h := s.curve[j]
		if !(h > 0) {
			continue
		}
		rows, values := s.rows[s.start[k]:s.start[k+1]], s.values[s.start[k]:s.start[k+1]]
		g := s.g[j] + s.cross[k]*s.shift + s.right[k]*(s.along+s.left2*s.shift)
		for u, i := range rows {
			g += values[u] * s.image[i]
		}
		b := s.b[j]
		step := s.least(j, b, g+s.q.At(j)*b, h) - b
		if step == 0 {
			continue
		}
		s.b[j] = b + step
		for u, i := range rows {
			s.image[i] += step * values[u]
		}
		s.shift, s.along = s.shift+step*s.right[k], s.along+step*s.cross[k]
		moved += h * step * h * step
	}
	return moved
}

// least is the minimum over b_j of g (b_j - b) + h/2 (b_j - b)^2 + w_j |b_j|, b_j >= 0 on a half-line.
func (s *descent) least(j int, b, g, h float64) float64 {
	switch v, w := b-g/h, s.w.At(j)/h; {
	case v > w:
		return v - w
	case v < -w && !s.halfLine(j):
		return v + w
	}
	return 0
}
