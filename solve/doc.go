// Package solve has the iterations behind an estimator,
//
//	b(y) = argmin_b  l(A b; y) + r(b),    mu_hat(y) = A b(y),
//
// and nothing of their derivatives, which are package vjp's. It knows a problem by the products
// with A and A*, the gradient of the loss, and the proximal operator of r. A [Solver] is made once
// for a problem and solves for many y; a [Solution] carries its [Convergence] and the choices that
// were made.
//
// # Methods
//
// A [Method] is a recurrence s_{k+1} = F_k(s_k, y) with an estimate b_{k+1} in every iteration: any
// number of vectors of any lengths. [Methods] is the table of those that [New] knows. To write one:
//
//   - Traits gives the lengths of the state's vectors, and a bound of ||A||^2.
//   - Init sets the first state; zeros are there already.
//   - Step advances the state in place, and evaluates the proximal operator by [Work.Prox].
//   - Measure bounds a subgradient at the new estimate and chooses the coefficients of the next
//     iteration, its step for one. Where it cannot bound one a rough number will do: it only tells
//     the driver when to look.
//   - Reverse is the transpose of the derivative of Step. Read Step from the bottom to the top, and
//     for every line dst = a x + c y add a times the adjoint of dst to that of x and c times to
//     that of y; the proximal operator is j, the operator A becomes A*, and what reaches y goes to
//     dst.
//
// Everything else is [Run]'s: tolerance, cancellation, warm starts, progress and a [Tape]. A method
// whose constructor joins the table, or is handed to [NewFrom] or to vjp.FromMethod, is given
// problems in units in which their columns have about length 1, and with whitened observations.
// Package solvetest checks a method's promises. The example of vjp.FromMethod is a primal-dual
// method in some eighty lines.
//
// # When a solve is done
//
// A gradient at the point that is returned decides, never the step's own bookkeeping:
//
//   - Optimality bounds the distance from 0 to the objective's subdifferential, relative to ||A||
//     times the errors of mu_hat that matter, sigma sqrt(d). The columns of A are scaled to about
//     unit length inside, by powers of two, where their lengths differ and the regularizer allows
//     for other units. Where it does not, each entry of the subgradient is divided by the length of
//     its column.
//   - Error bounds ||mu_hat - mu_hat*|| by the duality gap, where the regularizer's conjugate is
//     known: the squared loss is strongly convex in A b, so that ||A b - A b*||^2 <= 2 gap. Where
//     the bound is not small against sigma sqrt(d) the solve goes on.
//
// [Yardstick] has the numbers.
//
// # Losses
//
// Quadratic losses are whitened: a weighted squared loss is the squared loss of sqrt(w) A and
// sqrt(w) y, which every method and every duality gap serves. mu_hat = A b stays in the user's
// units, and weights of 0 leave observations out. The derivative of the whitened problem is
// symmetric and has the traces that an estimate of risk needs; that of mu_hat itself is not
// symmetric (see the type whitened). For other losses ista and fista take the gradient, and the
// step from its Lipschitz constant.
//
// # Structure
//
// Solutions that are sparse or of low rank are not iterated on in full. Proximal gradient methods
// work on the coordinates that are not 0, where A can be confined to columns, and on factors of a
// matrix, where r is the nuclear norm and A picks entries. They certify the rest before they stop.
// In all other cases the nuclear norm's singular values above the threshold are followed from one
// iteration to the next, certified in the same way. The tables of rules.go make these choices, and
// [Solution].Choices tells which were made and why.
//
// A derivative at the solution is to be computed where the solution was: [Solution].At is the
// problem in the units and on the coordinates in which it was solved.
package solve
