package system

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/internal/numerics"
	"surepipe/prox"
)

// tracesOf adds up the eigenvalues of D mu_hat = M K^{-1} M*, which are those of K^{-1} G = I - P,
// P = K^{-1} Q, and their squares. Q has few entries: it is diagonal, or has a block for each group.
func tracesOf(inverse *mat.Dense, q []float64) (trace, frobenius2 float64) {
	n, _ := inverse.Dims()
	p := make([]float64, n*n) // the transpose of P
	for k := range n {
		for c, v := range q[k*n : (k+1)*n] {
			if v != 0 {
				floats.AddScaled(p[c*n:(c+1)*n], v, inverse.RawRowView(k)) // K^{-1} is symmetric
			}
		}
	}
	return numerics.Complement(p, n)
}

// Diagonal is diag(q), row-major; nil where that is 0.
func Diagonal(q []float64) []float64 {
	n, zero := len(q), true
	full := make([]float64, n*n)
	for i, v := range q {
		full[i*n+i] = v
		zero = zero && v == 0
	}
	if zero {
		return nil
	}
	return full
}

// root is W with W*W = Q, from the eigenvalues of Q scaled to a diagonal of ones, or from its diagonal where Q is
// diagonal; nil where Q is 0. Eigenvalues that are rounding errors are 0: their roots may exceed what M has there.
func root(q []float64, n int) (*mat.Dense, error) {
	if q == nil {
		return nil, nil
	}
	if d := diagonalOf(q, n); d != nil {
		for i := range d {
			d[i] = math.Sqrt(max(d[i], 0))
		}
		return mat.DenseCopyOf(mat.NewDiagDense(n, d)), nil
	}
	scaled, sizes := make([]float64, n*n), make([]float64, n)
	for i := range sizes {
		sizes[i] = cmp.Or(math.Sqrt(max(q[i*n+i], 0)), 1)
	}
	for i, v := range q {
		scaled[i] = v / sizes[i/n] / sizes[i%n]
	}
	values, v, err := spectrum(scaled, n)
	if err != nil {
		return nil, err
	}
	w, least := mat.NewDense(n, n, nil), float64(n)*0x1p-52*slices.Max(values)
	w.Apply(func(i, c int, _ float64) float64 {
		if values[i] <= least {
			return 0
		}
		return math.Sqrt(values[i]) * v.At(c, i) * sizes[c]
	}, w)
	return w, nil
}

// vanishing is the size below which eigenvalues of J count as 0: D mu_hat has them times at most eta ||A||^2.
const vanishing = 1e-9

// Range is J = V diag(j) V*, n x n, on its range, so that Q = diag(1/j - 1)/eta.
type Range struct {
	Basis []float64 // V*, one eigenvector a row
	Dim   int
	// Curvature is Q, row-major; nil where all eigenvalues are 1 up to rounding errors.
	Curvature []float64
	// Coordinates says that J is diagonal, and the eigenvectors are unit vectors in their order.
	Coordinates bool
}

// RangeOf decomposes the n x n derivative of the proximal operator of eta r.
func RangeOf(dev array.Device, derivative prox.Derivative, n int, eta float64) (Range, error) {
	square := dev.Alloc(n, n)
	defer square.Free()
	dev.Fill(square, 0)
	dev.Fill(square.Diagonal(), 1)
	derivative.Apply(square, square)
	jacobian := square.ToHost()
	values, v := diagonalOf(jacobian, n), (*mat.Dense)(nil)
	r := Range{Coordinates: values != nil}
	if !r.Coordinates {
		var err error
		if values, v, err = spectrum(jacobian, n); err != nil {
			return r, err
		}
	}
	var j []float64
	for c, value := range values {
		if value <= vanishing {
			continue
		}
		j = append(j, value)
		row := make([]float64, n)
		if r.Coordinates {
			row[c] = 1
		} else {
			mat.Col(row, c, v)
		}
		r.Basis = append(r.Basis, row...)
	}
	r.Dim = len(j)
	q := make([]float64, r.Dim)
	for i, v := range j {
		if c := 1/v - 1; c > float64(n)*0x1p-46 {
			q[i] = c / eta
		}
	}
	r.Curvature = Diagonal(q)
	return r, nil
}

func diagonalOf(a []float64, n int) []float64 {
	diagonal, most := make([]float64, n), 0.0
	for i := range n {
		diagonal[i] = a[i*n+i]
		most = max(most, math.Abs(diagonal[i]))
	}
	for i := range n {
		for c := range n {
			if c != i && math.Abs(a[i*n+c]) > 0x1p-50*most {
				return nil
			}
		}
	}
	return diagonal
}

func spectrum(matrix []float64, n int) (values []float64, v *mat.Dense, err error) {
	if values, v, err = numerics.Eigen(numerics.Symmetrized(matrix, n)); err != nil {
		return nil, nil, fmt.Errorf("vjp: the derivative of the proximal operator: %w", err)
	}
	return values, v, nil
}
