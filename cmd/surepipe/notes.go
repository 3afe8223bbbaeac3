package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/study/load"
)

// note prints a note on standard error, and adds it to the warnings of the JSON.
func (f *estimatorFlags) note(cmd *cobra.Command, code, format string, args ...any) {
	n := pipeline.Warning{Code: code, Text: fmt.Sprintf(format, args...)}
	fmt.Fprintf(cmd.ErrOrStderr(), "surepipe: %s\n", n.Text)
	f.notes = append(f.notes, n)
}

// warnData prints what the user should know about the data.
func (f *estimatorFlags) warnData(cmd *cobra.Command, data problems.Data) {
	for _, n := range f.NotesOn(data, f.noise(data)) {
		f.note(cmd, n.Code, "%s", withFlags(n.Text))
	}
}

// takeData takes what reading the data has found.
func (f *estimatorFlags) takeData(data load.Contents) {
	f.Variance, f.depth = data.Variance, data.Depth
}

// readData reads the data, and shows how far it has come.
func (f *estimatorFlags) readData(cmd *cobra.Command) (load.Contents, error) {
	bar := newProgress(cmd)
	defer bar.close()
	data, err := f.Source.Read(bar.preparing(cmd.Context()))
	f.takeData(data)
	return data, err
}

// doubtedText is the message for many results.
const doubtedText = "--verify disagrees with %d of %d %s: each has a warning that says why; lower --tol, or try " +
	"another --solver or --derivative"

// describe is the row of a verification in a table: its result, and what was compared.
func describe(v *pipeline.Verification) (what, from string) {
	solvers := v.Solver
	if v.Other != "" {
		solvers += " and " + v.Other
	}
	from = fmt.Sprintf("%d comparisons by %s, %d probes", len(v.Comparisons), solvers, v.Probes)
	if v.Boundaries > 0 {
		from += fmt.Sprintf(", %d at a boundary", v.Boundaries)
	}
	if v.Unresolved > 0 {
		from += fmt.Sprintf(", %d too inaccurate", v.Unresolved)
	}
	from += fmt.Sprintf(", %.3g s", v.Seconds)
	switch {
	case v.Failure != "":
		return "NOT VERIFIED", v.Failure
	case !v.Passed():
		return fmt.Sprintf("NOT VERIFIED: %.3g error bars, %s", v.Largest, v.Check), from
	}
	return fmt.Sprintf("%.2g error bars, %s", v.Largest, v.Check), from
}
