package dataio

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"surepipe/internal/dataio/ndarray"
)

// Array, Labels and Depth are those of package ndarray, where what reads and writes files of one kind finds
// them too.
type (
	Array  = ndarray.Array
	Labels = ndarray.Labels
	Depth  = ndarray.Depth
)

// A Set is the named arrays of one file. A numpy file is opened without reading its values: they
// are read on demand. Errors of its methods name the array and not the file. It is not safe for
// concurrent use.
type Set struct {
	format   string
	names    []string
	entries  map[string]entry
	triplets *Triplets
	file     io.Closer
	asked    map[string]bool // the arrays that were asked for
}

// entry finds an array, which counts as asked for.
func (s *Set) entry(name string) (e entry, ok bool) {
	if e, ok = s.entries[name]; ok {
		if s.asked == nil {
			s.asked = map[string]bool{}
		}
		s.asked[name] = true
	}
	return e, ok
}

// Unread lists the arrays that were not asked for, in the file's order.
func (s *Set) Unread() []string {
	return slices.DeleteFunc(s.Names(), func(name string) bool { return s.asked[name] })
}

// entry is the source of an array.
type entry struct {
	// open starts reading at the array's header. room is the number of bytes available.
	open func() (rc io.ReadCloser, room int64, err error)
	// at opens the array at a byte, for sources that need not be read from the start.
	at func(offset int64) (io.ReadCloser, error)
	// offset is where the array begins in the file; nil where it is not in one as it is.
	offset func() (int64, error)
	// size is that of a member of an archive, and sum its checksum (CRC32, IEEE); 0 for none.
	size int64
	sum  uint32
	// held is an array that has been read already, and load reads one at once.
	held *Array
	load func() (Array, error)
}

// Open opens a file of any format that the package reads, which it detects from the first bytes of
// the file, and for .csv from its name. FILE:NAME is the array of that name in an archive (.npz, .mat,
// .h5), as a file of this array alone. Text files may be compressed with gzip. A file of one array
// gives it the file's name without its extensions. Every error names the file and is about the
// file.
func Open(path string) (*Set, error) { return OpenAs(path, TableOptions{}) }

