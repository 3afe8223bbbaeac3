package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"surepipe/array"
	"surepipe/internal/dataio"
	"surepipe/problems"
	"surepipe/study/load"
)

// sigma2Value is the value of --sigma2: a number, or how to estimate it.
type sigma2Value struct {
	value  *float64
	method *string
}

// Set reads a number or the name of a method.
func (v sigma2Value) Set(text string) error {
	if slices.Contains(problems.Sigma2Methods(), text) {
		*v.value, *v.method = 0, text
		return nil
	}
	x, ok := dataio.ParseNumber(text)
	if !ok {
		return fmt.Errorf("expected a number or one of %s", strings.Join(problems.Sigma2Methods(), ", "))
	}
	*v.value, *v.method = x, ""
	return nil
}

func (v sigma2Value) String() string {
	switch {
	case v.value == nil:
		return ""
	case *v.method != "":
		return *v.method
	case *v.value == 0:
		return ""
	}
	return strconv.FormatFloat(*v.value, 'g', -1, 64)
}

// Type is its name in the help.
func (v sigma2Value) Type() string { return "float|auto" }

// varianceOfFits estimates sigma2 from fits along a path of lambda, and sets it in the data.
func (f *estimatorFlags) varianceOfFits(cmd *cobra.Command, dev array.Device, data *problems.Data,
	bar *progress) error {
	hyper, err := f.hyper()
	if err != nil {
		return err
	}
	fits := load.Fits{Device: dev, Hyper: hyper, Solver: f.solver,
		Check: func(d int) error { return f.checkScale(*data, 0, d) }}
	if fits.Settings, err = f.solverOptions(dev, 0); err != nil {
		return err
	}
	f.traceFlags.options(&fits.Options.Options)
	fits.Options.ALO = false
	fits.Options.Parallel, fits.Options.Batch, fits.Options.Progress = f.parallel, f.probeBatch, bar.follower()
	estimate, note, err := f.Source.VarianceOfFits(bar.preparing(cmd.Context()), *data, fits)
	if err != nil {
		return err
	}
	f.Estimate, data.Sigma2 = &estimate, &estimate.Sigma2
	f.note(cmd, note.Code, "%s", withFlags(note.Text))
	return nil
}

// relStdErr is the standard error of sigma2 over its value; nil where it was given.
func (f *estimatorFlags) relStdErr() *float64 {
	if f.Estimate == nil {
		return nil
	}
	return &f.Estimate.RelStdErr
}

// tooLargeText is the message for many results.
const tooLargeText = "SURE of %d of %d %s is more than three error bars below 0, although it estimates a squared " +
	"error: sigma2 is too large (--sigma2)"
