package dataio

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"
)

// counted is n samples of m values, each its flat index.
func counted(n, m int) Array {
	a := Array{Name: "y", Shape: []int{n, m}, Data: make([]float64, n*m)}
	for i := range a.Data {
		a.Data[i] = float64(i)
	}
	return a
}

func encoded(t testing.TB, a Array) []byte {
	t.Helper()
	var file bytes.Buffer
	if err := EncodeNPY(&file, a); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

// stacks opens the same samples from a file, a pipe, and stored and deflated members.
func stacks(t *testing.T, a Array) map[string]*Stack {
	t.Helper()
	all := make(map[string]*Stack)
	file := encoded(t, a)
	keep := func(name string, s *Stack, err error) {
		if err != nil {
			t.Fatal(name, err)
		}
		t.Cleanup(func() { s.Close() })
		all[name] = s
	}
	path := filepath.Join(t.TempDir(), "y.npy")
	if err := WriteNPY(path, a); err != nil {
		t.Fatal(err)
	}
	s, err := OpenStack(path)
	keep("file", s, err)
	r, w := io.Pipe()
	go func() {
		w.Write(file)
		w.Close()
	}()
	t.Cleanup(func() { r.Close() })
	s, err = NewStack(r)
	keep("pipe", s, err)
	for name, method := range map[string]uint16{"stored": zip.Store, "deflated": zip.Deflate} {
		var archive bytes.Buffer
		z := zip.NewWriter(&archive)
		member, err := z.CreateHeader(&zip.FileHeader{Name: "y.npy", Method: method})
		if err != nil {
			t.Fatal(err)
		}
		member.Write(file)
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		set, err := NewNPZ(bytes.NewReader(archive.Bytes()), int64(archive.Len()))
		if err != nil {
			t.Fatal(err)
		}
		s, err := set.Stack("y")
		keep(name, s, err)
	}
	return all
}

func TestStackYieldsEverySample(t *testing.T) {
	// A sample is longer than the buffer it is decoded from.
	const n, m = 5, 3*8*chunkLen/2 + 7
	want := counted(n, m)
	for name, s := range stacks(t, want) {
		if s.Len() != n || s.SampleLen() != m || !slices.Equal(s.Shape(), []int{m}) {
			t.Errorf("%s: %d samples of shape %v", name, s.Len(), s.Shape())
		}
		i := 0
		for y := make([]float64, m); ; {
			err := s.Next(y)
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(name, err)
			}
			if !slices.Equal(y, want.Data[i*m:(i+1)*m]) {
				t.Errorf("%s: sample %d differs", name, i)
			}
			i++
		}
		if i != n || s.Index() != n {
			t.Errorf("%s: %d samples, expected %d", name, i, n)
		}
	}
}

func TestStackSeeks(t *testing.T) {
	const n, m = 50, 40
	for name, s := range stacks(t, counted(n, m)) {
		y := make([]float64, m)
		at := func(i int) {
			t.Helper()
			if err := s.Next(y); err != nil || y[0] != float64(i*m) || y[m-1] != float64(i*m+m-1) || s.Index() != i+1 {
				t.Errorf("%s: sample %d begins with %g, %v", name, i, y[0], err)
			}
		}
		at(0)
		for _, i := range []int{7, 8, 30} {
			if err := s.Seek(i); err != nil {
				t.Fatal(name, err)
			}
			at(i)
		}
		switch err := s.Seek(3); {
		case name == "pipe":
			checkError(t, err, "cannot go back from sample 31 to sample 3: the input is not a regular file")
			at(31)
		case err != nil:
			t.Error(name, err)
		default:
			at(3)
			at(4)
		}
		checkError(t, s.Seek(n+1), "sample 51 does not exist, expected 0 to 50")
		if err := s.Seek(n); err != nil {
			t.Error(name, err)
		}
		if err := s.Next(y); err != io.EOF {
			t.Errorf("%s: %v after the last sample", name, err)
		}
		if err := s.Seek(n - 1); name != "pipe" && err != nil {
			t.Error(name, err)
		} else if err == nil {
			at(n - 1)
		}
	}
}

