package interior

import (
	"fmt"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack/lapack64"

	"surepipe/linops"
	"surepipe/solve/engine"
	"surepipe/solve/internal/limits"
)

// matrixSystem is a sparseSystem beside a matrix A: A*A + K* J^{-1} K is dense, and has as many rows as A has columns,
// however many K has.
type matrixSystem struct {
	*iteratedSystem
	gram []float64 // A*A
}

// Matrix reports that interior points apply with a dense matrix: A is a matrix in memory, and K may be sparse.
func Matrix(p engine.Problem) bool {
	if p.K == nil {
		return false
	}
	known := linops.StructureOf(p.A)
	_, dim := p.A.Dims()
	return dim <= limits.MostFactored && known.Dense != nil && known.Passes.Bytes == 0 && besideSparse(p)
}

func newMatrixSystem(s *iteratedSystem) *matrixSystem {
	return &matrixSystem{s, linops.GramOf(s.dev, s.a)}
}

func (s *matrixSystem) small() smallness { return productsWithout }

func (s *matrixSystem) factor() saddleFactor {
	return &matrixNormal{s, s.sparseSystem.factor().(*sparseNormal), make([]float64, len(s.gram))}
}

func (s *matrixSystem) choice() engine.Choice {
	return engine.Choice{Part: "system", Chosen: fmt.Sprintf("a dense matrix of %d rows", s.dim),
		Reason: "A is a matrix and K is sparse: without the multiplier the matrix has no more rows than A has columns"}
}

// matrixNormal is that of a solve.
type matrixNormal struct {
	system *matrixSystem
	*sparseNormal
	l []float64 // the factor, row by row
}

func (f *matrixNormal) factorize(j *scaling) bool {
	f.assemble(j)
	copy(f.l, f.system.gram)
	for col := range f.dim {
		row := f.l[col*f.dim:][:f.dim]
		for t := f.ptr[col]; t < f.ptr[col+1]; t++ {
			row[f.index[t]] += f.value[t]
		}
		row[col] -= f.c[col]
	}
	_, ok := lapack64.Potrf(blas64.Symmetric{Uplo: blas.Upper, N: f.dim, Data: f.l, Stride: f.dim})
	return ok
}

func (f *matrixNormal) solve(x, z, work []float64) {
	f.eliminated(x, z, work, func(x []float64) {
		lapack64.Potrs(blas64.Triangular{Uplo: blas.Upper, Diag: blas.NonUnit, N: f.dim, Data: f.l, Stride: f.dim},
			blas64.General{Rows: f.dim, Cols: 1, Stride: 1, Data: x})
	})
}
