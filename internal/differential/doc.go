// Package differential searches for wrong numbers: it draws small random problems with hostile
// features, solves each by package pipeline, and compares with a reference that shares no code with
// that path.
//
// # Cases
//
// [Generate] makes case i of a seed: an operator, a regularizer, y, sigma2, solver, derivative and
// trace estimator. Features are drawn on top: columns in units over 16 decades, duplicate, dependent,
// zero and constant columns, uncentred ones, empty rows, one entry a row, integer data, ties,
// clustered singular values, weights of 0, saturated constraints, lambda at and around the largest
// that matters, X and y of size 1e-50 to 1e50. Some cases have squares of K b besides the regularizer,
// and some nothing else: smoothers, among them Whittaker's with gaps.
//
// # The reference
//
// Numbers are double-doubles (32 digits), in units where operator, y and, where the regularizer
// allows it, every column are of size 1; the factors are powers of two, hence exact. The solution
// comes from the proximal point method with Newton's method on its dual, and from Newton's method
// on the face (the manifold) of the solution. It is certified: with f a subgradient of the
// objective F at b,
//
//	1/2 ||A b - A b*||^2 <= F(b) - F(b*) <= <f, b - b*>
//
// must bound the error of mu_hat by 1e-4 sigma sqrt(d), and usually bounds it by far less. On the
// face, with directions E and the curvature Q of r,
//
//	D mu_hat = A E K^+ E* A*,   K = E*(A*A + Q) E.
//
// A case is ambiguous where a change of the data by 1e-10 of their size, or by the error that the
// certificate allows, changes the rank of A E, or changes the face so that the divergence changes.
// The divergence may then be anything between those of the neighbours. mu_hat is continuous from
// face to face and is still compared, unless the rank of the data is uncertain.
//
// # Verdicts
//
// A result is right if SURE, the divergence and mu_hat agree with the reference to a hundredth of
// SURE's own error, plus the stated error of the trace estimate. A wrong result must be marked, by
// a warning ([surepipe/stages.Risk.Warnings]) or an error. A panic, or no result after ten seconds,
// is wrong.
package differential
