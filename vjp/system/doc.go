// Package system solves the linear systems that the derivative of an estimator consists of. With A on the
// tangent space of the regularizer, M = A E, and its curvature Q there,
//
//	D mu_hat = M K^+ M*,   K = M*M + Q
//
// (Lewis 2002; Vaiter, Deledalle, Peyre, Fadili 2017). A [System] gives products with D mu_hat and what else it knows
// of that matrix. D mu_hat is 0, a projection or a product ([Zero], [Project], [Transform], in closed.go); K is
// factored ([Factor], [Defer]), solved by conjugate gradients ([Iterate]), or an arrow by the factors of a low rank
// ([Arrow]); a saddle point system takes the place of a basis E ([Saddle]); the rest are the tape of the iterations and
// the matrix of a linear estimator.
//
// A new kind is a file here with a type that implements System, chosen by a row of the rules in vjp/choose.go, or,
// behind an operator K, in vjp/behind.go. TestSystemsAgreeWithDenseAlgebra holds those that its problems list against
// dense algebra: images, inverse, trace, diagonal, root, blocks and moments. Not listed are [Arrow], [IterateReduced],
// [IterateUnseen], [Hat] and [Unrolled], which take what a solver made, and are reached by the tests of package vjp
// alone. Control, Images, Products, Mapped and Leverages of [Closed] are not compared there, and of Rough only the
// range is.
package system
