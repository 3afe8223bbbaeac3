package prox

import (
	"math"
	"sync"

	"surepipe/array"
	"surepipe/prox/internal/vector"
	"surepipe/space"
)

// Plain is embedded in a [Curvature] that is known by its preconditioner and perhaps a trace: it is not diagonal, and
// has no matrix.
type Plain struct {
	array.Held
	// Sum and Squares are the sums of J's eigenvalues and of their squares, where Summed says that they are known.
	Sum, Squares float64
	Summed       bool
}

func (*Plain) Diagonal() []float64 { return nil }

// Matrix returns nil.
func (*Plain) Matrix() []float64 { return nil }

// Trace returns the sums.
func (p *Plain) Trace() (trace, frobenius2 float64, ok bool) { return p.Sum, p.Squares, p.Summed }

// diagonalCurvature is Q = diag(q), for E*E = I.
type diagonalCurvature struct {
	array.Held
	q, factor []float64   // q_j and 1/(1 + t q_j)
	on        array.Batch // factor
}

// NewDiagonalCurvature returns Q = diag(q), q_j >= 0, for a model whose E has orthonormal columns,
// at the step t of the derivative. It keeps q.
func NewDiagonalCurvature(dev array.Device, q []float64, t float64) Curvature {
	c := &diagonalCurvature{q: q, factor: make([]float64, len(q)), on: dev.Alloc(1, len(q))}
	for j, x := range q {
		c.factor[j] = 1 / (1 + t*x)
	}
	dev.Upload(c.on, c.factor)
	c.Hold(c.on)
	return c
}

func (c *diagonalCurvature) Precondition(dst, image, z array.Batch) {
	dst.Device().Mul(dst, z, c.on)
	vector.Rest(image, z, dst)
}

func (c *diagonalCurvature) Diagonal() []float64 { return c.q }

func (c *diagonalCurvature) Matrix() []float64 {
	n := len(c.q)
	m := vector.SquareMatrix(n)
	if m != nil {
		for i, x := range c.q {
			m[i*n+i] = x
		}
	}
	return m
}

func (c *diagonalCurvature) Trace() (trace, frobenius2 float64, ok bool) {
	for _, f := range c.factor {
		trace += f
		frobenius2 += f * f
	}
	return trace, frobenius2, true
}

// uniformCurvature is Q = q I in n coordinates, for E*E = I.
type uniformCurvature struct {
	Plain
	q, t float64
	n    int
	once sync.Once
	all  []float64
}

// NewUniformCurvature returns Q = q I in n coordinates, for a model whose E has orthonormal columns, at the
// step t of the derivative.
func NewUniformCurvature(q, t float64, n int) Curvature { return &uniformCurvature{q: q, t: t, n: n} }

func (c *uniformCurvature) Precondition(dst, image, z array.Batch) {
	dst.Device().Lin(dst, 1/(1+c.t*c.q), z, 0, array.Batch{})
	vector.Rest(image, z, dst)
}

func (c *uniformCurvature) Diagonal() []float64 {
	c.once.Do(func() {
		c.all = make([]float64, c.n)
		for j := range c.all {
			c.all[j] = c.q
		}
	})
	return c.all
}

func (c *uniformCurvature) Matrix() []float64 {
	m := vector.SquareMatrix(c.n)
	for i := 0; i < len(m); i += c.n + 1 {
		m[i] = c.q
	}
	return m
}

func (c *uniformCurvature) Trace() (trace, frobenius2 float64, ok bool) {
	n, f := float64(c.n), 1/(1+c.t*c.q)
	return n * f, n * f * f, true
}

// appliedCurvature is the Q of a derivative J that is invertible, in the coordinates of all of R^n:
// J = (I + t Q)^{-1}.
type appliedCurvature struct {
	Plain
	apply func(dst, z array.Batch)
}

// NewAppliedCurvature returns the Q of a derivative J that is invertible, in the coordinates of all of R^n,
// J = (I + t Q)^{-1}, with the sum of J's eigenvalues and that of their squares, NaN where these are not known. apply
// sets dst = J z.
func NewAppliedCurvature(apply func(dst, z array.Batch), trace, frobenius2 float64) Curvature {
	return &appliedCurvature{Plain{Sum: trace, Squares: frobenius2, Summed: !math.IsNaN(trace)}, apply}
}

func (c *appliedCurvature) Precondition(dst, image, z array.Batch) {
	c.apply(dst, z)
	vector.Rest(image, z, dst)
}

// multipliedCurvature is c Q for the step t where Q is for the step c t: t (c Q) = (c t) Q.
type multipliedCurvature struct {
	Curvature
	c float64
}

