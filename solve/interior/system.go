package interior

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"surepipe/internal/banded"
	"surepipe/internal/numerics"
	"surepipe/internal/parallel"
	"surepipe/linops"
	"surepipe/solve/engine"
	"surepipe/space"
)

// saddleSystem is the matrix of interior points, of which J changes from step to step.
type saddleSystem interface {
	// start sets b to a point from which to start.
	start(b, aty []float64)
	// small is the size of the products, relative to the first, at which the zeros of K b are told from other
	// entries.
	small() smallness
	// normal sets dst = A*A b.
	normal(dst, b []float64)
	factor() saddleFactor
	choice() engine.Choice
}

// saddleFactor is a factorization in a solve.
type saddleFactor interface {
	// factorize returns false where the matrix has no inverse.
	factorize(j *scaling) bool
	solve(x, z, work []float64)
}

// diagonal is A*A = diag(c).
type diagonal struct{ c []float64 }

// direct sets b to the unpenalized fit, where there is only one.
func (s diagonal) direct(b, aty []float64) bool {
	if !(slices.Min(s.c) > 0) {
		return false
	}
	for j, v := range aty {
		b[j] = v / s.c[j]
	}
	return true
}

func (s diagonal) normal(dst, b []float64) {
	parallel.Ranges(len(b), parallel.Share, func(lo, hi int) { floats.MulTo(dst[lo:hi], s.c[lo:hi], b[lo:hi]) })
}

// bandedSystem is that of a sequence, of which some values may be missing: A*A = diag(c).
type bandedSystem struct {
	diagonal
	q    int // rows of K
	band *banded.Saddle
}

// normalDiagonal is the diagonal of A*A where there is nothing beside it; nil elsewhere. Where A A* = c I,
// A*A is c times a projection, which is one on coordinates if its diagonal is 0 or c throughout.
func normalDiagonal(a linops.Operator) []float64 {
	_, p := a.Dims()
	known := linops.StructureOf(a)
	if c := known.Columns.Value; c > 0 {
		return slices.Repeat([]float64{c}, p)
	}
	c := known.Rows.Value
	if !(c > 0) || known.ColumnNorms2 == nil {
		return nil
	}
	norms2 := known.ColumnNorms2()
	for _, v := range norms2 {
		if v != 0 && math.Abs(v-c) > 1e-12*c {
			return nil
		}
	}
	return norms2
}

// neighbours are the rows of K and diag(A*A) of a problem with A*A diagonal and differences of neighbours; nil where
// it is none.
func neighbours(p engine.Problem) (k space.Rows, c []float64) {
	if p.K == nil || p.Loss != nil {
		return k, nil
	}
	k, ok := linops.Neighbours(p.K, banded.MostWidth)
	if _, dim := p.A.Dims(); !ok || dim == 0 || len(k.Indptr) < 2 {
		return k, nil
	}
	return k, normalDiagonal(p.A)
}

// sequence is the system of such a problem, with the rows of K; nil where it is none.
func sequence(p engine.Problem) (*bandedSystem, space.Rows) {
	k, c := neighbours(p)
	if c == nil {
		return nil, k
	}
	if band := banded.New(banded.Rows(k), len(c)); band.Width() <= banded.MostWidth {
		return &bandedSystem{diagonal{c}, len(k.Indptr) - 1, band}, k
	}
	return nil, k
}

// start is a fit with a penalty on ||K b||^2 where values are missing.
func (s *bandedSystem) start(b, aty []float64) {
	if s.direct(b, aty) {
		return
	}
	f := s.factor()
	d, z := slices.Repeat([]float64{startPenalty / slices.Max(s.c)}, s.q), make([]float64, s.q)
	if f.factorize(&scaling{diag: d}) {
		copy(b, aty)
		f.solve(b, z, make([]float64, len(b)+len(z)))
	}
}

// startPenalty is the inverse of the weight of ||K b||^2 from which interior points start.
const startPenalty = 1e4

func (s *bandedSystem) small() smallness     { return productsWith }
func (s *bandedSystem) factor() saddleFactor { return &bandedFactor{bandedSystem: s} }

func (s *bandedSystem) choice() engine.Choice {
	return engine.Choice{Part: "system", Chosen: fmt.Sprintf("a saddle point matrix with %d diagonals",
		2*s.band.Width()+1), Reason: "K's rows read neighbours: its factors take time and memory in proportion " +
		"to its size"}
}

type bandedFactor struct {
	*bandedSystem
	lu banded.LU
}

func (f *bandedFactor) factorize(j *scaling) bool  { return f.band.Factorize(&f.lu, f.c, j.diag) }
func (f *bandedFactor) solve(x, z, work []float64) { f.lu.Solve(x, z, work) }

