package vjp

import (
	"errors"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/internal/numerics"
	"surepipe/internal/parallel"
	"surepipe/internal/pivoted"
	"surepipe/linops"
	"surepipe/prox"
	"surepipe/space"
	"surepipe/vjp/system"
)

// nullSpace is {u : K u in T} by a pivoted QR factorization of the part of K that T leaves out.
func nullSpace(dev array.Device, k linops.Operator, t space.Space) (space.Space, equations, error) {
	q, dim := k.Dims()
	rows := system.Matrix(dev, k) // q x p
	out := dev.Alloc(dim, q)
	defer out.Free()
	columns := mat.DenseCopyOf(rows.T())
	dev.Upload(out, columns.RawMatrix().Data)
	norm := mat.Norm(rows, 2)
	rest := dev.Alloc(dim, q)
	defer rest.Free()
	t.Project(rest, out)
	dev.Lin(rest, 1, out, -1, rest)
	// The rows of rest are (I - P) K e_j: its columns span the complement of the null space.
	left := mat.NewDense(dim, q, rest.ToHost())
	kept := &dense{q: q, rows: others(q, t.Form())}
	left = columnsOf(left, kept.rows)
	if err := dev.Err(); err != nil {
		return nil, nil, err
	}
	if len(kept.rows) > 0 && norm > 0 {
		kept.f = pivoted.Factorize(left, nil, norm, 0)
	}
	if kept.f == nil || kept.f.Rank == 0 {
		return space.All(dim), noEquations{dim, q}, nil
	}
	basis := mat.NewDense(dim, dim, nil)
	var qr mat.QR
	qr.Factorize(kept.f.Q)
	qr.QTo(basis)
	rank := kept.f.Rank
	n := dim - rank
	span := dev.Alloc(n, dim)
	if n > 0 {
		dev.Upload(span, mat.DenseCopyOf(basis.Slice(0, dim, rank, dim).T()).RawMatrix().Data)
	}
	return space.Span(span), kept, dev.Err()
}

func others(q int, f space.Form) []int {
	var rows []int
	next := 0
	for i := range q {
		if f.Kind == space.Subset && next < len(f.Set) && f.Set[next] == i {
			next++
			continue
		}
		rows = append(rows, i)
	}
	return rows
}

func columnsOf(m *mat.Dense, set []int) *mat.Dense {
	r, _ := m.Dims()
	if len(set) == 0 {
		return &mat.Dense{}
	}
	out := mat.NewDense(r, len(set), nil)
	for i := range r {
		from, to := m.RawRowView(i), out.RawRowView(i)
		for at, j := range set {
			to[at] = from[j]
		}
	}
	return out
}

// squares are those of Q on the clusters t of coordinates, for a sparse curvature; ok is false where K takes no
// differences of pairs, or Q is no sum of squares.
func (r *place) squares(t space.Space) (q prox.Squares, ok bool) {
	f, ok := r.equations.(*forest)
	if !ok {
		return q, false
	}
	w := r.model.Squares()
	if w == nil {
		return q, false
	}
	return pulledSquares(w, f.pairs, r.model.Space.Form(), t), true
}

// pulledCurvature is E* K* Q K E, the curvature of r's model on the space t of K's preimage, for the
// step eta; nil where that is 0.
func pulledCurvature(dev array.Device, k linops.Operator, r *place, t space.Space, eta float64) (prox.Curvature,
	error) {
	m := r.model
	_, n := t.Dims()
	switch {
	case n == 0:
		return nil, nil
	case n > maxColumns:
		return nil, errNoCurvature
	}
	times, ok := products(m)
	if !ok {
		return nil, errNoCurvature
	}
	// The images of the basis in the coordinates of the model's space.
	q, _ := k.Dims()
	_, inner := m.Space.Dims()
	p, _ := t.Dims()
	units, basis, image, on := dev.Alloc(n, n), dev.Alloc(n, p), dev.Alloc(n, q), dev.Alloc(n, inner)
	defer array.Free(units, basis, image, on)
	dev.Fill(units, 0)
	dev.Fill(units.Diagonal(), 1)
	t.Embed(basis, units)
	k.Forward(image, basis)
	m.Space.Coordinates(on, image)
	host := mat.NewDense(n, inner, on.ToHost())
	if err := dev.Err(); err != nil {
		return nil, err
	}
	half, full, sum := mat.NewDense(n, inner, nil), new(mat.Dense), mat.NewSymDense(n, nil)
	for i := range n {
		half.SetRow(i, times(host.RawRowView(i)))
	}
	full.Mul(half, host.T())
	for i := range n {
		for j := i; j < n; j++ {
			sum.SetSym(i, j, (full.At(i, j)+full.At(j, i))/2)
		}
	}
	return denseOf(dev, sum, eta)
}

// products are those with the curvature of a model in the coordinates of its space; ok is false where they are not
// known.
func products(m *prox.Model) (times func(x []float64) []float64, ok bool) {
	_, n := m.Space.Dims()
	if w := m.Squares(); w != nil {
		return func(x []float64) []float64 {
			out := make([]float64, n)
			for i := range len(w.Indptr) - 1 {
				sum := 0.0
				for at := w.Indptr[i]; at < w.Indptr[i+1]; at++ {
					sum += w.Values[at] * x[w.Indices[at]]
				}
				for at := w.Indptr[i]; at < w.Indptr[i+1]; at++ {
					out[w.Indices[at]] += w.Weights[i] * w.Values[at] * sum
				}
			}
			return out
		}, true
	}
	if n > maxColumns {
		return nil, false
	}
	q := m.Curvature.Matrix()
	return func(x []float64) []float64 {
		var out mat.VecDense
		out.MulVec(mat.NewDense(n, n, q), mat.NewVecDense(n, x))
		return out.RawVector().Data
	}, q != nil
}

