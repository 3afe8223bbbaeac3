package dataio

import (
	"io/fs"
)

// Memory is a file system whose files are in memory already: the arrays of an archive by their names, or a sparse
// matrix. [Open] returns them as they are, without a copy.
type Memory map[string]HeldFile

// HeldFile are the arrays of a file, or its sparse matrix.
type HeldFile struct {
	Arrays []Array
	Sparse *Triplets
}

// Open finds no file of bytes.
func (Memory) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

// held is the file of that name where the file system has it in memory; nil elsewhere.
func (f Files) held(name string) *Set {
	m, _ := f.FS.(Memory)
	file, ok := m[name]
	switch {
	case !ok:
		return nil
	case file.Sparse != nil:
		return &Set{format: "mtx", triplets: file.Sparse}
	}
	s := &Set{format: "npz"}
	s.Hold(append([]Array{}, file.Arrays...)...)
	return s
}
