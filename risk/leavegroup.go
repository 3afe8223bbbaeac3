package risk

import (
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/lapack/lapack64"
	"gonum.org/v1/gonum/mat"

	"surepipe/internal/lists"
	"surepipe/internal/numerics"
)

// ErrGroupDetermines says that a group of observations determines a direction of its own fit, whatever its values
// are: D_GG has the eigenvalue 1 up to rounding errors. Leaving the group out leaves that direction undetermined.
var ErrGroupDetermines = errors.New("a group of observations determines a part of its own fit (an eigenvalue 1 of " +
	"its block of the derivative), and cannot be left out by a step from the fit; choose cv")

// Block is I - D_GG, factored, for the observations G of a group that is left out. D is the derivative of mu_hat,
// symmetric with eigenvalues in [0, 1]; with weights of the observations, or a loss, that of the whitened problem.
type Block struct {
	chol blas64.Triangular
	rows *mat.Dense // R_G* where I - R_G R_G* is factored, k x k, because k is less than the size of the group
	less []float64  // memory
}

// leastBlock is the least reciprocal condition number of I - D_GG, whose largest eigenvalue is 1 or near it, with which
// a group can be left out.
const leastBlock = 1 - mostLeverage

// BlockOf is the block of D = R* R, for R_G*, the k numbers of R for each observation of the group as a row.
func BlockOf(rows *mat.Dense) (*Block, error) {
	m, k := rows.Dims()
	b, less := new(Block), mat.NewSymDense(min(k, m), nil)
	if k < m {
		b.rows = rows
		less.SymOuterK(-1, rows.T())
	} else {
		less.SymOuterK(-1, rows)
	}
	return b, b.factorize(less.RawSymmetric())
}

// Set makes b the block of a D_GG that is known by its entries, n x n, in the memory of the block before.
func (b *Block) Set(n int, d []float64) error {
	b.rows, b.less = nil, lists.Resize(b.less, n*n)
	for i := range n {
		for c := i; c < n; c++ {
			b.less[i*n+c] = -(d[i*n+c] + d[c*n+i]) / 2
		}
	}
	return b.factorize(blas64.Symmetric{Uplo: blas.Upper, N: n, Data: b.less, Stride: n})
}

// factorize factors I + less, whose eigenvalues are at most 1: its determinant is at most the least of them.
func (b *Block) factorize(s blas64.Symmetric) error {
	for i := range s.N {
		s.Data[i*s.Stride+i]++
	}
	norm, ok := columnSum(s), false
	b.chol = blas64.Triangular{Uplo: blas.Upper, Diag: blas.NonUnit, N: s.N, Data: s.Data, Stride: s.Stride}
	if b.small() {
		ok = numerics.FactorSmall(s.Data, s.N) // the rows are next to each other
	} else {
		_, ok = lapack64.Potrf(s)
	}
	if !ok {
		return ErrGroupDetermines
	}
	det := 1.0
	for i := range s.N {
		det *= s.Data[i*s.Stride+i] * s.Data[i*s.Stride+i]
	}
	if det >= leastBlock*float64(s.N) ||
		lapack64.Pocon(s, norm, make([]float64, 3*s.N), make([]int, s.N)) >= leastBlock {
		return nil
	}
	return ErrGroupDetermines
}

// mostSmall is the size of a block up to which calls take longer than its operations.
const mostSmall = 12

func (b *Block) small() bool { return b.chol.N <= mostSmall }

// columnSum is the largest sum of a column's absolute values, of the upper triangle, without memory: blocks are small.
func columnSum(s blas64.Symmetric) (most float64) {
	for i := range s.N {
		sum := 0.0
		for k := range i {
			sum += math.Abs(s.Data[k*s.Stride+i])
		}
		for _, v := range s.Data[i*s.Stride+i : i*s.Stride+s.N] {
			sum += math.Abs(v)
		}
		most = max(most, sum)
	}
	return most
}

// solve replaces x by the factored matrix's inverse times x.
func (b *Block) solve(x []float64) {
	if b.small() {
		numerics.SolveSmallAdjoint(b.chol.Data, x)
		numerics.SolveSmall(b.chol.Data, x)
		return
	}
	lapack64.Potrs(b.chol, blas64.General{Rows: len(x), Cols: 1, Stride: 1, Data: x})
}

// LeftOut replaces r by (I - D_GG)^{-1} r. For the residuals r = (y - mu_hat)_G of least squares or ridge
// regression these are exactly the residuals of the group in a fit to all others; for other estimators by one Newton
// step towards that fit, see [LeaveOneOut], which this is for a group of one. With R_G of few rows it is
// r + R_G* (I - R_G R_G*)^{-1} R_G r.
func (b *Block) LeftOut(r []float64) {
	if b.rows == nil {
		b.solve(r)
		return
	}
	rows, in := b.rows.RawMatrix(), make([]float64, b.chol.N)
	vector := func(x []float64) blas64.Vector { return blas64.Vector{N: len(x), Inc: 1, Data: x} }
	blas64.Gemv(blas.Trans, 1, rows, vector(r), 0, vector(in))
	b.solve(in)
	blas64.Gemv(blas.NoTrans, 1, rows, vector(in), 1, vector(r))
}

// powerSteps are those of inverse iteration: a few digits of an eigenvalue that is near 1.
const powerSteps = 12

// Most is the largest eigenvalue of D_GG: how much the group decides of its own fit in some direction.
func (b *Block) Most() float64 {
	x := lists.Make(b.chol.N, func(i int) float64 { return 1 + float64(i%7) - float64(i%3) })
	size := 1.0
	for range powerSteps {
		floats.Scale(1/floats.Norm(x, 2), x)
		b.solve(x)
		size = floats.Norm(x, 2)
	}
	return 1 - 1/size
}

func textOfLGO(f Fitted) string {
	if f.LGO == nil {
		return ""
	}
	text := "the same by leaving out"
	if f.Loss != nil {
		text = "mean loss by leaving out"
	}
	return fmt.Sprintf("%s one of %d groups", text, f.LGO.Units)
}
