//go:build !static && windows && (amd64 || arm64)

package native

import (
	"errors"
	"fmt"
	"syscall"
)

// candidates lists what Find tries. The names are left to the system, which
// searches the program's own directory and PATH.
func candidates() []string {
	return []string{"libopenblas.dll", "openblas.dll", "mkl_rt.2.dll", "mkl_rt.dll"}
}

// systemLAPACK is where LAPACK is found when the BLAS comes without it.
const systemLAPACK = "liblapack.dll"

func load(path string) (uintptr, error) {
	handle, err := syscall.LoadLibrary(path)
	if errors.Is(err, syscall.ERROR_MOD_NOT_FOUND) {
		return 0, fmt.Errorf("%s: %w", path, errAbsent)
	}
	if err != nil {
		return 0, fmt.Errorf("%s: %w", path, err)
	}
	return uintptr(handle), nil
}

func symbol(handle uintptr, name string) uintptr {
	at, err := syscall.GetProcAddress(syscall.Handle(handle), name)
	if err != nil {
		return 0
	}
	return at
}

// setenv sets a variable where a library that is loaded later looks for it.
func setenv(name, value string) { _ = syscall.Setenv(name, value) }

func unsetenv(name string) { _ = syscall.Unsetenv(name) }

func getenv(name string) (value string, ok bool) { return syscall.Getenv(name) }

// unload reports that the library stays loaded: loading OpenBLAS twice has been tested on Linux
// only. The report says what the user can do.
func unload(uintptr) bool { return false }

func fileOf(uintptr) string { return "" }
