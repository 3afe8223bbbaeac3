package problems

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/internal/dataio"
	"surepipe/linops"
	"surepipe/prox"
)

// buildOLS is ordinary least squares, r = 0. Where X has not full column rank
// the solution of least norm is taken; mu_hat is the projection onto X's range
// all the same, and its divergence the rank.
func buildOLS(p *Problem, data Data, _ Hyper) error {
	if err := p.regression(data); err != nil {
		return err
	}
	p.Regularizer = prox.Zero()
	p.DefaultSolver = quadraticSolver(p.Operator)
	return nil
}

// buildRidge is ridge regression, r(b) = lambda/2 ||b||^2.
func buildRidge(p *Problem, data Data, hyper Hyper) (err error) {
	if err := p.regression(data); err != nil {
		return err
	}
	if p.Lambda, err = p.finiteWeight("lambda", hyper.Lambda, nil); err != nil {
		return err
	}
	p.Regularizer = prox.NewSquaredL2(p.Lambda)
	p.DefaultSolver = quadraticSolver(p.Operator)
	return nil
}

// buildLasso is r(b) = lambda ||b||_1; lambda_max = ||X* y||_inf.
func buildLasso(p *Problem, data Data, hyper Hyper) (err error) {
	if err := p.regression(data); err != nil {
		return err
	}
	if p.Lambda, err = p.weight("lambda", hyper.Lambda, func() (float64, error) { return maxCorrelation(data), nil }); err != nil {
		return err
	}
	p.Regularizer = prox.NewL1(p.Lambda)
	p.DefaultSolver = "fista"
	return nil
}

// buildElasticNet is r(b) = lambda ||b||_1 + lambda2/2 ||b||^2;
// lambda_max = ||X* y||_inf. A lambda2 of 0 is the LASSO.
func buildElasticNet(p *Problem, data Data, hyper Hyper) (err error) {
	if err := p.regression(data); err != nil {
		return err
	}
	if p.Lambda, err = p.weight("lambda", hyper.Lambda, func() (float64, error) { return maxCorrelation(data), nil }); err != nil {
		return err
	}
	if hyper.Lambda2 == Absolute(0) {
		p.Lambda2 = 0
	} else if p.Lambda2, err = p.finiteWeight("lambda2", hyper.Lambda2, nil); err != nil {
		return err
	}
	p.Regularizer = prox.NewElasticNet(p.Lambda, p.Lambda2)
	p.DefaultSolver = "fista"
	return nil
}

// finiteWeight is weight for those that may not be infinite.
func (p *Problem) finiteWeight(name string, w Weight, maximum func() (float64, error)) (float64, error) {
	v, err := p.weight(name, w, maximum)
	if err == nil && math.IsInf(v, 0) {
		err = fmt.Errorf("%s is infinite, expected a finite number", name)
	}
	return v, err
}

// quadraticSolver is the closed form where A is a matrix, unless it is sparse and so
// large that it had better not be written down.
func quadraticSolver(a linops.Operator) string {
	if c, ok := a.(*centered); ok {
		a = c.a
	}
	d, p := a.Dims()
	known := linops.StructureOf(a)
	if known.Dense != nil && (known.Entries == linops.Known(float64(d*p)) || d*p <= 1<<24) {
		return "direct"
	}
	return "fista"
}

// regression checks X and y and puts X on the device.
func (p *Problem) regression(data Data) (err error) {
	switch {
	case data.Sparse != nil:
		p.D, p.P = data.Sparse.Rows, data.Sparse.Cols
	case data.X == nil:
		return fmt.Errorf("array \"X\" is missing, expected the d x p design matrix")
	case data.X.IsEmpty():
		return fmt.Errorf("array \"X\" is empty, expected the d x p design matrix")
	default:
		p.D, p.P = data.X.Dims()
	}
	if err := checkVector("y", data.Y, data.YShape, 1, "shape (d,)"); err != nil {
		return err
	}
	if len(data.Y) != p.D {
		return fmt.Errorf("array \"y\" has %d values, expected %d: \"X\" has shape (%d, %d)", len(data.Y), p.D, p.D, p.P)
	}
	if err := checkMu(data); err != nil {
		return err
	}
	if data.Sparse != nil {
		p.Operator, err = newSparse(p.dev, data.Sparse)
	} else {
		p.Operator, err = newDense(p.dev, data.X, "X")
	}
	if err != nil {
		return err
	}
	p.own(p.Operator)
	p.MuShape, p.BShape = []int{p.D}, []int{p.P}
	if data.Intercept {
		p.center()
	}
	return nil
}

// newDense is X on the device, where it is finite.
func newDense(dev array.Device, x *mat.Dense, name string) (*linops.Dense, error) {
	d, p := x.Dims()
	largest := 0.0
	for i := range d {
		if err := checkFiniteRow(name, x.RawRowView(i), i, []int{d, p}); err != nil {
			return nil, err
		}
		largest = max(largest, maxAbs(x.RawRowView(i)))
	}
	if err := checkScale(name, largest); err != nil {
		return nil, err
	}
	return linops.NewDense(dev, x), nil
}

// checkFiniteRow is checkFinite for row i of a matrix.
func checkFiniteRow(name string, row []float64, i int, shape []int) error {
	for j, x := range row {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return fmt.Errorf("array %q holds %g at %s, expected finite numbers", name, x, formatPlace(i*len(row)+j, shape))
		}
	}
	return nil
}

// newSparse is the sparse X on the device.
func newSparse(dev array.Device, x *dataio.Sparse) (*linops.CSR, error) {
	if err := checkScale("X", maxAbs(x.Values)); err != nil {
		return nil, err
	}
	a, err := linops.NewCSR(dev, x.Rows, x.Cols, x.IndPtr, x.Indices, x.Values)
	if err != nil {
		return nil, fmt.Errorf("the sparse matrix of %d x %d: %w", x.Rows, x.Cols, err)
	}
	return a, nil
}

// maxCorrelation is ||X* y||_inf, of y less its mean where there is an intercept.
func maxCorrelation(data Data) float64 {
	fitted := data.fitted()
	if x := data.Sparse; x != nil {
		c := make([]float64, x.Cols)
		for i, y := range fitted {
			for u := x.IndPtr[i]; u < x.IndPtr[i+1]; u++ {
				c[x.Indices[u]] += x.Values[u] * y
			}
		}
		return maxAbs(c)
	}
	_, n := data.X.Dims()
	c := mat.NewVecDense(n, nil)
	c.MulVec(data.X.T(), mat.NewVecDense(len(fitted), fitted))
	return maxAbs(c.RawVector().Data)
}
