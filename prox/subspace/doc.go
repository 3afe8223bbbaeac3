// Package subspace computes the singular values of a large matrix that exceed a threshold, where
// they are few, and certifies that there are no others.
//
// # Block subspace iteration
//
// An [Iteration] follows the leading singular vectors of a matrix X that changes little from one
// decomposition to the next: block subspace iteration with a Rayleigh-Ritz step,
//
//	Q R = X V,   Z = X* Q,   Z*Z = P S^2 P*,   U = Q P,   V <- Z P S^{-1},
//
// warm-started at the last V. X is given by products with it and its adjoint, one of each per step;
// the host gets k x k matrices, k being the size of the block. X* U = V S holds to rounding,
// whatever V was, so that the error is X V - U S alone ([Triplets.Residual]).
//
// The next step starts not at V but at (X*X - s) V with s half the square of the smallest value of
// the block. Relative to a value sigma of the block those outside then shrink by the factor 1/(2
// sigma^2/sigma_k^2 - 1) a step instead of (sigma_k/sigma)^2, for one more small product.
//
// # The certificate
//
// [BelowThreshold] reports whether a matrix has no singular value above tau, by a Gram matrix and
// its Cholesky factor on the host: tau^2 I - X*X has a factor exactly then. Applied to X - U S V*
// it certifies that no value was missed ([ExcessWithin]). Where one was, [Excess] gives its size.
// For a matrix too large to be formed [Triplets.Certify] does the same by products with a few
// random vectors, with a probability of error below 1e-18.
//
// # Source
//
// N. Halko, P.-G. Martinsson and J. A. Tropp, Finding structure with randomness, SIAM Review 53,
// 2011.
package subspace
