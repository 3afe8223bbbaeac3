//go:build cuda

package cuda_test

import (
	"fmt"

	"surepipe/array"
	_ "surepipe/cuda"
)

// Two vectors, a soft threshold and a product on the first card, or on the processor where
// there is none.
func Example() {
	dev, err := array.Open("auto", 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer dev.Close()
	v, gram := dev.Alloc(2, 3), dev.Alloc(2, 2)
	defer v.Free()
	defer gram.Free()
	dev.Upload(v, []float64{
		3, -0.5, -2,
		1, 4, 0,
	})
	dev.Soft(v, v, array.Batch{}, 1)
	dev.Gemm(false, true, 1, v, v, 0, gram)
	if err := dev.Sync(); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(gram, gram.ToHost())
	// Output: 2 x 2 [5 0 0 9]
}
