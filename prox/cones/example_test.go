package cones_test

import (
	"fmt"

	"surepipe/array"
	"surepipe/prox/cones"
)

func ExampleNewSimplex() {
	dev := array.NewHost()
	v, z := dev.Alloc(1, 4), dev.Alloc(1, 4)
	dev.Upload(v, []float64{0.75, 0.5, 0.5, -1})
	dev.Upload(z, []float64{3, 0, 0, 7})
	j, err := cones.NewSimplex(4, 1).Linearize(v, v, 1)
	if err != nil {
		panic(err)
	}
	defer j.Release()
	j.Apply(z, z)
	fmt.Printf("%.2f\n", v.ToHost())
	fmt.Printf("%.0f\n", z.ToHost())
	// Output:
	// [0.50 0.25 0.25 0.00]
	// [2 -1 -1 0]
}

func ExampleNewL1Ball() {
	dev := array.NewHost()
	v := dev.Alloc(2, 3)
	dev.Upload(v, []float64{3, -2, 0.5, 0.5, 0.5, -0.5})
	if err := cones.NewL1Ball(3, 2).Eval(v, v, 1); err != nil {
		panic(err)
	}
	fmt.Println(v.ToHost())
	// Output: [1.5 -0.5 0 0.5 0.5 -0.5]
}
