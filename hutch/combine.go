package hutch

import (
	"math"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
)

// independent is the leverage from which a vector counts as independent of all others, so that the
// basis is smaller without it.
const independent = 1 - 1e-10

// products is the matrix of all <a_i, b_j>.
func products(a, b array.Batch) *mat.Dense {
	dev := a.Device()
	c := dev.Alloc(a.K(), b.K())
	defer c.Free()
	dev.Gemm(false, true, 1, a, b, 0, c)
	return mat.NewDense(a.K(), b.K(), c.ToHost())
}

func mul(a, b mat.Matrix) *mat.Dense {
	var c mat.Dense
	c.Mul(a, b)
	return &c
}

// columnDot is <a_j, b_j> for column j of both.
func columnDot(a, b *mat.Dense, j int) (s float64) {
	rows, _ := a.Dims()
	for i := range rows {
		s += a.At(i, j) * b.At(i, j)
	}
	return s
}

// inner is the Frobenius inner product tr(A*B).
func inner(a, b *mat.Dense) (s float64) {
	_, cols := a.Dims()
	for j := range cols {
		s += columnDot(a, b, j)
	}
	return s
}

// exchangeable is the mean of x, where x_i is an unbiased estimate that depends on all probes but
// treats number i separately, and its standard error. The x_i are correlated. Let change(i, k) be
// the amount by which x_i is larger than it would be without probe k. Its expectation over s_i
// alone is 0, and so is that of x_i - tr M without probe k, whatever the other probes are: hence
//
//	cov(x_i, x_k) = E change(i, k) change(k, i),
//
// which is to say that the square of the standard error,
//
//	1/m(m-1) sum_i (x_i - mean)^2 + 1/m(m-1) sum_{i != k} change(i, k) change(k, i),
//
// is an unbiased estimate of the variance of the mean. (Epperly, Tropp and Webber give the first
// term only, which is smaller.) Rounding or chance may make the second sum negative; it then counts
// as 0.
//
// degrees is about the number of degrees of freedom of that square; [Widened] widens the error for
// them.
func exchangeable(x []float64, degrees int, change func(i, k int) float64) (mean, stdErr float64) {
	mean, stdErr = meanAndError(x)
	sum := 0.0
	for i := range x {
		for k := range i {
			sum += 2 * change(i, k) * change(k, i)
		}
	}
	m := float64(len(x))
	return mean, math.Sqrt(stdErr*stdErr+math.Max(0, sum)/(m*(m-1))) * Widened(max(1, degrees))
}

// meanAndError is the mean of x and its standard error, as if the x_i were
// independent.
func meanAndError(x []float64) (mean, stdErr float64) {
	m := float64(len(x))
	for _, v := range x {
		mean += v / m
	}
	squares := 0.0
	for _, v := range x {
		squares += (v - mean) * (v - mean)
	}
	return mean, math.Sqrt(squares / (m - 1) / m)
}
