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
