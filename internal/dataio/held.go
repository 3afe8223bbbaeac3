package dataio

import (
	"io"
	"io/fs"
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

// Open finds no file: [Files] know those of Memory.
func (Memory) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

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
