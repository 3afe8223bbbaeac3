package lowrank_test

import (
	"fmt"

	"surepipe/array"
	"surepipe/prox"
	"surepipe/prox/lowrank"
)

func ExampleNewNuclear() {
	dev := array.NewHost()
	v := dev.Alloc(1, 6)
	dev.Upload(v, []float64{
		0, 5, 0,
		0, 0, 1,
	})
	p := lowrank.NewNuclear(array.Shape{Rows: 2, Cols: 3}, 2)
	if err := p.Eval(v, v, 1); err != nil {
		panic(err)
	}
	fmt.Printf("%.1f\n", v.ToHost())
	fmt.Printf("%.1f\n", prox.StructureOf(p).Value(v))
	// Output:
	// [0.0 3.0 0.0 0.0 0.0 0.0]
	// 6.0
}
