package array_test

import (
	"fmt"

	"surepipe/array"
)

// One step of gradient descent on 1/2 ||A b - y||^2 for two right-hand sides at
// once: b <- b - A* (A b - y) / 4.
func Example() {
	dev := array.NewHost()
	a, y, b := dev.Alloc(2, 3), dev.Alloc(2, 2), dev.Alloc(2, 3)
	dev.Upload(a, []float64{
		1, 0, 1,
		0, 1, 1,
	})
	dev.Upload(y, []float64{
		4, 8,
		-4, 0,
	})
	dev.Fill(b, 0)

	residual := dev.Alloc(2, 2)
	defer residual.Free()
	dev.Gemm(false, true, 1, b, a, 0, residual) // each row is A b
	dev.Lin(residual, 1, residual, -1, y)
	dev.Gemm(false, false, -0.25, residual, a, 1, b) // each row gains -A* r / 4

	fmt.Println(b, "on", dev.Name())
	fmt.Println(b.Rows(0, 1).ToHost())
	fmt.Println(b.Rows(1, 2).ToHost())
	// Output:
	// 2 x 3 on cpu
	// [1 2 3]
	// [-1 0 -1]
}

// A view of some coordinates shares the memory of its batch.
func ExampleBatch_Cols() {
	dev := array.NewHost()
	b := dev.Alloc(2, 4)
	defer b.Free()
	dev.Fill(b, 1)
	dev.Fill(b.Cols(1, 3), 5)
	fmt.Println(b.ToHost())
	// Output: [1 5 5 1 1 5 5 1]
}

func ExampleHost_Soft() {
	dev := array.NewHost()
	v := dev.Alloc(1, 4)
	defer v.Free()
	dev.Upload(v, []float64{3, -0.5, -2, 1})
	dev.Soft(v, v, array.Batch{}, 1)
	fmt.Println(v.ToHost())
	// Output: [2 0 -1 0]
}

// Two requests share a device's memory, and each keeps the faults of its own work. A batch belongs
// to the request that allocated it, and may be used with those of the device.
func ExampleDevice_request() {
	dev := array.NewHost()
	weights := dev.Put([]float64{1, 2, 3}, 1, 3) // of all requests
	defer weights.Free()
	for _, y := range [][]float64{{1, 1, 1}, {2, 0, 2}} {
		view := dev.Request()
		on := view.Put(y, 1, 3)
		product := on.Device().Alloc(1, 3)
		view.Mul(product, weights, on)
		fmt.Println(product.ToHost(), view.Err())
		product.Free()
		on.Free()
	}
	// Output:
	// [1 2 3] <nil>
	// [2 0 6] <nil>
}
