// Package krylov computes with operators by products alone: solutions of linear systems, and norms.
//
//	CG         M x = rhs for a self-adjoint positive definite M
//	MINRES     the same for a self-adjoint M of any sign
//	Norm2      ||A||_2 by the Lanczos process, with an error bound
//
// Every vector of a batch is a system of its own, which stops by its own residual. What an operator knows
// of itself ([linops.Structure]) is used where it saves an iteration.
package krylov
