package dataio

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// npyText is a scalar of numpy's bytes.
func npyText(text string) []byte {
	header := fmt.Sprintf("{'descr': '|S%d', 'fortran_order': False, 'shape': (), }", len(text))
	header += strings.Repeat(" ", 117-len(header)) + "\n"
	return []byte("\x93NUMPY\x01\x00" + string(rune(len(header))) + "\x00" + header + text)
}

// dense lays a sparse matrix out.
func dense(t *testing.T, m *Triplets) []float64 {
	d, other := make([]float64, m.Rows*m.Cols), make([]float64, m.Rows*m.Cols)
	places, values, _ := m.Entries()
	for k, place := range places {
		d[place] = values[k]
	}
	s, err := m.Sparse()
	if err != nil {
		t.Fatal(err)
	}
	for i := range s.Rows {
		for k := s.IndPtr[i]; k < s.IndPtr[i+1]; k++ {
			other[i*s.Cols+s.Indices[k]] = s.Values[k]
		}
	}
	if !slices.Equal(d, other) {
		t.Errorf("the entries are %v, and in compressed rows %v", d, other)
	}
	return d
}

func TestReadMatrixMarket(t *testing.T) {
	for _, test := range []struct {
		name, text string
		rows, cols int
		want       []float64
	}{
		{"coordinate general", "%%MatrixMarket matrix coordinate real general\n% a comment\n\n2 3 3\n2 3 " +
			"-1.5e2\n1 1 4\n2 1 .5\n", 2, 3, []float64{4, 0, 0, .5, 0, -150}},
		{"duplicates add up", "%%MatrixMarket matrix coordinate integer general\n1 2 3\n1 2 3\n1 1 1\n1 2 4\n", 1, 2,
			[]float64{1, 7}},
		{"pattern symmetric", "%%MatrixMarket matrix coordinate pattern symmetric\n3 3 3\n1 1\n3 1\n3 2\n", 3, 3,
			[]float64{1, 0, 1, 0, 0, 1, 1, 1, 0}},
		{"coordinate skew", "%%MatrixMarket matrix coordinate real skew-symmetric\n2 2 1\n2 1 3\n", 2, 2,
			[]float64{0, -3, 3, 0}},
		{"array general", "%%matrixmarket MATRIX Array Real General\r\n2 3\r\n1\r\n2\r\n3\r\n4\r\n5\r\n6\r\n", 2, 3,
			[]float64{1, 3, 5, 2, 4, 6}},
		{"array symmetric", "%%MatrixMarket matrix array integer symmetric\n3 3\n1\n2\n3\n4\n5\n6\n", 3, 3,
			[]float64{1, 2, 3, 2, 4, 5, 3, 5, 6}},
		{"array skew", "%%MatrixMarket matrix array real skew-symmetric\n3 3\n1\n2\n3\n", 3, 3,
			[]float64{0, -1, -2, 1, 0, -3, 2, 3, 0}},
	} {
		a, m, err := ReadMatrixMarket(strings.NewReader(test.text))
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		if (a == nil) == (m == nil) {
			t.Fatalf("%s: dense %v and sparse %v", test.name, a, m)
		}
		var got []float64
		var shape []int
		if m != nil {
			got, shape = dense(t, m), []int{m.Rows, m.Cols}
		} else {
			got, shape = a.Data, a.Shape
		}
		if !slices.Equal(got, test.want) || !slices.Equal(shape, []int{test.rows, test.cols}) {
			t.Errorf("%s: %v of shape %v, want %v", test.name, got, shape, test.want)
		}
	}
	_, m, err := ReadMatrixMarket(strings.NewReader("%%MatrixMarket matrix coordinate real general\n1 3 3\n1 3 " +
		"0\n1 1 1\n1 1 1\n"))
	if err != nil {
		t.Fatal(err)
	}
	if places, values, duplicates := m.Entries(); duplicates != 1 || !slices.Equal(values, []float64{2, 0}) ||
		!slices.Equal(places, []int{0, 2}) {
		t.Errorf("a zero is not kept, or a duplicate not counted: %v at %v, %d duplicates", values, places, duplicates)
	}
}

