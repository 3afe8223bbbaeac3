package warning

// Warnings about data, a problem, its noise and files.
var (
	RelativeWeight = row(Kind{Code: "relative-weight", Run: true, Quiet: true,
		Says: "a weight is a multiple of its maximum at this y, so that SURE is only approximately unbiased",
		Do:   "give `--lambda` as a number where that matters"})
	NoIntercept = row(Kind{Code: "no-intercept", Run: true,
		Says: "y is far from mean 0 and no column of X is constant", Do: "give `--intercept`"})
	ConstantColumn = row(Kind{Code: "constant-column", Run: true,
		Says: "a column of X is constant up to rounding errors and counts as part of the intercept"})
	CenterFound = row(Kind{Code: "center-found", Run: true,
		Says: "the axis of rotation was found from y, and SURE takes it as given"})
	UnscaledColumns = row(Kind{Code: "unscaled-columns",
		Says: "columns of X, or of a matrix of low rank, have very different standard deviations, and the penalty " +
			"depends on their units; or the responses of one fit, whose noise counts as equally large",
		Do: "give `--standardize` for columns, divide responses before"})
	StandardizedColumns = row(Kind{Code: "standardized-columns",
		Says: "the columns of a matrix with missing entries are in different units and were divided by their " +
			"standard deviations: weights, criteria and errors are those of the quotients, the completed entries in " +
			"the columns' units",
		Do: "give `--standardize=false` where they are in one unit"})
	Sigma2Unused = row(Kind{Code: "sigma2-unused", Says: "a loss other than the squared one has no use for `sigma2`"})
	NotCounts    = row(Kind{Code: "not-counts", Severity: Caution, Run: true,
		Says: "with `--loss poisson`: values of y, times the weights of the observations, are no whole numbers: the " +
			"variance of such values is not their mean, so that AIC and BIC are not those of a likelihood; with " +
			"`noise: anscombe`: the smoothest parts of an image have more noise than counts have, and SURE is wrong",
		Do: "divide the values of a camera by its gain; give counts, with `--exposure` where they are rates, or " +
			"choose by `--criterion cv`"})
	Mismatch = row(Kind{Code: "operator", Severity: Caution, Run: true,
		Says: "an operator of one's own, in Go, is not linear, or its second function is not the adjoint of the " +
			"first: the estimate and its divergence are wrong",
		Do: "test it by `linopstest.Check`"})
	EqualChannels = row(Kind{Code: "equal-channels", Severity: Caution, Run: true,
		Says: "channels of an image are the same, as those of a grey one in colours: their noise is one, and taken " +
			"for several independent ones",
		Do: "give the image in grey"})
	Copies = row(Kind{Code: "copies", Severity: Caution, Run: true,
		Says: "rows of X and y are copies of others, as of a table that was read twice: error bars are too small, " +
			"and leave-one-out and folds predict a row from its copy",
		Do: "drop them, or leave copies out together, `--groups`"})
	CorrelatedPixels = row(Kind{Code: "correlated-pixels", Severity: Caution, Run: true,
		Says: "pixels of an image, or its channels, share noise, as after demosaicing, resizing or compression, or " +
			"that of neighbours is of opposite sign, as after sharpening, or fine texture or a `--sigma2` that is a " +
			"tenth too large looks like it: SURE, GCV, leave-one-out, `--sigma2 auto` and error bars take noise for " +
			"independent, so that the fit follows what is shared and the printed error is too small",
		Do: "start from the raw image; else average blocks of pixels to a smaller one until this is not said, and " +
			"where only channels share noise denoise each alone; compare `--sigma2 auto`"})
	PatternedNoise = row(Kind{Code: "patterned-noise", Severity: Caution, Run: true,
		Says: "rows or columns of an image have offsets in common, or a wave of up to 24 pixels lies over it, as of " +
			"a sensor or its electronics, or as rows of print look like: SURE, GCV and error bars take it for noise " +
			"where the fit removes it, and for signal where it does not",
		Do: "subtract the medians of rows or columns, or the wave, before; crop print"})
	Clipped = row(Kind{Code: "clipped", Severity: Caution, Run: true,
		Says: "many values of an image or a sequence are the same: they were clipped there, or have no noise, as " +
			"under a mask or where a sensor is dead, and SURE, a `sigma2` that was given and error bars take their " +
			"noise for that of the others; `--sigma2 auto` of an image leaves them out",
		Do: "start from values that are not clipped, such as raw ones; crop what is under a mask"})
	Outliers = row(Kind{Code: "outliers", Severity: Caution, Run: true,
		Says: "values of a sequence, or pixels of an image, stand out from all their neighbours, or entries of a " +
			"matrix from its low rank, by more than five standard deviations of the noise, which has heavy tails, or " +
			"hot pixels, or spikes of a series, or most pixels have less noise than its variance says, or a value of " +
			"a regression stands out from what all others predict, by five times more than any of these: " +
			"`--sigma2 auto` does not see them, or counts them for noise, and " +
			"SURE and GCV choose fits that follow them",
		Do: "leave wrong values out, empty in a table with `--missing drop`, which estimates them; put the median of " +
			"their neighbours in the place of hot pixels; of a matrix take `robust-pca`; where they are peaks of the " +
			"signal, sample it finer"})
	UnevenNoise = row(Kind{Code: "uneven-noise", Severity: Caution, Run: true,
		Says: "the noise of an image or a sequence is stronger where its values are large, as that of counts, or in " +
			"some places or channels, or that of a matrix of low rank is below `sigma2` in some rows or columns, or " +
			"that of a regression depends on a column, the fitted value or weights, or a series is noisier at some " +
			"volumes: " +
			"`sigma2`, SURE, GCV, leave-one-out and error bars take it for the same everywhere",
		Do: "of counts take 2 sqrt(y + 3/8), or `noise: anscombe` in a specification; divide y, or each channel, " +
			"row or column, by the standard deviation of its noise; start from raw values; of a regression choose by " +
			"`alo` or `cv`: standard errors of its coefficients are by the residuals then"})
	Selected = row(Kind{Code: "selected-coefficients", Quiet: true,
		Says: "standard errors of coefficients are for columns chosen before y was seen, and the fit has selected " +
			"them: of columns without an effect those that are selected are farther from 0 than their errors say",
		Do: "select on a part of the rows, and fit the selected columns by `--problem ols` to the others"})
	CoarseRounding = row(Kind{Code: "coarse-rounding", Severity: Caution, Run: true,
		Says: "the values of y are rounded so coarsely that the variance of the rounding, a twelfth of the step's " +
			"square, matters beside `sigma2`, or that an estimate of `sigma2` sees the steps in place of the noise",
		Do: "add it to `--sigma2`, unless that includes it; start from values that are not rounded so far"})
	Sigma2Biased = row(Kind{Code: "sigma2-biased", Severity: Caution,
		Says: "sigma2 is the residual variance of a fit, too large by that fit's squared bias, and too small where " +
			"the fit follows noise that is stronger in some rows or columns",
		Do: "give `--sigma2` where it is known"})
	Sigma2Contradicted = row(Kind{Code: "sigma2-contradicted", Severity: Caution, Run: true,
		Says: "`sigma2` is less than half of the variance of the noise, or more than twice that, by " +
			"more than four standard errors of that: in the smoothest parts of an image that have no texture, in the " +
			"second differences of a sequence, in the residuals of least squares by all columns of a regression, or " +
			"of a ridge regression of a sinogram; of entries of a matrix it is told where it is larger than the mean " +
			"squared error of predicting them. SURE, its minimum and error bars are wrong",
		Do: "check the units of `--sigma2`, and that it is no standard deviation; compare `--sigma2 auto`"})
	ChosenThresholds = row(Kind{Code: "chosen-thresholds",
		Says: "thresholds were chosen by SURE at these data, so that SURE is a little too small"})
	RowsLeftOut = row(Kind{Code: "rows-left-out", Says: "rows with missing values, or of weight 0, are left out",
		Do: "`--missing mean` keeps those with missing values"})
	ZeroWeights = row(Kind{Code: "zero-weights", Severity: Caution,
		Says: "observations of weight 0 count among those that SURE, GCV, AIC, BIC and leave-one-out are means and " +
			"sums of",
		Do: "leave them out of the data"})
	EqualVariances = row(Kind{Code: "equal-variances",
		Says: "weights belong to the squared loss alone: SURE, GCV, AIC, BIC and leave-one-out take the noise of all " +
			"observations for equally large",
		Do: "where weights are inverse variances, give sqrt(w) X and sqrt(w) y without weights; where they count " +
			"rows, repeat the rows"})
	ValuesReplaced = row(Kind{Code: "values-replaced", Says: "missing values are replaced by the means of their " +
		"columns"})
	MissingValues = row(Kind{Code: "missing-values", Says: "values of a sequence are missing"})
	LongGap       = row(Kind{Code: "long-gap", Severity: Caution,
		Says: "more values of a sequence are missing in a row, or at its end, than criteria are about: " +
			"leave-one-out, GCV and cv are errors of a value whose neighbours are there, and inside such a gap, or " +
			"beyond the last value, the error may be far larger",
		Do: "take the fit there for a guess; choose by `--criterion cv --blocks N` with N the length of such a gap"})
	MissingCodes = row(Kind{Code: "missing-codes", Severity: Caution,
		Says: "a column of a table has a value of nines, such as -999 or 9999, far from all others, as where it " +
			"stands for a missing one",
		Do: "give `--na` with it, and `--missing`"})
	MissingGenotypes = row(Kind{Code: "missing-genotypes",
		Says: "missing genotypes count as the mean of their column"})
	UnequalSteps = row(Kind{Code: "unequal-steps", Severity: Caution,
		Says: "the steps of a sequence's index differ, or are not known, and are taken for equal"})
	ChosenEffects = row(Kind{Code: "chosen-effects",
		Says: "the effects of a completion were chosen by looking at its entries: by leave-one-out of fits at few " +
			"weights, or of the effects alone; printed errors take them as given",
		Do: "`--effects` says which"})
	Levels = row(Kind{Code: "levels", Says: "which level of a response of two is 1",
		Do: "`--success` says otherwise"})
	NumbersAsCategory = row(Kind{Code: "numbers-as-category", Severity: Caution,
		Says: "a column of numbers in quotes is a category, because of a text among them",
		Do:   "give the text to `--na`, or correct it; `--categorical` says that the column is a category"})
	EqualNames     = row(Kind{Code: "equal-names", Says: "texts that are equal numbers count as one"})
	IgnoredArrays  = row(Kind{Code: "ignored-arrays", Says: "the file has arrays that are not used"})
	IgnoredColumns = row(Kind{Code: "ignored-columns", Says: "the file has columns that the fit does not use"})
	IntegersScaled = row(Kind{Code: "integers-scaled",
		Says: "y is an image of integers, which are taken for numbers from 0 to 1"})
	LossyImage = row(Kind{Code: "lossy-image", Severity: Caution,
		Says: "y was compressed as JPEG, perhaps before it was saved in another format, so that its noise has " +
			"another size and is not white",
		Do: "start from the image before it was compressed"})
	Float32       = row(Kind{Code: "float32", Says: "X or y has 24 bits, and is rounded so far"})
	PixelsClamped = row(Kind{Code: "pixels-clamped",
		Says: "the picture that was written has values outside [0, 1] cut off", Do: "write `.npy`"})
	MuHatAlone = row(Kind{Code: "mu-hat-alone", Says: "the file of the result has no b",
		Do: "give `--out` a name that ends in `.npz`"})
	FitNotConverged = row(Kind{Code: "fit-not-converged", Severity: Caution,
		Says: "predictions are those of a fit that had not converged", Do: "fit again"})
	BeyondData = row(Kind{Code: "beyond-data", Severity: Caution,
		Says: "rows are predicted farther beyond the fit's own data than these are from each other: what is known of " +
			"the error of a prediction is not for them",
		Do: "look for columns in other units, and for missing values that are numbers"})
)

// Warnings about series of images.
var (
	SignalRemoved = row(Kind{Code: "signal-removed", Severity: Caution,
		Says: "what was removed is correlated between neighbouring voxels, or what voxels differ from their " +
			"neighbours by between volumes that follow each other: it holds signal, or the noise is correlated, and " +
			"sigma and SURE take it for white",
		Do: "look at `--removed` and `--residual`"})
	LowSNR = row(Kind{Code: "low-snr", Severity: Caution,
		Says: "many values are magnitudes below 3 sigma, where noise is not normal", Do: "give `--rician`"})
	WithoutJumps = row(Kind{Code: "sure-without-jumps", Severity: Caution,
		Says: "hard thresholds jump, which SURE and the degrees of freedom leave out: both are too small",
		Do:   "choose another `--shrinkage`"})
)
