// Package krylov computes with operators by products alone: solutions of linear systems and of least squares,
// norms, and preconditioners.
//
//	CG         M x = rhs for a self-adjoint positive definite M
//	MINRES     the same for a self-adjoint M of any sign
//	LSQR       min ||A x - rhs||^2 + sum_j l_j^2 x_j^2
//	Norm2      ||A||_2 by the Lanczos process, with an error bound
//	Nystrom    M's large eigenvalues from products with random vectors, as a preconditioner
//
// Every vector of a batch is a system of its own, which stops by its own residual. What an operator knows
// of itself ([linops.Structure]) is used where it saves an iteration.
package krylov
