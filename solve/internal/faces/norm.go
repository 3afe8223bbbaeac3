package faces

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/blas/blas64"
)

// Norm is a lower bound of the largest eigenvalue of G_SS by so many products, or the largest
// diagonal entry of G where that is more.
func (p *Program) Norm(products int) float64 {
	most := 0.0
	for j := range p.B {
		most = max(most, p.Gram(j)[j])
	}
	n := len(p.active)
	if n == 0 {
		return most
	}
	list := slices.Sorted(slices.Values(p.active))
	x, y := make([]float64, len(p.B)), make([]float64, len(p.B))
	for i, j := range list {
		x[j] = float64(1-2*(i&1)) + float64(i%7)/8
	}
	for range products {
		size := math.Sqrt(dot(x, x))
		clear(y)
		value := 0.0
		for _, j := range list {
			x[j] /= size
		}
		for _, j := range list {
			y[j] = dot(p.Gram(j), x)
			value += x[j] * y[j]
		}
		most = max(most, value)
		x, y = y, x
	}
	return most
}

func dot(x, y []float64) float64 {
	return blas64.Dot(blas64.Vector{N: len(x), Inc: 1, Data: x}, blas64.Vector{N: len(y), Inc: 1, Data: y})
}
