// Package vjp solves the convex program behind an estimator and differentiates
// the solution,
//
//	b(y) = argmin_b  1/2 ||A b - y||^2 + r(b),    mu_hat(y) = A b(y),
//
// through three oracles: b -> A b, z -> A* z, and v -> prox_{t r}(v) with its
// derivative. A [Solver] gives a [Solution]; the solution's [Linearization]
// applies the Jacobian D mu_hat(y), which is never formed, to a batch of probes
// in one sweep. D mu_hat is symmetric with eigenvalues in [0, 1], so that
// the vector-Jacobian product serves as the Jacobian-vector product too.
//
// # Solvers
//
//	direct  r(b) = c/2 ||b||^2 in closed form, by one singular value decomposition of A
//	ista    proximal gradient steps of length 1/||A||^2
//	fista   the same with momentum and adaptive restart
//	admm    alternating directions, the step length balanced by the residuals
//
// # When a solve is done
//
// A gradient at the point that is returned decides, never the step's own bookkeeping:
//
//   - Optimality bounds the distance from 0 to the objective's subdifferential, relative to ||A||
//     times the errors of mu_hat that matter, sigma sqrt(d). The columns of A
//     are scaled to about unit length inside, by powers of two, where their lengths differ and
//     the regularizer allows for other units ([prox.Rescaler]); where it does not each entry of
//     the subgradient is divided by the length of its column.
//   - Error bounds ||mu_hat - mu_hat*|| by the duality gap, where the regularizer's conjugate is
//     known ([prox.Conjugate]): the squared loss is strongly convex in A b, so that
//     ||A b - A b*||^2 <= 2 gap. Where the bound is not small against sigma sqrt(d) the solve goes on.
//
// Whether a direction of b is seen by A is decided in one place, by a pivoted orthogonal
// factorization of A beside the square root of the regularizer's curvature. Where a decision is
// within rounding errors, or within what the tolerance leaves open, a second solve to 1e-12 follows,
// and what stays open is reported as a range of the trace ([Tracer]).
//
// # Structure
//
// Solutions that are sparse or of low rank are not iterated on in full: ista and fista
// work on the coordinates that are not 0, where A can restrict itself to columns, and on
// the leading singular vectors, where r is the nuclear norm and A picks entries
// (the field Sampled of [linops.Structure]). They certify the rest before they stop. For any other A, and in all
// solvers, the nuclear norm's singular values above the threshold are followed from one
// iteration to the next ([prox.Follow]), certified in the same way.
//
// # Implicit derivatives
//
// Where the solve has converged the fixed point itself is differentiated: a few
// conjugate gradient steps for all probes together, each one prox derivative and
// one product with A and with A*, no tape, and the forward pass keeps nothing. It is
// the default, and more accurate than the unrolled derivative of the same solve:
// that one lags behind the iterates. A [Former] stops earlier where quadratic
// forms are all that is wanted, bounds what they lack, and reports probes that stopped short.
//
// # Unrolled derivatives
//
// The iterations are recorded as a tape of prox derivatives and differentiated
// in reverse (Nobel, Candes and Boyd, section II). The result is the
// derivative of the iterate that the solver stopped at; step sizes, restarts
// and balancing are held constant in it. Where the tape would outgrow its budget it is
// checkpointed. Where the derivatives are sparse and the operator can confine
// itself to columns, the sweep reads only those that it can reach.
package vjp
