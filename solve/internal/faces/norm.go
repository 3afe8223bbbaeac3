package faces

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack/lapack64"
)

// Norm is a lower bound of the largest eigenvalue of G_SS by so many products with it, or the
// largest diagonal entry of G where that is more. Every call goes on where the last one ended.
func (p *Program) Norm(products int) float64 {
	most := 0.0
	for j := range p.B {
		most = max(most, p.Gram(j)[j])
	}
	if len(p.active) == 0 {
		return most
	}
	for j := len(p.top); j < len(p.B); j++ {
		p.top = append(p.top, startAt(j))
	}
	x, y := make([]float64, len(p.B)), make([]float64, len(p.B))
	for range products {
		clear(x)
		for _, j := range p.active {
			x[j] = p.top[j]
		}
		size := norm(x)
		blas64.Scal(1/size, vector(x))
		value := 0.0
		for _, j := range p.active {
			y[j] = dot(p.Gram(j), x)
			value += x[j] * y[j]
		}
		most = max(most, value)
		for _, j := range p.active {
			p.top[j] = y[j]
		}
	}
	p.Products += products
	return most
}

func dot(x, y []float64) float64 {
	return blas64.Dot(vector(x), vector(y))
}

func norm(x []float64) float64 { return blas64.Nrm2(vector(x)) }

// Condition estimates the condition number of G_SS + Q_SS with ones on its diagonal, in the norm of
// the largest sum of a column over the smallest eigenvalue: that by inverse iteration, which every
// call continues where the last one ended. It is that of all columns of the factor, which is larger
// where some are held at 0.
func (p *Program) Condition() float64 {
	n := len(p.columns)
	if n == 0 {
		return 1
	}
	most := 0.0
	for _, j := range p.columns {
		row, sum := p.Gram(j), p.Q[j]*p.scale[j]
		for _, i := range p.columns {
			sum += math.Abs(row[i]) * p.scale[i]
		}
		most = max(most, sum*p.scale[j])
	}
	for j := len(p.low); j < len(p.B); j++ {
		p.low = append(p.low, startAt(j))
	}
	x := make([]float64, n)
	for i, j := range p.columns {
		x[i] = p.low[j]
	}
	steps := inverseSteps
	if p.inverted == 0 {
		steps = firstSteps
	}
	p.inverted++
	least := math.Inf(1)
	for range steps {
		// A little of another direction finds an eigenvector that has joined.
		size := norm(x)
		for i := range x {
			x[i] = x[i]/size + mixed*startAt(i+p.inverted)/math.Sqrt(float64(n))
		}
		blas64.Scal(1/norm(x), vector(x))
		before := slices.Clone(x)
		p.f.transposed(x)
		p.f.direct(x)
		least = min(least, 1/math.Abs(dot(before, x)), 1/norm(x))
	}
	for i, j := range p.columns {
		p.low[j] = x[i] / norm(x)
	}
	return most / least
}

const (
	inverseSteps = 2
	firstSteps   = 6
	mixed        = 1e-2
)

// startAt is a number between 1 and 2 with a sign that look random.
func startAt(j int) float64 {
	h := uint64(j+1) * 0x9e3779b97f4a7c15
	v := 1 + float64(h>>40)/(1<<24)
	if h&(1<<20) != 0 {
		return -v
	}
	return v
}

// Traces are those of D = (G_SS + Q_SS)^{-1} G_SS and of D*D: with K = G + Q, tr D = |S| - tr K^{-1} Q.
// projection reports that Q_SS is 0, so that D is a projection; otherwise the factor must be
// settled.
func (p *Program) Traces() (trace, frobenius2 float64, projection bool) {
	n := len(p.active)
	trace, frobenius2 = float64(n), float64(n)
	q := make([]float64, n)
	projection = true
	for i, j := range p.active {
		q[i] = p.scale[j] * p.scale[j] * p.Q[j]
		projection = projection && q[i] == 0
	}
	if projection {
		return trace, frobenius2, true
	}
	r := blas64.Triangular{Uplo: blas.Upper, Diag: blas.NonUnit, N: n, Stride: n, Data: make([]float64, n*n)}
	for i := range n {
		copy(r.Data[i*n+i:i*n+n], p.f.r[i*p.f.stride+i:i*p.f.stride+n])
	}
	inverse, _ := lapack64.Potri(r) // its diagonal is positive
	for i := range n {
		row := inverse.Data[i*n : i*n+n]
		trace -= row[i] * q[i]
		frobenius2 += -2*row[i]*q[i] + row[i]*row[i]*q[i]*q[i]
		for k := i + 1; k < n; k++ {
			frobenius2 += 2 * row[k] * row[k] * q[i] * q[k]
		}
	}
	return trace, frobenius2, false
}
