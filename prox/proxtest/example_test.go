package proxtest_test

import (
	"fmt"
	"strings"

	"surepipe/array"
	"surepipe/prox"
	"surepipe/prox/proxtest"
)

func ExampleCheck() {
	ridge := func(dst, v []float64, t float64) error {
		for i, x := range v {
			dst[i] = x / (1 + t)
		}
		return nil
	}
	// The derivative of another step.
	wrong := func(dst, v, z []float64, t float64) {
		for i, x := range z {
			dst[i] = x / (1 + 2*t)
		}
	}
	err := proxtest.Check(array.NewHost(), prox.NewFunc(4, ridge, wrong, nil), 4)
	claim, _, _ := strings.Cut(err.Error(), ":")
	fmt.Println(claim)
	// Output: derivative against central differences
}
