package array

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"gonum.org/v1/gonum/lapack/lapack64"

	"surepipe/array/internal/native"
	"surepipe/array/internal/reflectors"
)

func init() { lapack64.Use(reflectors.Implementation{}) }

// BLASReport describes the BLAS and LAPACK that the host device uses.
type BLASReport struct {
	// Name is the implementation's name: "OpenBLAS", "MKL", "BLIS", "Accelerate",
	// "native" for one that does not say, "gonum" for pure Go.
	Name    string
	Version string
	// Core is the processor type whose kernels it uses, where the library reports it.
	Core string
	// OwnCore is the processor type that OpenBLAS chose by itself where that was
	// corrected, because its kernels are slow for this processor; else empty.
	OwnCore string
	// Advice says what to do where the kernels are slow for this processor and were not corrected;
	// else empty.
	Advice string
	// Path is the file that was opened; empty for pure Go.
	Path   string
	LAPACK string
	// Reason says why this one is in use: it was asked for, it was found, or nothing was found.
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

// Kernels says which processor's kernels the library uses, whether surepipe corrected its choice,
// and what to do where they are slow; "" where the library does not report it.
func (r BLASReport) Kernels() string {
	switch {
	case r.Advice != "":
		return r.Core + ", " + r.Advice
	case r.OwnCore != "":
		return fmt.Sprintf("%s, set by surepipe: %s chose %s by itself, which is slow for this processor", r.Core,
			r.Name, r.OwnCore)
	}
	return r.Core
}

// blasVariable is the environment variable that forces a choice.
const blasVariable = "SUREPIPE_BLAS"

var (
	blasOnce   sync.Once
	blasErr    error
	blasReport atomic.Pointer[BLASReport]
)

// UseNative searches for a native BLAS and LAPACK (OpenBLAS, MKL, Accelerate) and makes gonum use
// it, which makes large products and factorizations several times faster. The environment variable
// SUREPIPE_BLAS chooses in its place: "gonum" for pure Go, or the path of a shared library. The
// error says why that library cannot be used; gonum's own code then stays in use. It is not an
// error if no library is asked for and none is found. [BLASInfo] describes the outcome.
//
// It changes the whole process, so nothing else in this module calls it unasked:
//   - the implementations behind gonum's blas64 and lapack64, which gonum's mat package and any
//     other code in the program use too;
//   - the library stays loaded, and is told to compute with one thread a call;
//   - while an OpenBLAS that has taken slow kernels is loaded again, OPENBLAS_CORETYPE is set in
//     the C library's environment, which Go's os package and child processes do not see.
//
// The last bits of results depend on the library and on its kernels, and gonum reads its
// registration without a lock. So call UseNative at the start of main or in TestMain, before
// anything computes; later calls return what the first returned.
func UseNative() error {
	blasOnce.Do(func() {
		var report BLASReport
		report, blasErr = chooseBLAS(os.Getenv(blasVariable))
		blasReport.Store(&report)
	})
	return blasErr
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
		err = fmt.Errorf("%s=%s cannot be used: %w (expected \"gonum\" or the path of a shared library with a "+
			"Fortran BLAS)", blasVariable, choice, err)
		pureGo.Reason = err.Error()
		return pureGo, err
	}
	report.Reason = blasVariable + "=" + choice
	return BLASReport(report), nil
}

// BLASInfo describes the BLAS and LAPACK that the host device uses.
func BLASInfo() BLASReport {
	if report := blasReport.Load(); report != nil {
		return *report
	}
	return BLASReport{Name: "gonum", LAPACK: "gonum", Reason: "UseNative was not called"}
}
