// Package subspace computes the singular values of a large matrix that exceed a threshold,
// few as they are, and certifies that there are no others.
//
// # Block subspace iteration
//
// An [Iteration] follows the leading singular vectors of a matrix X that changes little
// from one decomposition to the next: block subspace iteration with a Rayleigh-Ritz step,
//
//	Q R = X V,   Z = X* Q,   Z*Z = P S^2 P*,   U = Q P,   V <- Z P S^{-1},
//
// started at the V of the last time. X is known by products with it and its adjoint, two
// of them a step; what goes to the host is k x k, k being the size of the block. X* U = V S
// holds to rounding, whatever V was: what can be wrong is X V - U S alone
// ([Triplets.Residual]).
//
// The next start is not V but (X*X - s) V with s half the square of the smallest
// value of the block. The values outside the block then shrink relative to those inside by
// 1/(2 sigma^2/sigma_k^2 - 1) a time instead of (sigma_k/sigma)^2, at the price of one
// small product.
//
// # The certificate
//
// [BelowThreshold] says whether a matrix has no singular value above tau, at the price of
// a Gram matrix and its Cholesky factor on the host: tau^2 I - X*X has one exactly then.
// Applied to X - U S V* it certifies that no value was missed ([ExcessWithin]). Where one
// was, [Excess] says by how much. Of a matrix too large to be formed [Triplets.Certify] says
// the same by products with a few random vectors, but for a probability of 1e-18.
//
// # Source
//
// N. Halko, P.-G. Martinsson and J. A. Tropp, Finding structure with randomness, SIAM
// Review 53, 2011.
package subspace
