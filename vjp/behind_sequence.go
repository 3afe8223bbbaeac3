package vjp

import (
	"fmt"

	"surepipe/array"
	"surepipe/internal/banded"
	"surepipe/linops"
	"surepipe/prox"
	"surepipe/space"
)

// sequenceSpace is {x : K_I x = 0} for rows of K that read neighbours, as those of a trend's knots do not:
// the projection is a solve with a banded matrix,
//
//	[ I    K_I* ] [ P z ]   [ z ]
//	[ K_I  0    ] [  s  ] = [ 0 ].
//
// It is its own E.
type sequenceSpace struct {
	lu   banded.LU
	p, q int   // K_I is q x p
	zero []int // I
	rows int   // of K
	// doubtful says that K_I has directions that it takes to 0 but for rounding errors, beside those of the space.
	doubtful bool
}

// newSequenceSpace is {x : K x in T} where T are vectors that are 0 outside a set; nil where K does not read
// neighbours, or the rows at which K x is 0 depend on each other, but for rounding errors. Rows that each begin at a
// column of their own do not, and of more than mostNullSpace coordinates they may do so but for rounding errors: the
// space has the right dimension then, and is doubtful.
func newSequenceSpace(k linops.Operator, m *prox.Model) (space.Space, equations) {
	form := m.Space.Form()
	if form.Kind != space.Subset || m.Curvature != nil {
		return nil, nil
	}
	rows, ok := linops.Neighbours(k, banded.MostWidth)
	if !ok {
		return nil, nil
	}
	_, p := k.Dims()
	zero, next := space.Rows{Indptr: []int{0}}, 0
	s := &sequenceSpace{p: p, rows: len(rows.Indptr) - 1}
	for i := range len(rows.Indptr) - 1 {
		if next < len(form.Set) && form.Set[next] == i {
			next++
			continue
		}
		s.zero = append(s.zero, i)
		from, to := rows.Indptr[i], rows.Indptr[i+1]
		zero.Indices, zero.Values = append(zero.Indices, rows.Indices[from:to]...),
			append(zero.Values, rows.Values[from:to]...)
		zero.Indptr = append(zero.Indptr, len(zero.Indices))
	}
	if s.q = len(s.zero); s.q == 0 {
		return space.All(p), noEquations{p, s.rows}
	}
	band := banded.New(banded.Rows(zero), p)
	if !band.Factorize(&s.lu, nil, make([]float64, s.q)) {
		return nil, nil
	}
	s.doubtful = s.lu.Least() < banded.LeastPivot
	if s.doubtful && (p <= mostNullSpace || linops.Begins(zero, p) == nil) {
		return nil, nil
	}
	return s, s
}

func (s *sequenceSpace) Dims() (p, n int)               { return s.p, s.p }
func (s *sequenceSpace) Dim() int                       { return s.p - s.q }
func (s *sequenceSpace) Embed(dst, c array.Batch)       { s.Project(dst, c) }
func (s *sequenceSpace) Coordinates(dst, z array.Batch) { s.Project(dst, z) }

func (s *sequenceSpace) Project(dst, z array.Batch) {
	if dst.K() != z.K() || dst.N() != s.p || z.N() != s.p {
		panic(fmt.Sprintf("vjp: a projection of %s into %s with p = %d", z, dst, s.p))
	}
	x, multiplier, work := z.ToHost(), make([]float64, s.q), make([]float64, s.p+s.q)
	for i := range z.K() {
		clear(multiplier)
		s.lu.Solve(x[i*s.p:(i+1)*s.p], multiplier, work)
	}
	dst.Device().Upload(dst, x)
}

func (s *sequenceSpace) Form() space.Form { return space.Form{Projection: true} }
func (s *sequenceSpace) Bytes() int64     { return 0 }
func (s *sequenceSpace) Release()         {}
