package warning_test

import (
	"fmt"

	"surepipe/risk/warning"
)

func Example() {
	w := warning.GCVLeverages.With("GCV is %.2f, and leave-one-out %.2f", 0.21, 0.98)
	fmt.Println(w.Code, w.Text)
	fmt.Println("to do:", warning.Find(w.Code).Do)
	fmt.Println("trusted:", warning.Trusted([]warning.Warning{w}))
	// Output:
	// gcv-leverages GCV is 0.21, and leave-one-out 0.98
	// to do: choose `--criterion alo` or `cv`
	// trusted: true
}
