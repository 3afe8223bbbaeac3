package linops_test

import (
	"context"
	"fmt"

	"surepipe/array"
	"surepipe/linops"
)

// Robust PCA observes the sum of a low-rank and a sparse matrix: [I I].
func ExampleHStack() {
	dev := array.NewHost()
	a := linops.HStack(linops.Identity(2), linops.Identity(2))
	b, y := dev.Alloc(1, 4), dev.Alloc(1, 2)
	defer b.Free()
	defer y.Free()
	dev.Upload(b, []float64{1, 2, 10, 20})
	a.Forward(y, b)
	c, ok := a.(linops.RowGram).RowGram()
	fmt.Println(y.ToHost(), "A A* = c I:", c, ok)
	// Output: [11 22] A A* = c I: 2 true
}

func ExampleNormal() {
	dev := array.NewHost()
	// A running difference, which knows nothing of itself.
	a := linops.NewFunc(2, 3, func(dst, b []float64) {
		dst[0], dst[1] = b[1]-b[0], b[2]-b[1]
	}, func(dst, z []float64) {
		dst[0], dst[1], dst[2] = -z[0], z[0]-z[1], z[1]
	})
	n := linops.NewNormal(dev, a)
	defer n.Release()
	x := dev.Alloc(1, 3)
	defer x.Free()
	dev.Upload(x, []float64{4, 0, 0})
	if err := n.Solve(context.Background(), x, x, 1); err != nil {
		fmt.Println(err)
	}
	fmt.Printf("%.3f\n", x.ToHost())
	// Output: [2.500 1.000 0.500]
}

func ExampleNorm2() {
	dev := array.NewHost()
	sel, err := linops.NewSelection(dev, 6, []int{5, 0, 3})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sel.Release()
	est, err := linops.Norm2(context.Background(), dev, linops.Scale(3, sel), linops.NormOptions{})
	fmt.Println(est.Value, est.Error, est.Iterations, err)
	// Output: 9 0 0 <nil>
}
