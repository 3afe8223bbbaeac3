package problems

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/internal/lists"
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
	score, slopes := mat.NewVecDense(len(kept), nil), mat.NewVecDense(d, slope.ToHost())
	for i, j := range kept {
		score.SetVec(i, mat.Dot(columns.RowView(j), slopes))
	}
	rooted, err := rooted(columns, kept, at, observed, p.loss)
	if err != nil {
		return of, err
	}
	step, root, err := newton(rooted, score)
	if err != nil {
		return of, err
	}
	intercept, _ := slices.BinarySearch(kept, p.P) // the last, where there is one
	for i, j := range kept[:intercept] {
		of.Values = append(of.Values, b[j]-step.AtVec(i))
		of.Factors = append(of.Factors, floats.Norm(root.RawTriangular().Data[i*len(kept)+i:(i+1)*len(kept)], 2))
	}
	if loss.StructureOf(p.loss).Coupled == nil {
		robust := robustVariances(columns, weighed, kept, slopes, step, root)
		of.Robust = p.inUnits(kept[:intercept], lists.Map(robust[:intercept], math.Sqrt))
	}
	of.Values, of.Factors = p.inUnits(kept[:intercept], of.Values), p.inUnits(kept[:intercept], of.Factors)
	return of, nil
}

// robustVariances are those of coefficients by the residuals, of rows of columns, and of the same weighed by the
// curvatures, with root root* the inverse of the information.
func robustVariances(columns, weighed *mat.Dense, kept []int, slopes, step *mat.VecDense,
	root *mat.TriDense) []float64 {
	sums, x := make([]float64, len(kept)), mat.NewVecDense(len(kept), nil)
	var influence mat.VecDense
	for i := range slopes.Len() {
		e, h := slopes.AtVec(i), 0.0
		for k, j := range kept {
			x.SetVec(k, columns.At(j, i))
			e -= weighed.At(j, i) * step.AtVec(k)
		}
		influence.MulVec(root.T(), x)
		influence.MulVec(root, &influence)
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

// rooted is R A for some columns of A, which are rows here, with R*R = l^(2) at z.
func rooted(columns *mat.Dense, kept []int, z, y array.Batch, l loss.Loss) (*mat.Dense, error) {
	d, n := z.N(), len(kept)
	a := mat.NewDense(d, n, nil)
	for k, j := range kept {
		a.SetCol(k, columns.RawRowView(j))
	}
	if coupled := loss.StructureOf(l).Coupled; coupled != nil {
		root, err := coupled.Root(z, y)
		if err == nil {
			root.Columns(a.RawMatrix().Data, n)
		}
		return a, err
	}
	curve := z.Device().Alloc(1, d)
	defer curve.Free()
	l.Curvature(curve, z, y)
	for i, c := range curve.ToHost() {
		floats.Scale(math.Sqrt(c), a.RawRowView(i))
	}
	return a, z.Device().Err()
}

// newton solves M x = v for M = A*A, and returns R^{-1} of a QR factorization of A, with R^{-1} R^{-1}* the inverse of
// M, whose condition is the square of A's. Its columns have length 1 for that.
func newton(a *mat.Dense, v *mat.VecDense) (x *mat.VecDense, root *mat.TriDense, err error) {
	d, n := a.Dims()
	units := make([]float64, n)
	for i := range units {
		if units[i] = 1 / mat.Norm(a.ColView(i), 2); math.IsInf(units[i], 0) || math.IsNaN(units[i]) {
			return nil, nil, fmt.Errorf("%w: no information on column %d of X", risk.ErrNotIdentified, i)
		}
	}
	for i := range d {
		floats.Mul(a.RawRowView(i), units)
	}
	var qr mat.QR
	qr.Factorize(a)
	if c := qr.Cond(); !(c*float64(d)*0x1p-52 < leastSure) {
		return nil, nil, fmt.Errorf("%w: the columns of X depend on each other, or nearly do (condition number %.1e)",
			risk.ErrNotIdentified, c)
	}
	var r mat.Dense
	qr.RTo(&r)
	root = mat.NewTriDense(n, mat.Upper, nil)
	upper := mat.NewTriDense(n, mat.Upper, nil)
	for i := range n {
		for j := i; j < n; j++ {
			upper.SetTri(i, j, r.At(i, j)/units[j])
		}
	}
	if err := root.InverseTri(upper); err != nil && !errors.As(err, new(mat.Condition)) {
		return nil, nil, err
	}
	x = mat.NewVecDense(n, nil)
	x.MulVec(root.T(), v)
	x.MulVec(root, x)
	return x, root, nil
}

// leastSure is the share of a coefficient that rounding errors may change.
const leastSure = 1e-3
