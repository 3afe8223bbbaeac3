package input_test

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"surepipe/input"
)

// Options have the names of the caller, also in errors that others wrap; the errors stay what they are.
func TestTheCallerNamesOptions(t *testing.T) {
	inner := input.Errorf("%s is %q: %w", input.Option("jsonl"), "x", fs.ErrExist)
	err := input.Errorf("a file: %w; give --%s, 100%% of --%s", inner, "resume", "tol-x")
	name := func(o input.Option) string { return "--" + string(o) }
	if got, want := input.Text(err, name), `a file: --jsonl is "x": file already exists; give --resume, 100% of --tol-x`; got != want {
		t.Errorf("found %q, expected %q", got, want)
	}
	if got, want := err.Error(), `a file: jsonl is "x": file already exists; give resume, 100% of tol-x`; got != want {
		t.Errorf("found %q, expected %q", got, want)
	}
	if got, want := input.Text(fmt.Errorf("sample 3: %w", err), name), "sample 3: "+input.Text(err, name); got != want {
		t.Errorf("found %q, expected %q", got, want)
	}
	if got, want := input.Text(input.Errorf("--trace-error is for --queries auto, found %d", 3), name),
		"--trace-error is for --queries auto, found 3"; got != want {
		t.Errorf("found %q, expected %q", got, want)
	}
	var bad *input.Error
	if !errors.Is(err, fs.ErrExist) || !errors.As(fmt.Errorf("more: %w", err), &bad) {
		t.Error("the error has lost what it wraps")
	}
}

// The fields are what the text says.
func TestFieldsAreThoseOfTheText(t *testing.T) {
	for _, c := range []struct {
		err                    error
		field, found, expected string
	}{
		{input.Errorf("--tol is %g, expected a number between 0 and 1", 2.0), "tol", "2", "a number between 0 and 1"},
		{input.Errorf("d.npz: %w", input.Errorf("array %q has shape %s, expected %s", "X", "(6,)", "(d, p)")), "X",
			"shape (6,)", "(d, p)"},
		{input.Errorf("--data is missing, expected a file"), "data", "missing", "a file"},
		{input.Errorf("array %q holds NaN at [%d], expected finite numbers", "y", 3), "y", "NaN at [3]", "finite numbers"},
		{input.Errorf("t.csv: line 3, column %q: the value is missing", "area"), "area", "missing", ""},
		{input.Bad(errors.New("d.npz: no such file or directory")), "", "d.npz: no such file or directory", ""},
	} {
		var e *input.Error
		if !errors.As(c.err, &e) || e.Field != c.field || e.Found != c.found || e.Expected != c.expected {
			t.Errorf("%v: %q, %q, %q", c.err, e.Field, e.Found, e.Expected)
		}
	}
}
