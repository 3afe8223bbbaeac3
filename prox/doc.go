// Package prox holds convex regularizers, known by their proximal operators
//
//	prox_{t r}(v) = argmin_b  t r(b) + 1/2 ||b - v||^2
//
// and by the derivatives of these, on batches of vectors that live on any
// [array.Device].
//
// # The regularizers
//
//	Zero            0
//	NewL1           lambda ||b||_1
//	NewWeightedL1   lambda sum_j w_j |b_j|
//	NewSquaredL2    lambda/2 ||b||^2
//	NewElasticNet   lambda ||b||_1 + lambda2/2 ||b||^2
//	NewL2           lambda ||b||_2
//	NewGroupL2      lambda sum_g w_g ||b_g||_2, disjoint groups
//	NewNuclear      lambda ||B||_*, the sum of B's singular values
//	NonNegative     0 where b >= 0, else +Inf
//	NewBox          0 where lo <= b <= hi, else +Inf
//	NewSeparable    sum_i r_i(b_i), one regularizer a block of b
//	NewScaled       c r(b)
//	NewFunc         a user's own, as functions on slices
//
// Each is a plain value of [Prox], and so may be a user's own type; package
// proxtest checks that a type keeps the contract.
//
// # Derivatives
//
// [Prox.Linearize] evaluates and keeps what the derivative needs, so that
// applying it costs no more than that application. The Jacobian of a proximal
// operator is symmetric with eigenvalues in [0, 1]: it is the Hessian of a
// convex function whose gradient is 1-Lipschitz. One Apply is therefore both
// the Jacobian-vector and the vector-Jacobian product.
//
// At a kink (|v_j| equal to the threshold, a singular value equal to it) the
// entry counts as inactive, which is an element of the Clarke Jacobian.
//
// # Errors
//
// A negative or NaN lambda, a step t that is not positive and finite, and a
// shape mismatch are programmer's errors: they panic. Weights, bounds and
// groups are data: a constructor that takes them returns an error. lambda may be
// 0, where the proximal operator is the identity, and +Inf, where it is zero on
// all that is penalized.
//
// The elementwise operators carry a NaN of v into dst without looking for it,
// since a look would have to wait for the device. Those that compute on the
// host ([NewNuclear], [NewFunc]) return an error.
//
// # Memory
//
// A [Derivative] holds device memory until its Release. A Prox that was built
// from data on a device (weights, bounds, groups) holds that data; it is a
// [Releaser].
package prox
