package dataio

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"surepipe/internal/hdf5"
)

// Archive reports whether the file holds any number of dense arrays with names of their own.
func (s *Set) Archive() bool {
	return slices.Contains([]string{"npz", "mat", "hdf5"}, s.format) && !s.IsSparse()
}

// OpenArchive is [OpenNPZ], and also opens files of MATLAB and HDF5. They are read until the context is
// done.
func OpenArchive(ctx context.Context, path string) (*Set, error) {
	s, err := OpenAs(path, TableOptions{Context: ctx})
	if err == nil && s.Archive() && s.format != "npz" {
		return s, nil
	}
	if err == nil {
		s.Close()
	}
	return archiveOf(ctx, path)
}

// add adds an array that load reads when it is asked for.
func (s *Set) add(name string, load func() (Array, error)) error {
	if s.Has(name) {
		return fmt.Errorf("array %q occurs twice", name)
	}
	if s.entries == nil {
		s.entries = map[string]entry{}
	}
	s.names = append(s.names, name)
	s.entries[name] = entry{load: func() (Array, error) {
		a, err := load()
		a.Name = name
		if err != nil {
			return a, fmt.Errorf("array %q %w", name, err)
		}
		return a, nil
	}}
	return nil
}

// alone is the set of the array of that name of another set, as a file of this array alone.
func (s *Set) alone(name string) (*Set, error) {
	if !s.Archive() {
		return nil, fmt.Errorf("holds no arrays by name, expected the file's name without :%s", name)
	}
	e, ok := s.entries[name]
	if !ok {
		return nil, s.Missing(name, "", nil)
	}
	return &Set{format: "array of " + s.format, names: []string{name}, entries: map[string]entry{name: e}, file: s.file}, nil
}

// The suffixes of formats that their first bytes do not show.
const (
	niftiSuffix = ".nii"
	bartSuffix  = ".cfl"
)

// openScan opens the formats of scanners and of MATLAB: ok is false for another format.
func openScan(ctx context.Context, path, name string, magic []byte, f file, size int64) (s *Set, ok bool, err error) {
	extension := strings.ToLower(filepath.Ext(path))
	switch {
	case bytes.HasPrefix(magic, []byte("MATLAB 5.0 MAT")):
		s, err = newMAT(f, size)
	case bytes.HasPrefix(magic, []byte(hdf5.Magic)):
		s, err = newHDF5(f, size, false)
	case bytes.HasPrefix(magic, []byte("MATLAB 7.3 MAT")):
		s, err = newHDF5(f, size, true)
	case extension == ".mat":
		return nil, true, errors.New("is no MATLAB file of version 5 to 7.3: save it with save -v7")
	case extension == ".h5" || extension == ".hdf5":
		return nil, true, errors.New("is not an HDF5 file")
	case extension == bartSuffix || extension == ".hdr" && bytes.HasPrefix(magic, []byte("# Dim")):
		return openBART(ctx, path, name)
	default:
		return nil, false, nil
	}
	if err == nil {
		s.file = f
	}
	return s, true, err
}

// newHDF5 is the set of the datasets of an HDF5 file. MATLAB writes the axes in reverse, because its
// first axis varies fastest.
func newHDF5(r io.ReaderAt, size int64, matlab bool) (*Set, error) {
	f, err := hdf5.Open(r, size)
	if err != nil {
		return nil, err
	}
	s := &Set{format: "hdf5"}
	if matlab {
		s.format = "mat"
	}
	for _, d := range f.Datasets {
		load := func() (Array, error) {
			read, err := d.Read()
			if err != nil {
				return Array{}, err
			}
			a := Array{Shape: read.Shape, Data: read.Data, Complex: read.Complex}
			if matlab {
				a.Shape = slices.Clone(a.Shape)
				slices.Reverse(a.Shape)
				a = a.fromColumns().withoutUnitAxes()
			}
			if a.Complex {
				a.Shape = append(a.Shape[:len(a.Shape):len(a.Shape)], 2)
			}
			return a, nil
		}
		if err := s.add(d.Name, load); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// parts is the number of values of a number: 2 where it is complex.
func (a Array) parts() int {
	if a.Complex {
		return 2
	}
	return 1
}

// fromColumns puts values, whose first axis varies fastest, in C order. Shape does not have the axis
// of the parts of complex numbers.
func (a Array) fromColumns() Array {
	parts := a.parts()
	if len(a.Shape) < 2 {
		return a
	}
	out := make([]float64, len(a.Data))
	index := make([]int, len(a.Shape))
	strides := make([]int, len(a.Shape))
	stride := parts
	for axis := len(a.Shape) - 1; axis >= 0; axis-- {
		strides[axis] = stride
		stride *= a.Shape[axis]
	}
	to := 0
	for from := 0; from < len(a.Data); from += parts {
		copy(out[to:to+parts], a.Data[from:])
		for axis := range index {
			to += strides[axis]
			if index[axis]++; index[axis] < a.Shape[axis] {
				break
			}
			to -= strides[axis] * a.Shape[axis]
			index[axis] = 0
		}
	}
	a.Data = out
	return a
}

// withoutUnitAxes makes a vector of a matrix with one row or one column, and a scalar of a matrix with
// one entry: MATLAB has no others.
func (a Array) withoutUnitAxes() Array {
	if len(a.Shape) != 2 || min(a.Shape[0], a.Shape[1]) != 1 {
		return a
	}
	if n := max(a.Shape[0], a.Shape[1]); n > 1 {
		a.Shape = []int{n}
	} else {
		a.Shape = nil
	}
	return a
}

// withPairs checks that the values fill the shape, and adds the axis of the parts of complex numbers.
func (a Array) withPairs() (Array, error) {
	n := a.parts()
	for _, k := range a.Shape {
		n *= k
	}
	if n != len(a.Data) {
		return a, fmt.Errorf("is truncated or corrupt (%d values of shape %s)", len(a.Data)/a.parts(), ShapeString(a.Shape))
	}
	if a.Complex {
		a.Shape = append(a.Shape[:len(a.Shape):len(a.Shape)], 2)
	}
	return a, nil
}
