package dataio

import (
	"archive/zip"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"surepipe/internal/dataio/dataiotest"
	"surepipe/internal/dataio/images"
)

// FuzzRead checks that no input makes a reader panic, that what is accepted is whole,
// and that errors take one line. The bytes are taken for a file of each format, and
// for the members of a .npz file: no mutation of one gets past the archive's checksum.
func FuzzRead(f *testing.F) {
	dataiotest.Seed(f, fixture("*.np[zy]"))
	for _, text := range []string{
		"%%MatrixMarket matrix coordinate real symmetric\n% c\n3 3 2\n1 1 2.5\n3 1 -1\n",
		"%%MatrixMarket matrix array integer skew-symmetric\n2 2\n7\n",
		"%%MatrixMarket matrix coordinate pattern general\n9000000000 9000000000 1\n1 1\n",
		"a;b\n1;2\n", "\xef\xbb\xbf1,2\n3,4\n", "\"x\ny\",z\n1,2\n", "# c\n# a,b\n1, \"2\"\n", ",a\n0,1\n",
	} {
		f.Add([]byte(text))
	}
	var image bytes.Buffer
	if _, err := images.EncodePNG(&image, Array{Shape: []int{2, 3}, Data: []float64{0, 0.2, 0.4, 0.6, 0.8, 1}},
		8); err != nil {
		f.Fatal(err)
	}
	f.Add(image.Bytes())
	colour := Array{Shape: []int{1, 2, 3}, Data: []float64{0, 0.2, 0.4, 0.6, 0.8, 1}}
	for _, depth := range []Depth{{Bits: 8}, {Bits: 16}, {Bits: 32, Float: true}} {
		var image bytes.Buffer
		if _, err := images.EncodeTIFF(&image, colour, depth); err != nil {
			f.Fatal(err)
		}
		f.Add(image.Bytes())
	}
	var compressed bytes.Buffer
	if _, err := images.EncodeJPEG(&compressed, colour); err != nil {
		f.Fatal(err)
	}
	f.Add(compressed.Bytes())
	f.Fuzz(func(t *testing.T, file []byte) {
		oneLine := func(err error) {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("error of several lines: %q", err)
			}
		}
		array := func(a Array, err error) {
			if err != nil {
				oneLine(err)
				return
			}
			n := 1
			for _, k := range a.Shape {
				n *= k
			}
			if n < 1 || len(a.Data)+len(a.Ints) != n {
				t.Errorf("%d values of shape %v", len(a.Data)+len(a.Ints), a.Shape)
			}
		}
		sparse := func(m *Sparse, err error) {
			if err != nil {
				oneLine(err)
				return
			}
			if len(m.IndPtr) != m.Rows+1 || m.IndPtr[m.Rows] != len(m.Values) {
				t.Errorf("%d row pointers to %d for %d entries in %d rows", len(m.IndPtr), m.IndPtr[m.Rows],
					len(m.Values), m.Rows)
			}
		}
		triplets := func(m *Triplets, err error) {
			if err != nil {
				oneLine(err)
				return
			}
			last := -1
			places, values, _ := m.Entries()
			for k, place := range places {
				if place <= last || place >= m.Rows*m.Cols {
					t.Errorf("entry %d is at place %d after %d of a %d x %d matrix", k, place, last, m.Rows, m.Cols)
				}
				last = place
			}
			if len(values) != len(places) {
				t.Errorf("%d values at %d places", len(values), len(places))
			}
			sparse(m.Sparse())
		}
		stack := func(s *Stack, err error) {
			if err != nil {
				oneLine(err)
				return
			}
			// What a stream's header states cannot be checked before it is read.
			if s.SampleLen() > 1<<16 {
				return
			}
			y := make([]float64, s.SampleLen())
			for {
				before := s.Index()
				if err = s.Next(y); err == io.EOF {
					break
				}
				if err != nil && s.Index() == before {
					oneLine(err)
					break
				}
			}
			if errors.Is(err, io.EOF) && s.Index() != s.Len() {
				t.Errorf("the end after %d of %d samples", s.Index(), s.Len())
			}
			s.Close()
		}
		set := func(file []byte) {
			s, err := NewNPZ(bytes.NewReader(file), int64(len(file)))
			if err != nil {
				oneLine(err)
				return
			}
			for _, name := range s.Names() {
				array(s.Numbers(name))
				array(s.Ints(name))
				stack(s.Stack(name))
				if _, err := s.Texts(name); err != nil {
					oneLine(err)
				}
			}
			if s.IsSparse() {
				triplets(s.Triplets())
			}
		}
		set(file)
		array(newNPY("y", bytes.NewReader(file), int64(len(file))).Numbers("y"))
		stack(NewStack(bytes.NewReader(file)))
		array(ReadCSV(bytes.NewReader(file), TableOptions{}))
		array(images.ReadPNG(bytes.NewReader(file)))
		array(images.ReadJPEG(bytes.NewReader(file)))
		array(images.ReadTIFF(bytes.NewReader(file)))
		if dense, m, err := ReadMatrixMarket(bytes.NewReader(file)); dense != nil {
			array(*dense, err)
		} else {
			triplets(m, err)
		}
		for _, format := range []string{"csr", "csc", "coo"} {
			var wrapped bytes.Buffer
			z := zip.NewWriter(&wrapped)
			addMember(t, z, "format", npyText(format))
			for _, name := range []string{"shape", "data", "indices", "indptr", "row", "col"} {
				addMember(t, z, name, file)
			}
			if err := z.Close(); err != nil {
				t.Fatal(err)
			}
			set(wrapped.Bytes())
		}
	})
}
