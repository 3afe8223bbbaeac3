// Package cli is what all commands of surepipe share: errors about usage, the help of commands that share flags, files
// that are read and written, and the command line that a result carries.
package cli

import (
	"errors"
	"io"

	"surepipe/solve"
	"surepipe/study"
)

// Text is the text of an error, in which the options of package study are flags.
func Text(err error) string { return study.Text(err, Flagged) }

// Flagged is the flag of an option.
func Flagged(o study.Option) string { return "--" + string(o) }

// BadUsage reports whether an error is one that only the user can correct.
func BadUsage(err error) bool {
	var bad *study.Error
	var infeasible *solve.InfeasibleError
	return errors.As(err, &bad) || errors.As(err, &infeasible)
}

// KeptError keeps the first error of writing.
type KeptError struct {
	io.Writer
	Err error
}

func (w *KeptError) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	if w.Err == nil {
		w.Err = err
	}
	return n, err
}
