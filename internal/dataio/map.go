package dataio

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"surepipe/internal/lists"
	"surepipe/internal/stored"
)

// Map returns an array of a numpy file where it lies, as a matrix of which only the parts that are
// being read are in memory: it may be larger than that. The array has two axes and holds float64 or
// float32, in C or Fortran order, in the byte order of the machine; a member of an archive must not
// be compressed. [stored.Matrix.Scan] compares its checksum. The caller closes the matrix, which outlives the
// set.
func (s *Set) Map(name string) (*stored.Matrix, error) {
	f, begin, err := s.lies(name)
	if err != nil {
		return nil, err
	}
	r, err := s.openMatrix(name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if r.dtype.Kind != 'f' || r.dtype.Size < 4 || r.dtype.text[0] == '>' {
		return nil, fmt.Errorf("array %q has dtype %s, expected <f8 or <f4: others are read whole", name, r.dtype)
	}
	m, err := stored.Map(f, begin+r.header, stored.Format{Rows: r.shape[0], Cols: r.shape[1], ByColumns: r.fortran,
		Single: r.dtype.Size == 4})
	if err != nil {
		return nil, fmt.Errorf("array %q: %w", name, err)
	}
	return s.expect(m, f, numbers{name, begin + r.header, r.len, r.dtype.Size})
}

// lies is the file in which an array lies as it is, and the byte at which its header begins.
func (s *Set) lies(name string) (f *os.File, begin int64, err error) {
	e, ok := s.entry(name)
	if !ok {
		return nil, 0, s.Missing(name, "", nil)
	}
	opened, _ := s.file.(file)
	f, isFile := opened.at.(*os.File)
	if e.offset == nil || !isFile {
		return nil, 0, fmt.Errorf("array %q is in a .%s file, expected .npy or .npz: others are read whole", name,
			s.format)
	}
	if begin, err = e.offset(); err != nil {
		return nil, 0, fmt.Errorf("array %q %w", name, err)
	}
	return f, begin, nil
}

// MapSparse returns the sparse matrix of an archive where it lies, as [Set.Map] does a dense one. It is
// compressed by rows or columns (csr or csc), with indices of 32 or 64 bits that increase in every row or
// column, and values of float64 or float32; its arrays are not compressed as files are
// (scipy.sparse.save_npz with compressed=False). The pointers to the rows or columns are read.
func (s *Set) MapSparse() (*stored.Matrix, error) {
	if s.triplets != nil || !s.IsSparse() {
		return nil, fmt.Errorf("is in a .%s file, expected .npz as scipy.sparse.save_npz writes it: others "+
			"are read whole", s.format)
	}
	format, rows, cols, err := s.sparseShape()
	if err != nil {
		return nil, err
	}
	if format == "coo" {
		return nil, errors.New("is a sparse matrix of format coo, expected csr or csc: others are read whole")
	}
	c := stored.Compressed{Rows: rows, Cols: cols, ByColumns: format == "csc"}
	f, values, err := s.number("data", "f4", "f8")
	if err != nil {
		return nil, err
	}
	_, indices, err := s.number("indices", "i4", "i8")
	if err != nil {
		return nil, err
	}
	if indices.len != values.len {
		return nil, fmt.Errorf("array %q has %d entries, \"data\" has %d", "indices", indices.len, values.len)
	}
	if err := checkLines(rows, cols, int(values.len)); err != nil {
		return nil, err
	}
	major := rows
	if c.ByColumns {
		major = cols
	}
	if c.Indptr, err = s.pointers(major, values.len); err != nil {
		return nil, err
	}
	c.Indices, c.Long, c.Values, c.Single = indices.begin, indices.size == 8, values.begin, values.size == 4
	m, err := stored.MapCompressed(f, c)
	if err != nil {
		return nil, err
	}
	return s.expect(m, f, indices, values)
}

// expect gives a matrix the checksums of the arrays in which it lies, where the archive has them.
func (s *Set) expect(m *stored.Matrix, f *os.File, arrays ...numbers) (*stored.Matrix, error) {
	var sums []stored.Checksum
	for _, n := range arrays {
		e := s.entries[n.array]
		begin, err := e.offset()
		header := make([]byte, max(n.begin-begin, 0))
		if err == nil && (e.sum == 0 || e.size != int64(len(header)+n.len*n.size)) {
			return m, nil
		}
		if err == nil {
			_, err = f.ReadAt(header, begin)
		}
		if err != nil {
			m.Close()
			return nil, corruptError(n.array, err)
		}
		sums = append(sums, stored.Checksum{Array: n.array, Header: header, CRC32: e.sum})
	}
	m.Expect(sums...)
	return m, nil
}

// numbers are the numbers of an array with one axis, where they lie.
type numbers struct {
	array     string
	begin     int64
	len, size int
}

// number finds an array of one of the types, in the byte order of the machine.
func (s *Set) number(name string, types ...string) (*os.File, numbers, error) {
	f, begin, err := s.lies(name)
	if err != nil {
		return nil, numbers{}, err
	}
	r, err := s.Open(name)
	if err != nil {
		return nil, numbers{}, err
	}
	defer r.Close()
	if len(r.shape) != 1 {
		return nil, numbers{}, r.ShapeError("one axis")
	}
	if kind := fmt.Sprintf("%c%d", r.dtype.Kind, r.dtype.Size); !slices.Contains(types, kind) ||
		r.dtype.text[0] == '>' {
		return nil, numbers{}, fmt.Errorf("array %q has dtype %s, expected <%s: others are read whole", name, r.dtype,
			strings.Join(types, " or <"))
	}
	return f, numbers{name, begin + r.header, r.len, r.dtype.Size}, nil
}

// Single reads a matrix as float32s, to which its values are rounded.
func (s *Set) Single(name string) (*stored.Matrix, error) {
	r, err := s.openMatrix(name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if err := r.fits(4); err != nil {
		return nil, err
	}
	if r.held != nil {
		values := lists.Map(r.held.Data, func(v float64) float32 { return float32(v) })
		return stored.InMemory(r.shape[0], r.shape[1], values), nil
	}
	values := make([]float32, r.len)
	decode := r.dtype.Floats()
	var double [chunkLen]float64
	err = decoded(r, values, r.places(), func(to []float32, b []byte) {
		decode(double[:len(to)], b)
		for i := range to {
			to[i] = float32(double[i])
		}
	})
	if err != nil {
		return nil, err
	}
	return stored.InMemory(r.shape[0], r.shape[1], values), nil
}

func (s *Set) openMatrix(name string) (*Reader, error) {
	r, err := s.Open(name)
	if err == nil && len(r.shape) != 2 {
		r.Close()
		err = r.ShapeError("(d, p)")
	}
	return r, err
}

// errCompressed is the error for a member of an archive that has no place of its own in the file.
var errCompressed = errors.New("is compressed, expected a member of an archive that is not (numpy.savez, not " +
	"numpy.savez_compressed), or a .npy file")