func TestReadMatrixMarketRefuses(t *testing.T) {
	const real = "%%MatrixMarket matrix coordinate real general\n"
	for _, test := range []struct{ text, want string }{
		{"", "is empty, expected a Matrix Market file"},
		{"1 2 3\n", `line 1: expected "%%MatrixMarket matrix", the format, the field and the symmetry`},
		{"%%MatrixMarket matrix coordinate complex general\n",
			`line 1: the field is "complex", expected real, integer, or pattern for coordinates`},
		{"%%MatrixMarket matrix coordinate real hermitian\n",
			`line 1: the symmetry is "hermitian" of a real matrix, expected general, symmetric or skew-symmetric`},
		{"%%MatrixMarket matrix elemental real general\n",
			`line 1: the format is "elemental", expected coordinate or array`},
		{real + "2 2\n", "line 2: found 2 numbers, expected the 3 of the matrix's size"},
		{real + "2 x 1\n", `line 2: found "x", expected an integer of the matrix's size`},
		{real + "0 2 1\n", "line 2: the matrix has 0 rows and 2 columns, expected at least 1"},
		{real + "9999999999 9999999999 1\n1 1 1\n",
			"line 2: the matrix has 9999999999 rows and 9999999999 columns, more than can be addressed"},
		{real + "2 2 2\n1 1 1\n", "line 3: the file ends after 1 entries, expected 2"},
		{real + "2 2 1\n1 1 1\n2 1 1\n", "line 4: there are more than the 1 entries stated"},
		{real + "2 2 1\n% c\n3 1 1\n", `line 4: found row "3", expected 1 to 2`},
		{real + "2 2 1\n1 0 1\n", `line 3: found column "0", expected 1 to 2`},
		{real + "2 2 1\n1 1\n", "line 3: found 2 numbers, expected 3"},
		{real + "2 2 1\n1 1 nan\n", `line 3: found "nan", expected a finite number`},
		{real + "2 2 1\n1 1 1e999\n", `line 3: found "1e999", expected a finite number`},
		{"%%MatrixMarket matrix coordinate integer general\n2 2 1\n1 1 1.5\n",
			`line 3: found "1.5", expected an integer`},
		{"%%MatrixMarket matrix coordinate real symmetric\n2 3 0\n",
			"line 2: the matrix is symmetric and has 2 rows and 3 columns, expected equal numbers"},
		{"%%MatrixMarket matrix coordinate real symmetric\n2 2 1\n1 2 1\n",
			"line 3: entry (1, 2) is above the diagonal, expected the lower triangle of a symmetric matrix"},
		{"%%MatrixMarket matrix coordinate real skew-symmetric\n2 2 1\n2 2 1\n",
			"line 3: entry (2, 2) is on the diagonal of a skew-symmetric matrix, which is zero"},
		{"%%MatrixMarket matrix array real general\n2 2\n1\n2\n3\n",
			"line 5: the file ends after 3 values, expected 4"},
		{"%%MatrixMarket matrix array real general\n1 1\n1\n2\n",
			"line 4: there are more than the 1 values of the matrix's size"},
	} {
		_, _, err := ReadMatrixMarket(strings.NewReader(test.text))
		checkError(t, err, test.want)
	}
}

