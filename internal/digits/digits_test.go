package digits_test

import (
	"fmt"
	"math"
	"testing"

	"surepipe/internal/digits"
)

func ExamplePlusMinus() {
	fmt.Println(digits.PlusMinus(66386.34, 22386))
	// Output: 66386.3 ± 22000
}

func TestErrorsHaveTwoDigitsWithoutAnExponent(t *testing.T) {
	for x, want := range map[float64]string{0: "0", 0.031415: "0.031", 2.449: "2.4", 2: "2", 99.6: "100", 144.2: "140",
		996000: "1e+06", 994000: "990000", 3e-9: "3e-09", -144: "-140", math.Inf(1): "+Inf"} {
		if got := digits.Error(x); got != want {
			t.Errorf("Error(%g) = %s, expected %s", x, got, want)
		}
	}
}
