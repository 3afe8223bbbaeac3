//go:build !static && !android && !ios && (linux || darwin || windows) && (amd64 || arm64 || loong64 || riscv64)

package native

import "github.com/ebitengine/purego"

// kernels describes the kernels of OpenBLAS. All fields are empty for another library.
type kernels struct {
	// config describes its version and build, in its own words.
	config string
	// core is the processor type whose kernels it uses, and own the one that it
	// chose by itself if that was corrected.
	core, own string
	advice    string
}

// firstCore, which only tests set, is the core of the first load. It stands for the choice of
// OpenBLAS on a processor that it does not know.
var firstCore string

// loadFast loads a library, and makes OpenBLAS use kernels that suit the processor. OpenBLAS
// 0.3.21, Debian 12's, takes Intel processors that are newer than itself for a Pentium 4
// ("Prescott") and is then several times slower.
//
// loadFast asks the library for its choice. Where that is far slower than what the processor can
// run, it closes the library and loads it again with OPENBLAS_CORETYPE set. The alternatives are
// worse. Setting the variable before the first load takes a table of versions and models, which is
// never complete and overrules newer versions that choose better. Asking in a child process takes a
// program to run, and doubles the start-up time in the common case, which costs nothing here.
// Closing is safe because nothing has been computed and no threads have been started (see
// oneThread), and its success is checked: the library is asked again. Where something else in the
// process holds it open (LD_PRELOAD, a C library whose dlclose does nothing) its answer is
// unchanged, and the report says what the user can do.
//
// The variable is restored at once. It is set in the C library's environment only: the processes
// that Go starts get Go's own. On Windows, which has only one environment, nothing is loaded twice.
func loadFast(path string) (uintptr, kernels, error) {
	handle, err := loadAs(path, firstCore)
	if err != nil {
		return 0, kernels{}, err
	}
	k := kernels{config: text(handle, "openblas_get_config")}
	if k.config == "" {
		return handle, k, nil
	}
	f, chosen := processor(), text(handle, "openblas_get_corename")
	users, _ := getenv(coreVariable)
	k.core = chosen
	for _, core := range corrections(f, chosen, k.config, users) {
		if handle, err = reload(handle, path, core); err != nil {
			return 0, kernels{}, err
		}
		if k.core = text(handle, "openblas_get_corename"); !f.slow(k.core) {
			k.own = chosen
			break
		}
	}
	if f.slow(k.core) && k.core != chosen {
		// The correction is no better: return to the library's own choice.
		if handle, err = reload(handle, path, firstCore); err != nil {
			return 0, kernels{}, err
		}
		k.core = text(handle, "openblas_get_corename")
	}
	// The description of its build ends with the core.
	k.config = text(handle, "openblas_get_config")
	k.advice = advice(f, k.core, k.config, users)
	return handle, k, nil
}

// reload closes a library and loads it again with a core. Where it cannot be closed the handle
// stays valid.
func reload(handle uintptr, path, core string) (uintptr, error) {
	if !unload(handle) {
		return handle, nil
	}
	return loadAs(path, core)
}

// loadAs loads a library with OPENBLAS_CORETYPE set to core, and restores the variable. An empty
// core leaves it as it is.
func loadAs(path, core string) (uintptr, error) {
	if core != "" {
		old, was := getenv(coreVariable)
		setenv(coreVariable, core)
		defer func() {
			if was {
				setenv(coreVariable, old)
			} else {
				unsetenv(coreVariable)
			}
		}()
	}
	return load(path)
}

// text calls a routine that returns a string; "" where there is no such routine.
func text(handle uintptr, name string) string {
	at := symbol(handle, name)
	if at == 0 {
		return ""
	}
	var f func() string
	purego.RegisterFunc(&f, at)
	return f()
}
