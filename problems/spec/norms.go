package spec

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/internal/numerics"
	"surepipe/linops"
	"surepipe/prox/subspace"
)

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
	values, err := numerics.SingularValues(mat.NewDense(shape.Rows, shape.Cols, x))
	if err != nil {
		return 0, err
	}
	return values[0], nil
}

// sampledNorm is the largest singular value of the matrix with the values y at the given places
// and zeros elsewhere: the largest of those of its connected parts.
func sampledNorm(dev array.Device, y []float64, places []int, shape array.Shape) (float64, error) {
	most := 0.0
	for _, p := range linops.Parts(places, shape, true) {
		own := lists.Pick(y, p.Entries)
		norm := 0.0
		if s := p.Shape(); min(s.Rows, s.Cols) == 1 {
			norm = floats.Norm(own, 2)
		} else if norm2(own) > most { // the norm is at most that of all entries
			var err error
			if norm, err = connectedNorm(dev, own, p.Places(places, shape), s); err != nil {
				return 0, err
			}
		}
		most = max(most, norm)
	}
	return most, nil
}

func connectedNorm(dev array.Device, y []float64, places []int, shape array.Shape) (float64, error) {
	if min(shape.Rows, shape.Cols) >= largeSide {
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
		if err := dev.Err(); err != nil {
			return 0, err
		}
	}
	if shape.Len() > math.MaxInt32 {
		return 0, fmt.Errorf("the largest singular value of the observed entries is not separate from the next "+
			"ones after %d steps: expected a number for the weight in place of a multiple of the maximum", leadingSteps)
	}
	full := make([]float64, shape.Len())
	for i, c := range places {
		full[c] = y[i]
	}
	return spectralNorm(full, shape)
}

const (
	// Matrices whose smaller side is at least largeSide get their largest singular value from
	// subspace iteration, in at most leadingSteps steps. Its error is about the square of
	// leadingResidual, the error of the singular vectors.
	largeSide       = 500
	leadingSteps    = 300
	leadingResidual = 1e-7
)

// leadingValue is the largest singular value of a matrix; false where the iteration does not
// separate it from the others.
func leadingValue(dev array.Device, x subspace.Product, shape array.Shape) (float64, bool) {
	it := subspace.New(dev, shape)
	defer it.Free()
	for range leadingSteps {
		all, _, err := it.AdvanceAll(x, math.Inf(1))
		if dev.Err() != nil {
			all.Free()
			return 0, false
		}
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

// ImageOf is A b of an operator on dev.
func ImageOf(dev array.Device, a linops.Operator, b []float64) []float64 {
	d, p := a.Dims()
	from, to := dev.Put(b, 1, p), dev.Alloc(1, d)
	defer array.Free(from, to)
	a.Forward(to, from)
	return to.ToHost()
}
