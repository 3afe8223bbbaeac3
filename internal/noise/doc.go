// Package noise estimates the variance sigma2 of the noise, y = mu + sigma z with z
// standard normal, where it is unknown. Stein's estimate of the risk needs it.
//
//	data                 estimator              assumes               relative standard error
//	signal               [MADSignal]            piecewise smooth      2.33 / sqrt(n),  n ~ d/2
//	image                [SmoothBlocks]         smooth in parts       see there
//	image                [MADImage]             piecewise smooth      2.33 / sqrt(n),  n ~ d/4
//	whole matrix         [MedianSingularValue]  low rank              about 3 / min(m, n) if square
//	regression, d > p    [OLSResidual]          mean of y in span X   sqrt(2 / (d - p))
//	entries of a matrix  [Completion]           no entry missing
//
// Each returns the variance, its standard error and the method's name, or a [Refusal], an error
// that says why the method does not apply to these data and that sigma2 must be given. The user
// must judge whether the assumptions hold for a data set.
//
// SURE with an estimated variance is only approximately unbiased. A relative error e of sigma2
// shifts SURE by e sigma2 (2 div - d), to be compared with SURE's own standard error of about
// sigma2 sqrt(2 d).
//
// All methods are equivariant to scale: data times c give c^2 sigma2. They run on the
// host.
package noise
