package native

import (
	"errors"
	"fmt"

	"gonum.org/v1/gonum/blas"
)

// Report describes the library in use.
type Report struct {
	// Name is the implementation's name: "OpenBLAS", "MKL", "BLIS", "Accelerate",
	// "native" for one that does not say, "gonum" for pure Go.
	Name string
	// Version is the version and build that the library reports.
	Version string
	// Core is the processor type whose kernels it uses, where the library reports it.
	Core string
	// OwnCore is the processor type that OpenBLAS chose by itself where that was
	// corrected, because its kernels are slow for this processor; else empty.
	OwnCore string
	// Advice says what to do where the kernels are slow for this processor and
	// were not corrected; else empty.
	Advice string
	// Path is the file that was opened; empty for pure Go.
	Path string
	// LAPACK is the file that the factorizations come from, or "gonum".
	LAPACK string
	// Reason says why this one is in use: it was asked for, it was found, or nothing was found.
	Reason string
	// Passed lists the libraries that were opened but not used, and why.
	Passed []string
}

// errAbsent is the error of a library that is not on the machine.
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
