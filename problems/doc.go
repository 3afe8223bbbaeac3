// Package problems holds the named estimators: data in, operator, regularizer
// and choice of solver out. Each is
//
//	mu_hat(y) = A argmin_b  1/2 ||A b - y||^2 + r(b).
//
//	name               A                     r(b)                                lambda_max
//	ols                X                     0                                   -
//	ridge              X                     lambda/2 ||b||^2                    -
//	lasso              X                     lambda ||b||_1                      ||X* y||_inf
//	elastic-net        X                     lambda ||b||_1 + lambda2/2 ||b||^2  ||X* y||_inf
//	svt                I                     lambda ||B||_*                      sigma_max(y)
//	matrix-completion  selection of entries  lambda ||B||_*                      sigma_max(A* y)
//	robust-pca         A(L, S) = L + S       lambda ||L||_* + gamma ||S||_1      sigma_max(y), gamma_max = ||y||_inf
//	tv1d               I                     lambda sum_i |b_{i+1} - b_i|        max_k |sum_{i<=k} (y_i - mean y)|
//
// lambda_max is the smallest lambda at which the estimate is zero (for robust PCA
// together with gamma_max, for tv1d constant). A [Weight] may be given as a multiple of it. A
// weight computed from the y it is used with makes the estimator depend on y
// in a way SURE does not see: the estimate of risk is then only approximately
// unbiased, and [Problem.Relative] says so.
//
// With Data.Intercept the fit of a regression, or of a specification, is b0 1 + A b, with
// b0 free of any penalty. Where b is the estimate for the centered operator A - 1 m*, m the
// means of A's columns, and for y - mean(y) 1, that of [1 A] has the same b and
// b0 = mean(y) - m*b: minimizing over b0 first leaves just that problem. So Problem.Operator
// is the centered one, and package pipeline adds the mean and its degree of freedom
// (vjp.Problem.Intercept): the closed forms, working sets, exact traces and
// regularizers of the problem serve as they are. A column of ones in the operator would
// be the same estimator, but needs a regularizer that is 0 on one coordinate, which has
// none of these, and scales that column against the others.
//
// A [Spec] is a problem that has no name here: a file in YAML that composes it from
// the operators of package linops and the regularizers of package prox. New builds
// both.
//
// [EstimateSigma2] is the field's estimate of an unknown noise variance for each
// kind of data.
//
// The package also draws the data sets of Nobel, Candes and Boyd, "Tractable
// evaluation of Stein's unbiased risk estimate with convex regularizers"
// (section III), with weights computed from an independent draw of y, and sequences of
// constant pieces for tv1d.
package problems
