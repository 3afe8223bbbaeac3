//go:build !static && !android && !ios && (linux || darwin) && (amd64 || arm64 || loong64 || riscv64)

package native

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"unsafe"

	"github.com/ebitengine/purego"
)

// candidates lists what Find tries, best first. Bare names are left to the
// dynamic loader, which knows the machine's directories and LD_LIBRARY_PATH.
func candidates() []string {
	if runtime.GOOS == "darwin" {
		return []string{
			"/opt/homebrew/opt/openblas/lib/libopenblas.dylib",
			"/usr/local/opt/openblas/lib/libopenblas.dylib",
			"/opt/local/lib/libopenblas.dylib",
			"/System/Library/Frameworks/Accelerate.framework/Accelerate",
		}
	}
	return []string{
		// Fedora's name for the threaded build; its libopenblas.so.0 is a serial one.
		"libopenblasp.so.0",
		"libopenblas.so.0",
		"libopenblas.so",
		"libmkl_rt.so.3",
		"libmkl_rt.so.2",
		"libmkl_rt.so",
		"libblas.so.3",
	}
}

// systemLAPACK is where LAPACK is found when the BLAS comes without it.
const systemLAPACK = "liblapack.so.3"

func load(path string) (uintptr, error) {
	handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		// These are the loader's messages for a file that does not exist, on Linux and macOS. If
		// they do not contain the path, another library that this one needs is missing.
		text := err.Error()
		if strings.Contains(text, path) && strings.Contains(strings.ToLower(text), "no such file") {
			return 0, absentError{text}
		}
		return 0, errors.New(text)
	}
	return handle, nil
}

// absentError has the loader's message and matches errAbsent.
type absentError struct{ text string }

func (e absentError) Error() string        { return e.text }
func (e absentError) Is(target error) bool { return target == errAbsent }

func symbol(handle uintptr, name string) uintptr {
	at, err := purego.Dlsym(handle, name)
	if err != nil {
		return 0
	}
	return at
}

// setenv sets a variable of the C library's environment.
func setenv(name, value string) {
	if at := symbol(purego.RTLD_DEFAULT, "setenv"); at != 0 {
		n, v := append([]byte(name), 0), append([]byte(value), 0)
		purego.SyscallN(at, uintptr(unsafe.Pointer(&n[0])), uintptr(unsafe.Pointer(&v[0])), 1)
	}
}

func unsetenv(name string) {
	if at := symbol(purego.RTLD_DEFAULT, "unsetenv"); at != 0 {
		n := append([]byte(name), 0)
		purego.SyscallN(at, uintptr(unsafe.Pointer(&n[0])))
	}
}

func getenv(name string) (value string, ok bool) {
	at := symbol(purego.RTLD_DEFAULT, "getenv")
	if at == 0 {
		return os.LookupEnv(name)
	}
	var f func(string) *byte
	purego.RegisterFunc(&f, at)
	p := f(name)
	return cString(p), p != nil
}

// unload closes a library, which is removed from the process if nothing else holds it open.
func unload(handle uintptr) bool { return purego.Dlclose(handle) == nil }

// fileOf is the file that holds the routine at an address, links resolved; "" if the loader does
// not know.
func fileOf(address uintptr) string {
	at := symbol(purego.RTLD_DEFAULT, "dladdr")
	if at == 0 {
		return ""
	}
	var info struct {
		file *byte
		base uintptr
		name *byte
		addr uintptr
	}
	if ok, _, _ := purego.SyscallN(at, address, uintptr(unsafe.Pointer(&info))); int32(ok) == 0 {
		return ""
	}
	file := cString(info.file)
	if real, err := filepath.EvalSymlinks(file); err == nil {
		return real
	}
	return file
}
