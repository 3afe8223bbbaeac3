package problems

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/internal/numerics"
	"surepipe/linops"
	"surepipe/loss"
	"surepipe/risk"
)

// Likelihood reports whether the loss is minus the logarithm of a likelihood of single values of y, without a variance
// as the squared one has.
func (p *Problem) Likelihood() bool {
	return p.outcomes == 0 && p.loss != nil && !loss.Quadratic(p.loss) && loss.StructureOf(p.loss).Likelihood
}

// DebiasedByInformation returns the coefficients in the units of the original columns without the bias of the penalty,
// and their standard errors, where the loss is a negative log-likelihood: one step of Newton's method for the
// likelihood alone, and the inverse of the information where it starts,
//
//	debiased = b - (A* l'' A)^{-1} A* l',   standard errors sqrt diag (A* l'' A)^{-1}
//
// with the derivatives of l at A b, all columns and the intercept (van de Geer, Bühlmann, Ritov and Dezeure, "On
// asymptotically optimal confidence regions and tests for high-dimensional models", 2014, with the exact inverse), and
// with a loss of single observations those by the residuals, where y varies more than the likelihood has it,
//
//	robust = sqrt diag M^{-1} A* diag(e_i^2/(1 - h_i)^2) A M^{-1},   M = A* l'' A,   h_i = l''_i A_i M^{-1} A_i*
//
// with e the slopes after the step ([risk.LeastSquares.Debias]), nil with others.
// Without a penalty they are the estimates and the errors of maximum likelihood. b is that of the problem as it is
// solved. Coefficients that are not identified are NaN, as in [Problem.Debiased], and the error says why there are none
// at all.
func (p *Problem) DebiasedByInformation(y, z, b []float64) (of Debiased, err error) {
	switch n := float64(p.P); {
	case !p.rows || linops.StructureOf(p.Operator).Dense == nil:
		return of, errors.New("the operator is not a matrix")
	case float64(p.D)*n*n > mostDebiased:
		return of, fmt.Errorf("a factorization of %d x %d would take too long", p.D, p.P)
	}
	d, n := p.Operator.Dims()
	images := linops.Images(p.dev, p.Operator)
	defer images.Free()
	at, observed := p.dev.Put(z, 1, d), p.dev.Put(y, 1, d)
	defer array.Free(at, observed)
	slope, second := p.dev.Alloc(1, d), p.dev.Alloc(n, d)
	defer array.Free(slope, second)
	p.loss.Gradient(slope, at, observed)
	applyCurvature(second, images, at, observed, p.loss, loss.StructureOf(p.loss).Coupled)
	columns, weighed := mat.NewDense(n, d, images.ToHost()), mat.NewDense(n, d, second.ToHost())
	if err := p.dev.Err(); err != nil {
		return of, err
	}
	kept := lists.Places(n, func(j int) bool { return p.counts(j, columns.RowView(j)) })
	if len(kept) >= d {
		return of, fmt.Errorf("%w: X has %d columns and %d rows", ErrTooFewRows, len(kept), d)
	}
	information, score := mat.NewSymDense(len(kept), nil), mat.NewVecDense(len(kept), nil)
	slopes := mat.NewVecDense(d, slope.ToHost())
	for i, j := range kept {
		score.SetVec(i, mat.Dot(columns.RowView(j), slopes))
		for k := i; k < len(kept); k++ {
			information.SetSym(i, k, mat.Dot(columns.RowView(j), weighed.RowView(kept[k])))
		}
	}
	step, inverse, err := newton(information, score)
	if err != nil {
		return of, err
	}
	intercept, _ := slices.BinarySearch(kept, p.P) // the last, where there is one
	for i, j := range kept[:intercept] {
		of.Values, of.Factors = append(of.Values, b[j]-step.AtVec(i)), append(of.Factors, math.Sqrt(inverse.At(i, i)))
	}
	if loss.StructureOf(p.loss).Coupled == nil {
		robust := robustVariances(columns, weighed, kept, slopes, step, inverse)
		of.Robust = p.inUnits(kept[:intercept], lists.Map(robust[:intercept], math.Sqrt))
	}
	of.Values, of.Factors = p.inUnits(kept[:intercept], of.Values), p.inUnits(kept[:intercept], of.Factors)
	return of, nil
}

// robustVariances are those of coefficients by the residuals, of rows of columns, and of the same weighed by the
// curvatures.
func robustVariances(columns, weighed *mat.Dense, kept []int, slopes, step *mat.VecDense,
	inverse *mat.SymDense) []float64 {
	sums, x := make([]float64, len(kept)), mat.NewVecDense(len(kept), nil)
	var influence mat.VecDense
	for i := range slopes.Len() {
		e, h := slopes.AtVec(i), 0.0
		for k, j := range kept {
			x.SetVec(k, columns.At(j, i))
			e -= weighed.At(j, i) * step.AtVec(k)
		}
		influence.MulVec(inverse, x)
		for k, j := range kept {
			h += weighed.At(j, i) * influence.AtVec(k)
		}
		e /= max(1-h, leastLeft)
		for k := range sums {
			v := influence.AtVec(k) * e
			sums[k] += v * v
		}
	}
	return sums
}

// applyCurvature sets dst = l^(2) v at z.
func applyCurvature(dst, v, z, y array.Batch, l loss.Loss, coupled loss.Coupled) {
	dev := v.Device()
	if coupled == nil {
		l.Curvature(dst.Rows(0, 1), z, y)
		w := dev.Alloc(1, v.N())
		defer w.Free()
		dev.Copy(w, dst.Rows(0, 1))
		dev.Mul(dst, v, w)
		return
	}
	for j := range v.K() {
		coupled.Product(dst.Rows(j, j+1), v.Rows(j, j+1), z, y)
	}
}

// newton solves M x = v in units in which the diagonal of M is 1, and inverts M.
func newton(m *mat.SymDense, v *mat.VecDense) (x *mat.VecDense, inverse *mat.SymDense, err error) {
	n := v.Len()
	units := make([]float64, n)
	for i := range units {
		if units[i] = 1 / math.Sqrt(m.At(i, i)); math.IsInf(units[i], 0) || math.IsNaN(units[i]) {
			return nil, nil, fmt.Errorf("%w: no information on column %d of X", risk.ErrNotIdentified, i)
		}
	}
	inverse = mat.NewSymDense(n, nil)
	inverse.CopySym(m)
	numerics.ScaleSym(inverse, units)
	if condition := numerics.Invert(inverse); !(condition*float64(n)*0x1p-52 < 1e-3) {
		return nil, nil, fmt.Errorf("%w: the columns of X depend on each other, or nearly do", risk.ErrNotIdentified)
	}
	numerics.ScaleSym(inverse, units)
	x = mat.NewVecDense(n, nil)
	x.MulVec(inverse, v)
	return x, inverse, nil
}
