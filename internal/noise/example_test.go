package noise_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"surepipe/internal/noise"
)

// The variance of the noise in a sine, of which 4 is the truth.
func Example() {
	r := rand.New(rand.NewPCG(1, 0))
	y := make([]float64, 4096)
	for i := range y {
		y[i] = 100*math.Sin(float64(i)/100) + 2*r.NormFloat64()
	}
	e, err := noise.MADSignal(y)
	if err != nil {
		panic(err)
	}
	fmt.Printf("%s: %.1f ± %.1f\n", e.Method, e.Sigma2, e.RelStdErr*e.Sigma2)

	_, err = noise.Completion(y[:3], []int{0, 1, 2}, 2, 3)
	var refusal *noise.Refusal
	fmt.Println(errors.As(err, &refusal), err)
	// Output:
	// mad: 4.0 ± 0.1
	// true sigma2 cannot be estimated (median-singular-value): 3 of the 6 entries of the matrix are observed, expected all; give sigma2 (--sigma2)
}
