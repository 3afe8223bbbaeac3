package interior

import (
	"context"
	"fmt"
	"slices"

	"gonum.org/v1/gonum/floats"

	"surepipe/internal/cholesky"
	"surepipe/internal/parallel"
	"surepipe/linops"
	"surepipe/solve/engine"
	"surepipe/solve/internal/limits"
	"surepipe/space"
)

// mostTold is the most of the products, relative to the first, that tell the zeros of K b from other entries where
// steps start near an estimate.
const mostTold = 3e-7

// mostSparse is the largest number of columns of K for a sparse factor.
const mostSparse = 1 << 19

// sparseSystem eliminates the multiplier: the matrix that is left,
//
//	A*A + K* J^{-1} K,    A*A = diag(c),
//
// is sparse where the rows of K of a group are, and has a sparse Cholesky factor where K takes differences on a
// grid or another graph with small separators (George 1973). With another A*A the factor of the matrix with its mean
// eigenvalue c is a preconditioner: [iteratedSystem].
type sparseSystem struct {
	diagonal
	k         space.Rows
	columns   space.Rows // of K
	dim       int
	blocks    []sparseBlock // of the groups of rows
	groups    *rowGroups
	readers   []reader // of column j: from readersOf[j] on
	readersOf []int32
	ptr       []int64
	index     []int32
	own       []int64 // where the diagonal is
	order     *cholesky.Analysis
	near      bool // steps start near an estimate
}

// sparseBlock is K_g on the columns that it reads, and where the entries of K_g* J_g^{-1} K_g belong.
type sparseBlock struct {
	k       []float64 // by rows
	at      []int64
	columns int
}

// Sparse reports that interior points apply with a sparse factor, where A*A = c I.
func Sparse(p engine.Problem) bool { return sparseOperators(p) && conditionsOf(p) != nil }

// sparseOperators reports that A*A = c I and that K may be sparse.
func sparseOperators(p engine.Problem) bool {
	return p.K != nil && linops.StructureOf(p.A).Columns.Value > 0 && sparseDifferences(p)
}

// sparseDifferences reports that K may be sparse, and the loss is squared.
func sparseDifferences(p engine.Problem) bool {
	if p.K == nil || p.Loss != nil {
		return false
	}
	known := linops.StructureOf(p.K)
	_, dim := p.K.Dims()
	return dim <= mostSparse && (known.SparseRows != nil || known.Pairs != nil && known.Pairs() != nil)
}

// newSparseSystem is that of a problem and of its inequalities; nil where the mean eigenvalue of A*A is not known, K
// not sparse, or the factor too large.
func newSparseSystem(p engine.Problem, of conditions) *sparseSystem {
	c, mean := normalDiagonal(p.A), meanEigenvalue(p)
	if of == nil || !(mean > 0) || !sparseDifferences(p) {
		return nil
	}
	k, ok := linops.RowsOf(p.K)
	if !ok {
		return nil
	}
	_, dim := p.K.Dims()
	if c == nil {
		c = slices.Repeat([]float64{mean}, dim)
	}
	s := &sparseSystem{diagonal: diagonal{c}, k: k, columns: space.Transpose(k, dim), dim: dim}
	if balls, ok := of.(*groupBalls); ok {
		s.groups, s.near = balls.groups, !soonest(p) && !picked(p)
	} else {
		s.groups = alone(len(k.Indptr) - 1)
	}
	s.place()
	if s.order = cholesky.Analyze(s.ptr, s.index, limits.Factorized); s.order.Nonzeros > limits.Factorized {
		return nil
	}
	return s
}

func alone(q int) *rowGroups {
	g := &rowGroups{first: make([]int32, q+1), rows: make([]int32, q)}
	for i := range q {
		g.first[i+1], g.rows[i] = int32(i+1), int32(i)
	}
	return g
}

// place finds the columns of every group, the places of the matrix, and where the entries of the groups belong.
func (s *sparseSystem) place() {
	cols := make([][]int32, len(s.groups.first)-1)
	s.groups.each(func(g int, rows []int32) {
		for _, i := range rows {
			for _, j := range s.k.Indices[s.k.Indptr[i]:s.k.Indptr[i+1]] {
				cols[g] = append(cols[g], int32(j))
			}
		}
		slices.Sort(cols[g])
		cols[g] = slices.Compact(cols[g])
	})
	s.findReaders(cols)
	near := make([][]int32, s.dim)
	s.own = make([]int64, s.dim)
	s.eachColumn(func(j int, readers []reader) {
		all := []int32{int32(j)}
		for _, r := range readers {
			all = append(all, cols[r.group]...)
		}
		slices.Sort(all)
		near[j] = slices.Compact(all)
		at, _ := slices.BinarySearch(near[j], int32(j))
		s.own[j] = int64(at)
	})
	s.ptr = make([]int64, s.dim+1)
	for j, all := range near {
		s.ptr[j+1], s.own[j] = s.ptr[j]+int64(len(all)), s.ptr[j]+s.own[j]
	}
	s.index = slices.Concat(near...)
	s.blocks = make([]sparseBlock, len(cols))
	s.groups.each(func(g int, rows []int32) {
		b, n := &s.blocks[g], len(cols[g])
		b.k, b.at, b.columns = make([]float64, len(rows)*n), make([]int64, n*n), n
		for r, i := range rows {
			for t := s.k.Indptr[i]; t < s.k.Indptr[i+1]; t++ {
				at, _ := slices.BinarySearch(cols[g], int32(s.k.Indices[t]))
				b.k[r*n+at] += s.k.Values[t]
			}
		}
		for c, j := range cols[g] {
			for r, i := range cols[g] {
				at, _ := slices.BinarySearch(s.index[s.ptr[j]:s.ptr[j+1]], i)
				b.at[c*n+r] = s.ptr[j] + int64(at)
			}
		}
	})
}

