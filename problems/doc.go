// Package problems turns data and a description of an estimator into a problem that can be solved:
// an operator A, a regularizer r, a loss, and the solver that suits them. The estimator is
//
//	mu_hat(y) = A argmin_b  1/2 ||A b - y||^2 + r(b).
//
// # Specifications
//
// A [Spec] describes an estimator in YAML (package spec). It composes A from the operators of package linops and r
// from the regularizers of package prox, and names the arrays that they use. [ParseSpec] parses it,
// [Spec.Load] reads its arrays, and [New] builds the [Problem]:
//
//	spec, err := problems.ReadSpec("problem.yaml")
//	data, err := spec.Load(problems.SpecFiles{FS: problems.Disk})
//	p, err := problems.New(spec.Name, dev, data, problems.Hyper{})
//
// Every operator and every regularizer is a row of a table with its help, its parameters and its builder;
// [spec.RegisterRegularizer] adds a regularizer.
//
// # Named problems
//
// Some specifications are embedded and have a name, which New takes. Their arrays are the fields of
// a [Data], which [Spec.Load] of [SpecOf] reads from files by the [Layout] of the problem. Each is a
// line in the table of [Registered] and a file in the folder spec/specs:
//
//	name               A                     r(b)                                         lambda_max
//	ols                X                     0                                            -
//	ridge              X                     lambda/2 ||b||^2                             -
//	lasso              X                     lambda ||b||_1                               ||X* y||_inf
//	elastic-net        X                     lambda ||b||_1 + lambda2/2 ||b||^2           ||X* y||_inf
//	group-lasso        X                     lambda sum_g sqrt(|g|) ||b_g||               max_g ||X_g* y|| / sqrt(|g|)
//	fused-lasso        X                     lambda ||b||_1 + gamma sum_i |b_{i+1} - b_i| ||X* y||_inf
//	generalized-lasso  X                     lambda ||D b||_1, D of the data              see below
//	svt                I                     lambda ||B||_*                               sigma_max(y)
//	matrix-completion  selection of entries  lambda ||B||_*                               sigma_max(A* y)
//	robust-pca         A(L, S) = L + S       lambda ||L||_* + gamma ||S||_1               sigma_max(y)
//	local-low-rank     I                     see denoise.NewLocalLowRank                  see below
//	tv1d               I                     lambda sum_i |b_{i+1} - b_i|                 see below
//	tv2d               I                     lambda sum_i ||(D b)_i||                     see below
//	trend1d            I, or a selection     lambda ||D^(k+1) b||_1                       see below
//	whittaker          I, or a selection     lambda/2 ||D^m b||^2                         -
//
// D takes the differences of neighbours, (D b)_i of an image those of the pixel i to the one below and the one
// on its right. lambda_max is the smallest lambda at which the estimate is zero. For robust PCA this holds
// together with gamma_max = ||y||_inf, for fused-lasso at gamma = 0. For local-low-rank it is the largest
// singular value of a patch over the patch's scale. For tv1d it is the smallest at which the estimate is
// constant, max_k |sum_{i<=k} (y_i - mean y)|; for trend1d the smallest at which it is one polynomial. For tv2d
// and generalized-lasso it is a weight at which D b = 0, not always the smallest: an upper bound of it.
//
// # Weights
//
// The [Weight] of a regularizer is a number, or a multiple of its maximum. A multiple computed from
// the same y to which it is applied makes the estimator depend on y in a way that SURE does not
// account for. The estimate of risk is then only approximately unbiased, and [Problem.Relative]
// says so.
//
// # Losses
//
// Data.Loss, or the key loss of a specification, names another loss l(A b; y) than the squared one
// ([Loss]). mu_hat is then the linear predictor A b. A maximum of a weight is the dual norm of -A*
// l'(z; y) at the fit z by the coordinates without a penalty, such as the intercept, alone.
//
// # Intercept
//
// With Data.Intercept the fit is b0 1 + A b, with b0 free of any penalty. For a given b the best b0
// is mean(y) - m*b, where m are the means of A's columns. The remaining problem in b is the same
// problem for the centered operator A - 1 m* and for y - mean(y) 1. Problem.Operator is therefore
// the centered one, and the problem that [Problem.Solve] returns has a rewriting as its Origin, which
// subtracts the mean from y, and adds it to mu_hat and one to the divergence. With another loss no mean of y stands
// for b0: there is a column of ones beside the centered ones, which the regularizer leaves free.
//
// # Standardized columns
//
// With Data.Standardize the columns of A are divided by their standard deviations, so that the
// penalty does not depend on their units: A diag(1/s), or with an intercept (A - 1 m*) diag(1/s). A
// sparse A stays sparse. The solution b is for these columns; [Problem.Coefficients] gives that for
// the original ones.
//
// # Data sets
//
// The Generate functions draw the data sets of Nobel, Candes and Boyd, "Tractable evaluation of
// Stein's unbiased risk estimate with convex regularizers" (section III), and others like them, with weights computed
// from an independent draw of y: [Generators] is the table of all.
package problems
