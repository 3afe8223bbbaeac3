// Package prox provides convex regularizers, given by their proximal operators
//
//	prox_{t r}(v) = argmin_b  t r(b) + 1/2 ||b - v||^2
//
// and the derivatives of these, on batches of vectors on any [array.Device].
//
// # The regularizers
//
//	Zero            0
//	NewL1           lambda ||b||_1
//	NewWeightedL1   lambda sum_j w_j |b_j|
//	NewSquaredL2    lambda/2 ||b||^2
//	NewElasticNet   lambda ||b||_1 + lambda2/2 ||b||^2
//	NewGroupL2      lambda sum_g w_g ||b_g||_2, disjoint groups
//	NewGroupLinf    lambda sum_g w_g ||b_g||_inf, disjoint groups
//	NonNegative     0 where b >= 0, else +Inf
//	NewBox          0 where lo <= b <= hi, else +Inf
//	NewLinfBall     0 where ||b||_inf <= c, else +Inf
//	NewSeparable    sum_i r_i(b_i), one regularizer a block of b
//	NewScaled       c r(b)
//	NewShifted      r(b - c)
//	NewFunc         a user's own, as functions on slices
//
// Others have packages of their own:
//
//	prox/clustered  NewTV1D         lambda sum_i |b_{i+1} - b_i|, the fused LASSO's
//	                NewSortedL1     sum_i lambda_i |b|_(i), the norm of SLOPE and OWL
//	prox/cones      NewL1Ball       0 where ||b||_1 <= s, else +Inf
//	                NewSimplex      0 where b >= 0 and sum_j b_j = s, else +Inf
//	                NewL2Ball       0 where ||b||_2 <= c, else +Inf
//	                NewSecondOrderCones   0 where b_{c_0} >= ||(b_{c_1}, ...)||_2 for each cone c, else +Inf
//	                NewSemidefinite 0 where B is symmetric and positive semidefinite, else +Inf
//	prox/lowrank    NewNuclear      lambda ||B||_*, the sum of B's singular values
//	prox/denoise    NewLocalLowRank, NewShrinkage   those whose proximal operator is a denoiser: singular values
//	                                of patches, or coefficients in a Parseval frame, thresholded
//
// Each is a value of [Prox], and so may be a user's own type; package proxtest checks that a type
// keeps the contract.
//
// # Derivatives and models
//
// [Prox.Linearize] evaluates and keeps what the derivative needs, so that applying the derivative
// repeats no work. The Jacobian J of a proximal operator is symmetric with eigenvalues in [0, 1]:
// it is the Hessian of a convex function whose gradient is 1-Lipschitz. One Apply is therefore both
// the Jacobian-vector and the vector-Jacobian product.
//
// Most regularizers are partly smooth: near a point b they are smooth along a manifold through b,
// the vectors of the same support, of the same groups of equal entries, the matrices of the same
// rank. With the manifold's tangent space T = E R^n and the curvature Q of r along it
//
//	J = E (E*E + t Q)^{-1} E*,
//
// and the derivative of the estimator b(y) = argmin 1/2 ||A b - y||^2 + r(b) needs nothing else of
// r. A [Derivative] provides both as its [Model]:
//
//	                            T                                          Q
//	NewL1, NewWeightedL1        the coordinates that are not 0             0
//	NonNegative, NewBox,
//	NewLinfBall                 the coordinates strictly inside            0
//	NewElasticNet               the coordinates that are not 0             lambda2 I
//	Zero, NewSquaredL2          R^p                                        lambda I
//	NewGroupL2                  the groups that are not 0                  lambda w_g/||b_g|| (I - u u*) of each
//	NewGroupLinf                vectors constant up to sign on the largest
//	                            entries of each group that is not 0        0
//	NewSortedL1                 vectors constant up to sign where |b| is   0
//	NewTV1D                     vectors constant where b is                0
//	NewSimplex, NewL1Ball       on the coordinates that are not 0, what is
//	                            orthogonal to their signs                  0
//	NewL2Ball                   R^p, or what is orthogonal to b            ||g||/c I
//	NewSecondOrderCones         on the coordinates that are not 0, what    (1/e - 1)/t of each cone,
//	                            is orthogonal to the cones' normals        but along the ray to b
//	NewSemidefinite             symmetric matrices whose part on the null  -l_j/(t l_i), diagonal in
//	                            space of B vanishes                        the eigenvectors
//	NewNuclear                  U M + N V*, all M and N, U and V the       known by products
//	                            singular vectors of B with sigma > 0
//	NewSeparable                the product of the blocks'                 block diagonal
//
// u is b/||b||, and g = (v - b)/t the subgradient, on which the curvature of a surface depends. Where Q = 0, J
// is the orthogonal projection on T, and its trace, the divergence, counts degrees of freedom: the nonzero
// entries of the LASSO (Zou, Hastie, Tibshirani 2007), the pieces of the fused LASSO (Tibshirani, Taylor 2012),
// the distinct magnitudes of SLOPE (Minami 2020).
//
// A model is right as long as no point with another model is within the error of v: Model.Margin is
// the distance to the nearest such point.
//
// At a kink (|v_j| equal to the threshold, a singular value equal to it) the entry counts as
// inactive, which is an element of the Clarke Jacobian. NewTV1D and NewSortedL1 document what that means for
// pieces and ties.
//
// [NewFunc] has no model. If it is given no derivative either, J z comes from central differences
// of the proximal operator.
//
// # Structure
//
// What is known about a regularizer beyond its proximal operator is one value, a [Structure]: r(b),
// whether r is quadratic or a nuclear norm, on which coordinates it does not depend, its
// restriction to a subspace, its form in other units, the terms of a duality gap, and how to follow
// the iterates of a solver. [StructureOf] returns it. The zero Structure says nothing and is always
// true, so that a user's own type need not have one; solvers and derivatives then take the general
// path. The structure of NewScaled, NewSeparable and [Block] follows from their parts.
//
// # Following
//
// The iterates of a solver are close to each other, and the result of one evaluation can warm-start
// the next: see [Follower], an inexact proximal operator. An evaluation is then the proximal point
// of some v' near v, with a certified bound of the distance, which can be made as small as
// required. NewNuclear follows by the partial SVD of package subspace, which computes a few more
// singular values than exceed the threshold where [Prox.Eval] computes all; only matrices of that
// size go to the host. The certificate takes the Gram matrix, once per solve.
//
// # Errors
//
// A negative or NaN lambda, a step t that is not positive and finite, and a shape mismatch are
// programmer's errors: they panic. Weights, bounds and groups are data: a constructor that takes
// them returns an error. lambda may be 0, where the proximal operator is the identity, and +Inf,
// where every penalized entry is zero.
//
// The elementwise operators carry a NaN of v into dst without checking for it, since a check would
// have to wait for the device. Those that need an order of the entries, singular values or eigenvalues,
// second-order cones and [NewFunc] compute on the host, and return an error; their derivatives stay on the device.
//
// # Sources
//
//   - Models: A. S. Lewis, Active sets, nonsmoothness, and sensitivity, SIAM Journal on
//     Optimization, 2002; S. Vaiter, C. Deledalle, G. Peyré, J. Fadili and C. Dossal, The degrees
//     of freedom of partly smooth regularizers, Annals of the Institute of Statistical
//     Mathematics, 2017.
//
//   - NewTV1D: N. A. Johnson, A dynamic programming algorithm for the fused lasso
//     and L0-segmentation, Journal of Computational and Graphical Statistics, 2013.
//     Divergence: R. J. Tibshirani and J. Taylor, Degrees of freedom in lasso
//     problems, Annals of Statistics, 2012.
//
//   - NewSortedL1: M. Bogdan, E. van den Berg, C. Sabatti, W. Su and E. J. Candès,
//     SLOPE: adaptive variable selection via convex optimization, Annals of Applied
//     Statistics, 2015; X. Zeng and M. A. T. Figueiredo, The ordered weighted l1
//     norm: atomic formulation, projections, and algorithms, 2014. Divergence: K.
//     Minami, Degrees of freedom in submodular regularization: a computational
//     perspective of Stein's unbiased risk estimate, Journal of Multivariate Analysis, 2020.
//
//   - NewGroupLinf: B. A. Turlach, W. N. Venables and S. J. Wright, Simultaneous
//     variable selection, Technometrics, 2005.
//
//   - NewSimplex: M. Held, P. Wolfe and H. P. Crowder, Validation of subgradient
//     optimization, Mathematical Programming, 1974; C. Michelot, A finite algorithm
//     for finding the projection of a point onto the canonical simplex of R^n,
//     Journal of Optimization Theory and Applications, 1986.
//
//   - NewL1Ball: J. Duchi, S. Shalev-Shwartz, Y. Singer and T. Chandra, Efficient
//     projections onto the l1-ball for learning in high dimensions, ICML 2008.
//
//   - NewSecondOrderCones: M. Fukushima, Z.-Q. Luo and P. Tseng, Smoothing functions for
//     second-order-cone complementarity problems, SIAM Journal on Optimization, 2001.
//
//   - NewSemidefinite: J. Malick and H. S. Sendov, Clarke generalized Jacobian of the projection
//     onto the cone of positive semidefinite matrices, Set-Valued Analysis, 2006.
//
// # Memory
//
// A [Derivative] holds device memory, its model included, until its Release. A Prox that was built
// from data on a device (weights, bounds, groups) holds that data until [Release].
package prox
