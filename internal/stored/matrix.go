package stored

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"surepipe/internal/parallel"
)

// Matrix is a d x p matrix X in a file. It is safe for concurrent use once it has been scanned.
type Matrix struct {
	// Rows and Cols are d and p.
	Rows, Cols int
	// ByRows says that the lines are the rows of X; else they are its columns.
	ByRows bool
	// Statistics are those of the columns; the zero value before the scan.
	Statistics

	ctx     context.Context // of the scan
	file    *os.File        // nil where the values are in memory
	mapping mapping
	bytes   []byte // the mapping
	end     int64  // of the mapping, in the file
	spans   []span // where lines lie
	format  lineFormat
	sparse  *compressed // nil where lines have all values
	note    string      // of the format, part of the hash

	modified time.Time // the file, when it was opened
	expected []Checksum
}

// span is an array of the file in which a part of every line lies: from at(i) to at(i+1), counted from
// begin in the mapping.
type span struct {
	begin int64
	at    func(line int) int64
}

func (s span) of(from, to int) (int64, int64) { return s.begin + s.at(from), s.begin + s.at(to) }

// equal is a span of lines of equal size.
func equal(begin, size int64) []span {
	return []span{{begin, func(line int) int64 { return int64(line) * size }}}
}

// lineFormat decodes lines.
type lineFormat interface {
	// decode sets dst to the values of a line; it may return a view of the line instead.
	decode(dst []float64, line []byte) []float64
	// products sets dst_i to the product of line first+i with z, for a few lines at once; it returns
	// false where decoding is as fast.
	products(dst []float64, lines []byte, first int, z []float64) bool
}

// Statistics are sums over the rows of X, found in one pass.
type Statistics struct {
	// Means are the means of the columns, and Centered2 the squared norms of the columns after
	// their means have been subtracted, accurate also where the mean is large.
	Means, Centered2 []float64
	// Gram are the products of two columns after their means have been subtracted, p x p, where these are few beside
	// the rows; else nil.
	Gram []float64
	// Z is the vector with which the scan was called, and Product is X* z.
	Z, Product []float64
	// Hash identifies the values, their shape and how they are stored.
	Hash    [32]byte
	Missing int64
}

// Format says how dense values lie in a file.
type Format struct {
	Rows, Cols        int
	ByColumns, Single bool
}

// Map maps the dense matrix that begins at a byte of the file, which may be closed afterwards.
func Map(f *os.File, begin int64, format Format) (*Matrix, error) {
	m := &Matrix{Rows: format.Rows, Cols: format.Cols, ByRows: !format.ByColumns, note: "float64"}
	size := 8
	if format.Single {
		size, m.note = 4, "float32"
	}
	m.spans = equal(begin, int64(size)*int64(m.length()))
	m.format = float64s{}
	if format.Single {
		m.format = float32s{}
	}
	return m, m.open(f)
}

// InMemory is a matrix in memory whose values are float32s, row-major.
func InMemory(rows, cols int, values []float32) *Matrix {
	m := &Matrix{Rows: rows, Cols: cols, ByRows: true, spans: equal(0, 4*int64(cols)), note: "float32",
		format: float32s{}}
	m.bytes = unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(values))), 4*len(values))
	return m
}

// Single says that values have the precision of float32.
func (m *Matrix) Single() bool {
	if m.sparse != nil {
		return m.sparse.single
	}
	_, ok := m.format.(float32s)
	return ok
}

// Name is the file's; empty where the values are in memory.
func (m *Matrix) Name() string {
	if m.file == nil {
		return ""
	}
	return m.file.Name()
}

// Context is that of the scan: passes that have none of their own end with it.
func (m *Matrix) Context() context.Context { return m.ctx }

// errFormat is the error for a machine whose numbers are not those of the file.
var errFormat = errors.New("is mapped on little-endian machines only")

func (m *Matrix) open(f *os.File) error {
	one := uint16(1)
	if *(*byte)(unsafe.Pointer(&one)) != 1 {
		return errFormat
	}
	info, err := f.Stat()
	if err != nil {
		return Bare(err)
	}
	at := int64(math.MaxInt64)
	for _, s := range m.spans {
		from, to := s.of(0, m.Lines())
		at, m.end = min(at, from), max(m.end, to)
	}
	if info.Size() < m.end {
		return fmt.Errorf("is truncated: the file has %d bytes, expected %d", info.Size(), m.end)
	}
	m.modified = info.ModTime()
	// The mapping has a file of its own, which tells whether it has been cut off meanwhile.
	if m.file, err = os.Open(f.Name()); err != nil {
		return Bare(err)
	}
	page := int64(os.Getpagesize())
	at = at / page * page
	if m.mapping, err = mapFile(m.file, at, m.end-at); err != nil {
		m.file.Close()
		return fmt.Errorf("cannot be mapped into memory: %w", err)
	}
	for i := range m.spans {
		m.spans[i].begin -= at
	}
	m.bytes = m.mapping.bytes()
	return nil
}

