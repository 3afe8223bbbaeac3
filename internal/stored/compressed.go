package stored

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"sort"

	"surepipe/internal/lists"
)

// Compressed says how a sparse matrix, compressed by rows or by columns, lies in a file: line i has
// the entries Indptr[i] to Indptr[i+1]-1 of two arrays of the file.
type Compressed struct {
	Rows, Cols int
	// ByColumns says that the lines are columns.
	ByColumns bool
	// Indptr begins with 0 and does not decrease.
	Indptr []int64
	// Indices begin at a byte of the file, integers of 4 or, with Long, 8 bytes, which increase in
	// every line.
	Indices int64
	Long    bool
	// Values begin at a byte of the file, float64 or, with Single, float32.
	Values int64
	Single bool
}

// Entries are those of a few lines of a sparse matrix: line first+i has Values[u] in column, or row,
// Indices[u] for Indptr[i] <= u < Indptr[i+1].
type Entries struct {
	Indptr  []int
	Indices []int32
	Values  []float64
}

// compressed are lines that have a few entries each.
type compressed struct {
	indptr       []int64
	long, single bool
	perEntry     int64 // bytes in the file
	block        int   // the largest number of lines in a block
	limit        int   // of indices
	// nonzeros are the numbers of entries of the columns, known after the scan.
	nonzeros []int64
}

// MapCompressed maps a sparse matrix, of whose arrays only Indptr is in memory. The file may be closed
// afterwards.
func MapCompressed(f *os.File, c Compressed) (*Matrix, error) {
	m := &Matrix{Rows: c.Rows, Cols: c.Cols, ByRows: !c.ByColumns}
	if len(c.Indptr) != m.Lines()+1 {
		panic(fmt.Sprintf("stored: %d pointers for %d lines", len(c.Indptr), m.Lines()))
	}
	if m.length() > math.MaxInt32 {
		return nil, fmt.Errorf("has lines of %d values, more than %d", m.length(), math.MaxInt32)
	}
	index, value := int64(4), int64(8)
	m.note = "compressed int32 float64"
	if c.Long {
		index = 8
		m.note = "compressed int64 float64"
	}
	if c.Single {
		value = 4
		m.note = m.note[:len(m.note)-2] + "32"
	}
	m.spans = []span{
		{c.Indices, func(line int) int64 { return c.Indptr[line] * index }},
		{c.Values, func(line int) int64 { return c.Indptr[line] * value }},
	}
	m.sparse = &compressed{indptr: c.Indptr, long: c.Long, single: c.Single, perEntry: index + value, limit: m.length()}
	for from, to := 0, 0; from < m.Lines(); from = to {
		to = m.BlockEnd(from)
		m.sparse.block = max(m.sparse.block, to-from)
	}
	return m, m.open(f)
}

// Sparse says that lines are read by [Matrix.Entries].
func (m *Matrix) Sparse() bool { return m.sparse != nil }

// Nonzeros are the numbers of entries of the columns, once they have been scanned; nil where the
// matrix is not compressed.
func (m *Matrix) Nonzeros() []int64 {
	if m.sparse == nil {
		return nil
	}
	return m.sparse.nonzeros
}

// blockEnd is the line at which a block has so many bytes.
func (c *compressed) blockEnd(m *Matrix, from int, bytes int64) int {
	n := m.Lines()
	most := c.indptr[from] + bytes/c.perEntry
	to := from + sort.Search(n-from, func(i int) bool { return c.indptr[from+i+1] > most })
	return min(max(to, from+1), from+linesPerBlock, n)
}

// linesPerBlock bounds the number of lines of a block, which may have no entries.
const linesPerBlock = 1 << 20

// chunkEntries is about the number of entries that are decoded together.
const chunkEntries = 1 << 16

// pieceBytes is about the size of the lines whose entries are decoded at a time, a part of a block: so
// many entries stay in a processor's cache, and take little memory.
const pieceBytes = 8 << 20

// pieces calls f with the lines from to to-1, a few at a time.
func (m *Matrix) pieces(from, to int, f func(from, to int)) {
	for lo, hi := from, 0; lo < to; lo = hi {
		hi = min(m.sparse.blockEnd(m, lo, pieceBytes), to)
		f(lo, hi)
	}
}

