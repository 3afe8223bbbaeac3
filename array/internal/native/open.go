package native

import (
	"errors"
	"fmt"

	"gonum.org/v1/gonum/blas"
)

// Report has the fields of array.BLASReport.
type Report struct {
	Name, Version string
	Core, OwnCore string
	Advice        string
	Path, LAPACK  string
	Reason        string
	Passed        []string
}

var errAbsent = errors.New("not found")

// Open loads the library at path and registers it with gonum if accept, called with its BLAS,
// returns nil. It must be called before anything else computes, and may succeed at most once.
func Open(path string, accept func(blas.Float64) error) (Report, error) {
	lib, err := tryOut(path, true, accept)
	if err != nil {
		return Report{}, err
	}
	lib.register()
	return lib.report, nil
}

func tryOut(path string, asked bool, accept func(blas.Float64) error) (*library, error) {
	lib, err := open(path, asked)
	if err != nil {
		return nil, err
	}
	if err := accept(lib.float64()); err != nil {
		return nil, passedOver(lib.report.Path, "%v", err)
	}
	return lib, nil
}

// Find searches for a library in the usual places and registers the first for which accept returns
// nil. It returns false when there is none; the report then lists the libraries that were opened
// but not used.
func Find(accept func(blas.Float64) error) (Report, bool) {
	var passed []string
	for _, path := range candidates() {
		lib, err := tryOut(path, false, accept)
		if errors.Is(err, errAbsent) {
			continue
		}
		if err != nil {
			passed = append(passed, err.Error())
			continue
		}
		lib.register()
		lib.report.Passed = passed
		return lib.report, true
	}
	return Report{Passed: passed}, false
}

func passedOver(path, format string, args ...any) error {
	return fmt.Errorf("%s: %s", path, fmt.Sprintf(format, args...))
}
