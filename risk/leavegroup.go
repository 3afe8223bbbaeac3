package risk

import (
	"errors"
	"fmt"

	"gonum.org/v1/gonum/mat"
)

// ErrGroupDetermines says that a group of observations determines a direction of its own fit, whatever its values
// are: D_GG has the eigenvalue 1 up to rounding errors. Leaving the group out leaves that direction undetermined.
var ErrGroupDetermines = errors.New("a group of observations determines a part of its own fit (an eigenvalue 1 of " +
	"its block of the derivative), and cannot be left out by a step from the fit; choose cv")

// Block is I - D_GG, factored, for the observations G of a group that is left out. D is the derivative of mu_hat,
// symmetric with eigenvalues in [0, 1]; with weights of the observations, or a loss, that of the whitened problem.
type Block struct {
	chol mat.Cholesky
	rows *mat.Dense // R_G* where I - R_G R_G* is factored, k x k, because k is less than the size of the group
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
	return b, b.factorize(less)
}

// BlockFrom is the block of a D_GG that is known by its entries.
func BlockFrom(d *mat.Dense) (*Block, error) {
	b, n := new(Block), d.RawMatrix().Rows
	less := mat.NewSymDense(n, nil)
	for i := range n {
		for c := i; c < n; c++ {
			less.SetSym(i, c, -(d.At(i, c)+d.At(c, i))/2)
		}
	}
	return b, b.factorize(less)
}

// factorize factors I + less.
func (b *Block) factorize(less *mat.SymDense) error {
	for i := range less.SymmetricDim() {
		less.SetSym(i, i, 1+less.At(i, i))
	}
	if !b.chol.Factorize(less) || !(b.chol.Cond() <= 1/leastBlock) {
		return ErrGroupDetermines
	}
	return nil
}

// LeftOut is (I - D_GG)^{-1} r in a new slice. For the residuals r = (y - mu_hat)_G of least squares or ridge
// regression these are exactly the residuals of the group in a fit to all others; for other estimators by one Newton
// step towards that fit, see [LeaveOneOut], which this is for a group of one. With R_G of few rows it is
// r + R_G* (I - R_G R_G*)^{-1} R_G r.
func (b *Block) LeftOut(r []float64) ([]float64, error) {
	out, x := mat.NewVecDense(len(r), nil), mat.NewVecDense(len(r), r)
	if b.rows == nil {
		if err := b.chol.SolveVecTo(out, x); err != nil {
			return nil, fmt.Errorf("risk: %w", err)
		}
		return out.RawVector().Data, nil
	}
	in := mat.NewVecDense(b.rows.RawMatrix().Cols, nil)
	in.MulVec(b.rows.T(), x)
	if err := b.chol.SolveVecTo(in, in); err != nil {
		return nil, fmt.Errorf("risk: %w", err)
	}
	out.MulVec(b.rows, in)
	out.AddVec(out, x)
	return out.RawVector().Data, nil
}

// powerSteps are those of inverse iteration: a few digits of an eigenvalue that is near 1.
const powerSteps = 12

// Most is the largest eigenvalue of D_GG: how much the group decides of its own fit in some direction.
func (b *Block) Most() float64 {
	n := b.chol.SymmetricDim()
	x := mat.NewVecDense(n, nil)
	for i := range n {
		x.SetVec(i, 1+float64(i%7)-float64(i%3))
	}
	size := 1.0
	for range powerSteps {
		x.ScaleVec(1/mat.Norm(x, 2), x)
		if b.chol.SolveVecTo(x, x) != nil {
			return 1
		}
		size = mat.Norm(x, 2)
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
