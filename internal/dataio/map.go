package dataio

import (
	"errors"
	"fmt"
	"os"

	"surepipe/internal/stored"
)

// Map returns an array of a numpy file where it lies, as a matrix of which only the parts that are
// being read are in memory: it may be larger than that. The array has two axes and holds float64 or
// float32, in C or Fortran order, in the byte order of the machine; a member of an archive must not
// be compressed, and its checksum is not compared. The caller closes the matrix, which outlives the
// set.
func (s *Set) Map(name string) (*stored.Matrix, error) {
	e, ok := s.entries[name]
	if !ok {
		return nil, s.Missing(name, "", nil)
	}
	f, isFile := s.file.(*os.File)
	if e.offset == nil || !isFile {
		return nil, fmt.Errorf("array %q is in a .%s file, expected .npy or .npz: others are read whole", name, s.format)
	}
	begin, err := e.offset()
	if err != nil {
		return nil, fmt.Errorf("array %q %w", name, err)
	}
	r, err := s.openMatrix(name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if r.dtype.kind != 'f' || r.dtype.size < 4 || r.dtype.text[0] == '>' {
		return nil, fmt.Errorf("array %q has dtype %s, expected <f8 or <f4: others are read whole", name, r.dtype)
	}
	m, err := stored.Map(f, begin+r.header, stored.Format{Rows: r.shape[0], Cols: r.shape[1], ByColumns: r.fortran, Single: r.dtype.size == 4})
	if err != nil {
		return nil, fmt.Errorf("array %q: %w", name, err)
	}
	return m, nil
}

// Single reads a matrix as float32s, to which its values are rounded.
func (s *Set) Single(name string) (*stored.Matrix, error) {
	r, err := s.openMatrix(name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	values := make([]float32, r.len)
	if r.held != nil {
		for i, v := range r.held.Data {
			values[i] = float32(v)
		}
		return stored.InMemory(r.shape[0], r.shape[1], values), nil
	}
	decode, place := r.dtype.floats(), r.places()
	var chunk [chunkLen]float64
	err = r.each(func(first int, b []byte) error {
		n := len(b) / r.dtype.size
		decode(chunk[:n], b)
		for i, v := range chunk[:n] {
			at := first + i
			if place != nil {
				at = place()
			}
			values[at] = float32(v)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return stored.InMemory(r.shape[0], r.shape[1], values), nil
}

// openMatrix opens an array of real numbers with two axes.
func (s *Set) openMatrix(name string) (*Reader, error) {
	r, err := s.Open(name)
	if err != nil {
		return nil, err
	}
	switch {
	case r.complex:
		err = r.complexError()
	case len(r.shape) != 2:
		err = r.ShapeError("(d, p)")
	}
	if err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// errCompressed is the error for a member of an archive that has no place of its own in the file.
var errCompressed = errors.New("is compressed, expected a member of an archive that is not (numpy.savez, not numpy.savez_compressed), or a .npy file")
