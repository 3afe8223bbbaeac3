package risk_test

import (
	"fmt"
	"math"

	"surepipe/risk"
)

// Soft thresholding of five observations at 1. Three of them exceed the threshold and move by 1,
// the other two become 0: the divergence is 3.
func Example() {
	y := []float64{4.2, -3.1, 0.4, 2.6, -0.3}
	terms := risk.Terms{D: len(y), Sigma2: 0.5}
	for _, v := range y {
		fit := math.Copysign(math.Max(0, math.Abs(v)-1), v)
		terms.Residual += (v - fit) * (v - fit)
		if fit != 0 {
			terms.Divergence++
			terms.Frobenius2++
		}
	}
	fmt.Printf("residual %.2f, divergence %.0f\n", terms.Residual, terms.Divergence)
	fmt.Printf("SURE %.2f ± %.2f\n", terms.SURE(), terms.StdErr())
	fmt.Printf("and ± %.2f where sigma2 is known to 20%%\n", terms.StdErrOfSigma2(0.2))
	// Output:
	// residual 3.25, divergence 3
	// SURE 3.75 ± 2.65
	// and ± 0.10 where sigma2 is known to 20%
}

// Least squares by the mean of six observations, whose variance nobody knows: the derivative is 1/6
// in every entry. Leave-one-out is that of six means of the other five, exactly.
func ExampleLeaveOneOut() {
	y := []float64{4.1, 3.2, 5.0, 3.9, 4.6, 3.8}
	mean := 0.0
	for _, v := range y {
		mean += v / 6
	}
	residuals, diagonal, refits := make([]float64, 6), make([]float64, 6), 0.0
	for i, v := range y {
		residuals[i], diagonal[i] = v-mean, 1./6
		others := (6*mean - v) / 5
		refits += (v - others) * (v - others) / 6
	}
	error2, stdErr, err := risk.LeaveOneOut(residuals, diagonal)
	fmt.Printf("leave-one-out %.4f ± %.4f %v, refits %.4f\n", error2, stdErr, err, refits)

	terms := risk.Terms{D: 6, Divergence: 1} // Sigma2 is 0: not known
	for _, r := range residuals {
		terms.Residual += r * r
	}
	fmt.Printf("GCV %.4f, sigma2 %.4f, SURE %v\n", terms.GCV(), terms.Sigma2DF(), terms.SURE())
	fmt.Printf("AIC %.3f, BIC %.3f\n", terms.AIC(), terms.BIC())
	// Output:
	// leave-one-out 0.4800 ± 0.2227 <nil>, refits 0.4800
	// GCV 0.4800, sigma2 0.4000, SURE NaN
	// AIC 14.436, BIC 14.019
}
