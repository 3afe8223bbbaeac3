package problems

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/prox"
	"surepipe/prox/subspace"
)

// buildSVT is singular value thresholding, A = I and r(B) = lambda ||B||_*;
// lambda_max = sigma_max(y). One step of ISTA from anywhere is the solution.
func buildSVT(p *Problem, data Data, hyper Hyper) (err error) {
	shape, err := p.matrix(data)
	if err != nil {
		return err
	}
	if p.Lambda, err = p.weight("lambda", hyper.Lambda, func() (float64, error) { return spectralNorm(data.Y, shape) }); err != nil {
		return err
	}
	p.P = p.D
	p.Operator = linops.Identity(p.D)
	p.Regularizer = prox.NewNuclear(shape, p.Lambda)
	p.BShape = p.MuShape
	p.DefaultSolver = "ista"
	return nil
}

// buildMatrixCompletion is A = the selection of the observed entries and
// r(B) = lambda ||B||_*; lambda_max = sigma_max(A* y).
func buildMatrixCompletion(p *Problem, data Data, hyper Hyper) (err error) {
	if data.Shape == nil {
		return fmt.Errorf("array \"shape\" is missing, expected the matrix's 2 dimensions")
	}
	if len(data.Shape) != 2 || data.Shape[0] < 1 || data.Shape[1] < 1 {
		return fmt.Errorf("array \"shape\" is %v, expected 2 positive integers", data.Shape)
	}
	shape := array.Shape{Rows: data.Shape[0], Cols: data.Shape[1]}
	if shape.Len() > math.MaxInt32 || shape.Len()/shape.Cols != shape.Rows {
		return fmt.Errorf("array \"shape\" is %v, expected at most %d entries", data.Shape, math.MaxInt32)
	}
	if err := checkVector("y", data.Y, data.YShape, 1, "shape (d,)"); err != nil {
		return err
	}
	if data.Indices == nil {
		return fmt.Errorf("array \"indices\" is missing, expected the places of the %d values of \"y\"", len(data.Y))
	}
	if len(data.Indices) != len(data.Y) {
		return fmt.Errorf("array \"indices\" has %d values, expected %d as \"y\" has", len(data.Indices), len(data.Y))
	}
	if err := checkMu(data); err != nil {
		return err
	}
	at := make(map[int]int, len(data.Indices))
	for i, c := range data.Indices {
		if c < 0 || c >= shape.Len() {
			return fmt.Errorf("array \"indices\" holds %d at [%d], expected 0 to %d for a %d x %d matrix", c, i, shape.Len()-1, shape.Rows, shape.Cols)
		}
		if j, ok := at[c]; ok {
			return fmt.Errorf("array \"indices\" holds %d twice, at [%d] and [%d]", c, j, i)
		}
		at[c] = i
	}
	p.D, p.P = len(data.Y), shape.Len()
	selection, err := linops.NewSelection(p.dev, p.P, data.Indices)
	if err != nil {
		return err
	}
	p.Operator = selection
	p.own(selection)
	maximum := func() (float64, error) {
		return sampledNorm(data.Y, data.Indices, shape)
	}
	if p.Lambda, err = p.weight("lambda", hyper.Lambda, maximum); err != nil {
		return err
	}
	p.Regularizer = prox.NewNuclear(shape, p.Lambda)
	p.MuShape, p.BShape = []int{p.D}, data.Shape
	p.DefaultSolver = "fista"
	return nil
}

