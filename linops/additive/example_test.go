package additive_test

import (
	"fmt"

	"surepipe/array"
	"surepipe/linops/additive"
)

// Three entries of a 2 x 2 matrix are a constant and effects of rows and of columns.
func ExampleEffects_Of() {
	dev := array.NewHost()
	e, err := additive.NewEffects(dev, array.Shape{Rows: 2, Cols: 2}, []int{0, 1, 2}, true, true, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer e.Release()
	constant, rows, columns := e.Of([]float64{10, 12, 14})
	fmt.Println("rank", e.Rank())
	fmt.Printf("(1, 1) is %.1f\n", constant+rows[0]+columns[0])
	fmt.Printf("rows differ by %.1f, columns by %.1f\n", rows[1]-rows[0], columns[1]-columns[0])
	// Output:
	// rank 3
	// (1, 1) is 10.0
	// rows differ by 4.0, columns by 2.0
}
