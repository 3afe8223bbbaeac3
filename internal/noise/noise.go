package noise

import (
	"fmt"
	"math"
)

const (
	MethodMAD                 = "mad"
	MethodMedianSingularValue = "median-singular-value"
	MethodRobustLowRank       = "robust-low-rank"
	MethodOLSResidual         = "ols-residual"
)

type Estimate struct {
	// Sigma2 is positive and finite.
	Sigma2 float64
	// RelStdErr is the approximate standard error of Sigma2 over Sigma2, where the
	// method's assumptions hold. The method's function gives the formula.
	RelStdErr float64
	Method    string
}

// A Refusal is the error of a method that does not apply to the data. All errors of
// this package are refusals.
type Refusal struct {
	Method string
	Reason string
}

func (r *Refusal) Error() string {
	return fmt.Sprintf("sigma2 cannot be estimated (%s): %s; give sigma2 (--sigma2)", r.Method, r.Reason)
}

func refuse(method, format string, args ...any) (Estimate, error) {
	return Estimate{}, &Refusal{method, fmt.Sprintf(format, args...)}
}

func estimate(method string, sigma2, relStdErr float64) (Estimate, error) {
	if !(sigma2 > 0) || math.IsInf(sigma2, 0) {
		return refuse(method, "it comes to %g; scale the data", sigma2)
	}
	return Estimate{Sigma2: sigma2, RelStdErr: relStdErr, Method: method}, nil
}

// largest is the largest magnitude, and nonFinite the place of the first NaN or Inf
// or -1.
func largest(x []float64) (m float64, nonFinite int) {
	for i, v := range x {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return 0, i
		}
		m = max(m, math.Abs(v))
	}
	return m, -1
}

// finiteMatrix is the largest magnitude of a matrix of rows x cols, and refuses one with a NaN or an Inf; expected
// says what else is expected.
func finiteMatrix(method string, y []float64, rows, cols int, expected string) (most float64, err error) {
	if rows < 0 || cols < 0 || len(y) != rows*cols {
		panic(fmt.Sprintf("noise: %d x %d entries with %d values", rows, cols, len(y)))
	}
	most, bad := largest(y)
	if bad >= 0 {
		_, err = refuse(method, "y holds %g at [%d, %d], expected finite numbers%s", y[bad], bad/cols, bad%cols,
			expected)
	}
	return most, err
}

// epsilon is the distance from 1 to the next float64.
const epsilon = 0x1p-52