// Bare is the cause of an error about a file, without its path.
func Bare(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

// Close ends the mapping. Nothing of the matrix may be in use.
func (m *Matrix) Close() error {
	if m == nil || m.bytes == nil {
		return nil
	}
	m.bytes = nil
	if m.file == nil {
		return nil
	}
	err := m.mapping.close()
	if closeErr := m.file.Close(); err == nil {
		err = closeErr
	}
	return err
}

// Lines is the number of lines, and length that of the values in each.
func (m *Matrix) Lines() int {
	if m.ByRows {
		return m.Rows
	}
	return m.Cols
}

func (m *Matrix) length() int {
	if m.ByRows {
		return m.Cols
	}
	return m.Rows
}

func (m *Matrix) Bytes() int64 { return m.Size(0, m.Lines()) }

// Size is that of lines from to to-1 in the file, in bytes.
func (m *Matrix) Size(from, to int) int64 {
	size := int64(0)
	for _, s := range m.spans {
		size += s.at(to) - s.at(from)
	}
	return size
}

// Check reports a file that has been changed since it was opened, or has become shorter.
func (m *Matrix) Check() error {
	if m.file == nil {
		return nil
	}
	info, err := m.file.Stat()
	if err != nil {
		return Bare(err)
	}
	if info.Size() < m.end {
		return fmt.Errorf("%s has become shorter while it is in use: %d bytes are left of at least %d", m.file.Name(),
			info.Size(), m.end)
	}
	if !info.ModTime().Equal(m.modified) {
		return fmt.Errorf("%s %w", m.file.Name(), errChanged)
	}
	return nil
}

// shorter is Check's error for a file that has lost a part of the matrix.
func (m *Matrix) shorter() error {
	if err := m.Check(); err != nil && !errors.Is(err, errChanged) {
		return err
	}
	return nil
}

// raw is the bytes of lines from to to-1 in the first span.
func (m *Matrix) raw(from, to int) []byte {
	begin, end := m.spans[0].of(from, to)
	return m.bytes[begin:end]
}

// Fetch asks the system to read lines ahead of their use, and Drop gives the pages of lines back.
func (m *Matrix) Fetch(from, to int) {
	if to = min(to, m.Lines()); from >= to || m.file == nil {
		return
	}
	for _, s := range m.spans {
		m.mapping.fetch(s.of(from, to))
	}
}

// Drop is Fetch's counterpart. Values of these lines remain valid: they are read again. A matrix of a
// single block stays in memory, of which it takes no more than any other does.
func (m *Matrix) Drop(from, to int) {
	if m.file == nil || m.BlockEnd(0) == m.Lines() {
		return
	}
	for _, s := range m.spans {
		m.mapping.drop(s.of(from, to))
	}
}

// Read returns the values of lines from to to-1, one after the other: a view of the mapping, or dst,
// which has room for them. It does not modify the mapping, and nor must the caller. The lines of a
// compressed matrix are read by [Matrix.Entries] instead.
func (m *Matrix) Read(dst []float64, from, to int) []float64 {
	n := m.length()
	if view := m.view(from, to); view != nil {
		return view
	}
	m.each(to-from, func(i int) {
		own := dst[i*n : (i+1)*n]
		if got := m.format.decode(own, m.raw(from+i, from+i+1)); n > 0 && &got[0] != &own[0] {
			copy(own, got)
		}
		m.impute(own, from+i)
	})
	return dst[:(to-from)*n]
}

// view is the lines themselves, nil where they are not float64s in memory.
func (m *Matrix) view(from, to int) []float64 {
	if _, ok := m.format.(float64s); !ok {
		return nil
	}
	return asFloats(m.raw(from, to))
}

// Views says that [Matrix.Read] returns views of the mapping.
func (m *Matrix) Views() bool { return m.Lines() > 0 && m.sparse == nil && m.view(0, 1) != nil }

// impute sets missing values of a column, which are NaN, to its mean.
func (m *Matrix) impute(line []float64, j int) {
	if m.Missing == 0 || m.ByRows {
		return
	}
	for i, v := range line {
		if math.IsNaN(v) {
			line[i] = m.Means[j]
		}
	}
}

// Products sets dst_i to the inner product of line from+i with z, without decoding the lines; it
// returns false, and does nothing, where that is not faster.
func (m *Matrix) Products(dst []float64, from int, z []float64) bool {
	if len(dst) == 0 || m.sparse != nil || !m.format.products(dst[:0], nil, from, z) {
		return false
	}
	// Few chunks: each makes its own tables. Which one a line is in does not change its sum.
	chunk := max(parallel.Parts(len(dst), runtime.GOMAXPROCS(0)), 256)
	m.each(parallel.Parts(len(dst), chunk), func(i int) {
		lo, hi := i*chunk, min((i+1)*chunk, len(dst))
		m.format.products(dst[lo:hi], m.raw(from+lo, from+hi), from+lo, z)
	})
	return true
}

// each calls f for 0 to n-1 on all processors. What f computes for one number must not depend on the
// others.
func (m *Matrix) each(n int, f func(i int)) {
	share := max(1, parallel.Parts(n, runtime.GOMAXPROCS(0)))
	var lost atomic.Bool
	parallel.Ranges(n, share, func(lo, hi int) {
		if m.Guard(func() {
			for i := lo; i < hi; i++ {
				f(i)
			}
		}) != nil {
			lost.Store(true)
		}
	})
	if lost.Load() {
		panic(fault{})
	}
}

type float64s struct{}

func (float64s) decode(dst []float64, line []byte) []float64 {
	if v := asFloats(line); v != nil {
		return v
	}
	for i := range dst {
		dst[i] = math.Float64frombits(*(*uint64)(unsafe.Pointer(&line[8*i])))
	}
	return dst
}

func (float64s) products([]float64, []byte, int, []float64) bool { return false }

// asFloats sees bytes as float64s, nil where they are not aligned.
func asFloats(b []byte) []float64 {
	if len(b) == 0 || uintptr(unsafe.Pointer(&b[0]))%8 != 0 {
		return nil
	}
	return unsafe.Slice((*float64)(unsafe.Pointer(&b[0])), len(b)/8)
}

// float32s are lines of float32. Sums of them are in float64.
type float32s struct{}

func (float32s) decode(dst []float64, line []byte) []float64 {
	for i := range dst {
		dst[i] = float64(*(*float32)(unsafe.Pointer(&line[4*i])))
	}
	return dst
}

func (float32s) products([]float64, []byte, int, []float64) bool { return false }
