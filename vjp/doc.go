// Package vjp differentiates the estimators that package solve computes,
//
//	b(y) = argmin_b  l(A b; y) + r(b),    mu_hat(y) = A b(y).
//
// A [Solver] gives a [Solution]; its [Linearization] applies the Jacobian D mu_hat(y), which is
// never formed, to a batch of probes in one sweep. D mu_hat is symmetric with eigenvalues in [0,
// 1], so that the vector-Jacobian product serves as the Jacobian-vector product too.
//
// [NewSolver] takes the name of a method of package solve. [FromMethod] takes a method from any
// package: the implicit derivative of a solution does not depend on the iterations that led to it,
// and a tape of iterations needs no more than solve.Method provides.
//
// # Implicit derivatives
//
// Where the solve has converged the solution itself is differentiated. Near a solution b the
// regularizer is smooth along a manifold with a tangent space T = E R^n and a curvature Q
// ([prox.Model]), and with H = A*A
//
//	D mu_hat = A E (E* H E + Q)^+ E* A*.
//
// A table of rules chooses the space and the system: factored once, so that the trace, the
// Frobenius norm and the diagonal are known too ([Closed]), or solved by preconditioned conjugate
// gradients for all probes together. For a regularizer without a model the derivative of its
// proximal operator is enough: the same system is solved on the range of that. The forward pass
// keeps nothing, and the result is more accurate than the unrolled derivative of the same solve,
// which lags behind the iterates.
//
// For r(K b) the space is {u : K u in T}. Where no basis of it is known a saddle point system takes its
// place, solved by minimal residuals; where a pilot probe does not settle it in a thousand steps, the
// iterations are differentiated.
//
// Whether a direction of b is in the null space of A is decided in one place, by a pivoted
// orthogonal factorization of A beside the square root of the curvature. Where a decision is within
// rounding errors or within the tolerance, the solve is continued to 1e-12, and a decision that is
// still open is reported as a range of the trace.
//
// # Unrolled derivatives
//
// The iterations are recorded on a tape of derivatives of proximal operators, which is swept in
// reverse (Nobel, Candes and Boyd, section II). The result is the derivative of the iterate that
// the solver stopped at; step sizes, restarts and balancing are held constant in it. A tape that
// would outgrow its budget is checkpointed. Where the derivatives are sparse and the operator can
// be restricted to columns, the sweep reads only the columns that it can reach.
//
// # Weights of the observations
//
// With a weighted squared loss, W = diag(w), the derivative returned is that of the whitened
// problem,
//
//	S = W^{1/2} A E (E* A* W A E + Q)^+ E* A* W^{1/2},
//
// which is symmetric with eigenvalues in [0, 1], where D mu_hat = A E (E* A* W A E + Q)^+ E* A* W
// is not. tr S = tr D mu_hat and ||S||_F^2 = tr (D mu_hat)^2, which is what an estimate of risk and
// its error bar need.
//
// # Other losses
//
// A loss that is not quadratic is the weighted squared loss of another problem near its solution,
// with the curvatures w_i = l^(2)_i(z_i; y_i) at z = A b as weights: what is differentiated, and
// returned, is the S above at these weights, from the solve to every rule that chooses how to
// compute it. tr S is the number of degrees of freedom. Where l^(2)_i > 0 the derivative of z by y
// itself is W^{-1/2} S W^{-1/2} for the logistic and the Poisson loss, and W^{-1/2} S W^{1/2} for
// losses of z - y. Iterations are not recorded.
package vjp
