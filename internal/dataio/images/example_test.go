package images_test

import (
	"bytes"
	"fmt"

	"surepipe/internal/dataio/images"
	"surepipe/internal/dataio/ndarray"
)

// Values are rounded to the file's levels, and those outside of [0, 1] are clamped and counted.
func ExampleEncodePNG() {
	var file bytes.Buffer
	clamped, err := images.EncodePNG(&file, ndarray.Array{Name: "x", Shape: []int{1, 3},
		Data: []float64{0, 0.6, 1.5}}, 8)
	if err != nil {
		fmt.Println(err)
		return
	}
	a, err := images.ReadPNG(&file)
	fmt.Println(a.Shape, a.Data, clamped, err)
	// Output: [1 3] [0 0.6 1] 1 <nil>
}
