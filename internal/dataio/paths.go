package dataio

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"surepipe/internal/stored"
)

// FilesOf are the files from which [Open] reads a path: that of FILE:NAME, and those beside it that
// belong to it.
func FilesOf(path string) []string {
	file, _, _ := Files{}.splitName(path)
	stem := strings.TrimSuffix(file, filepath.Ext(file))
	switch filepath.Ext(file) {
	case ".cfl", ".hdr":
		return []string{stem + ".cfl", stem + ".hdr"}
	case ".bed":
		return []string{file, stem + ".bim", stem + ".fam"}
	}
	return []string{file}
}

// targetOf is the file that a path links to, which need not exist, or the path itself.
func targetOf(path string) string {
	const most = 40 // links, after which Linux gives up too
	for range most {
		to, err := os.Readlink(path)
		if err != nil {
			break
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(path), to)
		}
		path = to
	}
	return path
}

// SameFile reports whether two paths are of one file, which need not exist.
func SameFile(a, b string) bool {
	a, b = targetOf(a), targetOf(b)
	of, errA := os.Stat(a)
	other, errB := os.Stat(b)
	if errA == nil || errB == nil {
		return errA == nil && errB == nil && os.SameFile(of, other)
	}
	in, errA := os.Stat(filepath.Dir(a))
	beside, errB := os.Stat(filepath.Dir(b))
	if errA != nil || errB != nil || !os.SameFile(in, beside) ||
		!strings.EqualFold(filepath.Base(a), filepath.Base(b)) {
		return false
	}
	if filepath.Base(a) == filepath.Base(b) {
		return true
	}
	// Some file systems tell capital letters, and others do not.
	f, err := os.OpenFile(a, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return false
	}
	f.Close()
	defer os.Remove(a)
	_, err = os.Stat(b)
	return err == nil
}

// createBeside creates an empty file in the directory of path, to be renamed to
// target: path, or the file that path links to.
func createBeside(path string) (f *os.File, target string, err error) {
	target = targetOf(path)
	// os.CreateTemp would make the file readable only by its owner.
	for i := range 100 {
		name := filepath.Join(filepath.Dir(target), fmt.Sprintf(".%s.%d-%d.tmp", filepath.Base(target), os.Getpid(), i))
		f, err = os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if !errors.Is(err, fs.ErrExist) {
			break
		}
	}
	return f, target, err
}

// CheckWritable returns an error for a path that cannot be written, before the work starts. It
// leaves nothing behind. The error is only the reason.
func CheckWritable(path string) error {
	if path == "" || os.IsPathSeparator(path[len(path)-1]) {
		return errors.New("expected the name of a file")
	}
	dir := filepath.Dir(targetOf(path))
	switch info, err := os.Stat(dir); {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("directory %q does not exist", dir)
	case err != nil:
		return stored.Bare(err)
	case !info.IsDir():
		return fmt.Errorf("%q is not a directory", dir)
	}
	switch info, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return stored.Bare(err)
	case info.IsDir():
		return errors.New("it is a directory")
	case !info.Mode().IsRegular():
		// The rename would replace a device by a file.
		return errors.New("it is not a regular file")
	default:
		// Renaming onto a file needs no permission to write it.
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return stored.Bare(err)
		}
		f.Close()
	}
	f, _, err := createBeside(path)
	if err != nil {
		return stored.Bare(err)
	}
	f.Close()
	return stored.Bare(os.Remove(f.Name()))
}
