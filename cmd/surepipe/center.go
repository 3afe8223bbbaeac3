package main

import (
	"fmt"
	"io"

	"surepipe/study"
)

// writeCenter prints it as a row of a table.
func writeCenter(r *study.CenterResult, w io.Writer) {
	if r.Center != nil {
		fmt.Fprintf(w, "center\t%.6g ± %.2g\tthe detector of the axis of rotation, counted from 0\n", *r.Center,
			*r.CenterStdErr)
	}
}
