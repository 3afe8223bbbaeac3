// Package loss provides the smooth convex losses l(z; y) that fit z = A b to the observations y,
//
//	b(y) = argmin_b  l(A b; y) + r(b).
//
// Most are sums over observations: their gradient and the diagonal of their second derivative are vectors of length d.
// Others are [Coupled]: they have products with their second derivative and a root of it.
//
//	Squared          1/2 ||z - y||^2
//	WeightedSquared  1/2 sum_i w_i (z_i - y_i)^2
//	Logistic         sum_i w_i (log(1 + exp z_i) - y_i z_i)
//	Multinomial      sum_i w_i (log sum_k exp z_ik - sum_k y_ik z_ik)
//	Poisson          sum_i w_i (exp z_i - y_i z_i)
//	Huber            sum_i w_i h(z_i - y_i), quadratic up to delta and linear beyond
//	Cox              minus the logarithm of the partial likelihood of times of events
//
// Flags, help and specifications know them by a table, a [Kind] for each; [Register] adds one, and [New] makes
// it from a [Function] of one observation ([Of] in a table).
//
// z is the linear predictor A b: the expectation of y is a function of it ([Structure].Mean).
//
// Solvers take from a loss its gradient, its curvature, and an upper bound of that, which bounds the
// step, eta <= 1/(L ||A||^2). A quadratic loss is the squared loss of another problem, sqrt(w) A and
// sqrt(w) y, and package solve treats it as such: every solver, duality gap and factorization
// applies to it. Any other loss is a quadratic one near a point, with w its curvature there.
package loss

import "surepipe/array"

// Loss is a smooth convex loss l(z; y), a sum of l_i(z_i; y_i) unless it is [Joint]. It is immutable and safe for
// concurrent use. All batches have one vector of length d.
type Loss interface {
	// Value returns l(z; y).
	Value(z, y array.Batch) float64
	// Gradient sets dst to l'(z; y), the derivative by z; dst may be z or y.
	Gradient(dst, z, y array.Batch)
	// Weights returns w, 1 x d and positive or 0, where l(z; y) = 1/2 sum_i w_i (z_i - y_i)^2; the
	// zero Batch stands for ones. ok is false where the loss is not quadratic. w is the loss's.
	Weights() (w array.Batch, ok bool)
	// Curvature sets dst to l''(z; y), the second derivative by z, where that is diagonal, and else to the diagonal of
	// a matrix above it.
	Curvature(dst, z, y array.Batch)
	// Lipschitz is the least upper bound of l'' over all z, +Inf where none is known that serves.
	Lipschitz() float64
}
