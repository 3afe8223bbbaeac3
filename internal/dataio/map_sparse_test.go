package dataio

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"surepipe/internal/stored"
)

// scipyFile writes a 2 x 3 sparse matrix [1 2 0; 0 3 4] as scipy does, with some arrays replaced.
func scipyFile(t *testing.T, replaced ...Array) string {
	t.Helper()
	arrays := []Array{
		{Name: "indices", Shape: []int{4}, Ints: []int64{0, 1, 1, 2}},
		{Name: "indptr", Shape: []int{3}, Ints: []int64{0, 2, 4}},
		{Name: "format", Texts: []string{"csr"}}, {Name: "shape", Shape: []int{2}, Ints: []int64{2, 3}},
		{Name: "data", Shape: []int{4}, Data: []float64{1, 2, 3, 4}},
	}
	for _, r := range replaced {
		for i, a := range arrays {
			if a.Name == r.Name {
				arrays[i] = r
			}
		}
	}
	path := filepath.Join(t.TempDir(), "x.npz")
	if err := WriteNPZ(path, arrays...); err != nil {
		t.Fatal(err)
	}
	return path
}

// A sparse matrix where it lies has the values that are read.
func TestMapSparse(t *testing.T) {
	for _, format := range []string{"csr", "csc"} {
		var more []Array
		if format == "csc" {
			more = []Array{{Name: "format", Texts: []string{"csc"}},
				{Name: "shape", Shape: []int{2}, Ints: []int64{3, 2}}}
		}
		set, err := Open(scipyFile(t, more...))
		if err != nil {
			t.Fatal(err)
		}
		defer set.Close()
		m, err := set.MapSparse()
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		z := []float64{1, 10, 100}[:m.Rows]
		if err := m.Scan(t.Context(), z, func(int64) {}); err != nil {
			t.Fatal(err)
		}
		read, err := set.Sparse()
		if err != nil {
			t.Fatal(err)
		}
		product, mean := make([]float64, m.Cols), make([]float64, m.Cols)
		for i := range read.Rows {
			for u := read.IndPtr[i]; u < read.IndPtr[i+1]; u++ {
				product[read.Indices[u]] += z[i] * read.Values[u]
				mean[read.Indices[u]] += read.Values[u] / float64(read.Rows)
			}
		}
		for j := range product {
			if m.Product[j] != product[j] || math.Abs(m.Means[j]-mean[j]) > 1e-15 {
				t.Errorf("%s: column %d: %g and %g, want %g and %g", format, j, m.Product[j], m.Means[j], product[j],
					mean[j])
			}
		}
	}
}

func TestMapSparseErrors(t *testing.T) {
	ints := func(name string, v ...int64) Array { return Array{Name: name, Shape: []int{len(v)}, Ints: v} }
	for want, replaced := range map[string]Array{
		`array "indptr" holds 1 at [2], expected 2 to 4`:  ints("indptr", 0, 2, 1),
		`array "indptr" holds 5 at [2], expected 2 to 4`:  ints("indptr", 0, 2, 5),
		`array "indptr" begins with 1, expected 0`:        ints("indptr", 1, 2, 4),
		`array "indptr" has shape (2,), expected (3,)`:    ints("indptr", 0, 4),
		`array "indices" has 3 entries, "data" has 4`:     ints("indices", 0, 1, 1),
		`format coo, expected csr or csc`:                 {Name: "format", Texts: []string{"coo"}},
		`format "bsr", expected csr, csc or coo`:          {Name: "format", Texts: []string{"bsr"}},
		`array "data" has dtype <i8, expected <f4 or <f8`: ints("data", 1, 2, 3, 4),
		`array "indices" has dtype <f8, expected <i4 or <i8`: {Name: "indices", Shape: []int{4},
			Data: []float64{0, 1, 1, 2}},
		`array "data" has shape (2, 2), expected one axis`: {Name: "data", Shape: []int{2, 2},
			Data: []float64{1, 2, 3, 4}},
		`the sparse matrix has 0 rows and 3 columns, expected a`: ints("shape", 0, 3),
	} {
		set, err := Open(scipyFile(t, replaced))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := set.MapSparse(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		set.Close()
	}
	// An archive that has been cut off has no list of its members.
	path := scipyFile(t)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text[:len(text)-40], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path); err == nil || !strings.Contains(err.Error(), "truncated or corrupt") {
		t.Error(err)
	}
}

// Values that are not those of the archive are found by its checksums, as where the array is read whole.
func TestMappedArraysAreCompared(t *testing.T) {
	dense := filepath.Join(t.TempDir(), "dense.npz")
	if err := WriteNPZ(dense, Array{Name: "X", Shape: []int{2, 2}, Data: []float64{1, 2, 3, 4}}); err != nil {
		t.Fatal(err)
	}
	for path, array := range map[string]string{dense: "X", scipyFile(t): "data"} {
		for _, corrupt := range []bool{false, true} {
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if corrupt {
				at := bytes.LastIndex(content, binary.LittleEndian.AppendUint64(nil, math.Float64bits(3)))
				content[at] ^= 1 // another number
				if err := os.WriteFile(path, content, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			set, err := Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer set.Close()
			m, err := set.MapSparse()
			if array == "X" {
				m, err = set.Map("X")
			}
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			err = m.Scan(t.Context(), make([]float64, m.Rows), func(int64) {})
			if (err != nil) != corrupt || err != nil && !strings.Contains(err.Error(), array) {
				t.Errorf("corrupt %v: %v", corrupt, err)
			}
		}
	}
}

// An array that is larger than memory is refused before it is read.
func TestLargerThanMemory(t *testing.T) {
	if stored.Memory() == 0 {
		t.Skip("how much memory there is is not known")
	}
	path := filepath.Join(t.TempDir(), "y.npy")
	header := "{'descr': '|i1', 'fortran_order': False, 'shape': (1048576, 1048576), }"
	header += strings.Repeat(" ", 117-len(header)) + "\n"
	if err := os.WriteFile(path, []byte("\x93NUMPY\x01\x00\x76\x00"+header), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 1<<40+128); err != nil {
		t.Skip(err) // no sparse files here
	}
	set, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	_, floats := set.Floats("y")
	_, ints := set.Ints("y")
	_, single := set.Single("y")
	for _, err := range []error{floats, ints, single} {
		if err == nil || !strings.Contains(err.Error(), "GB in memory") ||
			!strings.Contains(err.Error(), `array "y" of shape (1048576, 1048576)`) {
			t.Error(err)
		}
	}
}
