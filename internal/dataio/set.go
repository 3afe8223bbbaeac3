package dataio

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/sbinet/npyio/npy"
)

// Array is a named array in memory.
type Array struct {
	Name string
	// Shape has one entry an axis and is empty for a scalar.
	Shape []int
	// Data holds the values in C order: the last axis varies fastest.
	Data []float64
	// Ints holds the values instead where they are integers; Data is then nil.
	Ints []int64
	// Texts holds the values instead where they are texts; Data and Ints are then nil.
	Texts []string
	// Labels name the rows and the columns of a table.
	Labels
	// Complex says that the values are complex numbers: the last axis of Shape, of 2 entries, is their
	// real and imaginary part.
	Complex bool
	// Single says that values are to be written as float32 to a numpy file. Reading does not set it.
	Single bool
	// Absent says that a NaN stands for a value that does not exist: a .csv file has an empty cell.
	Absent bool
	// Depth says how an image's file stores the values, and a numpy file unsigned integers of 8 or 16
	// bits, as which images are stored.
	Depth Depth
}

// Labels name the rows and the columns of a table, and the column of the rows' names; nil and empty where
// they have no names.
type Labels struct {
	RowNames, Columns []string
	Corner            string
}

// CheckFinite returns an error that names the first NaN or Inf, and its place.
func (a Array) CheckFinite() error {
	for i, v := range a.Data {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("array %q holds %g at %s, expected finite numbers", a.Name, v, PlaceString(i, a.Shape))
		}
	}
	return nil
}

// Column is the column of that name of a table, of shape (rows,).
func (a Array) Column(column string) (y Array, err error) {
	if len(a.Shape) != 2 || len(a.Columns) != a.Shape[1] {
		return y, fmt.Errorf("array %q has no column names, expected a table with a header line to take column %q from", a.Name, column)
	}
	j := slices.Index(a.Columns, column)
	if j < 0 {
		return y, MissingColumn(column, a.Columns)
	}
	rows, cols := a.Shape[0], a.Shape[1]
	y = Array{Name: column, Shape: []int{rows}, Data: make([]float64, rows)}
	for i := range rows {
		y.Data[i] = a.Data[i*cols+j]
	}
	return y, nil
}

// Frames returns an array of three axes, the f frames of a video of h x w pixels, as a matrix of
// h w rows, the pixels, and f columns; shape is (f, h, w). Other arrays are returned as they are, and
// shape is nil.
func (a Array) Frames() (matrix Array, shape []int) {
	if len(a.Shape) != 3 {
		return a, nil
	}
	frames, pixels := a.Shape[0], a.Shape[1]*a.Shape[2]
	matrix = a
	matrix.Shape, matrix.Data = []int{pixels, frames}, make([]float64, len(a.Data))
	for t := range frames {
		for q, v := range a.Data[t*pixels:][:pixels] {
			matrix.Data[q*frames+t] = v
		}
	}
	return matrix, a.Shape
}

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

