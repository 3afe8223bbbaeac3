package dataio

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"surepipe/internal/dataio/ndarray"
)

func fixture(name string) string { return filepath.Join("testdata", "npz", name) }

// checkError checks an error's words.
func checkError(t testing.TB, err error, want string) {
	t.Helper()
	if err == nil || err.Error() != want {
		t.Errorf("error\n%v\nwant\n%s", err, want)
	}
}

func openNPZ(t testing.TB, path string) *Set {
	t.Helper()
	s, err := OpenNPZ(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// The fixtures hold small integers, which every dtype holds exactly: the values
// must be equal, not near.
func TestFloatsAndIntsOfEveryDtypeAndOrder(t *testing.T) {
	want := []float64{1, 2, 3, 4, 5, 6}
	for _, file := range []string{
		"f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1",
		"big_f8", "big_f4", "big_f2", "big_i8", "big_u2", "fortran", "fortran_f4", "compressed",
	} {
		s := openNPZ(t, fixture(file+".npz"))
		x, err := s.Floats("X")
		if err != nil || !slices.Equal(x.Data, want) || !slices.Equal(x.Shape, []int{2, 3}) || x.Name != "X" ||
			x.Ints != nil {
			t.Errorf("%s: floats %+v, %v", file, x, err)
		}
		n, err := s.Ints("X")
		if err != nil || !slices.Equal(n.Ints, []int64{1, 2, 3, 4, 5, 6}) || n.Data != nil {
			t.Errorf("%s: ints %+v, %v", file, n, err)
		}
		stack, err := s.Stack("X")
		if strings.HasPrefix(file, "fortran") || file == "compressed" {
			checkError(t, err, `array "X" is in Fortran order, where every sample is spread over the whole array, so they cannot be read one at a time; save numpy.ascontiguousarray of it (its shape is (2, 3))`)
			continue
		}
		if err != nil {
			t.Fatal(file, err)
		}
		for i := range 2 {
			y := make([]float64, 3)
			if err := stack.Next(y); err != nil || !slices.Equal(y, want[3*i:][:3]) {
				t.Errorf("%s: sample %d is %v, %v", file, i, y, err)
			}
		}
		stack.Close()
	}
	s := openNPZ(t, fixture("negative.npz"))
	if x, err := s.Ints("X"); err != nil || !slices.Equal(x.Ints, []int64{-1, -2, -3, -4, -5, -6}) {
		t.Errorf("negative: %v, %v", x.Ints, err)
	}
	if x, err := openNPZ(t, fixture("b1.npz")).Floats("X"); err != nil ||
		!slices.Equal(x.Data, []float64{0, 0, 0, 1, 1, 1}) {
		t.Errorf("b1: %v, %v", x.Data, err)
	}
	_, err := openNPZ(t, fixture("half_index.npz")).Ints("indices")
	checkError(t, err, `array "indices" holds 1.5 at [1], expected integers`)
}

// Fortran order of three axes, against the index arithmetic written out.
func TestFortranOrderOfThreeAxes(t *testing.T) {
	a, err := openNPZ(t, fixture("stack_matrix.npz")).Floats("y")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		for j := range 3 {
			for k := range 2 {
				at := (i*3+j)*2 + k
				if a.Data[at] != float64(at) {
					t.Errorf("y[%d, %d, %d] = %g", i, j, k, a.Data[at])
				}
			}
		}
	}
}

func TestOpenReadsASingleArray(t *testing.T) {
	s, err := Open(fixture("single.npy"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	name, err := s.Only()
	if err != nil || name != "single" || s.format != "npy" {
		t.Fatalf("%q of format %s, %v", name, s.format, err)
	}
	for range 2 {
		if a, err := s.Floats(name); err != nil || !slices.Equal(a.Data, []float64{7, 8}) {
			t.Errorf("%v, %v", a, err)
		}
	}
	data, err := os.ReadFile(fixture("single.npy"))
	if err != nil {
		t.Fatal(err)
	}
	read := func(data []byte) (Array, error) {
		return newNPY("y", bytes.NewReader(data), int64(len(data))).Floats("y")
	}
	a, err := read(data)
	if err != nil || a.Name != "y" || !slices.Equal(a.Data, []float64{7, 8}) {
		t.Errorf("%v, %v", a, err)
	}
	_, err = read(data[:len(data)-1])
	checkError(t, err, `array "y" is truncated or corrupt (holds 1 values, but its header states shape (2,))`)
}

func TestOpenRefusesWhatItDoesNotKnow(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, test := range []struct{ path, want string }{
		{filepath.Join(dir, "absent.npy"), "no such file or directory"},
		{dir, "is a directory, expected .npz, .npy, .mat, .h5, .cfl, .png, .jpg, .tif, .nii, .mtx, .csv or .tsv"},
		{os.DevNull, "is not a regular file, expected .npz, .npy, .mat, .h5, .cfl, .png, .jpg, .tif, .nii, .mtx, " +
			".csv or .tsv"},
		{write("empty.csv", ""), "is empty (0 bytes), expected .npz, .npy, .mat, .h5, .cfl, .png, .jpg, .tif, " +
			".nii, .mtx, .csv or .tsv"},
		{write("data.bin", "1,2\n"), "has an unknown format, expected .npz, .npy, .mat, .h5, .cfl, .png, .jpg, " +
			".tif, .nii, .mtx, .csv or .tsv"},
		{write("a.jpg", "\xff\xd8\xff\xe0"), "is not a JPEG image, or truncated or corrupt (unexpected end)"},
		{write("a.csv.gz", "\x1f\x8b\x08"), "is truncated or corrupt (unexpected EOF)"},
		{fixture("truncated.npz"), "is truncated or corrupt (zip: not a valid zip file)"},
	} {
		_, err := Open(test.path)
		checkError(t, err, test.path+": "+test.want)
	}
	s := openNPZ(t, fixture("f8.npz"))
	_, err := s.Only()
	checkError(t, err, `expected a single array; the file holds "X", "y", "sigma2"`)
	_, err = s.Scalar("X")
	checkError(t, err, `array "X" has shape (2, 3), expected a single number`)
	_, err = s.Floats("x")
	checkError(t, err, `array "x" is missing; the file holds "X", "y", "sigma2": did you mean "X"?`)
	if v, err := s.Scalar("sigma2"); v != 2 || err != nil {
		t.Errorf("sigma2 = %g, %v", v, err)
	}
	_, err = s.Stack("Y")
	checkError(t, err, `array "Y" is missing; the file holds "X", "y", "sigma2": did you mean "y"?`)
	_, err = OpenNPZ(fixture("single.npy"))
	checkError(t, err, fixture("single.npy")+": is a single array (.npy), expected a .npz file as "+
		"numpy.savez writes it")
	_, err = s.Sparse()
	checkError(t, err, "is not a sparse matrix, expected a coordinate .mtx file or .npz as "+
		"scipy.sparse.save_npz writes it")
}

// What is in memory already, from a text file, reads like the rest.
func TestSetOfATable(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, text []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	z.Write([]byte("1,2\n3,4.5\n"))
	z.Close()
	s, err := Open(write("a.b.csv.gz", zipped.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Open("a.b")
	if err != nil || !slices.Equal(r.Shape(), []int{2, 2}) {
		t.Fatal(r, err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	_, err = s.Ints("a.b")
	checkError(t, err, `array "a.b" holds 4.5 at [1, 1], expected integers`)
	_, err = s.Stack("a.b")
	checkError(t, err, `array "a.b" is not a numpy array: a stack of samples is read from .npy or .npz`)
	cut := write("cut.csv.gz", zipped.Bytes()[:zipped.Len()-6])
	_, err = Open(cut)
	checkError(t, err, cut+": is truncated or corrupt (unexpected EOF)")

	if s, err = Open(write("i.csv", []byte("0\n-7\n9007199254740992\n"))); err != nil {
		t.Fatal(err)
	}
	if a, err := s.Ints("i"); err != nil || !slices.Equal(a.Ints, []int64{0, -7, 1 << 53}) {
		t.Errorf("%v, %v", a, err)
	}
	if s, err = Open(write("m.mtx", []byte("%%MatrixMarket matrix coordinate pattern general\n2 2 1\n1 1\n"))); err != nil {
		t.Fatal(err)
	}
	_, err = s.Floats("m")
	checkError(t, err, `array "m" is missing; the file holds a sparse matrix`)
	_, err = s.Only()
	checkError(t, err, "holds a sparse matrix, expected a dense array")
	if s, err = Open(write("d.mtx", []byte("%%MatrixMarket matrix array real general\n1 2\n3\n4\n"))); err != nil {
		t.Fatal(err)
	}
	if a, err := s.Floats("d"); err != nil || !slices.Equal(a.Data, []float64{3, 4}) {
		t.Errorf("%v, %v", a, err)
	}
}

func TestIntsRefusesWhatInt64DoesNotHold(t *testing.T) {
	file := encoded(t, Array{Shape: []int{2}, Ints: []int64{1, -1}})
	data := bytes.Replace(file, []byte("<i8"), []byte("<u8"), 1)
	_, err := newNPY("y", bytes.NewReader(data), int64(len(data))).Ints("y")
	checkError(t, err, `array "y" holds 18446744073709551615 at [1], which is too large`)
}

// Cut anywhere, a file is refused.
func TestEveryTruncationIsRefused(t *testing.T) {
	for _, file := range []string{"f8.npz", "compressed.npz"} {
		whole, err := os.ReadFile(fixture(file))
		if err != nil {
			t.Fatal(err)
		}
		for n := range whole {
			s, err := NewNPZ(bytes.NewReader(whole[:n]), int64(n))
			if err == nil {
				_, err = s.Floats("X")
			}
			if err == nil {
				t.Fatalf("%s: %d of %d bytes are accepted", file, n, len(whole))
			}
		}
	}
}

func TestFloat16IsIEEE(t *testing.T) {
	decode := ndarray.Number{Kind: 'f', Size: 2, Order: binary.LittleEndian}.Float()
	float16 := func(bits uint16) float64 { return decode(binary.LittleEndian.AppendUint16(nil, bits)) }
	for _, test := range []struct {
		bits uint16
		want float64
	}{
		{0x0000, 0}, {0x3c00, 1}, {0xc000, -2}, {0x7bff, 65504}, {0x3555, 0.333251953125},
		{0x0400, 0x1p-14}, {0x03ff, 0x1p-14 - 0x1p-24}, {0x0001, 0x1p-24}, {0x8001, -0x1p-24},
		{0x7c00, math.Inf(1)}, {0xfc00, math.Inf(-1)},
	} {
		if got := float16(test.bits); got != test.want {
			t.Errorf("float16(%#04x) = %g, want %g", test.bits, got, test.want)
		}
	}
	if !math.IsNaN(float16(0x7e00)) {
		t.Error("float16(0x7e00) is a number")
	}
	if !math.Signbit(float16(0x8000)) {
		t.Error("float16(0x8000) is not -0")
	}
}

func TestSuggestNamesTheNearest(t *testing.T) {
	used := []string{"X", "y", "indices", "shape", "mu", "sigma2", "lambda", "lambda2", "gamma"}
	for _, test := range []struct{ missing, found, want string }{
		{"X", "x y", `"x"`}, {"y", "X Y", `"Y"`}, {"y", "X Y_train y_train", `"Y_train"`}, {"y", "X z", ""},
		{"indices", "y index shape", `"index"`}, {"indices", "indexes idx", `"indexes"`},
		{"shape", "y Shape", `"Shape"`}, {"sigma2", "sigma sigma_2 gamma", `"sigma"`}, {"lambda", "gamma", ""},
		{"lambda", "lamda", `"lamda"`},
	} {
		got := ndarray.Suggest("the file", test.missing, strings.Fields(test.found), used)
		_, meant, _ := strings.Cut(got, "did you mean ")
		if meant = strings.TrimSuffix(meant, "?"); meant != test.want {
			t.Errorf("suggest(%q, %q) = %q, want %s", test.missing, test.found, got, test.want)
		}
	}
	many := make([]string, 1000)
	for i := range many {
		many[i] = fmt.Sprint("arr_", i)
	}
	if got := ndarray.Suggest("the file", "y", many, nil); len(got) > 250 || !strings.HasSuffix(got, " and 988 more") {
		t.Errorf("the line of 1000 arrays is %q", got)
	}
}

func TestWriteNPZRoundTrips(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.npz")
	// More values than one buffer holds, and some that decimals would lose.
	x := make([]float64, 150*100)
	for i := range x {
		x[i] = math.Sin(float64(i)) * math.Pow(10, float64(i%600-300))
	}
	y := []float64{math.Copysign(0, -1), math.SmallestNonzeroFloat64, math.MaxFloat64}
	arrays := []Array{
		{Name: "X", Shape: []int{150, 100}, Data: x},
		{Name: "y", Shape: []int{3}, Data: y},
		{Name: "indices", Shape: []int{3}, Ints: []int64{5, 0, 1 << 40}},
		{Name: "shape", Shape: []int{2}, Ints: []int64{2, 3}},
		{Name: "lambda", Data: []float64{0.1}},
	}
	if err := WriteNPZ(path, arrays...); err != nil {
		t.Fatal(err)
	}
	s := openNPZ(t, path)
	for _, want := range arrays {
		read := s.Floats
		if want.Ints != nil {
			read = s.Ints
		}
		got, err := read(want.Name)
		if err != nil {
			t.Fatal(err)
		}
		if got.Name != want.Name || !slices.Equal(got.Shape, want.Shape) || !slices.Equal(got.Data, want.Data) ||
			!slices.Equal(got.Ints, want.Ints) {
			t.Errorf("array %q differs", want.Name)
		}
		if want.Name == "y" && !math.Signbit(got.Data[0]) {
			t.Error("-0 lost its sign")
		}
	}

	first, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := WriteNPZ(path, arrays...); err != nil {
		t.Fatal(err)
	}
	if second, err := os.ReadFile(path); err != nil || !bytes.Equal(first, second) {
		t.Errorf("the same arrays give other bytes: %v", err)
	}
	alone(t, path)
}

func TestWriteNPZWritesThreeAxes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "b.npz")
	b := []float64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}
	if err := WriteNPZ(path, Array{Name: "y", Shape: []int{2, 3, 2}, Data: b}); err != nil {
		t.Fatal(err)
	}
	a, err := openNPZ(t, path).Floats("y")
	if err != nil || !slices.Equal(a.Shape, []int{2, 3, 2}) || !slices.Equal(a.Data, b) {
		t.Errorf("%v, %v", a, err)
	}
}

// alone checks that a file is the only one of its directory: nothing temporary is
// left.
func alone(t *testing.T, path string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != filepath.Base(path) {
			t.Errorf("%s is left behind", e.Name())
		}
	}
}

func TestWriteNPZLeavesTheOldFileWhenItFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.npz")
	if err := os.WriteFile(path, []byte("old"), 0o640); err != nil {
		t.Fatal(err)
	}
	// No zip archive holds a name of 64 KiB.
	err := WriteNPZ(path,
		Array{Name: "y", Shape: []int{1}, Data: []float64{1}},
		Array{Name: strings.Repeat("z", 1<<16), Shape: []int{1}, Data: []float64{1}},
	)
	if err == nil || !strings.HasPrefix(err.Error(), path+": ") {
		t.Errorf("error %v, want one that names the file", err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "old" {
		t.Errorf("the old file is now %q, %v", got, err)
	}
	alone(t, path)
}

func TestWriteNPZKeepsASymbolicLink(t *testing.T) {
	dir := t.TempDir()
	link, path := filepath.Join(dir, "link.npz"), filepath.Join(t.TempDir(), "out.npz")
	if err := os.WriteFile(path, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(path, link); err != nil {
		t.Skip(err)
	}
	if err := WriteNPZ(link, Array{Name: "y", Shape: []int{1, 1}, Data: []float64{1}}); err != nil {
		t.Fatal(err)
	}
	if a, err := openNPZ(t, path).Floats("y"); err != nil || a.Data[0] != 1 {
		t.Errorf("the link's file was not written: %v", err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is gone: %v", err)
	}
}

func TestCheckWritableRefusesBeforeTheWork(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "old.npz")
	if err := os.WriteFile(file, []byte("old"), 0o666); err != nil {
		t.Fatal(err)
	}
	absent := filepath.Join(dir, "absent")
	for _, test := range []struct{ path, want string }{
		{"", "expected the name of a file"},
		{dir + "/", "expected the name of a file"},
		{dir, "it is a directory"},
		{absent + "/o.npz", fmt.Sprintf("directory %q does not exist", absent)},
		{file + "/o.npz", fmt.Sprintf("%q is not a directory", file)},
		{os.DevNull, "it is not a regular file"},
	} {
		checkError(t, CheckWritable(test.path), test.want)
	}
	if err := CheckWritable(file); err != nil {
		t.Error(err)
	}
	if err := CheckWritable(filepath.Join(dir, "new.npz")); err != nil {
		t.Error(err)
	}
	alone(t, file)
	if got, err := os.ReadFile(file); err != nil || string(got) != "old" {
		t.Errorf("the old file is now %q, %v", got, err)
	}
}

func TestCheckWritableRefusesWhatIsNotPermitted(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("everything is permitted to root")
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "out.npz")
	if err := os.WriteFile(file, nil, 0o444); err != nil {
		t.Fatal(err)
	}
	const want = "permission denied"
	checkError(t, CheckWritable(file), want)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	checkError(t, CheckWritable(file), want)
}
