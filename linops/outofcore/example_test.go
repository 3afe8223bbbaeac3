package outofcore_test

import (
	"context"
	"fmt"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/linops/outofcore"
)

// A product with a vector that has one entry reads one column; A* z reads all of the store.
func ExampleNewOutOfCore() {
	passes := 0
	x := mat.NewDense(2, 3, []float64{
		1, 2, 0,
		3, 6, 4,
	})
	a := outofcore.NewOutOfCore(context.Background(), linesOf(x, false, 2, &passes), true)
	dev := array.NewHost()
	b, y, c := dev.Alloc(1, 3), dev.Alloc(1, 2), dev.Alloc(1, 3)
	dev.Upload(b, []float64{0, 0, 1})
	a.Forward(y, b)
	fmt.Println(y.ToHost())
	a.Adjoint(c, y)
	fmt.Println(c.ToHost())
	n, bytes := linops.StructureOf(a).Passes.Count()
	fmt.Println(n, "pass,", bytes, "bytes")
	// Output:
	// [-2 2]
	// [4 8 8]
	// 1 pass, 64 bytes
}
