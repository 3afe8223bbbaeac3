package stored

import (
	"bytes"
	"context"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
)

// sparseFile is a sparse matrix in a file of the test's own.
type sparseFile struct {
	rows, cols   int
	indptr       []int64
	indices      []int64
	values       []float64
	long, single bool
	byColumns    bool
}

// compress keeps what is not 0 of a matrix.
func compress(x [][]float64, byColumns bool) sparseFile {
	f := sparseFile{rows: len(x), cols: len(x[0]), indptr: []int64{0}, byColumns: byColumns}
	lines, length := f.rows, f.cols
	if byColumns {
		lines, length = length, lines
	}
	for i := range lines {
		for j := range length {
			v := 0.0
			if byColumns {
				v = x[j][i]
			} else {
				v = x[i][j]
			}
			if v != 0 {
				f.indices, f.values = append(f.indices, int64(j)), append(f.values, v)
			}
		}
		f.indptr = append(f.indptr, int64(len(f.values)))
	}
	return f
}

func (s sparseFile) open(t testing.TB, cut int64) (*Matrix, error) {
	t.Helper()
	var b bytes.Buffer
	b.WriteString("123") // nothing is aligned
	put := func(v any) { _ = binary.Write(&b, binary.LittleEndian, v) }
	for _, j := range s.indices {
		if s.long {
			put(j)
		} else {
			put(int32(j))
		}
	}
	c := Compressed{Rows: s.rows, Cols: s.cols, ByColumns: s.byColumns, Indptr: s.indptr, Indices: 3, Long: s.long,
		Values: int64(b.Len()), Single: s.single}
	for _, v := range s.values {
		if s.single {
			put(float32(v))
		} else {
			put(v)
		}
	}
	f, err := os.Open(write(t, "x", b.Bytes()[:int64(b.Len())-cut]))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m, err := MapCompressed(f, c)
	if err == nil {
		t.Cleanup(func() { m.Close() })
	}
	return m, err
}

// What sums over a sparse matrix say is what sums over all its values say, also where means are large.
func TestScanCompressed(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 2))
	const d, p = 41, 500
	x, z := make([][]float64, d), make([]float64, d)
	for i := range x {
		x[i] = make([]float64, p)
		z[i] = rng.NormFloat64()
		for j := range x[i] {
			if j%7 != 3 && (rng.Float64() < 0.1 || j%50 == 0) { // some columns are empty, some are full
				x[i][j] = float64(float32(float64(j%4)*1e3 + rng.NormFloat64()))
			}
		}
	}
	hashes := map[[32]byte]bool{}
	for k := range 8 {
		f := compress(x, k&1 > 0)
		f.long, f.single = k&2 > 0, k&4 > 0
		m, err := f.open(t, 0)
		if err != nil {
			t.Fatal(err)
		}
		last := int64(0)
		if err := m.Scan(t.Context(), z, func(n int64) { last = n }); err != nil {
			t.Fatal(err)
		}
		if last != m.Bytes() || m.Single() != f.single || !m.Sparse() || m.Views() {
			t.Errorf("%d: read %d of %d bytes", k, last, m.Bytes())
		}
		hashes[m.Hash] = true
		for j := range p {
			mean, squares, product, count := 0.0, 0.0, 0.0, int64(0)
			for i := range d {
				mean += x[i][j] / d
				product += x[i][j] * z[i]
				if x[i][j] != 0 {
					count++
				}
			}
			for i := range d {
				squares += (x[i][j] - mean) * (x[i][j] - mean)
			}
			if math.Abs(m.Means[j]-mean) > 1e-12*(1+mean) || math.Abs(m.Centered2[j]-squares) > 1e-11*squares ||
				math.Abs(m.Product[j]-product) > 1e-9 || m.Nonzeros()[j] != count {
				t.Fatalf("%d: column %d: %g %g %g %d, want %g %g %g %d", k, j, m.Means[j], m.Centered2[j],
					m.Product[j], m.Nonzeros()[j], mean, squares, product, count)
			}
		}
		var e Entries
		m.Entries(&e, 2, 5)
		first := f.indptr[2]
		for u, v := range e.Values {
			if v != f.values[first+int64(u)] || int64(e.Indices[u]) != f.indices[first+int64(u)] {
				t.Fatalf("%d: entry %d is %g at %d", k, u, v, e.Indices[u])
			}
		}
		if len(e.Indptr) != 4 || int64(e.Indptr[3]) != f.indptr[5]-first {
			t.Errorf("%d: pointers %v", k, e.Indptr)
		}
	}
	if len(hashes) != 8 {
		t.Errorf("%d hashes", len(hashes))
	}
}

