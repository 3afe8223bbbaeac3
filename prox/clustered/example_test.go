package clustered_test

import (
	"fmt"

	"surepipe/array"
	"surepipe/prox"
	"surepipe/prox/clustered"
)

func ExampleNewTV1D() {
	dev := array.NewHost()
	v := dev.Alloc(1, 8)
	dev.Upload(v, []float64{0.5, -0.5, 0.25, -0.25, 4.25, 3.75, 4.5, 3.5})
	j, err := clustered.NewTV1D(8, 1).Linearize(v, v, 1)
	if err != nil {
		panic(err)
	}
	defer j.Release()
	fmt.Println(v.ToHost())

	units := dev.Alloc(8, 8)
	dev.Fill(units, 0)
	for i := range 8 {
		dev.Fill(units.Rows(i, i+1).Cols(i, i+1), 1)
	}
	j.Apply(units, units)
	divergence := 0.0
	for i, x := range units.ToHost() {
		if i%9 == 0 {
			divergence += x
		}
	}
	fmt.Println(divergence)
	// Output:
	// [0.25 0.25 0.25 0.25 3.75 3.75 3.75 3.75]
	// 2
}

func ExampleNewSortedL1() {
	p, err := clustered.NewSortedL1([]float64{3, 2, 1, 1})
	if err != nil {
		panic(err)
	}
	dev := array.NewHost()
	v := dev.Alloc(1, 4)
	dev.Upload(v, []float64{-5, 0.5, 5.5, 3})
	if err := p.Eval(v, v, 1); err != nil {
		panic(err)
	}
	fmt.Println(v.ToHost())
	fmt.Println(prox.StructureOf(p).Value(v))
	// Output:
	// [-2.75 0 2.75 2]
	// 15.75
}
