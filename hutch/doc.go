// Package hutch estimates the trace of a matrix that is known only by what it
// does to vectors.
//
// The matrix M is d x d and given by an [Oracle], v -> M v, on batches of
// vectors. A query is one such product. In this module M is the Jacobian of an
// estimator, its trace the divergence in Stein's unbiased risk estimate, and a
// query one reverse sweep through a solver: everything else is cheap beside it.
//
// # Estimators
//
// A [Plan] says which estimator, and how many queries go where:
//
//	exact       tr M = sum_i <e_i, M e_i>                            d queries
//	hutchinson  tr M ~ 1/m sum_j <g_j, M g_j>                        m queries
//	hutch++     tr M ~ sum_i <q_i, M q_i> + 1/m sum_j <x_j, M x_j>   3m queries
//	xtrace      Hutch++ from all probes but one, averaged over that one         2m queries
//	xnystrace   the same with a Nystrom approximation in place of a projection   m queries
//	na-hutch++  Hutch++ with a sketch from two sides in place of a projection   6m queries
//
// where the g_j are independent Rademacher vectors, whose entries are +1 or -1
// with probability 1/2 each. Hutch++ first sketches the range of M with m
// Rademacher vectors s_j; the q_i are an orthonormal basis of the span of the
// M s_j, and x_j = (I - QQ*) g_j for m fresh Rademacher vectors g_j. What is in
// the span of Q, where a compressible M has most of its trace, is thus summed
// exactly, and only what is left is sampled.
//
// The first three are one sum, over a basis and over deflated probes: Hutchinson has
// the empty basis and the exact trace the unit vectors. The last three take
// products of all images with each other: see [Combine].
//
//   - XTrace uses each of its m probes both for the sketch and, against the sketch
//     of the others, as a sample: m samples and a basis of m-1 for 2m queries.
//   - XNysTrace is for symmetric positive semidefinite M. The Nystrom approximation
//     Y (S*Y)^{-1} Y*, Y = MS, needs no second product: m samples and a
//     basis of m-1 for m queries.
//   - NA-Hutch++ asks all its queries at once, none depends on the answer to
//     another, at the price of a sketch that is a sixth of them.
//
// All randomized estimates but XNysTrace are unbiased for every square M, as
// tr M = tr(Q*MQ) + tr((I - QQ*) M (I - QQ*)). How accurate they are depends on
// the spectrum. For symmetric M Hutchinson's variance is
// 2/m (||M||_F^2 - sum_i M_ii^2). For positive semidefinite M Hutch++ replaces
// ||M||_F by what is left of it without, roughly, its m leading eigenvectors, at
// a third of the samples. To a relative error eps it takes O(1/eps) queries in
// place of O(1/eps^2), and when the rank of M is at most m the error is 0. At
// the worst, when the nonzero eigenvalues are many more than m and all alike (a
// projection of high rank), its error is larger than Hutchinson's by sqrt(3).
//
// # Error bar and Frobenius norm
//
// [Estimate] carries the standard error of the sampled part, sd/sqrt(m) with the
// sample standard deviation of the m numbers <x_j, M x_j>, given Q. The terms of
// XTrace and XNysTrace are not independent: what leaving out a second probe
// changes in them tells their covariance, and makes the square of the standard
// error an unbiased estimate of the variance too. What few samples tell is made wider by
// Student's distribution, [Widened], and a number of samples that follows from the
// spread is fixed by that of the first of them alone, [Tally.Missing]: 2 standard errors to both
// sides hold the trace 95% of the time.
//
// An oracle that is an iterative method cut short bounds what its forms lack, and
// [Estimate.Truncation] is what the trace lacks at most; [Estimate.Error] counts both.
//
// From the same queries, for Hutch++,
//
//	||M||_F^2 ~ sum_i ||M q_i||^2 + 1/m sum_j ||M x_j||^2,
//
// unbiased as well since E ||M (I - QQ*) g||^2 = ||M (I - QQ*)||_F^2, and likewise
// for the others.
//
// # Whole and pieces
//
// [Trace] runs a plan from one goroutine. Concurrent stages build the same
// estimate from the same pieces, in this order:
//
//	sketch     [Rademacher] probes 0 to Sketch-1, [Oracle.Apply]     -> Y
//	qr         [Orthonormalize] of Y, [NewTally] with its rank       -> Q
//	projected  [Oracle.Apply] to the rows of Q ([UnitVectors] if exact), [Tally.AddProjected]
//	residual   [Rademacher] probes Sketch to Sketch+Residual-1, [Deflate],
//	           [Oracle.Apply], [Tally.AddResidual]
//	assemble   [Tally.Estimate], or [Combine] where the plan [Plan.Combines]
//
// XTrace has no residual phase, XNysTrace and NA-Hutch++ have the sketch only.
//
// # Reproducibility
//
// Probe j of sample i under a seed is a pure function of these three numbers,
// every piece computes vector i of its result from vector i of its operands,
// and a [Tally] adds up in the order of the probes. So the result is the same
// to the last bit for any batch size and any order of arrival, if the oracle's
// vectors do not depend on each other either.
//
// # Sources
//
// M. F. Hutchinson, A stochastic estimator of the trace of the influence matrix
// for Laplacian smoothing splines, Communications in Statistics 18 (1989).
//
// R. A. Meyer, C. Musco, C. Musco, D. P. Woodruff, Hutch++: optimal stochastic
// trace estimation, SIAM Symposium on Simplicity in Algorithms (2021),
// algorithms 1 and 2.
//
// E. N. Epperly, J. A. Tropp, R. J. Webber, XTrace: making the most of every sample
// in stochastic trace estimation, SIAM Journal on Matrix Analysis and Applications
// 45 (2024).
package hutch