func TestStackNamesWhatIsMissing(t *testing.T) {
	file := encoded(t, counted(3, 2))
	begin := len(file) - 48
	y := make([]float64, 2)
	for _, test := range []struct {
		file []byte
		good int
		want string
	}{
		{file[:begin+37], 2, "is truncated: the data end at byte 165, sample 2 of 3 (from 0) takes bytes 160 to 176"},
		{file[:begin+16], 1, "is truncated: the data end at byte 144, sample 1 of 3 (from 0) takes bytes 144 to 160"},
	} {
		path := filepath.Join(t.TempDir(), "y.npy")
		if err := os.WriteFile(path, test.file, 0o666); err != nil {
			t.Fatal(err)
		}
		fromFile, err := OpenStack(path)
		if err != nil {
			t.Fatal(err)
		}
		defer fromFile.Close()
		fromStream, err := NewStack(bytes.NewReader(test.file))
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []*Stack{fromFile, fromStream} {
			for range test.good {
				if err := s.Next(y); err != nil {
					t.Error(err)
				}
			}
			for range 2 {
				checkError(t, s.Next(y), test.want)
			}
		}
	}
	s, err := NewStack(bytes.NewReader(file[:begin+16]))
	if err != nil {
		t.Fatal(err)
	}
	checkError(t, s.Seek(3), "is truncated: the data end at byte 144, sample 1 of 3 (from 0) takes bytes 144 to 160")
}

