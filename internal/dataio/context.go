package dataio

import (
	"context"
	"errors"
	"io"
	"os"
)

// file is a file whose reads end with a context: every reader of the package reads through one, in
// parts of less than a megabyte, so that all end soon after the context is done, with its error.
type file struct {
	ctx context.Context
	*os.File
}

// Read reads.
func (f file) Read(b []byte) (int, error) {
	if err := f.ctx.Err(); err != nil {
		return 0, err
	}
	return f.File.Read(b)
}

// ReadAt reads at a byte.
func (f file) ReadAt(b []byte, off int64) (int, error) {
	if err := f.ctx.Err(); err != nil {
		return 0, err
	}
	return f.File.ReadAt(b, off)
}

// WriteTo is not that of the file, which would read all of it in one call.
func (f file) WriteTo(w io.Writer) (int64, error) {
	return io.Copy(w, struct{ io.Reader }{f})
}

// OpenFile opens a file for reading, until the context is done.
func OpenFile(ctx context.Context, path string) (io.ReadCloser, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return file{ctx, f}, nil
}

// ended reports whether a read has ended because its context is done, which says nothing about the file.
func ended(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