func denseOf(dev array.Device, q *mat.SymDense, t float64) (prox.Curvature, error) {
	c, err := newDenseCurvature(dev, q, t)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// pulledSquares are those of W K E, in the coordinates of the clusters, where K takes differences of pairs. Rows of
// zeros are left out: ranges of rows are counted before they are written.
func pulledSquares(w *prox.Squares, pairs *linops.Pairs, form space.Form, t space.Space) prox.Squares {
	p := &pulled{w: w, pairs: pairs}
	if form.Kind == space.Subset {
		p.set = form.Set
	}
	p.number(t)
	rows := len(w.Indptr) - 1
	first := make([]size, parallel.Parts(rows, parallel.Share)+1)
	parallel.Ranges(rows, parallel.Share, func(lo, hi int) {
		first[lo/parallel.Share+1] = p.some(lo, hi, size{}, nil)
	})
	for i := range first[1:] {
		first[i+1].rows += first[i].rows
		first[i+1].entries += first[i].entries
	}
	all := first[len(first)-1]
	out := prox.Squares{Weights: make([]float64, all.rows), Rows: space.Rows{Indptr: make([]int, all.rows+1),
		Indices: make([]int, all.entries), Values: make([]float64, all.entries)}}
	parallel.Ranges(rows, parallel.Share, func(lo, hi int) { p.some(lo, hi, first[lo/parallel.Share], &out) })
	return out
}

type size struct{ rows, entries int }

type pulled struct {
	w     *prox.Squares
	pairs *linops.Pairs
	set   []int     // the rows of K that W's columns are; nil for all
	of    []int32   // of a coordinate: its cluster, -1 for none
	share []float64 // of a cluster: the entries of its vector
}

// number finds the clusters of the coordinates.
func (p *pulled) number(t space.Space) {
	dim, n := t.Dims()
	p.of, p.share = slices.Repeat([]int32{-1}, dim), make([]float64, n)
	average := t.Form().Average()
	parallel.Ranges(n, parallel.Share, func(lo, hi int) {
		for c := lo; c < hi; c++ {
			set := average.Indices[average.Indptr[c]:average.Indptr[c+1]]
			p.share[c] = average.Values[average.Indptr[c]]
			for _, j := range set {
				p.of[j] = int32(c)
			}
		}
	})
}

// some writes the rows lo to hi-1 of W K E from a place on, where out is not nil, and returns the place after them.
func (p *pulled) some(lo, hi int, at size, out *prox.Squares) size {
	var index []int32
	var value []float64
	add := func(j int32, v float64) {
		if j < 0 || p.of[j] < 0 {
			return
		}
		c := p.of[j]
		v *= p.share[c]
		if u := slices.Index(index, c); u >= 0 {
			value[u] += v
			return
		}
		index, value = append(index, c), append(value, v)
	}
	for r := lo; r < hi; r++ {
		index, value = index[:0], value[:0]
		for u := p.w.Indptr[r]; u < p.w.Indptr[r+1]; u++ {
			row := p.w.Indices[u]
			if p.set != nil {
				row = p.set[row]
			}
			v := p.w.Values[u] * p.pairs.Weight(row)
			add(p.pairs.Plus[row], v)
			add(p.pairs.Minus[row], -v)
		}
		if len(index) == 0 {
			continue
		}
		if out != nil {
			copy(out.Values[at.entries:], value)
			for u, c := range index {
				out.Indices[at.entries+u] = int(c)
			}
			out.Weights[at.rows], out.Indptr[at.rows+1] = p.w.Weights[r], at.entries+len(index)
		}
		at.rows++
		at.entries += len(index)
	}
	return at
}

// denseCurvature is Q as a matrix, in coordinates of orthonormal vectors.
type denseCurvature struct {
	matrix            *mat.SymDense
	inverse           array.Batch // (I + t Q)^{-1}
	trace, frobenius2 float64
}

func newDenseCurvature(dev array.Device, q *mat.SymDense, t float64) (*denseCurvature, error) {
	n := q.SymmetricDim()
	sum := mat.NewSymDense(n, nil)
	sum.ScaleSym(t, q)
	for i := range n {
		sum.SetSym(i, i, sum.At(i, i)+1)
	}
	if math.IsInf(numerics.Invert(sum), 1) {
		return nil, errNoCurvature
	}
	c := &denseCurvature{matrix: q, inverse: dev.Alloc(n, n)}
	full := mat.DenseCopyOf(sum).RawMatrix()
	dev.Upload(c.inverse, full.Data)
	for i := range n {
		c.trace += full.Data[i*n+i]
	}
	norm := blas64.Nrm2(blas64.Vector{N: n * n, Inc: 1, Data: full.Data})
	c.frobenius2 = norm * norm
	return c, dev.Err()
}

func (c *denseCurvature) Precondition(dst, image, z array.Batch) {
	dev := dst.Device()
	dev.Gemm(false, false, 1, z, c.inverse, 0, dst)
	dev.Lin(image, 1, z, -1, dst)
}

func (c *denseCurvature) Diagonal() []float64 { return nil }

func (c *denseCurvature) Matrix() []float64 {
	return append([]float64(nil), mat.DenseCopyOf(c.matrix).RawMatrix().Data...)
}

func (c *denseCurvature) Trace() (trace, frobenius2 float64, ok bool) {
	return c.trace, c.frobenius2, true
}

func (c *denseCurvature) Bytes() int64 { return c.inverse.Bytes() }
func (c *denseCurvature) Release()     { c.inverse.Free() }

// errNoCurvature says that no matrix of the curvature is known.
var errNoCurvature = errors.New("vjp: the curvature of the regularizer behind K is not known as a matrix")
