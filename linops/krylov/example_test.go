package krylov_test

import (
	"context"
	"fmt"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/linops/krylov"
)

func ExampleNorm2() {
	dev := array.NewHost()
	sel, err := linops.NewSelection(dev, 6, []int{5, 0, 3})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sel.Release()
	est, err := krylov.Norm2(context.Background(), dev, linops.Scale(3, sel), krylov.NormOptions{})
	fmt.Println(est.Value, est.Error, est.Iterations, err)
	// Output: 9 0 0 <nil>
}
