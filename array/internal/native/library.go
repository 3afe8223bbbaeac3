//go:build !static && !android && !ios && (linux || darwin || windows) && (amd64 || arm64 || loong64 || riscv64)

package native

import (
	"fmt"
	"math"
	"strings"
	"unsafe"

	"github.com/ebitengine/purego"
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack/lapack64"
)

// library is an open shared library and the addresses of its routines.
type library struct {
	report Report
	blas   blasRoutines
	lapack lapackRoutines
	// hasLAPACK reports whether every routine of lapack was found.
	hasLAPACK bool
}

type blasRoutines struct {
	dgemm, dgemv, dsyrk, dsymm, dtrmm, dtrsm uintptr
}

type lapackRoutines struct {
	dgesdd, dgesvd, dsyevd, dpotrf, dpotri uintptr
}

// oneThread holds the environment variables by which the libraries, or the OpenMP run time below
// them, decide how many threads to start when they are loaded. They are set in the C library's
// environment: Go's, which child processes inherit, stays as it is (except on Windows, which has
// only one).
var oneThread = [][2]string{
	{"OPENBLAS_NUM_THREADS", "1"},
	{"OMP_NUM_THREADS", "1"},
	{"BLIS_NUM_THREADS", "1"},
	{"VECLIB_MAXIMUM_THREADS", "1"},
	{"MKL_THREADING_LAYER", "SEQUENTIAL"},
}

// open loads a library, sets it to one thread and tests it. A library that was not asked for by
// name must identify itself as an optimized one: the reference BLAS is no faster than gonum.
func open(path string, asked bool) (*library, error) {
	for _, v := range oneThread {
		setenv(v[0], v[1])
	}
	handle, k, err := loadFast(path)
	if err != nil {
		return nil, err
	}
	lib := &library{report: Report{Name: "native", Path: path, LAPACK: "gonum"}}
	if missing := lib.blas.find(handle); missing != "" {
		return nil, passedOver(path, "no routine %s: not a Fortran BLAS", missing)
	}
	if real := fileOf(lib.blas.dgemm); real != "" {
		lib.report.Path = real
	}
	lib.identify(handle, path, k)
	if !asked && lib.report.Name == "native" {
		return nil, passedOver(lib.report.Path, "a reference BLAS, no faster than gonum")
	}
	if err := lib.tryBLAS(); err != nil {
		return nil, passedOver(lib.report.Path, "%v", err)
	}
	lib.findLAPACK(handle)
	return lib, nil
}

// findLAPACK takes the factorizations from the library itself or, where it is only a BLAS, from the
// system's LAPACK if that calls the same BLAS. With neither, gonum's own factorizations call the
// library's BLAS.
func (lib *library) findLAPACK(handle uintptr) {
	if lib.lapack.find(handle) == "" {
		lib.hasLAPACK = true
	} else if h, err := load(systemLAPACK); err == nil && symbol(h, "dgemm_") == lib.blas.dgemm {
		lib.hasLAPACK = lib.lapack.find(h) == ""
	}
	if lib.hasLAPACK {
		lib.report.LAPACK = lib.report.Path
		if file := fileOf(lib.lapack.dgesdd); file != "" {
			lib.report.LAPACK = file
		}
	}
}

func (lib *library) float64() blas.Float64 { return implBLAS{lib: &lib.blas} }

func (lib *library) register() {
	blas64.Use(lib.float64())
	if lib.hasLAPACK {
		lapack64.Use(implLAPACK{lib: &lib.lapack})
	}
}

// lookup finds routines by their Fortran names and returns the name of the
// first that is missing.
func lookup(handle uintptr, names map[string]*uintptr) (missing string) {
	for name, at := range names {
		*at = symbol(handle, name)
		if *at == 0 && (missing == "" || name < missing) {
			missing = name
		}
	}
	return missing
}

func (r *blasRoutines) find(handle uintptr) (missing string) {
	return lookup(handle, map[string]*uintptr{
		"dgemm_": &r.dgemm, "dgemv_": &r.dgemv, "dsyrk_": &r.dsyrk,
		"dsymm_": &r.dsymm, "dtrmm_": &r.dtrmm, "dtrsm_": &r.dtrsm,
	})
}

func (r *lapackRoutines) find(handle uintptr) (missing string) {
	return lookup(handle, map[string]*uintptr{
		"dgesdd_": &r.dgesdd, "dgesvd_": &r.dgesvd, "dsyevd_": &r.dsyevd,
		"dpotrf_": &r.dpotrf, "dpotri_": &r.dpotri,
	})
}

// identify asks the library for its name and version, and sets it to one thread.
func (lib *library) identify(handle uintptr, path string, k kernels) {
	call := func(name string, arg uintptr) {
		if at := symbol(handle, name); at != 0 {
			purego.SyscallN(at, arg)
		}
	}
	r := &lib.report
	switch {
	case k.config != "":
		r.Name = "OpenBLAS"
		r.Version = strings.TrimSpace(strings.TrimPrefix(k.config, "OpenBLAS "))
		r.Core, r.OwnCore, r.Advice = k.core, k.own, k.advice
		call("openblas_set_num_threads", 1)
	case symbol(handle, "MKL_Get_Version_String") != 0:
		r.Name = "MKL"
		// Without this mode MKL's bits depend on the alignment of its operands.
		const cbwrAuto = 2
		call("MKL_CBWR_Set", cbwrAuto)
		call("MKL_Set_Num_Threads", 1)
		version := make([]byte, 256)
		purego.SyscallN(symbol(handle, "MKL_Get_Version_String"), uintptr(unsafe.Pointer(&version[0])),
			uintptr(len(version)-1))
		r.Version = strings.TrimSpace(cString(&version[0]))
	case symbol(handle, "bli_info_get_version_str") != 0:
		r.Name = "BLIS"
		r.Version = text(handle, "bli_info_get_version_str")
		call("bli_thread_set_num_threads", 1)
	case strings.Contains(path, "Accelerate.framework"):
		r.Name = "Accelerate"
		// BLAS_THREADING_SINGLE_THREADED of macOS 15 and later.
		call("BLASSetThreading", 1)
	}
}

// tryBLAS computes one small product whose result is known exactly, which detects a library with
// another calling convention.
func (lib *library) tryBLAS() error {
	const m, k, n = 2, 3, 2
	a := []float64{1, 2, 3, 4, 5, 6}
	b := []float64{7, 8, 9, 10, 11, 12}
	c := []float64{math.NaN(), math.NaN(), math.NaN(), math.NaN()}
	want := [...]float64{58, 64, 139, 154}
	lib.blas.gemm(blas.NoTrans, blas.NoTrans, m, n, k, 1, a, k, b, n, 0, c, n)
	for i, v := range want {
		if c[i] != v {
			return fmt.Errorf("its dgemm_ gives %v for a product whose value is %v", c, want)
		}
	}
	return nil
}

func cString(p *byte) string {
	if p == nil {
		return ""
	}
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) != 0 {
		n++
	}
	return string(unsafe.Slice(p, n))
}