// Bytes after an array are refused: of a file or a member of an archive at once, of a pipe at its end.
func TestNothingFollowsAnArray(t *testing.T) {
	dir := t.TempDir()
	twice := append(encoded(t, counted(3, 2)), encoded(t, counted(3, 2))...)
	path, archive := filepath.Join(dir, "y.npy"), filepath.Join(dir, "y.npz")
	if err := os.WriteFile(path, twice, 0o666); err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	z := zip.NewWriter(&packed)
	for name, extra := range map[string]string{"y": "z", "s": "z", "texts": "z"} {
		w, err := z.Create(name + ".npy")
		if err != nil {
			t.Fatal(err)
		}
		a := map[string]Array{"y": counted(3, 2), "s": {Data: []float64{1}}, "texts": {Texts: []string{"a"}}}[name]
		w.Write(append(encoded(t, a), extra...))
	}
	z.Close()
	if err := os.WriteFile(archive, packed.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	const one, holds = "1 bytes follow the array, expected its end",
		": one file, or member of an archive, holds one array)"
	_, err := OpenStack(path)
	checkError(t, err, path+": is corrupt (176 bytes follow the array, expected its end"+holds)
	single, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer single.Close()
	_, err = single.Floats("y")
	checkError(t, err, `array "y" is truncated or corrupt (176 bytes follow the array, expected its end`+holds)
	set := openNPZ(t, archive)
	_, err = set.Scalar("s")
	checkError(t, err, `array "s" is truncated or corrupt (`+one+holds)
	_, err = set.Texts("texts")
	checkError(t, err, `array "texts" is truncated or corrupt (`+one+holds)
	_, err = set.Map("y")
	checkError(t, err, `array "y" is `+"compressed, expected a member of an archive that is not (numpy.savez, not "+
		"numpy.savez_compressed), or a .npy file")
	_, err = set.Stack("y")
	checkError(t, err, `array "y" is corrupt (`+one+holds)
	s, err := NewStack(bytes.NewReader(twice))
	if err != nil {
		t.Fatal(err)
	}
	for y := make([]float64, 2); s.Index() < 3; {
		if err := s.End(); err != nil {
			t.Errorf("before sample %d: %v", s.Index(), err)
		}
		if err := s.Next(y); err != nil {
			t.Error(err)
		}
	}
	checkError(t, s.End(), "continues after the last of the 3 samples that its header states, at byte 176")
}

func TestStackGoesOnAfterNaN(t *testing.T) {
	a := counted(3, 4)
	a.Shape = []int{3, 2, 2}
	a.Data[7] = math.Inf(-1)
	s, err := NewStack(bytes.NewReader(encoded(t, a)))
	if err != nil {
		t.Fatal(err)
	}
	y := make([]float64, 4)
	if err := s.Next(y); err != nil {
		t.Fatal(err)
	}
	checkError(t, s.Next(y), "sample 1 of 3 (from 0) holds -Inf at [1, 1], expected finite numbers")
	if err := s.Next(y); err != nil || y[0] != 8 {
		t.Errorf("%v, %v", y, err)
	}
}

func TestStackRefuses(t *testing.T) {
	head := func(descr, order, shape string) []byte {
		text := "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }\n"
		return append(binary.LittleEndian.AppendUint16([]byte("\x93NUMPY\x01\x00"), uint16(len(text))), text...)
	}
	for _, test := range []struct {
		file []byte
		want string
	}{
		{nil, "is truncated or corrupt (it ends within the header)"},
		{head("<f8", "False", "(2, 2)")[:30], "is truncated or corrupt (it ends within the header)"},
		{[]byte("1,2\n3,4\n5,6\n"), "is not a .npy array, or corrupt (not a .npy array)"},
		{head("<f8", "True", "(2, 2)"), "is in Fortran order, where every sample is spread over the whole array, " +
			"so they cannot be read one at a time; save numpy.ascontiguousarray of it (its shape is (2, 2))"},
		{head("<c16", "False", "(2, 2)"), "cannot be read: found dtype <c16, expected real numbers"},
		{head("<f8", "False", "()"), "has shape (), expected (N, ...), a stack of N samples"},
		{head("<f8", "False", "(2, 0)"), "is empty, its shape is (2, 0)"},
		{head("<f8", "False", "(2, -1)"), "is corrupt (its header states shape (2, -1))"},
		{head("<f8", "False", "(4000000000, 4000000000)"),
			"is corrupt (its header states shape (4000000000, 4000000000), more than can be addressed)"},
	} {
		_, err := NewStack(bytes.NewReader(test.file))
		checkError(t, err, test.want)
	}
	short := filepath.Join(t.TempDir(), "y.npy")
	if err := os.WriteFile(short, append(head("<f4", "False", "(1, 100000000000)"), 0, 0), 0o666); err != nil {
		t.Fatal(err)
	}
	_, err := OpenStack(short)
	checkError(t, err, short+": is truncated: the data end at byte 83, sample 0 of 1 takes bytes 81 to 400000000081")
	_, err = OpenStack(fixture("absent.npy"))
	checkError(t, err, fixture("absent.npy")+": no such file or directory")
	_, err = OpenStack("testdata")
	checkError(t, err, "testdata: is a directory, expected a numpy .npy file")
}

// A checksum that does not match is found at the end of the last sample.
func TestStackComparesChecksums(t *testing.T) {
	set := openNPZ(t, fixture("checksum.npz"))
	s, err := set.Stack("y")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	y := make([]float64, 1)
	for err == nil {
		err = s.Next(y)
	}
	checkError(t, err, "is corrupt (zip: checksum error)")
}

// A file of 20 GB, of which only three samples take room on the disk.
func TestStackReadsALargeFileInConstantMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("a file of 20 GB")
	}
	const n, m = 10000, 500 * 500
	path := filepath.Join(t.TempDir(), "large.npy")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	text := "{'descr': '<f8', 'fortran_order': False, 'shape': (10000, 500, 500), }"
	header := append([]byte("\x93NUMPY\x01\x00\x76\x00"), text...)
	for len(header) < 127 {
		header = append(header, ' ')
	}
	header = append(header, '\n')
	if _, err := f.Write(header); err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(int64(len(header)) + 8*n*m); err != nil {
		t.Skip("no sparse files here:", err)
	}
	samples := []int{0, n / 2, n - 1}
	for _, i := range samples {
		for _, k := range []int{0, m - 1} {
			b := binary.LittleEndian.AppendUint64(nil, math.Float64bits(float64(i+k+1)))
			if _, err := f.WriteAt(b, int64(len(header))+8*(int64(i)*m+int64(k))); err != nil {
				t.Fatal(err)
			}
		}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	begin := time.Now()
	s, err := OpenStack(path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	y := make([]float64, m)
	for _, i := range samples {
		if err := s.Seek(i); err != nil {
			t.Fatal(err)
		}
		if err := s.Next(y); err != nil || y[0] != float64(i+1) || y[m-1] != float64(i+m) || y[m/2] != 0 {
			t.Errorf("sample %d: %g, %g, %v", i, y[0], y[m-1], err)
		}
	}
	if err := s.Next(y); err != io.EOF {
		t.Errorf("%v after the last sample", err)
	}
	took := time.Since(begin)
	runtime.ReadMemStats(&after)
	// The sample itself takes 2 MB.
	if used := after.TotalAlloc - before.TotalAlloc; used > 3<<20 || took > 2*time.Second {
		t.Errorf("%d bytes allocated in %v", used, took)
	}
	t.Logf("%d bytes allocated in %v", after.TotalAlloc-before.TotalAlloc, took)
}

// Reading on allocates nothing.
func TestStackNextAllocatesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "y.npy")
	if err := WriteNPY(path, counted(200, 1000)); err != nil {
		t.Fatal(err)
	}
	s, err := OpenStack(path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	y := make([]float64, 1000)
	if n := testing.AllocsPerRun(100, func() {
		if err := s.Next(y); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%g allocations a sample", n)
	}
}
