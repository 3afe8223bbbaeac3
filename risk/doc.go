// Package risk holds the formulas that turn a fit into an estimate of its risk. They are pure
// functions of a few numbers: the package knows no solver, no device and no trace estimator.
//
// # The model
//
// One sample y ~ N(mu, sigma2 I) in R^d is observed, and an estimator y -> mu_hat(y) is
// differentiable almost everywhere, with Jacobian D = D mu_hat(y). Its loss is
// ||mu_hat - mu||^2, its risk the expectation of the loss. [Terms] are the numbers that the
// formulas need: d, sigma2, the residual ||y - mu_hat||^2, the divergence tr D and ||D||_F^2.
//
// With a loss l(z; y) that is not quadratic there is no SURE: [LossTerms] give AIC and BIC of a
// likelihood, and [LeftOutPredictors] leave-one-out from slopes, curvatures and a diagonal, wherever
// the latter comes from.
//
// # Units
//
// If y is in volts, sigma2, the residual, SURE and its error bar are in volts squared; the
// divergence and ||D||_F^2 have no unit. All formulas are equivariant: a change of unit multiplies
// the results by its square.
//
// # Formulas
//
//	SURE           -d sigma2 + residual + 2 sigma2 tr D               [Terms.SURE]
//	error bar      the root of an unbiased estimate of E (SURE - loss)^2, or its floor,
//	                                                                  [Terms.StdErr]
//	trace          2 sigma2 times the error of tr D                   [Terms.StdErrOfTrace]
//	sigma2         (2 tr D - d) times the error of sigma2             [Terms.StdErrOfSigma2]
//	plausible      0 <= tr D <= d and ||D||_F^2 <= d                  [Terms.Implausible]
//
// Where sigma2 is not known, and with df = tr D:
//
//	GCV            d residual / (d - df)^2                            [Terms.GCV]
//	leave-one-out  mean of ((y_i - mu_hat_i)/(1 - D_ii))^2            [LeaveOneOut]
//	AIC, BIC       -2 log likelihood + 2 df, + df log d               [Terms.AIC], [Terms.BIC]
//	sigma2         residual / (d - df)                                [Terms.Sigma2DF]
//
// Each is a row of one table, a [Rule]: its name, label and help, what it needs, for which losses it is
// defined, its value and the error of differences. [Register] adds one.
//
// # Which number answers which question
//
// SURE estimates the squared error of mu_hat at the observations that were made. GCV and
// leave-one-out estimate the mean squared error of predicting one more observation, noise included:
// compare them with SURE/d + sigma2. For a regression with d much larger than df they agree. They
// differ where an observation that is left out is harder to predict than one that is seen: for
// matrix completion SURE is the risk at the observed entries, and leave-one-out aims at the missing
// ones. AIC with a known sigma2 has the minimum of SURE. BIC prefers smaller models, and finds the
// true one as d grows, at some cost in risk.
//
// SURE is an unbiased estimate of the risk if mu_hat is weakly differentiable, sigma2 is known
// and the estimator was fixed before y was seen. Hyperparameters chosen by the value of SURE, or
// another criterion, at the same y make the least value optimistic; no error bar covers that, but
// [Comparison.Optimism] estimates it.
//
// # Comparing fits
//
// Fits to the same y with other weights share most of their error. [Comparison.Difference] has that
// of a difference, from what each fit leaves in a [Digest]: a few hundred numbers, whatever d is.
//
// # Sources
//
// C. M. Stein, Estimation of the mean of a multivariate normal distribution, Annals of Statistics 9
// (1981): SURE.
//
// P. C. Bellec, C.-H. Zhang, Second-order Stein: SURE for SURE and other applications in
// high-dimensional inference, Annals of Statistics 49 (2021): the error bar, and that of a difference.
//
// R. J. Tibshirani, S. Rosset, Excess optimism: how biased is the apparent error of an estimator tuned
// by SURE?, Journal of the American Statistical Association 114 (2019).
//
// I. Tsamardinos, E. Greasidou, G. Borboudakis, Bootstrapping the out-of-sample predictions for efficient and
// accurate cross-validation, Machine Learning 107 (2018).
//
// T. Cacoullos, On upper and lower bounds for the variance of a function of a random variable,
// Annals of Probability 10 (1982): the floor of the error bar.
//
// P. Craven, G. Wahba, Smoothing noisy data with spline functions, Numerische Mathematik 31 (1979):
// generalized cross-validation.
//
// D. M. Allen, The relationship between variable selection and data augmentation and a method for
// prediction, Technometrics 16 (1974): the sum of squared residuals of observations left out.
//
// K. R. Rad, A. Maleki, A scalable estimate of the out-of-sample prediction error via approximate
// leave-one-out cross-validation, Journal of the Royal Statistical Society B 82 (2020).
//
// H. Akaike, A new look at the statistical model identification, IEEE Transactions on Automatic
// Control 19 (1974). G. Schwarz, Estimating the dimension of a model, Annals of Statistics 6 (1978).
package risk
