package dataio

import (
	"fmt"
	"io"
	"slices"

	"surepipe/internal/hdf5"
)

// Archive reports whether the file holds any number of dense arrays with names of their own.
func (s *Set) Archive() bool {
	return s.row().Archive && !s.IsSparse()
}

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
	return &Set{format: "array of " + s.format, names: []string{name}, entries: map[string]entry{name: e},
		file: s.file}, nil
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
				a = a.FromColumns().WithoutUnitAxes()
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
