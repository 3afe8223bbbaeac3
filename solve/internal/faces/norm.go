package faces

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/blas/blas64"

	"surepipe/internal/parallel"
)

// Norm is a lower bound of the largest eigenvalue of G_SS by so many products with it, or the
// largest diagonal entry of G where that is more. Every call goes on where the last one ended.
func (p *Point) Norm(products int) float64 {
	most := 0.0
	for j := range p.B {
		most = max(most, p.Diagonal(j))
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
		if p.outcomes() > 1 {
			p.multiply(x, y)
		} else {
			parallel.Ranges(len(p.active), strip, func(lo, hi int) {
				for _, j := range p.active[lo:hi] {
					y[j] = dot(p.row(j), x)
				}
			})
		}
		value := dot(x, y)
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

// Condition estimates the condition number of G_SS + Q_SS, with ones on its diagonal, in the norm of
// the largest sum of a column.
func (p *Program) Condition() float64 {
	if len(p.active) == 0 {
		return 1
	}
	sums := make([]float64, len(p.active))
	parallel.Ranges(len(p.active), parallel.Rows(len(p.active)), func(lo, hi int) {
		for s, j := range p.active[lo:hi] {
			row, sum := p.Gram(j), p.Q[j]*p.scale[j]
			for _, i := range p.active {
				sum += math.Abs(row[i]) * p.scale[i]
			}
			sums[lo+s] = sum * p.scale[j]
		}
	})
	return slices.Max(sums) * p.f.inverseNorm(len(p.active))
}

// mostTries bounds the columns of the inverse that are tried.
const mostTries = 5

// inverseNorm estimates the largest sum of a column of the absolute values of K^{-1}, for the n
// columns that are not held at 0 (Hager 1984; Higham, Algorithm 674, 1988): a lower bound, as a rule
// within a factor of 3.
func (f *factor) inverseNorm(n int) float64 {
	v, signs := make([]float64, f.n), make([]float64, f.n)
	apply := func() float64 {
		f.solve(v)
		return blas64.Asum(vector(v))
	}
	for i := range v {
		v[i] = 1 / float64(n)
	}
	most := apply()
	for range mostTries {
		same := true
		for i := range v {
			s := math.Copysign(1, v[i])
			same = same && s == signs[i]
			signs[i] = s
		}
		if same {
			break
		}
		copy(v, signs)
		apply()
		j := blas64.Iamax(vector(v))
		clear(v)
		v[j] = 1
		size := apply()
		if size <= most {
			break
		}
		most = size
	}
	for i := range v {
		v[i] = math.Copysign(1+float64(i)/float64(f.n), float64(1-2*(i&1)))
	}
	return max(most, 2*apply()/float64(3*n))
}

func startAt(j int) float64 {
	h := uint64(j+1) * 0x9e3779b97f4a7c15
	v := 1 + float64(h>>40)/(1<<24)
	if h&(1<<20) != 0 {
		return -v
	}
	return v
}

// Traces are those of D = (G_SS + Q_SS)^{-1} G_SS and of D*D: with K = G + Q, tr D = |S| - tr K^{-1} Q.
// projection reports that Q_SS is 0, so that D is a projection.
func (p *Program) Traces() (trace, frobenius2 float64, projection bool) {
	trace, frobenius2 = float64(len(p.active)), float64(len(p.active))
	projection = true
	q := make([]float64, len(p.columns)) // 0 for columns that are held
	for _, j := range p.active {
		q[p.place[j]] = p.scale[j] * p.scale[j] * p.Q[j]
		projection = projection && p.Q[j] == 0
	}
	if projection {
		return trace, frobenius2, true
	}
	inverse := p.f.inverse()
	for i, v := range q {
		if v == 0 {
			continue
		}
		row := inverse.Data[i*inverse.Stride : i*inverse.Stride+inverse.N]
		trace -= row[i] * v
		frobenius2 += -2*row[i]*v + row[i]*row[i]*v*v
		for k := i + 1; k < len(row); k++ {
			frobenius2 += 2 * row[k] * row[k] * v * q[k]
		}
	}
	return trace, frobenius2, false
}