// OpenAs is [Open] of a file of the options, with those of a table that are not about its columns.
func OpenAs(path string, opts TableOptions) (*Set, error) {
	file, name, named := opts.splitName(path)
	s, err := open(file, opts)
	if err == nil && named {
		if alone, refused := s.alone(name); refused == nil {
			return alone, nil
		} else {
			s.Close()
			err = refused
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// ReadOne reads the only array of a file by a method of the set, such as [Set.Floats]. Errors name the file.
func ReadOne(path string, opts TableOptions, read func(s *Set, name string) (Array, error)) (a Array, err error) {
	s, err := OpenAs(path, opts)
	if err != nil {
		return a, err
	}
	defer s.Close()
	name, err := s.Only()
	if err == nil {
		a, err = read(s, name)
	}
	if err != nil {
		return a, fmt.Errorf("%s: %w", path, err)
	}
	return a, nil
}

// OpenNPZ is Open for .npz files only; for any other file it returns an error that says so.
func OpenNPZ(path string) (*Set, error) {
	const expected = "a numpy .npz file"
	f, err := Files{}.open(path, expected)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	s, err := NewNPZ(f, f.size)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	s.file = f
	return s, nil
}

func open(path string, opts TableOptions) (_ *Set, err error) {
	if s := opts.held(path); s != nil {
		return s, nil
	}
	expected := Extensions(Formats())
	f, err := opts.open(path, expected)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	if f.size == 0 {
		return nil, fmt.Errorf("is empty (0 bytes), expected %s", expected)
	}
	name := strings.TrimSuffix(filepath.Base(path), ".gz")
	extension := filepath.Ext(name)
	s := source{files: opts.Files, path: path, name: strings.TrimSuffix(name, extension), file: f}
	return openFormat(s, strings.ToLower(extension), opts)
}

// Close closes the file. No array can be read afterwards.
func (s *Set) Close() error {
	if s.file == nil {
		return nil
	}
	return s.file.Close()
}

// Names lists the arrays in the file's order. It is empty for a sparse .mtx file.
func (s *Set) Names() []string { return slices.Clone(s.names) }

func (s *Set) Has(name string) bool {
	_, ok := s.entries[name]
	return ok
}

// Only is the name of the file's single array, and an error where it holds none or
// several.
func (s *Set) Only() (string, error) {
	switch {
	case s.IsSparse():
		return "", errors.New("holds a sparse matrix, expected a dense array")
	case len(s.names) != 1:
		return "", fmt.Errorf("expected a single array; %s", ndarray.Suggest("the file", "", s.names, nil))
	}
	return s.names[0], nil
}

// Open reads an array's header: its type is a real number's, none of its axes is
// empty, and the file is long enough for its values.
func (s *Set) Open(name string) (*Reader, error) {
	r, err := s.openAny(name)
	if err == nil && r.isComplex() {
		r.Close()
		return nil, r.complexError()
	}
	return r, err
}

func (s *Set) openAny(name string) (*Reader, error) {
	e, ok := s.entry(name)
	if !ok {
		return nil, s.Missing(name, "", nil)
	}
	if e.load != nil {
		a, err := e.load()
		if err != nil {
			return nil, err
		}
		e = entry{held: &a}
	}
	if e.held != nil {
		return &Reader{name: name, shape: e.held.Shape, len: len(e.held.Data) + len(e.held.Ints), held: e.held}, nil
	}
	rc, room, err := e.open()
	if err != nil {
		return nil, corruptError(name, err)
	}
	r, err := newReader(name, rc, room)
	if err != nil {
		rc.Close()
		return nil, err
	}
	return r, nil
}

// Floats reads an array of real numbers, converted to float64.
func (s *Set) Floats(name string) (Array, error) { return readEntry(s, name, (*Reader).Floats) }

// Numbers is [Set.Floats], and also reads complex numbers: see [Array.Complex].
func (s *Set) Numbers(name string) (Array, error) { return readEntry(s, name, (*Reader).Numbers) }

// Frames reads an array of three axes as a matrix: see [Reader.Frames].
func (s *Set) Frames(name string) (a Array, shape []int, err error) {
	r, err := s.Open(name)
	if err != nil {
		return Array{}, nil, err
	}
	defer r.Close()
	return r.Frames()
}

// Ints reads an array of integers, or of floats that are integers.
func (s *Set) Ints(name string) (Array, error) { return readEntry(s, name, (*Reader).Ints) }

func readEntry(s *Set, name string, read func(*Reader) (Array, error)) (Array, error) {
	r, err := s.openAny(name)
	if err != nil {
		return Array{}, err
	}
	defer r.Close()
	return read(r)
}

// Scalar reads an array of a single number, whatever its number of axes.
func (s *Set) Scalar(name string) (float64, error) {
	r, err := s.Open(name)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	if r.len != 1 {
		return 0, r.ShapeError("a single number")
	}
	a, err := r.Floats()
	if err != nil {
		return 0, err
	}
	return a.Data[0], nil
}

// Missing is the error for an array that is missing. It lists the arrays in the set, and suggests
// one that may be meant; expected is the shape it should have, if any, and used are names that have
// their own meaning and are therefore not misspellings.
func (s *Set) Missing(name, expected string, used []string) error {
	if expected != "" {
		expected = ", expected shape " + expected
	}
	if s.triplets != nil {
		return fmt.Errorf("array %q is missing%s; the file holds a sparse matrix", name, expected)
	}
	return fmt.Errorf("array %q is missing%s; %s", name, expected, ndarray.Suggest("the file", name, s.names, used))
}

func (s *Set) IsImage() bool { return s.row().Image }

// Find is the name if there is such an array, or else that of the file's single array.
func (s *Set) Find(name string) (string, error) {
	if s.Has(name) {
		return name, nil
	}
	return s.Only()
}

// Vector is an array that may be a vector: where the format has matrices only, one row or column is one.
func (s *Set) Vector(a Array) Array {
	if s.row().Matrices && len(a.Shape) == 2 && min(a.Shape[0], a.Shape[1]) == 1 {
		a.Shape = []int{len(a.Data)}
	}
	return a
}

// Image scales an array that is an image by its type and shape where the format does not say so.
func (s *Set) Image(a *Array) {
	if axes := len(a.Shape); s.row().Levels && (axes == 2 || axes == 3) && min(a.Shape[0], a.Shape[1]) > 1 {
		a.ScaleToUnit()
	}
}
