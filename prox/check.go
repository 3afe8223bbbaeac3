package prox

import (
	"fmt"
	"math"

	"surepipe/array"
)

// checkLambda panics unless lambda is in [0, +Inf].
func checkLambda(what string, lambda float64) {
	if !(lambda >= 0) {
		panic(fmt.Sprintf("prox: %s is %v, want a number >= 0", what, lambda))
	}
}

// checkEval panics unless dst and v are batches of one shape with vectors of length dim (0 for any)
// and t is a step.
func checkEval(op string, dim int, dst, v array.Batch, t float64) {
	if dst.K() != v.K() || dst.N() != v.N() || dim != 0 && v.N() != dim {
		panic(fmt.Sprintf("prox: %s of %s into %s, dimension %d", op, v, dst, dim))
	}
	if !(t > 0) || math.IsInf(t, 1) {
		panic(fmt.Sprintf("prox: %s with step t = %v, want a positive finite number", op, t))
	}
}

// checkLinearize is checkEval for a batch that must be of one vector.
func checkLinearize(op string, dim int, dst, v array.Batch, t float64) {
	if v.K() != 1 {
		panic(fmt.Sprintf("prox: %s linearized at %s, want one vector", op, v))
	}
	checkEval(op, dim, dst, v, t)
}

// checkApply panics unless dst and z are batches of one shape with vectors of length n.
func checkApply(op string, n int, dst, z array.Batch) {
	if dst.K() != z.K() || dst.N() != n || z.N() != n {
		panic(fmt.Sprintf("prox: derivative of %s of %s into %s, dimension %d", op, z, dst, n))
	}
}

// checkValue panics unless b is one vector of length dim (0 for any).
func checkValue(op string, dim int, b array.Batch) {
	if b.K() != 1 || dim != 0 && b.N() != dim {
		panic(fmt.Sprintf("prox: value of %s at %s, want one vector of dimension %d", op, b, dim))
	}
}

// times is a * b with 0 * Inf = 0: a weight of 0 penalizes nothing, whatever the other factor is.
func times(a, b float64) float64 {
	if a == 0 || b == 0 {
		return 0
	}
	return a * b
}

// onHost returns the values of a batch of one vector, which must not be modified: the batch's own
// where they are in the host's memory, else a copy.
func onHost(b array.Batch) []float64 {
	if row, ok := b.HostRow(0); ok {
		return row
	}
	return b.ToHost()
}

// norm1 is the sum of the absolute values of a batch of one vector.
func norm1(b array.Batch) float64 {
	s := 0.0
	for _, x := range onHost(b) {
		s += math.Abs(x)
	}
	return s
}

// norm2Squared is the squared Euclidean norm of a batch of one vector.
func norm2Squared(b array.Batch) float64 {
	var s [1]float64
	b.Device().Dot(s[:], b, b)
	return s[0]
}

// checkRadius panics unless s is in [0, +Inf].
func checkRadius(what string, s float64) {
	if !(s >= 0) {
		panic(fmt.Sprintf("prox: %s has radius %v, want a number >= 0", what, s))
	}
}
