package warning

// Warnings of a result: of the solve, the derivative and the criteria.
var (
	NotConverged = row(Kind{Code: "not-converged", Severity: Doubt, Hint: true,
		Says: "out of iterations, or mu_hat may be off by more than 1% of sigma sqrt(d)",
		Do:   "raise `--max-iter` or `--tol`, or change `--solver`"})
	NoFiniteFit = row(Kind{Code: "no-finite-fit", Severity: Doubt,
		Says: "with a likelihood: out of iterations on the way to infinite coefficients, where the fit reproduces y, " +
			"as where a column orders the times of events or separates the classes, and the penalty is next to none",
		Do: "raise `--lambda`, or leave the column out",
		Samples: "the fit reproduces y and has not converged: coefficients grow without bound as the weight of the " +
			"regularizer falls; raise it"})
	DerivativeNotConverged = row(Kind{Code: "derivative-not-converged", Severity: Doubt, Hint: true,
		Says: "conjugate gradients stopped short, or an unrolled derivative lags behind the fixed point's, in its " +
			"trace or squared Frobenius norm",
		Do: "raise `--lambda`, or give `--derivative unrolled`"})
	ImplausibleDivergence = row(Kind{Code: "implausible-divergence", Severity: Doubt, Hint: true,
		Says: "the divergence is outside [0, d], where that of no such estimator is",
		Do:   "lower `--tol` and raise `--max-iter`, or give `--derivative implicit`"})
	Ambiguous = row(Kind{Code: "ambiguous", Severity: Caution, Hint: true,
		Says: "the divergence rests on a decision within rounding errors or the tolerance; the exit status is 3 " +
			"where SURE depends on it by more than its error bar",
		Do: "lower `--tol`, remove dependent columns, or change `--lambda` a little",
		Samples: "the divergence is not decided within rounding errors and the tolerance: ask for a smaller " +
			"tolerance, remove dependent columns, or change the weight a little"})
	NotDetermined = row(Kind{Code: "not-determined", Severity: Doubt, Hint: true,
		Says: "with `--loss huber`: in some direction of the fit no residual is within delta, so that the fit is not " +
			"unique, and the divergence is anywhere from `divergence_low` to `divergence_high`",
		Do: "raise `--huber-delta` or `--lambda`"})
	NearBoundary = row(Kind{Code: "near-boundary", Severity: Caution, Hint: true,
		Says: "`space_margin` is below 1, and the divergence for the other support, rank or clustering is not known",
		Do:   "lower `--tol`, or change `--lambda` a little"})
	Unverified = row(Kind{Code: "verification", Severity: Doubt, Hint: true,
		Says: "`--verify` disagrees by more than four error bars, or could not be done",
		Do:   "lower `--tol`, or try another `--solver` or `--derivative`"})
	NotSmooth = row(Kind{Code: "not-smooth", Severity: Doubt, Hint: true,
		Says: "differences of a program or function at steps of different sizes disagree",
		Do:   "give `--divergence antithetic`, or another `--eps`",
		Samples: "differences at steps of different sizes disagree: the command is not smooth; try --divergence " +
			"antithetic, or another --eps"})
	FewObservations = row(Kind{Code: "few-observations", Severity: Caution,
		Says: "leave-one-out rests on a few observations, whose one step towards a refit may be far from it",
		Do:   "compare `--criterion cv`",
		Samples: "leave-one-out rests on a few observations, and so does its mean: refits without such an " +
			"observation may be far from it; compare cv"})
	GCVLeverages = row(Kind{Code: "gcv-leverages", Severity: Caution,
		Says: "GCV puts the mean leverage in the place of each, and they differ: it is smaller than the error of " +
			"predicting an observation from the others",
		Do: "choose `--criterion alo` or `cv`",
		Samples: "GCV is far below the error of predicting an observation from the others, because leverages spread; " +
			"compare alo or cv"})
	NoLeaveOneOut = row(Kind{Code: "no-leave-one-out", Severity: Caution,
		Says: "`alo` is not known: leverages are 1, or too near to 1 for the probes, or one Newton step does not " +
			"tell a refit (`alo_unresolved` observations)",
		Do:      "give `--trace exact` or more `--queries`, or choose `--criterion cv`",
		Samples: "there is no leave-one-out, and none of them is in its mean"})
	NoLeaveGroupOut = row(Kind{Code: "no-leave-group-out", Severity: Caution,
		Says: "`lgo` is not known: groups decide a part of their own fit, so that one Newton step does not tell a " +
			"refit, or the blocks of the derivative are not known",
		Do:      "raise `--lambda`, or choose `--criterion cv`",
		Samples: "there is no leave-group-out, and none of them is in its mean"})
	Overdispersed = row(Kind{Code: "overdispersed", Severity: Caution,
		Says: "with `--loss poisson` or `logistic` of several trials: y varies more than half as much again about " +
			"the fit as the likelihood has it, as where counts come in clusters, zeros are too many, a column is " +
			"missing or weights are no numbers of trials: AIC and BIC ask for too large a model; standard errors of " +
			"coefficients are by the residuals then",
		Do:      "choose by `--criterion alo` or `cv`",
		Samples: "y varies more about the fit than the likelihood has it: AIC and BIC ask for too large a model"})
	LossScale = row(Kind{Code: "loss-scale", Hint: true,
		Says: "with `--loss huber`: no residual is beyond delta, so that the fit is that of least squares, or no " +
			"more are within it than the fit has degrees of freedom, so that it is that of least absolute deviations",
		Do: "give a `--huber-delta` of 1.345 standard deviations of the noise, in units of y, if that was not meant"})
	Interpolates = row(Kind{Code: "interpolates", Severity: Caution,
		Says: "with `--loss logistic` or `poisson`: the fit reproduces y, so that b is ill-determined and " +
			"leave-one-out not reliable",
		Do:      "raise `--lambda`",
		Samples: "the fit reproduces y, and leave-one-out is not reliable; raise the weight of the regularizer"})
	Unbounded = row(Kind{Code: "unbounded-coefficients", Severity: Caution,
		Says: "with a likelihood and no penalty: it is greatest at infinite coefficients of the named columns, as " +
			"where a level or a side of a line has one outcome only (separation), and the printed ones are as large " +
			"as the tolerance lets them become; leave-one-out and standard errors tell nothing of such observations",
		Do: "leave the columns or levels out, or give a penalty, as `--problem ridge` does"})
	Sigma2TooLarge = row(Kind{Code: "sigma2-too-large", Severity: Caution, Hint: true,
		Says: "SURE, which estimates a squared error, is more than three error bars below 0",
		Do:   "check the units of `--sigma2`, or how it was estimated"})
	LargeStep = row(Kind{Code: "large-step", Severity: Caution,
		Says:    "the step of a program's differences is above the noise",
		Do:      "lower `--eps`",
		Samples: "the step of differences is above the noise"})
	ErrorBarFloor = row(Kind{Code: "error-bar-floor",
		Says: "the error bar was estimated as 0 and is replaced by half of a lower bound of its expectation",
		Do:   "check `--sigma2`, which may be too large"})
)

