// Package hutch estimates the trace of a matrix that is given only by its products with vectors. It
// starts no goroutines.
//
// The matrix M is d x d and given by an [Oracle], v -> M v, on batches of
// vectors. A query is one such product. In this module M is the Jacobian of an
// estimator, its trace the divergence in Stein's unbiased risk estimate, and a
// query one reverse sweep through a solver: everything else is cheap in comparison.
//
// # Estimators
//
// A [Plan] has the estimator and the number of queries in each phase:
//
//	exact       tr M = sum_i <e_i, M e_i>                            d queries
//	hutchinson  tr M ~ 1/m sum_j <g_j, M g_j>                        m queries
//	hutch++     tr M ~ sum_i <q_i, M q_i> + 1/m sum_j <x_j, M x_j>   3m queries
//
// where the g_j are independent Rademacher vectors, whose entries are +1 or -1 with probability 1/2
// each. Hutch++ first sketches the range of M with m Rademacher vectors s_j; the q_i are an
// orthonormal basis of the span of the M s_j, and x_j = (I - QQ*) g_j for m fresh Rademacher
// vectors g_j. The part in the span of Q, where a compressible M has most of its trace, is thus
// summed exactly, and only the rest is sampled.
//
// All are one sum, over a basis and over deflated probes: Hutchinson has the empty basis and the exact
// trace the unit vectors. The randomized estimates are unbiased for every square M, because tr M =
// tr(Q*MQ) + tr((I - QQ*) M (I - QQ*)). Their accuracy depends on the spectrum. For symmetric M
// Hutchinson's variance is 2/m (||M||_F^2 - sum_i M_ii^2). For positive semidefinite M Hutch++
// replaces ||M||_F by the norm of the remainder of M without, roughly, its m leading eigenvectors,
// at a third of the samples. A relative error eps takes O(1/eps) queries instead of O(1/eps^2), and
// if the rank of M is at most m the error is 0. In the worst case, where there are many more than m
// nonzero eigenvalues and all are equal (a projection of high rank), its error is larger than
// Hutchinson's by sqrt(3).
//
// # Comparing matrices
//
// The images of common probes under two matrices give ||M - N||_F^2, the mean of ||(M - N) w||^2. A
// [Projection] keeps a few hundred numbers of all images together, which is enough for that. Where the
// ranges of all matrices are in one subspace of small dimension a [Frame] keeps their coordinates there.
//
// # Error bar and Frobenius norm
//
// [Estimate] carries the standard error of the sampled part, sd/sqrt(m) with the sample standard
// deviation of the m numbers <x_j, M x_j>, given Q. For few samples Student's distribution widens the
// standard error, [Widened]. Where the number of samples follows from their spread, it is fixed by the
// spread of the initial samples alone ([Run.Missing]). The interval of 2 standard errors to both sides
// then contains the trace 95% of the time where the forms are about normal; where the trace is about 1 they
// are skewed, and it is 87% for 10 samples and 91% for 30.
//
// An oracle that is a truncated iterative method bounds the error of its forms.
// [Estimate.Truncation] bounds the resulting error of the trace, and [Estimate.Error] includes both
// errors.
//
// From the same queries, for Hutch++,
//
//	||M||_F^2 ~ sum_i ||M q_i||^2 + 1/m sum_j ||M x_j||^2,
//
// unbiased as well since E ||M (I - QQ*) g||^2 = ||M (I - QQ*)||_F^2, and likewise
// for the others.
//
// # Diagonal
//
// The same random probes show the diagonal of M: <e_i, g_j> <e_i, M g_j> has expectation M_ii.
// [Leverages.Mean] estimates the mean of a function of it, such as the error of leave-one-out, with
// the bias of nonlinear functions of noisy means reduced.
//
// # Phases
//
// All estimators run through the same three phases, though not each has all of them. The [Layout]
// of a [Plan] says which phases there are, how many vectors they have and what is needed of their
// images:
//
//	sketch     M s_j for random vectors s_j          hutch++
//	projected  M q_i for a basis                     hutch++; the unit vectors: exact
//	residual   M x_j for random vectors off the basis         hutch++, hutchinson
//
// A [Run] is an estimate in progress. [Run.Do] does any part of a phase, possibly from several
// goroutines at once, and [Run.Estimate] computes the estimate at the end. [Trace] does everything
// in one goroutine, and package stages uses many:
//
//	r := hutch.NewRun(dev, plan, hutch.Exactly(oracle), hutch.Options{Seed: 1})
//	defer r.Free()
//	r.Do(ctx, hutch.Sketching, 0, r.Count(hutch.Sketching))
//	r.EndSketch()                                               // makes the basis
//	r.Do(ctx, hutch.Projected, 0, r.Count(hutch.Projected))     // these two in any order
//	r.Do(ctx, hutch.Residual, 0, r.Count(hutch.Residual))
//	e, err := r.Estimate()
//
// A new estimator is a type in a file of its own, with an entry in the table of estimators. It
// defines how it lays out its queries; the phases and their sum are shared.
//
// # Reproducibility
//
// Probe j of sample i under a seed is a pure function of these three numbers, vector i of every
// result is computed from vector i of the operands, and sums are taken in the order of the probes.
// So the estimate is the same to the last bit for any batch size and any order of the work,
// provided that the oracle treats vectors independently too.
//
// # Sources
//
// M. F. Hutchinson, A stochastic estimator of the trace of the influence matrix
// for Laplacian smoothing splines, Communications in Statistics 18 (1989).
//
// R. A. Meyer, C. Musco, C. Musco, D. P. Woodruff, Hutch++: optimal stochastic
// trace estimation, SIAM Symposium on Simplicity in Algorithms (2021),
// algorithm 1.
//
// C. Bekas, E. Kokiopoulou, Y. Saad, An estimator for the diagonal of a matrix, Applied Numerical
// Mathematics 57 (2007).
//
// R. A. Baston, Y. Nakatsukasa, Stochastic diagonal estimation: probabilistic bounds and an improved
// algorithm, arXiv:2201.10684 (2022).
//
// P. T. Nobel, D. LeJeune, E. J. Candes, RandALO: out-of-sample risk estimation in no time flat,
// arXiv:2409.09781 (2024).
package hutch