// mostSaddle is the largest number of rows and columns of K together for a dense matrix.
const mostSaddle = 2048

// smallSaddle reports that the matrix is small, and a sparse one not much faster.
func smallSaddle(p engine.Problem) bool {
	q, dim := p.K.Dims()
	return q > 0 && dim > 0 && q+dim <= mostSaddle && linops.StructureOf(p.A).Passes.Bytes == 0 &&
		(q+dim <= smallestSparse || !sparseOperators(p))
}

// smallestSparse is the number of rows and columns of K together beyond which a sparse factor is taken
// where there is one.
const smallestSparse = 256

// denseSystem is that of any small A and K.
type denseSystem struct {
	p, q   int
	matrix *mat.Dense    // with J = 0
	gram   *mat.SymDense // A*A
	trace  float64       // of A*A
	norm2  float64       // the sum of K's squares
}

// newDenseSystem writes the matrix down, and K's entries.
func newDenseSystem(p engine.Problem) (*denseSystem, space.Rows) {
	x, k := linops.ToDense(p.Device, p.A), linops.ToDense(p.Device, p.K)
	q, dim := k.Dims()
	s := &denseSystem{p: dim, q: q, matrix: mat.NewDense(dim+q, dim+q, nil)}
	gram := mat.NewSymDense(dim, nil)
	gram.SymOuterK(1, x.T())
	s.gram = gram
	rows := space.Rows{Indptr: []int{0}}
	for j := range dim {
		s.trace += gram.At(j, j)
		for l := range dim {
			s.matrix.Set(j, l, gram.At(j, l))
		}
	}
	s.shift(gram, k)
	for i := range q {
		for j, v := range k.RawRowView(i) {
			if v == 0 {
				continue
			}
			s.norm2 += v * v
			s.matrix.Set(dim+i, j, v)
			s.matrix.Set(j, dim+i, v)
			rows.Indices, rows.Values = append(rows.Indices, j), append(rows.Values, v)
		}
		rows.Indptr = append(rows.Indptr, len(rows.Indices))
	}
	return s, rows
}

// shift adds to the diagonal of A*A where A and K have a null space in common, up to rounding errors:
// steps are then those of proximal points.
func (s *denseSystem) shift(gram *mat.SymDense, k *mat.Dense) {
	var sum mat.SymDense
	sum.SymOuterK(1, k.T())
	if size := mat.Trace(&sum); size > 0 {
		sum.ScaleSym(s.trace/size, &sum)
	}
	sum.AddSym(&sum, gram)
	units := numerics.EvenDiagonal(&sum)
	if _, shifted, _ := numerics.ShiftedCholesky(&sum); !shifted {
		return
	}
	for j, u := range units {
		s.matrix.Set(j, j, s.matrix.At(j, j)+numerics.ShiftOfDiagonal/(u*u))
	}
}

// start is a fit with a penalty on ||K b||^2.
func (s *denseSystem) start(b, aty []float64) {
	f := s.factor()
	j := make([]float64, s.q)
	if !(s.trace > 0) {
		return
	}
	for i := range j {
		j[i] = startPenalty * s.norm2 / s.trace
	}
	if !f.factorize(&scaling{diag: j}) {
		return
	}
	copy(b, aty)
	f.solve(b, make([]float64, s.q), make([]float64, s.p+s.q))
}

func (s *denseSystem) small() smallness { return productsWith }

func (s *denseSystem) normal(dst, b []float64) {
	mat.NewVecDense(s.p, dst).MulVec(s.gram, mat.NewVecDense(s.p, b))
}

func (s *denseSystem) factor() saddleFactor { return &denseFactor{denseSystem: s} }

func (s *denseSystem) choice() engine.Choice {
	return engine.Choice{Part: "system", Chosen: "a dense saddle point matrix",
		Reason: fmt.Sprintf("A and K together have at most %d rows and columns: Newton steps take any "+
			"condition of theirs", mostSaddle)}
}

type denseFactor struct {
	*denseSystem
	now mat.Dense
	lu  mat.LU
}

func (f *denseFactor) factorize(j *scaling) bool {
	f.now.CloneFrom(f.matrix)
	for i, v := range j.diag {
		f.now.Set(f.p+i, f.p+i, -v)
	}
	f.lu.Factorize(&f.now)
	return !math.IsInf(f.lu.Cond(), 1) && !math.IsNaN(f.lu.Cond())
}

func (f *denseFactor) solve(x, z, work []float64) {
	rhs := mat.NewVecDense(f.p+f.q, work)
	copy(work, x)
	copy(work[f.p:], z)
	// A large condition number is no error here: the steps are refined, and their success measured.
	_ = f.lu.SolveVecTo(rhs, false, rhs)
	copy(x, work[:f.p])
	copy(z, work[f.p:])
}
