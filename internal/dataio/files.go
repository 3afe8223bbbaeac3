package dataio

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"surepipe/internal/stored"
)

type Files struct {
	// Context ends the reading of a file when it is done, then or later; nil stands for none.
	Context context.Context
	// FS has the files by their names; nil stands for [Disk]. Those that cannot be read at any offset are held in
	// memory.
	FS fs.FS
}

// Disk has the files of the operating system by their paths, also absolute ones and those above the working
// directory, unlike other file systems.
var Disk fs.FS = disk{}

type disk struct{}

func (disk) Open(path string) (fs.File, error) { return os.Open(path) }

func (disk) Stat(path string) (fs.FileInfo, error) { return os.Stat(path) }

// NoFiles has none.
var NoFiles fs.FS = noFiles{}

type noFiles struct{}

func (noFiles) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: errors.New("cannot be opened: no file system is given")}
}

func (f Files) ctx() context.Context {
	if f.Context == nil {
		return context.Background()
	}
	return f.Context
}

func (f Files) fs() fs.FS {
	if f.FS == nil {
		return Disk
	}
	return f.FS
}

// file is a file whose reads end with a context: every reader of the package reads through one, in
// parts of less than a megabyte, so that all end soon after the context is done, with its error.
type file struct {
	ctx  context.Context
	at   readable
	size int64
	io.Closer
}

// readable can be read from its start and at any offset.
type readable interface {
	io.Reader
	io.ReaderAt
}

func (f file) Read(b []byte) (int, error) {
	if err := f.ctx.Err(); err != nil {
		return 0, err
	}
	return f.at.Read(b)
}

func (f file) ReadAt(b []byte, off int64) (int, error) {
	if err := f.ctx.Err(); err != nil {
		return 0, err
	}
	return f.at.ReadAt(b, off)
}

// open opens a regular file. Its errors do not name it.
func (f Files) open(path, expected string) (file, error) {
	// Checked before opening, because opening a pipe would wait for its writer.
	info, err := fs.Stat(f.fs(), path)
	switch {
	case err != nil:
		return file{}, stored.Bare(err)
	case info.IsDir():
		return file{}, fmt.Errorf("is a directory, expected %s", expected)
	case !info.Mode().IsRegular():
		return file{}, fmt.Errorf("is not a regular file, expected %s", expected)
	}
	opened, err := f.fs().Open(path)
	if err != nil {
		return file{}, stored.Bare(err)
	}
	if at, ok := opened.(readable); ok {
		return file{f.ctx(), at, info.Size(), opened}, nil
	}
	defer opened.Close()
	held, err := readAll(file{ctx: f.ctx(), at: sequential{Reader: opened}})
	return file{f.ctx(), bytes.NewReader(held), int64(len(held)), io.NopCloser(nil)}, err
}

// sequential is a file that is read from its start only.
type sequential struct {
	io.Reader
	io.ReaderAt
}

// readAll reads no more bytes than there is memory.
func readAll(r io.Reader) ([]byte, error) { return io.ReadAll(withinMemory(r, "holds")) }

// OpenFile opens a file of the operating system for reading, until the context is done.
func OpenFile(ctx context.Context, path string) (io.ReadCloser, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return file{ctx: ctx, at: f, Closer: f}, nil
}

// ended reports whether a read has ended because its context is done, which says nothing about the file.
func ended(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// ReadFile is a file system of one file: what a reader holds until its end, under a name whose extension says what it
// is where its beginning does not.
func ReadFile(ctx context.Context, name string, r io.Reader) (fs.FS, error) {
	held, err := readAll(file{ctx: ctx, at: sequential{Reader: r}})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return Memory{name: {At: bytes.NewReader(held), Size: int64(len(held))}}, nil
}

func (f Files) has(name string) bool {
	if memory, ok := f.FS.(Memory); ok {
		_, ok = memory[name]
		return ok
	}
	_, err := fs.Stat(f.fs(), name)
	return err == nil
}

// splitName separates FILE:NAME, where there is no file of the whole name.
func (f Files) splitName(path string) (file, name string, ok bool) {
	at := strings.LastIndexByte(path, ':')
	if at <= 0 || at == len(path)-1 {
		return path, "", false
	}
	if f.has(path) || !f.has(path[:at]) {
		return path, "", false
	}
	return path[:at], path[at+1:], true
}
