package main

import (
	"fmt"
	"io"

	"surepipe/problems"
)

// centerResult is the axis of rotation of a scanner, counted in detectors from 0, where it was found from y.
type centerResult struct {
	Center       *float64 `json:"center,omitempty"`
	CenterStdErr *float64 `json:"center_stderr,omitempty"`
}

func centerOf(p *problems.Problem) centerResult {
	if p.Center == nil {
		return centerResult{}
	}
	return centerResult{&p.Center.Value, &p.Center.StdErr}
}

// writeCenter prints it as a row of a table.
func (r *centerResult) writeCenter(w io.Writer) {
	if r.Center != nil {
		fmt.Fprintf(w, "center\t%.6g ± %.2g\tthe detector of the axis of rotation, counted from 0\n", *r.Center, *r.CenterStdErr)
	}
}
