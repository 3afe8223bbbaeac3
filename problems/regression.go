package problems

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

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
	p.DefaultSolver = "direct"
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
	p.DefaultSolver = "direct"
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

// regression checks X and y and puts X on the device.
func (p *Problem) regression(data Data) error {
	if data.X == nil {
		return fmt.Errorf("array \"X\" is missing, expected the d x p design matrix")
	}
	if data.X.IsEmpty() {
		return fmt.Errorf("array \"X\" is empty, expected the d x p design matrix")
	}
	p.D, p.P = data.X.Dims()
	if err := checkVector("y", data.Y, data.YShape, 1, "shape (d,)"); err != nil {
		return err
	}
	if len(data.Y) != p.D {
		return fmt.Errorf("array \"y\" has %d values, expected %d: \"X\" has shape (%d, %d)", len(data.Y), p.D, p.D, p.P)
	}
	for i := range p.D {
		for j, x := range data.X.RawRowView(i) {
			if math.IsNaN(x) || math.IsInf(x, 0) {
				return fmt.Errorf("array \"X\" holds %g at [%d, %d], expected finite numbers", x, i, j)
			}
		}
	}
	if err := checkMu(data); err != nil {
		return err
	}
	p.Operator = linops.NewDense(p.dev, data.X)
	p.MuShape, p.BShape = []int{p.D}, []int{p.P}
	return nil
}

// maxCorrelation is ||X* y||_inf.
func maxCorrelation(data Data) float64 {
	_, n := data.X.Dims()
	c := mat.NewVecDense(n, nil)
	c.MulVec(data.X.T(), mat.NewVecDense(len(data.Y), data.Y))
	m := 0.0
	for _, v := range c.RawVector().Data {
		m = max(m, math.Abs(v))
	}
	return m
}
