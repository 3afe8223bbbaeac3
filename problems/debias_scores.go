package problems

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"surepipe/internal/lists"
	"surepipe/linops"
	"surepipe/prox"
	"surepipe/risk"
	"surepipe/solve"
	"surepipe/vjp"
)

// mostScored bounds the work of DebiasedByScores: d p for each coefficient.
const mostScored = 2e9

// DebiasedByScores is [Problem.Debiased] where the columns of X are not fewer than its rows, for the
// coefficients that are not 0; the others are NaN. The score z_j of column j is the residual of a
// LASSO of x_j on the other columns, whose weight is that of the scaled LASSO (Sun and Zhang 2012),
//
//	||z_j|| sqrt(2 log p)   on columns of norm sqrt(d), with ||z_j|| of the same LASSO,
//
// and the debiased coefficient and its standard errors, which need no sigma2, are those of
// [risk.DebiasByScores] with df degrees of freedom, the divergence of y -> mu_hat at y (Bellec and
// Zhang 2022, who show them to be asymptotically normal for normal rows of X and a column x_j whose
// regression on the others is sparse).
func (p *Problem) DebiasedByScores(ctx context.Context, y, muHat, b []float64, df float64) (of Debiased,
	err error) {
	dense := linops.StructureOf(p.Operator).Dense
	active := lists.Places(len(b), func(j int) bool { return b[j] != 0 && !slices.Contains(p.levels, j) })
	switch {
	case !p.rows || dense == nil:
		return of, errors.New("the operator is not a matrix")
	case p.loss != nil:
		return of, errors.New("the observations have weights or a loss of their own")
	case !(df < float64(p.D)):
		return of, fmt.Errorf("the fit has %.4g degrees of freedom, expected fewer than the %d observations",
			df, p.D)
	case float64(len(active))*float64(p.D)*float64(p.P) > mostScored:
		return of, fmt.Errorf("%d regressions of a column on the others, of %d x %d, would take too long",
			len(active), p.D, p.P)
	}
	x, norms := unitColumns(dense())
	residual := floats.SubTo(make([]float64, p.D), y, muHat)
	for _, to := range []*[]float64{&of.Values, &of.Factors, &of.Robust} {
		*to = slices.Repeat([]float64{math.NaN()}, p.P)
	}
	for _, j := range active {
		column := mat.Col(nil, j, x)
		z, err := p.score(ctx, x, j)
		if err != nil {
			return of, err
		}
		shift, stdErr, robust := risk.DebiasByScores(z, column, residual, df)
		unit := norms[j]
		if p.scales != nil {
			unit *= p.scales[j]
		}
		of.Values[j], of.Factors[j], of.Robust[j] = (b[j]*norms[j]+shift)/unit, stdErr/unit, robust/unit
	}
	return of, nil
}

// unitColumns returns a copy of x whose columns have norm sqrt(d), and the factors by which they
// were divided; columns of zeros are left.
func unitColumns(x *mat.Dense) (*mat.Dense, []float64) {
	d, p := x.Dims()
	norms := make([]float64, p)
	for j := range p {
		if norms[j] = mat.Norm(x.ColView(j), 2) / math.Sqrt(float64(d)); norms[j] == 0 {
			norms[j] = 1
		}
	}
	u := mat.DenseCopyOf(x)
	divideColumns(u, norms)
	return u, norms
}

// The scaled LASSO ends when the residual's norm changes by less than scoreTol of itself, after at
// most scoreSteps.
const (
	scoreTol   = 1e-3
	scoreSteps = 10
)

// score is the residual of the scaled LASSO of column j of x, of norm sqrt(d), on the others.
func (p *Problem) score(ctx context.Context, x *mat.Dense, j int) ([]float64, error) {
	column := mat.Col(nil, j, x)
	x.SetCol(j, make([]float64, p.D))
	op := linops.NewDense(p.dev, x)
	defer op.Release()
	x.SetCol(j, column)
	y := p.dev.Alloc(1, p.D)
	defer y.Free()
	p.dev.Upload(y, column)
	z := column
	for range scoreSteps {
		norm := floats.Norm(z, 2)
		r := prox.NewL1(norm * math.Sqrt(2*math.Log(float64(p.P))))
		problem := vjp.Problem{A: op, R: r, Device: p.dev}
		solver, err := vjp.NewSolver(ctx, solve.Default(problem), problem, vjp.Options{Derivative: vjp.None})
		if err != nil {
			return nil, err
		}
		solution, err := solver.Solve(ctx, y)
		solver.Release()
		if err != nil {
			return nil, err
		}
		z = floats.SubTo(make([]float64, p.D), column, solution.MuHat.ToHost())
		solution.Release()
		if math.Abs(floats.Norm(z, 2)-norm) <= scoreTol*norm {
			break
		}
	}
	return z, p.dev.Sync()
}
