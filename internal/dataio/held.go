package dataio

import (
	"io"
	"io/fs"
	"path"
	"time"
)

// Memory is a file system whose files are at hand: the arrays of an archive by their names, a sparse matrix, or the
// bytes of a file of any format. [Open] returns arrays as they are, without a copy.
type Memory map[string]HeldFile

// HeldFile are the arrays of a file, or its sparse matrix, or the Size bytes at At.
type HeldFile struct {
	Arrays []Array
	Sparse *Triplets
	At     io.ReaderAt
	Size   int64
}

// Open opens a file of bytes. Arrays have none: [Files] know those of Memory.
func (m Memory) Open(name string) (fs.File, error) {
	held := m[name]
	if held.At == nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return bytesFile{io.NewSectionReader(held.At, 0, held.Size), name}, nil
}

// bytesFile is an open file of [Memory], and what is known of it.
type bytesFile struct {
	*io.SectionReader
	name string
}

func (f bytesFile) Stat() (fs.FileInfo, error) { return f, nil }
func (f bytesFile) Close() error               { return nil }
func (f bytesFile) Name() string               { return path.Base(f.name) }
func (f bytesFile) Mode() fs.FileMode          { return 0o444 }
func (f bytesFile) ModTime() time.Time         { return time.Time{} }
func (f bytesFile) IsDir() bool                { return false }
func (f bytesFile) Sys() any                   { return nil }

// Over is a file system with files in memory, and those of another one.
type Over struct {
	Held Memory
	fs.FS
}

// Stat does not open the file.
func (o Over) Stat(name string) (fs.FileInfo, error) { return fs.Stat(o.FS, name) }

// held is the file of that name where the file system has it in memory; nil elsewhere.
func (f Files) held(name string) *Set {
	m, _ := f.FS.(Memory)
	if over, ok := f.FS.(Over); ok {
		m = over.Held
	}
	file, ok := m[name]
	switch {
	case !ok || file.At != nil:
		return nil
	case file.Sparse != nil:
		return &Set{format: "mtx", triplets: file.Sparse}
	}
	s := &Set{format: "npz"}
	s.Hold(append([]Array{}, file.Arrays...)...)
	return s
}
