package ndarray_test

import (
	"fmt"
	"math"

	"surepipe/internal/dataio/ndarray"
)

// An error names the place of a value as numpy indexes it.
func ExampleArray_CheckFinite() {
	inf := math.Inf(1)
	a := ndarray.Array{Name: "X", Shape: []int{2, 2}, Data: []float64{1, 2, inf, 4}}
	fmt.Println(a.CheckFinite())
	// Output: array "X" holds +Inf at [1, 0], expected finite numbers
}
