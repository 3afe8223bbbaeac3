// Package system solves the linear systems that the derivative of an estimator consists of. With A on the
// tangent space of the regularizer, M = A E, and its curvature Q there,
//
//	D mu_hat = M K^+ M*,   K = M*M + Q
//
// (Lewis 2002; Vaiter, Deledalle, Peyre, Fadili 2017). A [System] gives products with D mu_hat and what else it
// knows of that matrix. There is one file a kind: D mu_hat is 0, a projection or a product ([Zero], [Project],
// [Transform]); K is factored ([Factor], [Defer]), or solved by conjugate gradients ([Iterate]); a saddle point
// system takes the place of a basis E ([NewSaddle]).
package system