// A file that does not hold what its arrays should is an error that says where.
func TestMalformedCompressed(t *testing.T) {
	x := [][]float64{{1, 2, 0}, {0, 3, 4}}
	for want, change := range map[string]func(f *sparseFile){
		"has the index 3 at entry 3, in row 1, expected 0 to 2 in a matrix of 2 x 3": func(f *sparseFile) { f.indices[3] = 3 },
		"has the index -1 at entry 0, in row 0, expected 0 to 2":                     func(f *sparseFile) { f.indices[0] = -1 },
		"has the index 0 after 1 in row 0, at entry 1: columns must increase":        func(f *sparseFile) { f.indices[0], f.indices[1] = 1, 0 },
		"has the index 1 after 1 in row 0":                                           func(f *sparseFile) { f.indices[0] = 1 },
		"holds NaN at entry 2, in row 1, expected finite numbers":                    func(f *sparseFile) { f.values[2] = math.NaN() },
		"column 1 is too large":                                                      func(f *sparseFile) { f.values[1], f.values[2] = 1e300, -1e300 },
	} {
		for _, long := range []bool{false, true} {
			f := compress(x, false)
			f.long = long
			change(&f)
			m, err := f.open(t, 0)
			if err != nil {
				t.Fatal(err)
			}
			if err := m.Scan(t.Context(), []float64{1, 1}, silent); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
			// What has not been scanned is not out of bounds.
			var e Entries
			m.Entries(&e, 0, 2)
		}
	}
	f := compress(x, true)
	f.indices[1], f.indices[2] = 1, 0
	m, err := f.open(t, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Scan(t.Context(), []float64{1, 1}, silent); err == nil ||
		!strings.Contains(err.Error(), "in column 1, at entry 2: rows must increase") {
		t.Error(err)
	}
	if _, err := compress(x, false).open(t, 1); err == nil ||
		!strings.Contains(err.Error(), "is truncated: the file has 50 bytes, expected 51") {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	m, err = compress(x, false).open(t, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Scan(ctx, []float64{1, 1}, silent); err == nil {
		t.Error("a cancelled scan has no error")
	}
	if err := os.Truncate(m.file.Name(), 12); err != nil {
		t.Fatal(err)
	}
	if err := m.Scan(t.Context(), []float64{1, 1}, silent); err == nil || !strings.Contains(err.Error(), "shorter") {
		t.Error(err)
	}
}

// Blocks have a bounded number of bytes, and at least one line.
func TestCompressedBlocks(t *testing.T) {
	m := &Matrix{Rows: 5, Cols: 1 << 30, ByRows: true}
	most := int64(blockBytes / 12)
	m.sparse = &compressed{indptr: []int64{0, most / 2, most / 2, most, 3 * most, 3 * most}, perEntry: 12}
	var ends []int
	for at := 0; at < 5; at = m.BlockEnd(at) {
		ends = append(ends, m.BlockEnd(at))
	}
	if len(ends) != 3 || ends[0] != 3 || ends[1] != 4 || ends[2] != 5 {
		t.Errorf("blocks end at %v", ends)
	}
}

func TestCompressedPieces(t *testing.T) {
	m := &Matrix{Rows: 6, Cols: 1 << 30, ByRows: true}
	most := int64(pieceBytes / 12)
	m.sparse = &compressed{indptr: []int64{0, most / 2, most, most + 1, 3 * most, 3 * most, 3 * most}, perEntry: 12}
	var got []int
	m.pieces(1, 6, func(from, to int) { got = append(got, from, to) })
	if !slices.Equal(got, []int{1, 3, 3, 4, 4, 6}) {
		t.Errorf("pieces %v", got)
	}
}