// Warnings of a sweep, of its chosen point and of many samples.
var (
	CriterionDisagrees = row(Kind{Code: "criterion-disagrees", Severity: Caution,
		Says: "an audit, which fits without some observations, predicts these worse, or better, than the criterion " +
			"says, by more than three bars: the audit's error is to be believed",
		Do: "choose by `--criterion cv`, with `--groups` or `--blocks` where observations belong together"})
	Correlated = row(Kind{Code: "correlated", Severity: Caution,
		Says: "runs of observations that are left out are predicted much worse than single ones, or differences of " +
			"neighbours in a sequence show it: noise or signal is correlated along it, and a criterion for " +
			"independent noise may choose too little smoothing",
		Do: "of a sequence give `--noise ar1`; choose by `--criterion cv --blocks N` with N beyond the correlation"})
	NearData = row(Kind{Code: "near-data", Severity: Caution,
		Says: "the chosen fit takes more than nine in ten of the degrees of freedom that y has, and was not audited: " +
			"where neighbours share their noise, or sigma2 is too small, it follows the noise, and its error is far " +
			"larger than the criterion says",
		Do: "compare with `--audit`; choose a larger weight"})
	SlowNoise = row(Kind{Code: "slow-noise", Severity: Caution,
		Says: "the correlated noise of `--noise ar1` is so slow that it cannot be told well from a trend: the weight " +
			"that SURE chooses may cost half as much again as the best",
		Do: "give a longer sequence, or `--sigma2`"})
	CostlyChoice = row(Kind{Code: "costly-choice", Severity: Caution,
		Says: "the criterion tells weights apart so badly under the correlated noise of `--noise ar1` that the " +
			"squared error at the minimizer is on average more than a tenth above that at the best weight (`regret`)",
		Do: "give a longer sequence, or choose the weight by what is known of the trend"})
	RowsInGroups = row(Kind{Code: "rows-in-groups", Severity: Caution,
		Says: "rows that share a value of the named column have residuals that agree beyond chance: if they belong " +
			"together, a new group is predicted worse than the criteria say",
		Do: "leave them out together, `--groups COLUMN`"})
	CorrelatedRows = row(Kind{Code: "correlated-rows", Severity: Caution,
		Says: "residuals of rows that follow each other in a table agree beyond chance, as rows in the order of " +
			"time, or of groups or places that no column names: standard errors of coefficients are too small, " +
			"and new groups or later times are predicted worse than the criteria say",
		Do: "leave runs of rows out together, `--criterion cv --blocks N`, or groups, `--groups COLUMN`"})
	FewRows = row(Kind{Code: "few-rows", Severity: Caution,
		Says: "the table has at most 200 rows and as many columns, of which fits choose some, or the signal as few " +
			"values, which fits join: the least of a criterion without refits over such fits is often far below the " +
			"error of predicting another observation",
		Do: "choose by `--criterion cv`"})
	LoneRows = row(Kind{Code: "lone-rows", Severity: Caution,
		Says: "columns of X that a penalty may choose are nearly 0 but for one row, as those of levels that come " +
			"once: leave-one-out by one step does not know that they are out of the fit without that row, and is far " +
			"too large for fits with them",
		Do: "choose by `--criterion cv`; put rare levels together"})
	FewGroups = row(Kind{Code: "few-groups", Severity: Caution,
		Says: "fewer than five groups are left out, one after the other: they say little of how much a new group " +
			"differs, and which weight is best for it",
		Do: "take the error bar, which is widened for so few, at its word; give more groups"})
	Unsure = row(Kind{Code: "unsure-points",
		Says: "at some points the error bar exceeds the value, or most leverages are near 1: they compete by the sum " +
			"of value and bar",
		Do: "choose by `--criterion cv`"})
	PassedOver = row(Kind{Code: "points-passed-over", Severity: Caution,
		Says: "points with a smaller value than the minimizer's are not to be trusted, or overfit a wide table, and " +
			"were not chosen",
		Do: "see the warnings of these points; for a wide table choose by `--criterion cv`"})
	Edge = row(Kind{Code: "edge-of-grid", Severity: Caution,
		Says: "the minimizer is at an end of the grid, beyond which nothing is known to be worse",
		Do:   "extend the grid, further than the sweep itself has gone"})
	FallsBack = row(Kind{Code: "criterion-undefined", Severity: Caution,
		Says: "the default criterion is not defined at any point of the grid, or next to its least, and " +
			"cross-validation takes its place",
		Do: "extend the grid to larger weights, or give `--criterion cv`"})
	NotRefined = row(Kind{Code: "not-refined",
		Says: "the minimizer is that of the grid", Do: "run the same `sweep` with its file and `--resume`"})
	EarlierSamples = row(Kind{Code: "earlier-samples",
		Says: "lines that were there are of another version, device or number of processes",
		Do:   "compute them again where the last bits matter"})
	Projected = row(Kind{Code: "projected-risk", Severity: Caution,
		Says: "projected SURE divides by the singular values of the operator, so that it favours small weights",
		Do:   "compare SURE"})
	IllPosed = row(Kind{Code: "ill-posed", Severity: Caution,
		Says: "there is no projected risk: the operator's singular values fall too far", Do: "leave `--image-risk` " +
			"out"})
)
