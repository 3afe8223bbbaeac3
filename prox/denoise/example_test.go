package denoise_test

import (
	"fmt"

	"surepipe/array"
	"surepipe/prox"
	"surepipe/prox/denoise"
)

// One patch that covers two images of 1 x 2 pixels: the matrix (3 0; 0 1) has the singular values 3 and 1.
func ExampleNewLocalLowRank() {
	dev := array.NewHost()
	r := denoise.NewLocalLowRank(prox.Series{Frames: 2, Rows: 1, Cols: 2, Patch: 2, Stride: 2}, 2)
	v := dev.Alloc(1, 4)
	defer v.Free()
	dev.Upload(v, []float64{3, 0, 0, 1})
	if err := r.Eval(v, v, 1); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%.2f\n", v.ToHost())
	// Output: [1.00 0.00 0.00 0.00]
}
