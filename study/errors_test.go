package study_test

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"surepipe/study"
)

// Options have the names of the caller, also in errors that others wrap; the errors stay what they are.
func TestTheCallerNamesOptions(t *testing.T) {
	inner := study.Errorf("%s is %q: %w", study.Option("jsonl"), "x", fs.ErrExist)
	err := study.Errorf("a file: %w; give --%s, 100%% of --%s", inner, "resume", "tol-x")
	name := func(o study.Option) string { return "--" + string(o) }
	if got, want := study.Text(err, name), `a file: --jsonl is "x": file already exists; give --resume, 100% of --tol-x`; got != want {
		t.Errorf("found %q, expected %q", got, want)
	}
	if got, want := err.Error(), `a file: jsonl is "x": file already exists; give resume, 100% of tol-x`; got != want {
		t.Errorf("found %q, expected %q", got, want)
	}
	if got, want := study.Text(fmt.Errorf("sample 3: %w", err), name), "sample 3: "+study.Text(err, name); got != want {
		t.Errorf("found %q, expected %q", got, want)
	}
	if got, want := study.Text(study.Errorf("--trace-error is for --queries auto, found %d", 3), name),
		"--trace-error is for --queries auto, found 3"; got != want {
		t.Errorf("found %q, expected %q", got, want)
	}
	var bad *study.Error
	if !errors.Is(err, fs.ErrExist) || !errors.As(fmt.Errorf("more: %w", err), &bad) {
		t.Error("the error has lost what it wraps")
	}
}
