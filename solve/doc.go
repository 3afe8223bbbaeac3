// Package solve computes the solution behind an estimator,
//
//	b(y) = argmin_b  l(A b; y) + r(b),    mu_hat(y) = A b(y),
//
// and leaves derivatives to package vjp. A problem is given by products with A and A*, the gradient
// of the loss, and the proximal operator of r. A [Solver] is made once for a problem and solves for
// many y; a [Solution] has its [Convergence] and the choices that were made.
//
// # Methods
//
// A [Method] is a recurrence s_{k+1} = F_k(s_k, y) with an estimate b_{k+1} in every iteration: any
// number of vectors of any lengths. [Methods] is the table of those that [New] knows. To write one:
//
//   - Traits gives the lengths of the state's vectors, and a bound of ||A||^2.
//   - Init sets the first state, which is 0 before.
//   - Step advances the state in place, and evaluates the proximal operator by [Work.Prox].
//   - Measure bounds a subgradient at the new estimate and chooses the coefficients of the next
//     iteration, such as its step. Where it has no bound a rough estimate will do: it only
//     determines when the driver checks.
//   - Reverse is the transpose of the derivative of Step. Go through Step from the last line to the
//     first, and for every line dst = a x + c y add a times the adjoint of dst to that of x and c
//     times to that of y; the proximal operator is j, the operator A becomes A*, and what reaches y
//     goes to dst.
//
// [Run] does everything else: tolerance, cancellation, warm starts, progress and a [Tape]. A method
// whose entry is in the table, or is passed to [NewFrom] or vjp.FromMethod, is given problems
// in units in which their columns have about length 1, and with whitened observations. Package
// solvetest checks that a method keeps this contract, and a [Rewriting] its own. The example of vjp.FromMethod is a
// primal-dual method in some eighty lines.
//
// # Subpackages
//
// This package has the front door, the table of methods and the tables of rules. Package engine below it has
// the contract and the driver, whose types stand here under the same names. Beside each other between the two
// are the families of methods, gradient, splitting, direct, interior, manifold, active and lowrank; rewrite,
// with the solvers that solve a problem in another form; and restrict, a problem on a few of its coordinates. A
// room has the [Entry] of its methods, which says all that the driver and the tables ask of them.
//
// # When a solve is done
//
// A gradient at the returned point decides, never a quantity of the step itself:
//
//   - Optimality bounds the distance from 0 to the objective's subdifferential, relative to ||A||
//     times the size of errors of mu_hat that matter, sigma sqrt(d). The columns of A are scaled to
//     about unit length internally, by powers of two, where their lengths differ and the
//     regularizer allows for other units. Where it does not, each entry of the subgradient is
//     divided by the length of its column.
//   - Error bounds ||mu_hat - mu_hat*|| by the duality gap, where the regularizer's conjugate is
//     known: the squared loss is strongly convex in A b, so that ||A b - A b*||^2 <= 2 gap. Where
//     the bound is not small compared with sigma sqrt(d) the solve continues.
//
// For r(K b) Optimality is instead 2 gap/(d sigma2), or with ||y - A b||^2 in the place of d sigma2 where sigma2
// is not known.
//
// [Scales] has them, and the limits.
//
// # Losses
//
// Quadratic losses are whitened: a weighted squared loss is the squared loss of sqrt(w) A and
// sqrt(w) y, to which every method and every duality gap applies. mu_hat = A b stays in the user's
// units, and weights of 0 leave observations out. The derivative of the whitened problem is
// symmetric and has the traces that an estimate of risk needs; that of mu_hat itself is not
// symmetric (see package rewrite).
//
// Any other loss is a weighted squared one near a point, with its curvatures as weights. The methods
// active-set and newton solve a sequence of such problems, with a line search on the objective itself
// (see package active); ista and fista use the gradient, with a step from its Lipschitz constant,
// or by backtracking where it has none. The duality gap needs the loss's conjugate
// (loss.Structure.Gap) and bounds twice the Bregman distance of A b from the solution's. A
// [Solution].At is the weighted squared problem at the solution (see [engine.Point.Whiten]). Where that has
// active sets, its Gram matrix and factor serve the derivative and the first steps at the next weight
// of a path, which need products with the active columns only (see package active).
//
// # Structure
//
// Sparse and low-rank solutions are not iterated on in full. Proximal gradient methods work on an
// active set of coordinates, where A can be restricted to columns, and on factors of a matrix,
// where r is the nuclear norm and A picks entries; there they take Newton steps as soon as the rank
// is steady. They certify the rest before they stop. In all
// other cases the nuclear norm's singular values above the threshold are followed from one
// iteration to the next, certified in the same way. The tables in rules.go make these choices, and
// [Solution].Choices lists which were made and why.
//
// # Closed forms
//
// The method direct serves the squared loss, weighted or not, with r a sum of squares behind any
// operators. Every solution is a linear map of y,
//
//	A b = A (A* W A + sum_k lambda_k K_k* K_k)^+ A* W y,
//
// and so are its traces, its diagonal and its derivative by the weight ([Linear]), all from one
// factorization, which the table in direct/forms.go chooses:
//
//   - transform: A*A and K*K are diagonal in one cosine or Fourier basis, as with the gradient of an image.
//   - banded: A*A is diagonal and K takes differences of neighbours. Rotations, which square no condition, make
//     a triangle of the stacked rows of W^{1/2} A and lambda^{1/2} K, and the band of the inverse follows from it
//     in O(n).
//   - sparse: a Cholesky factor, and the entries of the inverse at the places of its own.
//   - spectral: singular values of A, or of a small Gram matrix; of the stacked rows where there is a K.
//
// Where no form serves, or its factor would take too much memory or time, the next rule of [Default] applies.
//
// # Active sets
//
// Where the loss is squared and the regularizer is a sum over coordinates, [prox.Structure].Sparse,
// the method active-set does not iterate on vectors: given the support and the signs, the solution
// is that of a linear system. It takes Newton steps from one support to the next. A start at the
// solution for the weight before needs a few. Its result has no error but rounding, in any units of
// the columns, and where columns depend on each other it is a basic solution. Where the regularizer is
// a sum of norms of groups, [prox.Structure].Groups, the problem is smooth given the groups that are
// not 0, and Newton's method goes from there; steps of single groups decide which are 0. An unrolled
// derivative, which needs iterations, is that of fista's.
//
// # Newton steps on the model
//
// The method newton serves regularizers that are partly smooth, [prox.Model], such as those of
// SLOPE and of total variation. It takes fista's gradient steps, Newton steps on the
// manifold that these have found, and semismooth Newton steps for proximal points of the objective,
// which find the manifold whatever the units of the columns. Work is shared between them by a count
// of operations, so that it is never much slower than fista. An unrolled derivative is that of its
// gradient steps. With a regularizer whose model is not known, or with more than some thousand
// coordinates in the manifold, gradient steps are all that is left.
//
// # Interior points
//
// The method interior-point serves problems with r(K b) where r is a sum of w_i |z_i| and z_i >= 0, or of
// norms of groups, whose multipliers are in balls. A primal-dual path-following method takes Newton steps on the
// conditions of optimality. Their matrix is
//
//   - banded for sequences, where K takes differences of neighbours and A*A = c I;
//   - dense for any A and K with few rows and columns, and r without groups; ADMM's iterations come first there;
//   - sparse for other sparse K, such as the gradient of an image, with A*A = c I. It has a sparse Cholesky
//     factor. Of more than some thousand pixels the dual's iterations come first;
//   - known by products with A*A, where K takes differences of pixels and A is an operator with columns of about one
//     length, such as a scanner or a blur. Conjugate gradients solve with it, preconditioned by the sparse factor with
//     the mean eigenvalue of A*A in its place. ADMM's iterations come first.
//
// The number of steps depends little on the condition of A and K, and on how wide the regions are in which K b
// = 0. It goes on until the zeros of K b are told from other entries, beyond a small duality gap. It starts anew at
// every weight, but for the last form, which starts where ADMM has ended. An unrolled derivative is that of dual's or
// admm's iterations.
//
// A derivative should be computed where the solution was computed: [Solution].At is the problem in
// the units and on the coordinates in which it was solved.
package solve