// A header of a few bytes states sizes that take memory only where entries are there.
func TestSparseMatricesAreAboutAsLargeAsTheirFiles(t *testing.T) {
	for size, want := range map[string]string{
		"999999999 2": "the sparse matrix has 999999999 rows for 1 entries, expected an entry for every 64 of them",
		"2 2000000000": "the sparse matrix has 2000000000 columns for 1 entries, expected an entry for " +
			"every 64 of them",
		"1000000 900000": "",
	} {
		_, m, err := ReadMatrixMarket(strings.NewReader("%%MatrixMarket matrix coordinate real general\n" + size +
			" 1\n2 2 1\n"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.Sparse(); want == "" && err != nil {
			t.Error(err)
		} else if want != "" {
			checkError(t, err, want)
		}
		if places, values, _ := m.Entries(); len(places) != 1 || places[0] != m.Cols+1 || values[0] != 1 {
			t.Errorf("%s: entries %v at %v", size, values, places)
		}
	}
}

// The three formats of scipy.sparse.save_npz and Matrix Market, of one random matrix,
// give the same compressed rows.
func TestSparseFormatsAgree(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	const rows, cols = 30, 20
	var at [][3]float64
	for i := range rows {
		for j := range cols {
			if r.Float64() < 0.2 {
				at = append(at, [3]float64{float64(i), float64(j), r.NormFloat64()})
			}
		}
	}
	compress := func(axis int) (ptr, other []int64, values []float64) {
		sorted := slices.Clone(at)
		slices.SortStableFunc(sorted, func(a, b [3]float64) int { return int(a[axis] - b[axis]) })
		ptr = make([]int64, []int{rows, cols}[axis]+1)
		for _, e := range sorted {
			ptr[int(e[axis])+1]++
			other, values = append(other, int64(e[1-axis])), append(values, e[2])
		}
		for i := range len(ptr) - 1 {
			ptr[i+1] += ptr[i]
		}
		return ptr, other, values
	}
	shuffled := slices.Clone(at)
	r.Shuffle(len(at), func(a, b int) { shuffled[a], shuffled[b] = shuffled[b], shuffled[a] })
	var text bytes.Buffer
	fmt.Fprintf(&text, "%%%%MatrixMarket matrix coordinate real general\n%d %d %d\n", rows, cols, len(at))
	coo := [][]int64{nil, nil}
	var values []float64
	for _, e := range shuffled {
		fmt.Fprintf(&text, "%d %d %v\n", int(e[0])+1, int(e[1])+1, e[2])
		coo[0], coo[1], values = append(coo[0], int64(e[0])), append(coo[1], int64(e[1])), append(values, e[2])
	}
	dir := t.TempDir()
	files := []string{filepath.Join(dir, "m.mtx.gz")}
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	z.Write(text.Bytes())
	z.Close()
	if err := os.WriteFile(files[0], zipped.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	ints := func(name string, v []int64) Array { return Array{Name: name, Shape: []int{len(v)}, Ints: v} }
	save := func(format string, v []float64, arrays ...Array) {
		arrays = append(arrays, ints("shape", []int64{rows, cols}), Array{Name: "data", Shape: []int{len(v)}, Data: v})
		files = append(files, writeSparse(t, format, arrays...))
	}
	ptr, other, sorted := compress(0)
	save("csr", sorted, ints("indptr", ptr), ints("indices", other))
	ptr, other, sorted = compress(1)
	save("csc", sorted, ints("indptr", ptr), ints("indices", other))
	save("coo", values, ints("row", coo[0]), ints("col", coo[1]))
	want := make([]float64, rows*cols)
	for _, e := range at {
		want[int(e[0])*cols+int(e[1])] = e[2]
	}
	for _, file := range files {
		s, err := Open(file)
		if err != nil {
			t.Fatal(err)
		}
		if !s.IsSparse() {
			t.Errorf("%s is not sparse", file)
		}
		m, err := s.Triplets()
		if err != nil {
			t.Fatal(file, err)
		}
		if _, values, duplicates := m.Entries(); !slices.Equal(dense(t, m), want) || len(values) != len(at) ||
			duplicates != 0 {
			t.Errorf("%s: the matrix differs", file)
		}
		s.Close()
	}
}

// What scipy and numpy wrote of a matrix, a symmetric and a skew-symmetric one.
func TestReadsWhatScipyWrites(t *testing.T) {
	a := []float64{0, 1.5, 0, -2, 0, 0, 0, 0, 3, 0, 1e-3, 0}
	symmetric := []float64{1, 0, 2.5, 0, 0, -3, 2.5, -3, 4}
	skew := []float64{0, -1, 0, 1, 0, 7.25, 0, -7.25, 0}
	for file, want := range map[string][]float64{
		"csr.npz": a, "csc.npz": a, "coo.npz": a, "text.npz": a, "general.mtx": a, "general_array.mtx": a,
		"plain.csv": a, "header.csv": a, "pattern.mtx": {0, 1, 0, 1, 0, 0, 0, 0, 1, 0, 1, 0},
		"symmetric.mtx": symmetric, "symmetric_array.mtx": symmetric, "skew.mtx": skew, "skew_array.mtx": skew,
	} {
		s, err := Open(filepath.Join("testdata", "scipy", file))
		if err != nil {
			t.Error(err)
			continue
		}
		defer s.Close()
		var got []float64
		if s.IsSparse() {
			m, err := s.Triplets()
			if err != nil {
				t.Error(file, err)
				continue
			}
			got = dense(t, m)
		} else {
			name, err := s.Only()
			if err != nil {
				t.Error(file, err)
				continue
			}
			read, err := s.Floats(name)
			if err != nil {
				t.Error(file, err)
				continue
			}
			got = read.Data
			if file == "header.csv" && !slices.Equal(read.Columns, []string{"a", "b", "c", "d"}) {
				t.Errorf("%s: columns %q", file, read.Columns)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", file, got, want)
		}
	}
	_, err := openNPZ(t, filepath.Join("testdata", "scipy", "dia.npz")).Sparse()
	checkError(t, err, `is a sparse matrix of format "dia", expected csr, csc or coo; convert it with its tocsr method`)
}

// writeSparse writes arrays and the name of a format.
func writeSparse(t testing.TB, format string, arrays ...Array) string {
	t.Helper()
	var file bytes.Buffer
	z := zip.NewWriter(&file)
	for _, a := range arrays {
		var array bytes.Buffer
		if err := EncodeNPY(&array, a); err != nil {
			t.Fatal(err)
		}
		addMember(t, z, a.Name, array.Bytes())
	}
	addMember(t, z, "format", npyText(format))
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), format+".npz")
	if err := os.WriteFile(path, file.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

func addMember(t testing.TB, z *zip.Writer, name string, data []byte) {
	t.Helper()
	w, err := z.Create(name + ".npy")
	if err == nil {
		_, err = w.Write(data)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestSparseRefuses(t *testing.T) {
	ints := func(name string, v ...int64) Array { return Array{Name: name, Shape: []int{len(v)}, Ints: v} }
	data := Array{Name: "data", Shape: []int{2}, Data: []float64{1, 2}}
	shape := ints("shape", 2, 3)
	for _, test := range []struct {
		format string
		arrays []Array
		want   string
	}{
		{"dia", []Array{data, shape}, `is a sparse matrix of format "dia", expected csr, csc or coo; convert it with its tocsr method`},
		{"csr", []Array{data, shape}, `array "indices" is missing; the file holds "data", "shape", "format"`},
		{"csr", []Array{data, ints("shape", 2)}, `array "shape" has shape (1,), expected (2,)`},
		{"csr", []Array{data, ints("shape", 2, 0)}, `the sparse matrix has 2 rows and 0 columns, expected at least 1`},
		{"csr", []Array{data, shape, ints("indices", 0, 3), ints("indptr", 0, 1, 2)},
			`array "indices" holds 3 at [1], expected 0 to 2 in a matrix of shape (2, 3)`},
		{"csr", []Array{data, shape, ints("indices", 0), ints("indptr", 0, 1, 1)},
			`array "indices" has 1 entries, "data" has 2`},
		{"csr", []Array{data, shape, ints("indices", 0, 1), ints("indptr", 0, 2)},
			`array "indptr" has shape (2,), expected (3,)`},
		{"csr", []Array{data, shape, ints("indices", 0, 1), ints("indptr", 1, 1, 2)},
			`array "indptr" begins with 1, expected 0`},
		{"csr", []Array{data, shape, ints("indices", 0, 1), ints("indptr", 0, 2, 1)},
			`array "indptr" holds 1 at [2], expected 2 to 2`},
		{"csr", []Array{data, shape, ints("indices", 0, 1), ints("indptr", 0, 1, 9)},
			`array "indptr" holds 9 at [2], expected 1 to 2`},
		{"coo", []Array{data, shape, ints("row", 0, 1), ints("col", -1, 1)},
			`array "col" holds -1 at [0], expected 0 to 2 in a matrix of shape (2, 3)`},
		{"coo", []Array{{Name: "data", Shape: []int{1}, Data: []float64{math.NaN()}}, shape},
			`array "data" holds NaN at [0], expected finite numbers`},
	} {
		_, err := openNPZ(t, writeSparse(t, test.format, test.arrays...)).Sparse()
		checkError(t, err, test.want)
	}
}