// reader is a group of rows that reads a column, and the column's place among those of the group.
type reader struct{ group, place int32 }

func (s *sparseSystem) findReaders(cols [][]int32) {
	s.readersOf = make([]int32, s.dim+1)
	for _, of := range cols {
		for _, j := range of {
			s.readersOf[j+1]++
		}
	}
	for j := range s.dim {
		s.readersOf[j+1] += s.readersOf[j]
	}
	s.readers = make([]reader, s.readersOf[s.dim])
	next := slices.Clone(s.readersOf)
	for g, of := range cols {
		for c, j := range of {
			s.readers[next[j]] = reader{int32(g), int32(c)}
			next[j]++
		}
	}
}

// eachColumn calls f with the groups that read a column, in order, on all processors.
func (s *sparseSystem) eachColumn(f func(j int, readers []reader)) {
	parallel.Ranges(s.dim, parallel.Share, func(lo, hi int) {
		for j := lo; j < hi; j++ {
			f(j, s.readers[s.readersOf[j]:s.readersOf[j+1]])
		}
	})
}

// small has steps start near an estimate where another method has found it at the same weight ([comesFirst]), of norms
// of groups. Of absolute values some multipliers have so far to go from there that the steps lead nowhere.
func (s *sparseSystem) small() smallness {
	small := productsWithout
	if s.near {
		small.near, small.most = true, mostTold
	}
	return small
}

// start is the unpenalized fit, or one with a penalty on ||K b||^2.
func (s *sparseSystem) start(b, aty []float64) {
	if !s.direct(b, aty) {
		s.penalized(b, aty, s.factor())
	}
}

func (s *sparseSystem) penalized(b, aty []float64, f saddleFactor) {
	j := slices.Repeat([]float64{1 / (smallPenalty * slices.Max(s.c))}, len(s.k.Indptr)-1)
	if f.factorize(&scaling{diag: j, allowed: startLeft * floats.Norm(aty, 2), ctx: context.Background()}) {
		copy(b, aty)
		f.solve(b, make([]float64, len(j)), make([]float64, len(j)+len(b)))
	}
}

// smallPenalty is the weight of ||K b||^2 from which interior points start, relative to c, and startLeft the share of
// A* y that may be left there.
const (
	smallPenalty = 1e-3
	startLeft    = 1e-2
)

func (s *sparseSystem) factor() saddleFactor {
	f := &sparseNormal{sparseSystem: s, value: make([]float64, len(s.index)), along: make([][]float64, len(s.blocks)),
		square: make([]float64, len(s.blocks))}
	memory := make([]float64, len(s.readers))
	for g := range f.along {
		n := s.blocks[g].columns
		f.along[g], memory = memory[:n:n], memory[n:]
	}
	return f
}

func (s *sparseSystem) choice() engine.Choice {
	return engine.Choice{Part: "system", Chosen: fmt.Sprintf("a sparse matrix of %d rows, whose factor has "+
		"%.3g entries", s.dim, float64(s.order.Nonzeros)),
		Reason: "A*A is diagonal and K is sparse: without the multiplier the matrix has entries " +
			"only where a group of K's rows reads both columns"}
}

// sparseNormal is that of a solve.
type sparseNormal struct {
	*sparseSystem
	j      *scaling
	value  []float64
	along  [][]float64 // K_g* u of every group
	square []float64   // s + ||u||^2
	l      cholesky.Factor
}

func (f *sparseNormal) factorize(j *scaling) bool {
	f.assemble(j)
	return f.order.FactorizeInto(&f.l, f.value) == nil
}

// assemble sets the values of the matrix, those of diag(c) + sum_g K_g* (I - u u*/(s + ||u||^2)) K_g / d, column by
// column: each adds up what the groups give in their order.
func (f *sparseNormal) assemble(j *scaling) {
	f.j = j
	f.groups.each(func(g int, rows []int32) {
		if f.square[g] = 0; j.groups == nil {
			return
		}
		along := f.along[g]
		clear(along)
		for r, i := range rows {
			f.square[g] += j.u[i] * j.u[i]
			for c := range along {
				along[c] += j.u[i] * f.blocks[g].k[r*len(along)+c]
			}
		}
		f.square[g] += j.s[g]
	})
	f.eachColumn(func(column int, readers []reader) {
		clear(f.value[f.ptr[column]:f.ptr[column+1]])
		f.value[f.own[column]] = f.c[column]
		for _, of := range readers {
			g, c := of.group, int(of.place)
			b, along, square := &f.blocks[g], f.along[g], f.square[g]
			rows, n := f.groups.rows[f.groups.first[g]:f.groups.first[g+1]], len(along)
			for d := range n {
				sum := 0.0
				for r, i := range rows {
					sum += b.k[r*n+c] * b.k[r*n+d] / j.diag[i]
				}
				if square > 0 {
					sum -= along[c] * along[d] / square / j.diag[rows[0]]
				}
				f.value[b.at[c*n+d]] += sum
			}
		}
	})
}

// solve adds K* J^{-1} z to x, solves for x, and sets z = J^{-1} (K x - z).
func (f *sparseNormal) solve(x, z, work []float64) {
	f.eliminated(x, z, work, func(x []float64) { f.order.Solve(&f.l, x) })
}

func (f *sparseNormal) eliminated(x, z, work []float64, solve func(x []float64)) {
	w := work[:len(z)]
	scaled(w, 1, z)
	f.j.inverse(w)
	addProduct(x, f.columns, 1, w)
	solve(x)
	scaled(z, -1, z)
	addProduct(z, f.k, 1, x)
	f.j.inverse(z)
}
