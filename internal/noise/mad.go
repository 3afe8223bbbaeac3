package noise

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

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

// MADSignal estimates the variance of white noise in a signal from the n = len(y) - 3 details at all places of the
// finest scale of a wavelet transform (Daubechies, two vanishing moments), whose filter lies within the signal,
//
//	sigma2 = sum_{|d| <= 3 sigma} d^2 / (0.9733 #{|d| <= 3 sigma}),
//
// starting from sigma = median |d| / 0.6745; 0.9733 is the variance of N(0, 1) within 3. Where the signal is piecewise
// smooth few details hold more than noise, and these are beyond 3 sigma. Donoho and Johnstone, Ideal spatial
// adaptation by wavelet shrinkage, Biometrika 81 (1994), take the median alone, whose error is 1.7 times as large.
//
// The relative standard error is sqrt(3.28 / n), as details that overlap are correlated, and what those within 1.5
// give less counts as part of it.
//
// A jump shows in up to three details at neighbouring places, but in one difference of neighbours. Where the
// differences y_{i+1} - y_i within 3 standard deviations give a smaller variance, by more than three
// errors, there are many jumps, and that is the estimate. Jumps of less than 6 sigma count as noise in part.
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
	d := lists.Make(len(y)-3, func(i int) float64 {
		return math.Abs(highpass[0]*y[i] + highpass[1]*y[i+1] + highpass[2]*y[i+2] + highpass[3]*y[i+3])
	})
	e, err := mad(d, most)
	if err != nil {
		return e, err
	}
	details := within(d, overlapping, math.Sqrt(e.Sigma2))
	if steps := ofSteps(y, details.sigma2); steps.sigma2 > 0 &&
		details.sigma2-steps.sigma2 > manyJumps*math.Hypot(details.sigma2*details.chance, steps.sigma2*steps.chance) {
		details = steps
	}
	if noNoise(math.Sqrt(details.sigma2), most) {
		return refuse(MethodMAD, noDetails)
	}
	return estimate(MethodMAD, details.sigma2, math.Hypot(details.chance, details.jumps))
}

const noDetails = "half of the finest details of y are zero: y holds no noise, or is constant where it is saturated, " +
	"masked or padded, or is rounded to steps larger than the noise"

// noNoise reports whether details of a size are zeros beside the largest value: those of a constant are only rounded.
func noNoise(size, most float64) bool { return size <= 32*epsilon*most }

// manyJumps is the number of errors by which differences of neighbours must give less than the details.
const manyJumps = 3

// overlapping is n times the variance of the mean of n squares of details at all places, which have correlations of
// -9/16 and 1/16, and ofNeighbours that of squares of differences, which have one of -1/2.
const overlapping, ofNeighbours = 2 + 4*(9*9+1)/256., 3

// fromSmall is a variance by squares that are small, with its relative errors: the standard error, and what jumps that
// are not much larger than the noise may add, which show less in squares that are smaller yet.
type fromSmall struct{ sigma2, chance, jumps float64 }

// within is the variance of the increasing magnitudes d within cutOff standard deviations, from a guess of their
// standard deviation. The mean of the n squares has the variance spread/n.
func within(d []float64, spread, guess float64) fromSmall {
	sigma := truncated(d, cutOff, guess)
	near := truncated(d, nearCut, sigma)
	return fromSmall{sigma * sigma, math.Sqrt(spread / float64(len(d))), max(1-near*near/(sigma*sigma), 0)}
}

// ofSteps is the variance by the differences of neighbours.
func ofSteps(y []float64, guess float64) fromSmall {
	d := lists.Make(len(y)-1, func(i int) float64 { return math.Abs(y[i+1]-y[i]) / math.Sqrt2 })
	slices.Sort(d)
	return within(d, ofNeighbours, math.Min(median(d)/madNormal, math.Sqrt(guess)))
}

// truncated is the standard deviation of the magnitudes within cut standard deviations, from a guess, as if they were
// those of a normal variable: of an eighth of them at least. It may sort them.
func truncated(sizes []float64, cut, sigma float64) float64 {
	within := 1 - 2*cut*math.Exp(-cut*cut/2)/math.Sqrt(2*math.Pi)/math.Erf(cut/math.Sqrt2)
	for range 200 {
		n, sum := 0, 0.0
		for _, v := range sizes {
			if v < cut*sigma {
				n, sum = n+1, sum+v*v
			}
		}
		if least := len(sizes) / 8; n < least {
			slices.Sort(sizes)
			n, sum = least, floats.Dot(sizes[:least], sizes[:least])
		}
		if n == 0 {
			break
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
	if noNoise(middle, most) {
		return refuse(MethodMAD, noDetails)
	}
	sigma := middle / madNormal
	return estimate(MethodMAD, sigma*sigma, madStdErr/math.Sqrt(float64(n)))
}
