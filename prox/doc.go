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
//	NewGroupLinf    lambda sum_g w_g ||b_g||_inf, disjoint groups
//	NewSortedL1     sum_i lambda_i |b|_(i), the norm of SLOPE and OWL
//	NewTV1D         lambda sum_i |b_{i+1} - b_i|, the fused LASSO's
//	NewNuclear      lambda ||B||_*, the sum of B's singular values
//	NonNegative     0 where b >= 0, else +Inf
//	NewBox          0 where lo <= b <= hi, else +Inf
//	NewLinfBall     0 where ||b||_inf <= c, else +Inf
//	NewL1Ball       0 where ||b||_1 <= s, else +Inf
//	NewSimplex      0 where b >= 0 and sum_j b_j = s, else +Inf
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
// Where r is polyhedral J is an orthogonal projection, and its trace, the
// divergence, counts what is free to move:
//
//	NewL1           entries that are not 0 (Zou, Hastie, Tibshirani 2007)
//	NewTV1D         constant pieces (Tibshirani, Taylor 2012)
//	NewSortedL1     distinct magnitudes that are not 0 (Minami 2020)
//	NewGroupLinf    in each group that is not 0: entries below its maximum, plus 1
//	NewSimplex      entries that are not 0, less 1
//	NewL1Ball       outside the ball: entries that are not 0, less 1
//
// At a kink (|v_j| equal to the threshold, a singular value equal to it) the
// entry counts as inactive, which is an element of the Clarke Jacobian. What
// that means for pieces and ties [NewTV1D] and [NewSortedL1] say.
//
// # Following
//
// The iterates of a solver are close to each other, and what one evaluation found out can
// start the next: [Follow]. An evaluation is then the proximal point of some v' near v, how
// near a certificate says, and as near as is asked for. [NewNuclear] follows by the partial
// SVD of package subspace, of a few more values than exceed the threshold where [Prox.Eval]
// takes all; what goes to the host is as small as that number squared. The certificate takes
// the Gram matrix, once a solve.
//
// # Errors
//
// A negative or NaN lambda, a step t that is not positive and finite, and a
// shape mismatch are programmer's errors: they panic. Weights, bounds and
// groups are data: a constructor that takes them returns an error. lambda may be
// 0, where the proximal operator is the identity, and +Inf, where all that is
// penalized is zero.
//
// The elementwise operators carry a NaN of v into dst without looking for it,
// since a look would have to wait for the device. Those that compute on the
// host ([NewNuclear], [NewTV1D], [NewSortedL1], [NewGroupLinf], [NewSimplex],
// [NewL1Ball], [NewFunc]) return an error.
//
// # Where it is computed
//
// Those that need an order of the entries ([NewTV1D], [NewSortedL1],
// [NewGroupLinf], [NewSimplex], [NewL1Ball]) download each vector, compute on
// the host and upload the result. Their derivatives stay on the device.
//
// # Sources
//
//   - NewTV1D: N. A. Johnson, A dynamic programming algorithm for the fused lasso
//     and L0-segmentation, Journal of Computational and Graphical Statistics, 2013.
//     Divergence: R. J. Tibshirani and J. Taylor, Degrees of freedom in lasso
//     problems, Annals of Statistics, 2012.
//   - NewSortedL1: M. Bogdan, E. van den Berg, C. Sabatti, W. Su and E. J. Candès,
//     SLOPE: adaptive variable selection via convex optimization, Annals of Applied
//     Statistics, 2015; X. Zeng and M. A. T. Figueiredo, The ordered weighted l1
//     norm: atomic formulation, projections, and algorithms, 2014. Divergence: K.
//     Minami, Degrees of freedom in submodular regularization: a computational
//     perspective of Stein's unbiased risk estimate, Journal of Multivariate Analysis, 2020.
//   - NewGroupLinf: B. A. Turlach, W. N. Venables and S. J. Wright, Simultaneous
//     variable selection, Technometrics, 2005.
//   - NewSimplex: M. Held, P. Wolfe and H. P. Crowder, Validation of subgradient
//     optimization, Mathematical Programming, 1974; C. Michelot, A finite algorithm
//     for finding the projection of a point onto the canonical simplex of R^n,
//     Journal of Optimization Theory and Applications, 1986.
//   - NewL1Ball: J. Duchi, S. Shalev-Shwartz, Y. Singer and T. Chandra, Efficient
//     projections onto the l1-ball for learning in high dimensions, ICML 2008.
//
// # Memory
//
// A [Derivative] holds device memory until its Release. A Prox that was built
// from data on a device (weights, bounds, groups) holds that data; it is a
// [Releaser].
package prox
