package arraytest_test

import (
	"fmt"

	"surepipe/array"
	"surepipe/array/arraytest"
)

// Your own device is checked in the same way.
func ExampleCheck() {
	fmt.Println(arraytest.Check(array.NewHost()))
	// Output: <nil>
}
