package array

import (
	"fmt"
	"os"
	"strings"
	"sync"

	"surepipe/array/internal/native"
)

// BLASReport describes the BLAS and LAPACK that the host device uses.
type BLASReport struct {
	// Name is the implementation's name: "OpenBLAS", "MKL", "BLIS", "Accelerate",
	// "native" for one that does not say, "gonum" for pure Go.
	Name string
	// Version is what the library says of its own version and build.
	Version string
	// Core is the processor type whose kernels it uses, where it tells.
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
	// Reason says why this one: asked for, found, or nothing found.
	Reason string
	// Passed lists the libraries that were opened but not used, and why.
	Passed []string
}

// String is the report in one line.
func (r BLASReport) String() string {
	var s strings.Builder
	s.WriteString(r.Name)
	for _, part := range []string{r.Version, r.Path} {
		if part != "" {
			s.WriteString(", " + part)
		}
	}
	if r.Path != "" {
		s.WriteString(", one thread a call")
		if r.LAPACK != r.Path {
			s.WriteString(", LAPACK from " + r.LAPACK)
		}
	}
	return s.String() + " (" + r.Reason + ")"
}

// Kernels says which processor's kernels the library uses, whether surepipe
// corrected its choice, and what to do where they are slow; "" where the library
// does not tell.
func (r BLASReport) Kernels() string {
	switch {
	case r.Advice != "":
		return r.Core + ", " + r.Advice
	case r.OwnCore != "":
		return fmt.Sprintf("%s, set by surepipe: by itself %s chose %s, which is slow for this processor", r.Core, r.Name, r.OwnCore)
	}
	return r.Core
}

// blasVariable is the environment variable that forces a choice.
const blasVariable = "SUREPIPE_BLAS"

var (
	blasOnce   sync.Once
	blasReport BLASReport
	blasErr    error
)

// useNativeBLAS registers a native BLAS and LAPACK with gonum when one is
// found. gonum reads its registration without a lock, so this happens once, and
// whoever computes must come after: NewHost calls it.
func useNativeBLAS() {
	blasOnce.Do(func() {
		blasReport, blasErr = chooseBLAS(os.Getenv(blasVariable))
	})
}

func chooseBLAS(choice string) (BLASReport, error) {
	pureGo := BLASReport{Name: "gonum", LAPACK: "gonum"}
	switch choice {
	case "gonum":
		pureGo.Reason = blasVariable + "=gonum"
		return pureGo, nil
	case "":
		report, found := native.Find(chooseTile)
		if !found {
			pureGo.Reason, pureGo.Passed = "no native BLAS found", report.Passed
			return pureGo, nil
		}
		report.Reason = "found"
		return BLASReport(report), nil
	}
	report, err := native.Open(choice, chooseTile)
	if err != nil {
		err = fmt.Errorf("%s=%s cannot be used: %w (expected \"gonum\" or the path of a shared library with a Fortran BLAS)", blasVariable, choice, err)
		pureGo.Reason = err.Error()
		return pureGo, err
	}
	report.Reason = blasVariable + "=" + choice
	return BLASReport(report), nil
}

// BLAS says which BLAS the host device uses: "gonum", or the path of the
// native library.
func BLAS() string {
	if r := BLASInfo(); r.Path != "" {
		return r.Path
	}
	return "gonum"
}

// BLASInfo describes the BLAS and LAPACK that the host device uses.
func BLASInfo() BLASReport {
	useNativeBLAS()
	return blasReport
}

// BLASError returns the reason why the library that SUREPIPE_BLAS names cannot
// be used, or nil. The host device then computes with gonum; a program that
// takes the variable as its user's wish calls BLASError first and stops.
func BLASError() error {
	useNativeBLAS()
	return blasErr
}