// OpenAs is [Open] with the options of a table that are not about its columns. The file is read, then or
// later, until their context is done.
func OpenAs(path string, opts TableOptions) (*Set, error) {
	file, name, named := splitName(path)
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

// OpenNPZ is Open for .npz files only; for any other file it returns an error that says so.
func OpenNPZ(path string) (*Set, error) { return archiveOf(context.Background(), path) }

func archiveOf(ctx context.Context, path string) (*Set, error) {
	const expected = "a numpy .npz file"
	f, size, err := openRegular(ctx, path, expected)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	s, err := NewNPZ(f, size)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	s.file = f
	return s, nil
}

// openRegular opens a file that can be read at any offset.
func openRegular(ctx context.Context, path, expected string) (_ file, size int64, err error) {
	// Checked before opening, because opening a pipe would wait for its writer.
	info, err := os.Stat(path)
	if err != nil {
		return file{}, 0, bareError(err)
	}
	switch {
	case info.IsDir():
		return file{}, 0, fmt.Errorf("is a directory, expected %s", expected)
	case !info.Mode().IsRegular():
		return file{}, 0, fmt.Errorf("is not a regular file, expected %s", expected)
	}
	f, err := os.Open(path)
	if err != nil {
		return file{}, 0, bareError(err)
	}
	return file{ctx, f}, info.Size(), nil
}

const formats = ".npz, .npy, .csv, .mtx, .mat, .h5, .nii, .cfl, or an image (.png, .jpg, .tif)"

func open(path string, opts TableOptions) (_ *Set, err error) {
	ctx := opts.context()
	f, size, err := openRegular(ctx, path, formats)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	if size == 0 {
		return nil, fmt.Errorf("is empty (0 bytes), expected %s", formats)
	}
	name := filepath.Base(path)
	name = strings.TrimSuffix(name, ".gz")
	extension := strings.ToLower(filepath.Ext(name))
	name = strings.TrimSuffix(name, filepath.Ext(name))
	magic := make([]byte, 16)
	n, err := f.ReadAt(magic, 0)
	if err != nil && err != io.EOF {
		return nil, bareError(err)
	}
	magic = magic[:n]
	switch {
	case bytes.HasPrefix(magic, npy.Magic[:]):
		s := newNPY(name, f, size)
		s.file = f
		return s, nil
	case bytes.HasPrefix(magic, []byte("PK")):
		s, err := NewNPZ(f, size)
		if err != nil {
			return nil, err
		}
		s.file = f
		return s, nil
	}
	if s, ok, err := openScan(ctx, path, name, magic, f, size); ok {
		if err == nil && s.file == nil {
			f.Close()
		}
		return s, err
	}
	// Other formats are read whole.
	defer f.Close()
	var r io.Reader = bufio.NewReaderSize(f, 64<<10)
	if bytes.HasPrefix(magic, []byte("\x1f\x8b")) {
		z, err := unpack(r)
		if err != nil {
			return nil, err
		}
		unzipped := bufio.NewReaderSize(z, 64<<10)
		if magic, err = unzipped.Peek(16); err != nil && err != io.EOF {
			return nil, fmt.Errorf("is truncated or corrupt (%w)", err)
		}
		r = unzipped
	}
	return readWhole(r, magic, name, extension, opts)
}

// readWhole reads a file of one array, or of a sparse matrix, that begins with magic.
func readWhole(r io.Reader, magic []byte, name, extension string, opts TableOptions) (*Set, error) {
	held := func(format string, a Array, err error) (*Set, error) {
		if err != nil {
			return nil, err
		}
		a.Name = name
		return &Set{format: format, names: []string{name}, entries: map[string]entry{name: {held: &a}}}, nil
	}
	for _, im := range imageReaders {
		if bytes.HasPrefix(magic, []byte(im.magic)) {
			a, err := im.read(r)
			return held(im.format, a, err)
		}
	}
	if _, _, ok := isNIfTI(magic); ok && extension == niftiSuffix {
		a, err := ReadNIfTI(r)
		return held("nifti", a, err)
	}
	switch {
	case bytes.HasPrefix(bytes.ToLower(magic), []byte("%%matrixmarket")), extension == ".mtx":
		dense, sparse, err := ReadMatrixMarket(r)
		if dense != nil {
			return held("mtx", *dense, err)
		}
		return &Set{format: "mtx", triplets: sparse}, err
	case extension == ".csv" || extension == ".tsv" || extension == ".txt":
		a, err := ReadCSV(r, TableOptions{Context: opts.Context, NA: opts.NA, Missing: opts.Missing})
		return held("csv", a, err)
	case bytes.HasPrefix(magic, npy.Magic[:]):
		return nil, errors.New("is a numpy array compressed with gzip: decompress it first, or save it with numpy.savez_compressed")
	case slices.ContainsFunc(otherImages, func(m string) bool { return bytes.HasPrefix(magic, []byte(m)) }):
		return nil, errors.New("is a GIF, BMP, WebP or BigTIFF image, expected a .png, .jpg or .tif; convert it, for instance with " + convertHint)
	}
	return nil, fmt.Errorf("has an unknown format, expected %s", formats)
}

// Close closes the file. No array can be read afterwards.
func (s *Set) Close() error {
	if s.file == nil {
		return nil
	}
	return s.file.Close()
}

// Format is npz, npy, csv, mtx, mat, hdf5, nifti, bart, png, jpeg or tiff.
func (s *Set) Format() string { return s.format }

// Names lists the arrays in the file's order. It is empty for a sparse .mtx file.
func (s *Set) Names() []string { return slices.Clone(s.names) }

// Has reports whether there is an array of this name.
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
		return "", fmt.Errorf("expected a single array; %s", suggest("the file", "", s.names, nil))
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

// openAny is Open, also of complex numbers.
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
		return &Reader{name: name, shape: e.held.Shape, len: len(e.held.Data), held: e.held}, nil
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
func (s *Set) Numbers(name string) (Array, error) {
	r, err := s.openAny(name)
	if err != nil {
		return Array{}, err
	}
	defer r.Close()
	return r.Numbers()
}

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
	r, err := s.Open(name)
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
	return fmt.Errorf("array %q is missing%s; %s", name, expected, suggest("the file", name, s.names, used))
}

// suggest lists the names in the file, or other holder, in which a name is missing, and suggests
// one that may be meant.
func suggest(holder, missing string, found, used []string) string {
	if len(found) == 0 {
		return holder + " holds no arrays"
	}
	const most = 12
	var s strings.Builder
	s.WriteString(holder + " holds ")
	for i, name := range found[:min(len(found), most)] {
		if i > 0 {
			s.WriteString(", ")
		}
		fmt.Fprintf(&s, "%.40q", name)
	}
	if len(found) > most {
		fmt.Fprintf(&s, " and %d more", len(found)-most)
	}
	others := slices.DeleteFunc(slices.Clone(found), func(name string) bool { return slices.Contains(used, name) })
	if nearest := Nearest(missing, others); nearest != "" {
		fmt.Fprintf(&s, ": did you mean %q?", nearest)
	}
	return s.String()
}

// ShapeString is a shape in Python's notation.
func ShapeString(shape []int) string {
	if len(shape) == 1 {
		return fmt.Sprintf("(%d,)", shape[0])
	}
	parts := make([]string, len(shape))
	for i, n := range shape {
		parts[i] = strconv.Itoa(n)
	}
	return "(" + strings.Join(parts, ", ") + ")"
}

// PlaceString is the place of flat index i in an array of the given shape, as
// numpy indexes it.
func PlaceString(i int, shape []int) string {
	place := make([]string, len(shape))
	for axis := len(shape) - 1; axis >= 0; axis-- {
		place[axis] = strconv.Itoa(i % shape[axis])
		i /= shape[axis]
	}
	return "[" + strings.Join(place, ", ") + "]"
}

// bareError is err without the operation and the path that package os adds.
func bareError(err error) error {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		return pathErr.Err
	}
	return err
}