// Entries reads lines from to to-1 into e, whose slices it uses again. An index that is out of range,
// in a file that has been changed since it was scanned, becomes a NaN at 0.
func (m *Matrix) Entries(e *Entries, from, to int) {
	c := m.sparse
	first, end := c.indptr[from], c.indptr[to]
	n := int(end - first)
	e.Indptr = lists.Resize(e.Indptr, to-from+1)
	e.Indices, e.Values = lists.Resize(e.Indices, n), lists.Resize(e.Values, n)
	for i := range e.Indptr {
		e.Indptr[i] = int(c.indptr[from+i] - first)
	}
	indices, values := m.part(0, from, to), m.part(1, from, to)
	m.each((n+chunkEntries-1)/chunkEntries, func(k int) {
		lo, hi := k*chunkEntries, min((k+1)*chunkEntries, n)
		c.decode(e, indices, values, lo, hi)
	})
}

func (m *Matrix) part(k, from, to int) []byte {
	begin, end := m.spans[k].of(from, to)
	return m.bytes[begin:end]
}

func (c *compressed) decode(e *Entries, indices, values []byte, lo, hi int) {
	if c.single {
		for u := lo; u < hi; u++ {
			e.Values[u] = float64(math.Float32frombits(binary.LittleEndian.Uint32(values[4*u:])))
		}
	} else {
		for u := lo; u < hi; u++ {
			e.Values[u] = math.Float64frombits(binary.LittleEndian.Uint64(values[8*u:]))
		}
	}
	for u := lo; u < hi; u++ {
		j := c.index(indices, u)
		if uint64(j) >= uint64(c.limit) {
			e.Indices[u], e.Values[u] = 0, math.NaN()
			continue
		}
		e.Indices[u] = int32(j)
	}
}

func (c *compressed) index(indices []byte, u int) int64 {
	if c.long {
		return int64(binary.LittleEndian.Uint64(indices[8*u:]))
	}
	return int64(int32(binary.LittleEndian.Uint32(indices[4*u:])))
}

// check is the error for lines whose indices are out of range or do not increase, or whose values are
// not finite.
func (c *compressed) check(m *Matrix, e *Entries, from int) error {
	lines := len(e.Indptr) - 1
	chunks := (lines + checkedLines - 1) / checkedLines
	bad := make([]error, chunks)
	m.each(chunks, func(k int) {
		for i := k * checkedLines; i < min((k+1)*checkedLines, lines) && bad[k] == nil; i++ {
			bad[k] = c.checkLine(m, e, from, i)
		}
	})
	return cmp.Or(bad...)
}

const checkedLines = 1 << 10

func (c *compressed) checkLine(m *Matrix, e *Entries, from, i int) error {
	last := int32(-1)
	for u := e.Indptr[i]; u < e.Indptr[i+1]; u++ {
		j, v := e.Indices[u], e.Values[u]
		if j > last && math.Abs(v) <= math.MaxFloat64 {
			last = j
			continue
		}
		line, across := "row", "columns"
		if !m.ByRows {
			line, across = "column", "rows"
		}
		entry, found := c.indptr[from+i]+int64(u-e.Indptr[i]), c.index(m.part(0, from, from+len(e.Indptr)-1), u)
		switch {
		case found < 0 || found >= int64(c.limit):
			return fmt.Errorf("has the index %d at entry %d, in %s %d, expected 0 to %d in a matrix of %d x %d",
				found, entry, line, from+i, c.limit-1, m.Rows, m.Cols)
		case j <= last:
			return fmt.Errorf("has the index %d after %d in %s %d, at entry %d: %s must increase, as after "+
				"scipy's sum_duplicates", j, last, line, from+i, entry, across)
		default:
			return fmt.Errorf("holds %g at entry %d, in %s %d, expected finite numbers", v, entry, line, from+i)
		}
	}
	return nil
}

// bounds divide 0 to n-1 among the processors. What is computed for one number does not depend on
// them.
func bounds(n, parts int) []int {
	return lists.Make(parts+1, func(i int) int { return i * n / parts })
}