func (m multipliedCurvature) Diagonal() []float64 { return product(m.c, m.Curvature.Diagonal()) }
func (m multipliedCurvature) Matrix() []float64   { return product(m.c, m.Curvature.Matrix()) }

// Bytes is 0 and Release does nothing: the memory belongs to the derivative of the regularizer that
// was multiplied.
func (m multipliedCurvature) Bytes() int64 { return 0 }
func (m multipliedCurvature) Release()     {}

// borrowed is a space that belongs to another value: Release leaves it alone.
type borrowed struct{ space.Space }

func (borrowed) Bytes() int64 { return 0 }
func (borrowed) Release()     {}

// blockCurvature is Q = diag(Q_1, Q_2, ...), whose parts belong to the derivatives of the blocks.
type blockCurvature struct {
	Plain
	parts []Curvature // nil where Q_i = 0, and E_i*E_i = I
	at    []int       // part i is coordinates [at[i], at[i+1])
}

func (c *blockCurvature) Precondition(dst, image, z array.Batch) {
	dev := dst.Device()
	for i, q := range c.parts {
		lo, hi := c.at[i], c.at[i+1]
		if q != nil {
			q.Precondition(dst.Cols(lo, hi), image.Cols(lo, hi), z.Cols(lo, hi))
		} else if lo < hi {
			dev.Copy(dst.Cols(lo, hi), z.Cols(lo, hi))
			dev.Fill(image.Cols(lo, hi), 0)
		}
	}
}

func (c *blockCurvature) Diagonal() []float64 {
	all := make([]float64, c.at[len(c.parts)])
	for i, q := range c.parts {
		if q == nil {
			continue
		}
		d := q.Diagonal()
		if d == nil {
			return nil
		}
		copy(all[c.at[i]:], d)
	}
	return all
}

func (c *blockCurvature) Matrix() []float64 {
	n := c.at[len(c.parts)]
	m := vector.SquareMatrix(n)
	for i, q := range c.parts {
		if q == nil || m == nil {
			continue
		}
		part, lo, size := q.Matrix(), c.at[i], c.at[i+1]-c.at[i]
		if part == nil {
			return nil
		}
		for u := range size {
			copy(m[(lo+u)*n+lo:], part[u*size:(u+1)*size])
		}
	}
	return m
}

func (c *blockCurvature) Trace() (trace, frobenius2 float64, ok bool) {
	for i, q := range c.parts {
		n := float64(c.at[i+1] - c.at[i])
		t, f, known := n, n, true
		if q != nil {
			t, f, known = q.Trace()
		}
		if !known {
			return 0, 0, false
		}
		trace += t
		frobenius2 += f
	}
	return trace, frobenius2, true
}

// blockModel is the model of J = diag(J_1, J_2, ...); nil where a block has none. at has the places
// of the blocks. It borrows the models of the blocks.
func blockModel(at []int, blocks []Derivative) *Model {
	spaces, models := make([]space.Space, len(blocks)), make([]*Model, len(blocks))
	c := &blockCurvature{parts: make([]Curvature, len(blocks)), at: make([]int, len(blocks)+1)}
	nonzero := false
	for i, j := range blocks {
		m := j.Model()
		if m == nil || m.Curvature == nil && !m.Space.Form().Orthonormal {
			return nil
		}
		_, n := m.Space.Dims()
		spaces[i], models[i], c.parts[i], c.at[i+1] = borrowed{m.Space}, m, m.Curvature, c.at[i]+n
		nonzero = nonzero || m.Curvature != nil
	}
	all := &Model{Space: space.ProductOf(spaces...), Margin: func(v array.Batch) float64 {
		least := math.Inf(1)
		for i, m := range models {
			if m.Margin == nil {
				return 0
			}
			least = min(least, m.Margin(v.Cols(at[i], at[i+1])))
		}
		return least
	}}
	if nonzero {
		all.Curvature, all.squares = c, func() *Squares { return blockSquares(models, c.at) }
	}
	return all
}

func blockSquares(models []*Model, at []int) *Squares {
	all := &Squares{Rows: space.Rows{Indptr: []int{0}}}
	for i, m := range models {
		w := m.Squares()
		if w == nil {
			return nil
		}
		base := len(all.Indices)
		for _, end := range w.Indptr[1:] {
			all.Indptr = append(all.Indptr, base+end)
		}
		for _, j := range w.Indices {
			all.Indices = append(all.Indices, at[i]+j)
		}
		all.Values, all.Weights = append(all.Values, w.Values...), append(all.Weights, w.Weights...)
	}
	return all
}
