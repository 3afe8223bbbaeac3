package noise

import (
	"math"
	"slices"

	"surepipe/internal/lists"
)

// highpass is Daubechies' wavelet filter of four taps: it takes any straight line to
// zero, has norm 1, and is orthogonal to itself shifted by two.
var highpass = func() [4]float64 {
	s, c := math.Sqrt(3), 4*math.Sqrt2
	return [4]float64{(1 - s) / c, -(3 - s) / c, (3 + s) / c, -(1 + s) / c}
}()

const (
	// madNormal is the median of |z| for standard normal z.
	madNormal = 0.67448975019608174
	// madStdErr is the relative standard error of the variance from one detail:
	// 2 / (2 f(m) m), with the density f of |z| at its median m.
	madStdErr = 2.332775
	// leastDetails is the number from which the estimate is within a factor of about two.
	leastDetails = 16
)

// MADSignal estimates the variance of white noise in a signal,
//
//	sigma2 = (median |d| / 0.6745)^2,
//
// from the n details d of the finest scale of a wavelet transform (Daubechies, two vanishing
// moments; the n = floor((len(y) - 2) / 2) whose filter lies within the signal). Where the signal
// is piecewise smooth few details hold more than noise, and these hardly change the median. Donoho
// and Johnstone, Ideal spatial adaptation by wavelet shrinkage, Biometrika 81 (1994).
//
// The relative standard error is 2.33 / sqrt(n), the asymptotic one of a sample median
// of |N(0, 1)|; the bias from the median of a finite sample is 2 / n, smaller by far.
//
// A jump shows in three details of four values each, but in one difference of neighbours. Where the
// differences y_{i+1} - y_i within 3 standard deviations give a smaller variance, by more than three
// errors, there are many jumps, and that is the estimate; what those within 1.5 give less counts as part
// of its error. Jumps of less than 6 sigma count as noise in part.
//
// A rough signal (texture, an oscillation near the sampling rate) counts as noise. Noise that is
// not white (interpolated, compressed, smoothed) is underestimated. Rounding data to steps larger
// than about sigma removes the noise.
//
// It rejects signals of fewer than 34 values, NaN, Inf, and signals whose median
// detail is zero to rounding.
func MADSignal(y []float64) (Estimate, error) {
	most, bad := largest(y)
	if bad >= 0 {
		return refuse(MethodMAD, "y holds %g at [%d], expected finite numbers", y[bad], bad)
	}
	if len(y) < 2*leastDetails+2 {
		return refuse(MethodMAD, "y has %d values, expected at least %d", len(y), 2*leastDetails+2)
	}
	d := make([]float64, 0, len(y)/2)
	for i := 0; i+4 <= len(y); i += 2 {
		d = append(d, math.Abs(highpass[0]*y[i]+highpass[1]*y[i+1]+highpass[2]*y[i+2]+highpass[3]*y[i+3]))
	}
	e, err := mad(d, most)
	if err != nil {
		return e, err
	}
	sigma2, relStdErr := ofSteps(y, e.Sigma2)
	if sigma2 > 0 && e.Sigma2-sigma2 > manyJumps*math.Hypot(e.Sigma2*e.RelStdErr, sigma2*relStdErr) {
		return estimate(MethodMAD, sigma2, relStdErr)
	}
	return e, nil
}

// manyJumps is the number of errors by which differences of neighbours must give less than the details.
const manyJumps = 3

// ofSteps is the variance by the differences of neighbours within cutOff standard deviations, from a
// guess, with its relative standard error: the mean of n squares of differences that overlap has the
// variance 3/n, and jumps that are not much larger than the noise show less in those within nearCut.
func ofSteps(y []float64, guess float64) (sigma2, relStdErr float64) {
	d := lists.Make(len(y)-1, func(i int) float64 { return math.Abs(y[i+1]-y[i]) / math.Sqrt2 })
	slices.Sort(d)
	sigma := truncated(d, cutOff, math.Min(median(d)/madNormal, math.Sqrt(guess)))
	near := truncated(d, nearCut, sigma)
	return sigma * sigma, math.Hypot(math.Sqrt(3/float64(len(d))), 1-near*near/(sigma*sigma))
}

// truncated is the standard deviation of the increasing magnitudes within cut standard deviations, from
// a guess, as if they were those of a normal variable.
func truncated(sorted []float64, cut, sigma float64) float64 {
	within := 1 - 2*cut*math.Exp(-cut*cut/2)/math.Sqrt(2*math.Pi)/math.Erf(cut/math.Sqrt2)
	for range 200 {
		n, _ := slices.BinarySearch(sorted, cut*sigma)
		if n = max(n, len(sorted)/8); n == 0 {
			break
		}
		sum := 0.0
		for _, v := range sorted[:n] {
			sum += v * v
		}
		next := math.Sqrt(sum / float64(n) / within)
		done := math.Abs(next-sigma) <= 1e-9*sigma
		if sigma = next; done {
			break
		}
	}
	return sigma
}

// MADImage is [MADSignal] for an image of rows x cols pixels, row by row: the details are
// the finest diagonal ones (HH), the wavelet along the rows and along the columns, so that
// straight edges along either axis leave no trace. Their number is
// floor((rows - 2) / 2) floor((cols - 2) / 2). It rejects images with fewer than 16.
func MADImage(y []float64, rows, cols int) (Estimate, error) {
	most, err := finiteMatrix(MethodMAD, y, rows, cols, "")
	if err != nil {
		return Estimate{}, err
	}
	n := max((rows-2)/2, 0) * max((cols-2)/2, 0)
	if n < leastDetails {
		return refuse(MethodMAD, "an image of %d x %d pixels has %d diagonal details, expected at least %d", rows,
			cols, n, leastDetails)
	}
	d := make([]float64, 0, n)
	column := make([]float64, cols)
	for i := 0; i+4 <= rows; i += 2 {
		for j := range column {
			k := i*cols + j
			column[j] = highpass[0]*y[k] + highpass[1]*y[k+cols] + highpass[2]*y[k+2*cols] + highpass[3]*y[k+3*cols]
		}
		for j := 0; j+4 <= cols; j += 2 {
			d = append(d, math.Abs(highpass[0]*column[j]+highpass[1]*column[j+1]+
				highpass[2]*column[j+2]+highpass[3]*column[j+3]))
		}
	}
	return mad(d, most)
}

// mad estimates from the magnitudes of the details of values up to most. It sorts d.
func mad(d []float64, most float64) (Estimate, error) {
	slices.Sort(d)
	n := len(d)
	middle := median(d)
	// Details of a constant are rounding errors, not zeros.
	if middle <= 32*epsilon*most {
		return refuse(MethodMAD, "half of the finest details of y are zero: y holds no noise, or is constant "+
			"where it is saturated, masked or padded, or is rounded to steps larger than the noise")
	}
	sigma := middle / madNormal
	return estimate(MethodMAD, sigma*sigma, madStdErr/math.Sqrt(float64(n)))
}
