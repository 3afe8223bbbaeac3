package dataio

import (
	"bytes"
	"compress/gzip"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func scan(name string) string { return filepath.Join("testdata", "scan", name) }

// grid are the arrays that testdata/scan/make.py writes.
func grid(name string) Array {
	x := Array{Shape: []int{2, 3, 4}}
	for i := range 24 {
		x.Data = append(x.Data, float64(100*(i/12)+10*(i/4%3)+i%4))
	}
	switch name {
	case "z":
		z := x.WithImaginary()
		for i, v := range x.Data {
			z.Data[2*i+1] = v + 0.5
		}
		return z
	case "m":
		return Array{Shape: []int{3, 4}, Data: x.Data[:12]}
	case "v":
		return Array{Shape: []int{4}, Data: x.Data[4:8]}
	case "one":
		return Array{Data: []float64{7}}
	case "sparse":
		return Array{Shape: []int{2, 3}, Data: []float64{0, 1.5, 0, 2, 0, -3}}
	case "bool":
		return Array{Shape: []int{3, 4}, Data: []float64{0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1}}
	case "never":
		return Array{Shape: []int{3, 4}, Data: slices.Repeat([]float64{2.5}, 12)}
	case "many":
		many := Array{Shape: []int{250}}
		for i := range 250 {
			many.Data = append(many.Data, float64(i))
		}
		return many
	}
	return x
}

func TestArchivesOfOtherProgramsAreRead(t *testing.T) {
	common := map[string]string{"x": "x", "z": "z", "m": "m", "ints": "x", "v": "v", "one": "one"}
	for file, more := range map[string]map[string]string{
		"v5.mat":    {"sparse": "sparse"},
		"v5z.mat":   {"sparse": "sparse"},
		"v73.mat":   {},
		"plain.h5":  {"big": "x", "unsigned": "m", "bool": "bool", "a/b/deep": "m", "never": "never"},
		"latest.h5": {"gzip": "x"},
		"chunks.h5": {"gzip": "x", "z": "z", "many": "many"},
	} {
		s, err := Open(scan(file))
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		want := map[string]string{}
		if file != "chunks.h5" {
			for k, v := range common {
				want[k] = v
			}
		}
		for k, v := range more {
			want[k] = v
		}
		for name, is := range want {
			a, err := s.Numbers(name)
			if b := grid(is); err != nil || !slices.Equal(a.Shape, b.Shape) || !slices.Equal(a.Data, b.Data) ||
				a.Complex != b.Complex {
				t.Errorf("%s: %s is %v, %v", file, name, a, err)
			}
		}
		if !s.Named() || !s.Archive() || s.Has("text") && strings.HasSuffix(file, "mat") || s.Has("#refs#/a") {
			t.Errorf("%s holds %v", file, s.Names())
		}
		s.Close()
	}
}

func TestImagesOfScannersAreRead(t *testing.T) {
	// The axes are in the order of the file: x is transposed.
	turned := func(a Array) Array {
		parts := a.Parts()
		out := Array{Shape: []int{4, 3, 2}, Complex: a.Complex}
		for k := range 4 {
			for j := range 3 {
				for i := range 2 {
					at := ((i*3+j)*4 + k) * parts
					out.Data = append(out.Data, a.Data[at:at+parts]...)
				}
			}
		}
		if a.Complex {
			out.Shape = append(out.Shape, 2)
		}
		return out
	}
	half := turned(grid("x"))
	for i := range half.Data {
		half.Data[i] = 0.5*half.Data[i] + 3
	}
	for file, want := range map[string]Array{
		"f4.nii.gz": turned(grid("x")), "two.nii": turned(grid("x")), "scaled.nii": half,
		"c8.nii": turned(grid("z")), "bart.cfl": turned(grid("z")), "bart.hdr": turned(grid("z")),
	} {
		s, err := Open(scan(file))
		if err != nil {
			t.Error(err)
			continue
		}
		name, err := s.Only()
		if err != nil {
			t.Error(err)
			continue
		}
		a, err := s.Numbers(name)
		worst := math.Inf(1)
		if len(a.Data) == len(want.Data) {
			worst = 0
			for i, v := range a.Data {
				worst = max(worst, math.Abs(v-want.Data[i]))
			}
		}
		// nibabel rounds what it scales to integers.
		if err != nil || !slices.Equal(a.Shape, want.Shape) || !(worst <= 1e-5 || file == "scaled.nii" && worst < 0.3) {
			t.Errorf("%s: %v, off by %g, %v", file, a, worst, err)
		}
	}
}

func TestArraysOfArchivesAreNamedAfterAColon(t *testing.T) {
	for _, file := range []string{scan("v5.mat"), scan("plain.h5"), scan("v73.mat")} {
		s, err := Open(file + ":m")
		if err != nil {
			t.Error(err)
			continue
		}
		name, err := s.Only()
		if err != nil || s.Archive() || s.Named() {
			t.Errorf("%s: %v", file, err)
		}
		if a, err := s.Floats(name); err != nil || !slices.Equal(a.Shape, []int{3, 4}) {
			t.Errorf("%v %v", a, err)
		}
		s.Close()
	}
}

func TestFilesOfScannersThatDoNotFitAreRefused(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"a.mat": "text", "b.h5": "text", "c.cfl": "x", "d.cfl": "x",
		"d.hdr": "# Dimensions\n2 -1\n", "e.nii": "no", "f.cfl": "1234", "f.hdr": "# Dimensions\n2 2\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{
		scan("v4.mat"):                "is no MATLAB file of version 5 to 7.3",
		scan("pair.hdr"):              "has an unknown format",
		filepath.Join(dir, "a.mat"):   "is no MATLAB file",
		filepath.Join(dir, "b.h5"):    "is not an HDF5 file",
		filepath.Join(dir, "c.cfl"):   "its header c.hdr: no such file",
		filepath.Join(dir, "d.cfl"):   "expected positive integers",
		filepath.Join(dir, "e.nii"):   "unknown format",
		filepath.Join(dir, "f.cfl"):   "ends after 0 of 8 values",
		scan("v5.mat") + ":nothing":   `array "nothing" is missing; the file holds "x"`,
		scan("f4.nii.gz") + ":x":      "holds no arrays by name",
		scan("nothing.mat") + ":x":    "no such file",
		scan("latest.h5") + ":absent": `array "absent" is missing`,
	} {
		if _, err := Open(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
	for path, want := range map[string]string{
		scan("chunks.h5") + ":lzf":     "compressed by filter 32000, expected deflate",
		scan("latest.h5") + ":indexed": "which is not supported: write it with libver='earliest'",
		scan("plain.h5") + ":text":     "expected numbers",
		scan("v5.mat") + ":z":          "complex numbers, expected real ones",
	} {
		s, err := Open(path)
		if err != nil {
			t.Error(err)
			continue
		}
		name, _ := s.Only()
		if _, err := s.Floats(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
		s.Close()
	}
}

// FuzzScan checks that no input makes a reader of these formats panic, that what is accepted is whole,
// and that errors take one line.
func FuzzScan(f *testing.F) {
	files, err := filepath.Glob(scan("*.*"))
	if err != nil || len(files) == 0 {
		f.Fatalf("%d files: %v", len(files), err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		if len(data) <= 1<<14 && filepath.Ext(file) != ".py" {
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		check := func(a Array, err error) {
			if err != nil {
				if strings.Contains(err.Error(), "\n") {
					t.Errorf("error of several lines: %q", err)
				}
				return
			}
			n := 1
			for _, k := range a.Shape {
				n *= k
			}
			if n < 1 || n != len(a.Data) {
				t.Errorf("%d values of shape %v", len(a.Data), a.Shape)
			}
		}
		all := func(s *Set, err error) {
			if err != nil {
				check(Array{}, err)
				return
			}
			for _, name := range s.Names() {
				check(s.Numbers(name))
			}
		}
		r := bytes.NewReader(file)
		all(newMAT(r, int64(len(file))))
		all(newHDF5(r, int64(len(file)), false))
		all(newHDF5(r, int64(len(file)), true))
		check(ReadNIfTI(bytes.NewReader(file)))
		header, values, _ := bytes.Cut(file, []byte("\n\n"))
		check(ReadBART(bytes.NewReader(header), bytes.NewReader(values)))
	})
}

// A compressed file whose checksum is wrong is refused, though all of its values can be read.
func TestTheChecksumOfACompressedFileCounts(t *testing.T) {
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	io.WriteString(w, "a,b\n1,2\n3,4\n")
	w.Close()
	b := z.Bytes()
	b[len(b)-6] ^= 1
	path := filepath.Join(t.TempDir(), "x.csv.gz")
	if err := os.WriteFile(path, b, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path); err == nil || !strings.Contains(err.Error(), "is truncated or corrupt") {
		t.Errorf("%v", err)
	}
}
