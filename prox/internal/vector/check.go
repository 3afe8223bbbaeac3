package vector

import (
	"fmt"
	"math"

	"surepipe/array"
)

// CheckLambda panics unless lambda is in [0, +Inf].
func CheckLambda(what string, lambda float64) {
	if !(lambda >= 0) {
		panic(fmt.Sprintf("prox: %s is %v, want a number >= 0", what, lambda))
	}
}

// CheckEval panics unless dst and v are batches of one shape with vectors of length dim (0 for any)
// and t is a step.
func CheckEval(op string, dim int, dst, v array.Batch, t float64) {
	if dst.K() != v.K() || dst.N() != v.N() || dim != 0 && v.N() != dim {
		panic(fmt.Sprintf("prox: %s of %s into %s, dimension %d", op, v, dst, dim))
	}
	if !(t > 0) || math.IsInf(t, 1) {
		panic(fmt.Sprintf("prox: %s with step t = %v, want a positive finite number", op, t))
	}
}

// CheckLinearize is CheckEval for a batch that must be of one vector.
func CheckLinearize(op string, dim int, dst, v array.Batch, t float64) {
	if v.K() != 1 {
		panic(fmt.Sprintf("prox: %s linearized at %s, want one vector", op, v))
	}
	CheckEval(op, dim, dst, v, t)
}

// CheckApply panics unless dst and z are batches of one shape with vectors of length n.
func CheckApply(op string, n int, dst, z array.Batch) {
	if dst.K() != z.K() || dst.N() != n || z.N() != n {
		panic(fmt.Sprintf("prox: derivative of %s of %s into %s, dimension %d", op, z, dst, n))
	}
}

// CheckValue panics unless b is one vector of length dim (0 for any).
func CheckValue(op string, dim int, b array.Batch) {
	if b.K() != 1 || dim != 0 && b.N() != dim {
		panic(fmt.Sprintf("prox: value of %s at %s, want one vector of dimension %d", op, b, dim))
	}
}

// Times is a * b with 0 * Inf = 0: a weight of 0 penalizes nothing, whatever the other factor is.
func Times(a, b float64) float64 {
	if a == 0 || b == 0 {
		return 0
	}
	return a * b
}

// Norm1 is the sum of the absolute values of a batch of one vector.
func Norm1(b array.Batch) float64 {
	s := 0.0
	for _, x := range b.Read() {
		s += math.Abs(x)
	}
	return s
}

// CheckRadius panics unless s is in [0, +Inf].
func CheckRadius(what string, s float64) {
	if !(s >= 0) {
		panic(fmt.Sprintf("prox: %s has radius %v, want a number >= 0", what, s))
	}
}