// buildRobustPCA is b = (L, S), A b = L + S, r(b) = lambda ||L||_* + gamma ||S||_1;
// b = 0 if and only if lambda >= lambda_max = sigma_max(y) and
// gamma >= gamma_max = ||y||_inf. An infinite weight removes its part.
func buildRobustPCA(p *Problem, data Data, hyper Hyper) (err error) {
	shape, err := p.matrix(data)
	if err != nil {
		return err
	}
	if p.Lambda, err = p.weight("lambda", hyper.Lambda, func() (float64, error) { return spectralNorm(data.Y, shape) }); err != nil {
		return err
	}
	if p.Gamma, err = p.weight("gamma", hyper.Gamma, func() (float64, error) { return maxAbs(data.Y), nil }); err != nil {
		return err
	}
	p.P = 2 * p.D
	p.Operator = linops.HStack(linops.Identity(p.D), linops.Identity(p.D))
	p.Regularizer = prox.NewSeparable(
		prox.Block{Prox: prox.NewNuclear(shape, p.Lambda), N: p.D},
		prox.Block{Prox: prox.NewL1(p.Gamma), N: p.D},
	)
	p.BShape = []int{2, shape.Rows, shape.Cols}
	p.DefaultSolver = "fista"
	return nil
}

// matrix checks a y that is an m x n matrix.
func (p *Problem) matrix(data Data) (array.Shape, error) {
	if err := checkVector("y", data.Y, data.YShape, 2, "shape (m, n)"); err != nil {
		return array.Shape{}, err
	}
	if err := checkMu(data); err != nil {
		return array.Shape{}, err
	}
	p.D = len(data.Y)
	p.MuShape = data.YShape
	return array.Shape{Rows: data.YShape[0], Cols: data.YShape[1]}, nil
}

// spectralNorm is the largest singular value.
func spectralNorm(x []float64, shape array.Shape) (float64, error) {
	if min(shape.Rows, shape.Cols) >= largeSide {
		dev := array.NewHost()
		defer dev.Close()
		on := dev.Put(x, shape.Rows, shape.Cols)
		defer on.Free()
		if s, ok := leadingValue(dev, subspace.Dense(on), shape); ok {
			return s, nil
		}
	}
	var svd mat.SVD
	if !svd.Factorize(mat.NewDense(shape.Rows, shape.Cols, x), mat.SVDNone) {
		return 0, fmt.Errorf("the singular values of the %d x %d matrix did not converge", shape.Rows, shape.Cols)
	}
	return svd.Values(nil)[0], nil
}

// sampledNorm is the largest singular value of the matrix with the given entries and zeros
// elsewhere.
func sampledNorm(y []float64, places []int, shape array.Shape) (float64, error) {
	if min(shape.Rows, shape.Cols) >= largeSide {
		dev := array.NewHost()
		defer dev.Close()
		pattern := dev.NewPattern(shape.Rows, shape.Cols, places)
		defer pattern.Free()
		z := dev.Put(y, 1, len(y))
		defer z.Free()
		product := func(trans bool, dst, w array.Batch) {
			dev.SpreadProduct(trans, 1, pattern, z, w.Reshape(1, w.K()*w.N()), 0, dst.Reshape(1, dst.K()*dst.N()))
		}
		if s, ok := leadingValue(dev, product, shape); ok {
			return s, nil
		}
	}
	full := make([]float64, shape.Len())
	for i, c := range places {
		full[c] = y[i]
	}
	return spectralNorm(full, shape)
}

const (
	// largeSide is the smaller side from which on the largest singular value is had from
	// subspace iteration, in at most leadingSteps steps. It is off by about the square of
	// leadingResidual, the error of its vectors.
	largeSide       = 500
	leadingSteps    = 300
	leadingResidual = 1e-7
)

// leadingValue is the largest singular value of a matrix; false where it does not stand
// out.
func leadingValue(dev array.Device, x subspace.Product, shape array.Shape) (float64, bool) {
	it := subspace.New(dev, shape)
	defer it.Free()
	for range leadingSteps {
		all, _, err := it.AdvanceAll(x, math.Inf(1))
		if err != nil || len(all.Sigma) == 0 {
			all.Free()
			return 0, err == nil
		}
		first := all.First(1)
		all.Free()
		off := first.Residual(x)
		first.Free()
		if off <= leadingResidual*first.Sigma[0] {
			return first.Sigma[0], true
		}
	}
	return 0, false
}

func maxAbs(x []float64) float64 {
	m := 0.0
	for _, v := range x {
		m = max(m, math.Abs(v))
	}
	return m
}
