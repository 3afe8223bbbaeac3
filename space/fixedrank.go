package space

import (
	"fmt"
	"math"
	"sync"

	"surepipe/array"
)

// fixedRank is the tangent space of the matrices of rank r.
type fixedRank struct {
	space
	shape, su, sv array.Shape // of the matrices, of U and of V
	r             int
	u, v          array.Batch

	once sync.Once
	unit array.Batch // U and V with columns of length 1, for Project
}

// Tangent returns the tangent space of the m x n matrices of rank r at some U S V*,
//
//	E (Q, P) = Q V* + U P*,   E* Z = (Z V, Z* U),
//
// with Q m x r and P n x r, row-major, one after the other. u is U, m x r, and v is V, n x r,
// row-major, batches of one vector whose columns are orthogonal and not 0; they stay the caller's
// and must outlive the space. The n = (m + n) r coordinates are not unique: E maps (U M, -V M*) to
// 0 for every r x r matrix M, so that the dimension is (m + n - r) r.
func Tangent(shape array.Shape, r int, u, v array.Batch) Space {
	if r < 1 || r > min(shape.Rows, shape.Cols) || u.K() != 1 || v.K() != 1 || u.N() != shape.Rows*r ||
		v.N() != shape.Cols*r {
		panic(fmt.Sprintf("space: tangent space of %d x %d matrices of rank %d at %s and %s", shape.Rows, shape.Cols,
			r, u, v))
	}
	s := &fixedRank{shape: shape, r: r, u: u, v: v, su: array.Shape{Rows: shape.Rows, Cols: r},
		sv: array.Shape{Rows: shape.Cols, Cols: r}}
	s.space = space{name: "a tangent space", p: shape.Len(), n: (shape.Rows + shape.Cols) * r,
		dim:   (shape.Rows + shape.Cols - r) * r,
		form:  Form{Kind: FixedRank, Shape: shape, Rank: r, U: u, V: v},
		embed: func(dst, c array.Batch) { s.expand(dst, c, u, v) }, project: s.onto,
		coordinates: func(dst, z array.Batch) { s.factor(dst, z, u, v) }}
	return s
}

func (s *fixedRank) parts(c array.Batch) (q, p array.Batch) {
	m := s.shape.Rows * s.r
	return c.Cols(0, m), c.Cols(m, s.n)
}

func (s *fixedRank) expand(dst, c, u, v array.Batch) {
	q, p := s.parts(c)
	dst.Device().GemmEach(false, true, 1, q, s.su, v, s.sv, 0, dst)
	dst.Device().GemmEach(false, true, 1, u, s.su, p, s.sv, 1, dst)
}

func (s *fixedRank) factor(dst, z, u, v array.Batch) {
	q, p := s.parts(dst)
	dst.Device().GemmEach(false, false, 1, z, s.shape, v, s.sv, 0, q)
	dst.Device().GemmEach(true, false, 1, z, s.shape, u, s.su, 0, p)
}

func (s *fixedRank) normalized() (u, v array.Batch) {
	s.once.Do(func() {
		dev := s.u.Device()
		s.unit = dev.Alloc(1, s.u.N()+s.v.N())
		s.normalize(s.unit.Cols(0, s.u.N()), s.u)
		s.normalize(s.unit.Cols(s.u.N(), s.unit.N()), s.v)
	})
	return s.unit.Cols(0, s.u.N()), s.unit.Cols(s.u.N(), s.unit.N())
}

func (s *fixedRank) normalize(dst, x array.Batch) {
	dev, n := x.Device(), x.N()/s.r
	gram, inverse := dev.Alloc(s.r, s.r), dev.Alloc(1, s.r)
	defer array.Free(gram, inverse)
	rows := x.Reshape(n, s.r)
	dev.Gemm(true, false, 1, rows, rows, 0, gram)
	host := make([]float64, s.r)
	for i, g := range gram.ToHost() {
		if i%(s.r+1) == 0 {
			host[i/(s.r+1)] = 1 / math.Sqrt(g)
		}
	}
	dev.Upload(inverse, host)
	dev.Mul(dst.Reshape(n, s.r), rows, inverse)
}

// onto sets dst = U1 U1* Z + (I - U1 U1*) Z V1 V1*, where U1 and V1 are U and V with columns of
// length 1.
func (s *fixedRank) onto(dst, z array.Batch) {
	dev, k := dst.Device(), z.K()
	u, v := s.normalized()
	rr := array.Shape{Rows: s.r, Cols: s.r}
	c, inner := dev.Alloc(k, s.n), dev.Alloc(k, s.r*s.r)
	defer array.Free(c, inner)
	s.factor(c, z, u, v)
	q, _ := s.parts(c)
	dev.GemmEach(true, false, 1, u, s.su, q, s.su, 0, inner)
	dev.GemmEach(false, false, -1, u, s.su, inner, rr, 1, q)
	s.expand(dst, c, u, v)
}

func (s *fixedRank) Bytes() int64 { return s.unit.Bytes() }
func (s *fixedRank) Release()     { s.unit.Free() }
