package main

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/problems"
)

func fixture(name string) string { return filepath.Join("testdata", "npz", name) }

func TestLayoutsCoverTheProblems(t *testing.T) {
	for _, name := range problems.Names() {
		if _, ok := layouts[name]; !ok {
			t.Errorf("problem %q has no layout", name)
		}
	}
	if len(layouts) != len(problems.Names()) {
		t.Errorf("%d layouts for %d problems", len(layouts), len(problems.Names()))
	}
}

// The fixtures hold small integers, which every dtype holds exactly: the values
// must be equal, not near.
func TestReadDataConvertsEveryRealDtypeAndOrder(t *testing.T) {
	x, y := []float64{1, 2, 3, 4, 5, 6}, []float64{7, 8}
	for _, test := range []struct {
		file string
		x, y []float64
	}{
		{"f8.npz", x, y}, {"f4.npz", x, y}, {"f2.npz", x, y},
		{"i8.npz", x, y}, {"i4.npz", x, y}, {"i2.npz", x, y}, {"i1.npz", x, y},
		{"u8.npz", x, y}, {"u4.npz", x, y}, {"u2.npz", x, y}, {"u1.npz", x, y},
		{"big_f8.npz", x, y}, {"big_f4.npz", x, y}, {"big_f2.npz", x, y}, {"big_i8.npz", x, y}, {"big_u2.npz", x, y},
		{"b1.npz", []float64{0, 0, 0, 1, 1, 1}, []float64{0, 1}},
		{"negative.npz", []float64{-1, -2, -3, -4, -5, -6}, []float64{-7, -8}},
		{"fortran.npz", x, y}, {"fortran_f4.npz", x, y}, {"compressed.npz", x, y},
	} {
		t.Run(test.file, func(t *testing.T) {
			data, err := readData(fixture(test.file), "lasso")
			if err != nil {
				t.Fatal(err)
			}
			if !mat.Equal(data.X, mat.NewDense(2, 3, test.x)) {
				t.Errorf("X = %v, want %v", data.X.RawMatrix().Data, test.x)
			}
			if !slices.Equal(data.Y, test.y) || !slices.Equal(data.YShape, []int{2}) {
				t.Errorf("y = %v of shape %v, want %v", data.Y, data.YShape, test.y)
			}
			if data.Mu != nil || data.Stack != nil || data.Lambda != nil {
				t.Error("arrays that are not in the file were read")
			}
			if slices.Contains(data.Found, "sigma2") && *data.Sigma2 != 2 {
				t.Errorf("sigma2 = %v, want 2", *data.Sigma2)
			}
		})
	}
}

func TestReadDataReadsScalarsOfAnyRank(t *testing.T) {
	data, err := readData(fixture("scalars.npz"), "lasso")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		got  *float64
		want float64
	}{{"sigma2", data.Sigma2, 2}, {"lambda", data.Lambda, 0.5}, {"lambda2", data.Lambda2, 3}, {"gamma", data.Gamma, 4}} {
		if test.got == nil || *test.got != test.want {
			t.Errorf("%s is not %g", test.name, test.want)
		}
	}
}

// A decompressor may return an element in two pieces.
func TestReadDataReadsLongCompressedArrays(t *testing.T) {
	data, err := readData(fixture("long.npz"), "svt")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(data.YShape, []int{100, 100}) {
		t.Fatalf("shape %v", data.YShape)
	}
	for i, v := range data.Y {
		// The file is float32, of magnitude up to 96: half a unit in the last place.
		if want := math.Sin(0.7*float64(i)) * float64(i%97); math.Abs(v-want) > 4e-6 {
			t.Fatalf("y[%d] = %g, want %g", i, v, want)
		}
	}
}

func TestReadDataReadsIndicesOfAnyIntegerType(t *testing.T) {
	for _, file := range []string{"completion.npz", "completion_float.npz", "completion_u1.npz"} {
		data, err := readData(fixture(file), "matrix-completion")
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(data.Indices, []int{0, 2, 5}) || !slices.Equal(data.Shape, []int{2, 3}) || !slices.Equal(data.Y, []float64{1, 2, 3}) {
			t.Errorf("%s: indices %v, shape %v, y %v", file, data.Indices, data.Shape, data.Y)
		}
	}
}

func TestReadSamplesCutsAStack(t *testing.T) {
	data, err := readSamples(fixture("stack.npz"), "lasso")
	if err != nil {
		t.Fatal(err)
	}
	want := [][]float64{{0, 1}, {2, 3}, {4, 5}, {6, 7}, {8, 9}, {10, 11}}
	if !slices.EqualFunc(data.Stack, want, slices.Equal) || !slices.Equal(data.Y, want[0]) || !slices.Equal(data.YShape, []int{2}) {
		t.Errorf("stack %v, y %v of shape %v", data.Stack, data.Y, data.YShape)
	}
	if !slices.Equal(data.Mu, []float64{7, 8}) {
		t.Errorf("mu = %v", data.Mu)
	}

	data, err = readSamples(fixture("stack_matrix.npz"), "robust-pca")
	if err != nil {
		t.Fatal(err)
	}
	want = [][]float64{{0, 1, 2, 3, 4, 5}, {6, 7, 8, 9, 10, 11}}
	if !slices.EqualFunc(data.Stack, want, slices.Equal) || !slices.Equal(data.YShape, []int{3, 2}) {
		t.Errorf("stack %v of shape %v", data.Stack, data.YShape)
	}
}

func TestReadSamplesTakesASingleSampleOrMuAlone(t *testing.T) {
	data, err := readSamples(fixture("long.npz"), "svt")
	if err != nil || data.Stack != nil || len(data.Y) != 10000 {
		t.Errorf("single sample: %v, stack %v", err, data.Stack)
	}
	data, err = readSamples(fixture("mu_alone.npz"), "svt")
	if err != nil || data.Stack != nil || !slices.Equal(data.Y, data.Mu) || !slices.Equal(data.YShape, []int{4, 3}) {
		t.Errorf("mu alone: %v, y %v", err, data.Y)
	}
}

func TestReadDataLeavesUnknownProblemsToTheirOwnError(t *testing.T) {
	data, err := readData(fixture("f8.npz"), "lassso")
	if err != nil || data.X != nil || data.Y != nil || *data.Sigma2 != 2 {
		t.Errorf("%+v, %v", data, err)
	}
}

func TestReadDataRefusesBadFiles(t *testing.T) {
	holds := `; the file holds "X", "y"`
	for _, test := range []struct{ file, problem, want string }{
		{"absent.npz", "lasso", `: no such file or directory`},
		{"", "lasso", `: is a directory, expected a numpy .npz file`},
		{"zero_length.npz", "lasso", `: is empty (0 bytes), expected a numpy .npz file`},
		{"text.npz", "lasso", `: is not a numpy .npz file`},
		{"single.npy", "lasso", `: is a single array (.npy), expected a .npz file as numpy.savez writes it`},
		{"truncated.npz", "lasso", `: is truncated or corrupt (zip: not a valid zip file)`},
		{"checksum.npz", "lasso", `: array "y" is truncated or corrupt (zip: checksum error)`},
		{"garbage.npz", "svt", `: array "y" is truncated or corrupt (its header is not a .npy header)`},
		{"no_newline.npz", "svt", `: array "y" is truncated or corrupt (its header is not a .npy header)`},
		{"order_of_keys.npz", "svt", `: array "y" is truncated or corrupt (its header is not a .npy header)`},
		{"huge_shape.npz", "svt", `: array "y" is truncated or corrupt (2 values are there, its header states shape (1000000000000, 1000000000))`},
		{"negative_shape.npz", "svt", `: array "y" is truncated or corrupt (its header states shape (-2, -1))`},
		{"short_values.npz", "svt", `: array "y" is truncated or corrupt (3 values are there, its header states shape (2, 2))`},

		{"string.npz", "lasso", `: array "y": found dtype <U5, expected real numbers`},
		{"complex.npz", "lasso", `: array "y": found dtype <c16, expected real numbers`},
		{"object.npz", "lasso", `: array "y": found dtype object, expected real numbers`},
		{"structured.npz", "lasso", `: array "y": found a structured dtype, expected real numbers`},
		{"date.npz", "lasso", `: array "y": found dtype <M8[D], expected real numbers`},
		{"longdouble.npz", "lasso", `: array "y": found dtype <f16, expected real numbers of at most 64 bits`},
		{"mask.npz", "matrix-completion", `: array "indices": found dtype |b1, expected integers`},

		{"flat_X.npz", "lasso", `: array "X" has shape (6,), expected (d, p)`},
		{"column_y.npz", "lasso", `: array "y" has shape (2, 1), expected (d,)`},
		{"scalar_y.npz", "lasso", `: array "y" has shape (), expected (d,)`},
		{"f8.npz", "svt", `: array "y" has shape (2,), expected (m, n)`},
		{"stack.npz", "lasso", `: array "y" has shape (6, 2), expected (d,): a stack of samples is for surepipe montecarlo`},
		{"stack_matrix.npz", "svt", `: array "y" has shape (2, 3, 2), expected (m, n): a stack of samples is for surepipe montecarlo`},
		{"empty_y.npz", "lasso", `: array "y" is empty, its shape is (0,)`},
		{"empty_X.npz", "lasso", `: array "X" is empty, its shape is (2, 0)`},
		{"vector_sigma2.npz", "lasso", `: array "sigma2" has shape (2,), expected a single number`},
		{"mu_turned.npz", "svt", `: array "mu" has shape (3, 4), expected (4, 3) as "y" has`},
		{"pairs.npz", "matrix-completion", `: array "indices" has shape (2, 2), expected (d,), places in the row-major matrix`},
		{"half_index.npz", "matrix-completion", `: array "indices" holds 1.5 at [1], expected integers`},
		{"shape3.npz", "matrix-completion", `: array "shape" has shape (3,), expected (2,)`},

		{"misspelled.npz", "lasso", `: array "X" is missing, expected shape (d, p); the file holds "x", "Y": did you mean "x"?`},
		{"misspelled.npz", "svt", `: array "y" is missing, expected shape (m, n); the file holds "x", "Y": did you mean "Y"?`},
		{"flat_X.npz", "matrix-completion", `: array "indices" is missing, expected shape (d,), places in the row-major matrix` + holds},
		{"mu_alone.npz", "svt", `: array "y" is missing, expected shape (m, n); the file holds "mu"`},
		{"nothing.npz", "svt", `: array "y" is missing, expected shape (m, n); the file holds no arrays`},
	} {
		t.Run(test.file+" "+test.problem, func(t *testing.T) {
			_, err := readData(fixture(test.file), test.problem)
			checkUsage(t, err, fixture(test.file)+test.want)
		})
	}
}

func TestReadSamplesRefusesBadStacks(t *testing.T) {
	for _, test := range []struct{ file, problem, want string }{
		{"stack_matrix.npz", "lasso", `: array "X" is missing, expected shape (d, p); the file holds "y"`},
		{"stack_matrix.npz", "matrix-completion", `: array "y" has shape (2, 3, 2), expected (d,) or (N, d), a stack of N samples`},
		{"f8.npz", "svt", `: array "y" has shape (2,), expected (m, n) or (N, m, n), a stack of N samples`},
		{"stack_nan.npz", "lasso", `: array "y" holds NaN at [3, 1], expected finite numbers`},
		{"mu_turned.npz", "matrix-completion", `: array "mu" has shape (3, 4), expected (3,) as each sample of "y" has`},
		{"nothing.npz", "svt", `: array "y" is missing, expected shape (m, n); the file holds no arrays`},
	} {
		t.Run(test.file+" "+test.problem, func(t *testing.T) {
			_, err := readSamples(fixture(test.file), test.problem)
			checkUsage(t, err, fixture(test.file)+test.want)
		})
	}
}

// checkUsage checks that an error is bad usage, in these words.
func checkUsage(t *testing.T, err error, want string) {
	t.Helper()
	var usage usageError
	if !errors.As(err, &usage) {
		t.Fatalf("error %v, want bad usage", err)
	}
	if err.Error() != want {
		t.Errorf("error\n%s\nwant\n%s", err, want)
	}
}

func TestReadDataRefusesWhatIsNoRegularFile(t *testing.T) {
	_, err := readData(os.DevNull, "lasso")
	checkUsage(t, err, os.DevNull+": is not a regular file, expected a numpy .npz file")
}

// Cut anywhere, a file is refused.
func TestReadDataRefusesEveryTruncation(t *testing.T) {
	for _, file := range []string{"f8.npz", "compressed.npz"} {
		whole, err := os.ReadFile(fixture(file))
		if err != nil {
			t.Fatal(err)
		}
		for n := range whole {
			if _, err := readArchive(bytes.NewReader(whole[:n]), int64(n), "lasso", false); err == nil {
				t.Fatalf("%s: %d of %d bytes are accepted", file, n, len(whole))
			}
		}
	}
}

func TestFloat16IsIEEE(t *testing.T) {
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
	for _, test := range []struct{ missing, found, want string }{
		{"X", "x y", `"x"`}, {"y", "X Y", `"Y"`}, {"y", "X Y_train y_train", `"Y_train"`}, {"y", "X z", ""},
		{"indices", "y index shape", `"index"`}, {"indices", "indexes idx", `"indexes"`},
		{"shape", "y Shape", `"Shape"`}, {"sigma2", "sigma sigma_2 gamma", `"sigma"`}, {"lambda", "gamma", ""}, {"lambda", "lamda", `"lamda"`},
	} {
		got := suggest(test.missing, strings.Fields(test.found))
		_, meant, _ := strings.Cut(got, "did you mean ")
		if meant = strings.TrimSuffix(meant, "?"); meant != test.want {
			t.Errorf("suggest(%q, %q) = %q, want %s", test.missing, test.found, got, test.want)
		}
	}
	many := make([]string, 1000)
	for i := range many {
		many[i] = fmt.Sprint("arr_", i)
	}
	if got := suggest("y", many); len(got) > 250 || !strings.HasSuffix(got, " and 988 more") {
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
	arrays := []namedArray{
		{name: "X", shape: []int{150, 100}, float64s: x},
		{name: "y", shape: []int{3}, float64s: y},
		{name: "indices", shape: []int{3}, int64s: []int64{5, 0, 1 << 40}},
		{name: "shape", shape: []int{2}, int64s: []int64{2, 3}},
		{name: "lambda", float64s: []float64{0.1}},
	}
	if err := writeNPZ(path, arrays); err != nil {
		t.Fatal(err)
	}
	data, err := readData(path, "lasso")
	if err != nil {
		t.Fatal(err)
	}
	if !mat.Equal(data.X, mat.NewDense(150, 100, x)) || !slices.Equal(data.Y, y) || !math.Signbit(data.Y[0]) || *data.Lambda != 0.1 {
		t.Error("lasso's arrays differ")
	}
	if data, err = readData(path, "matrix-completion"); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(data.Indices, []int{5, 0, 1 << 40}) || !slices.Equal(data.Shape, []int{2, 3}) {
		t.Error("matrix completion's arrays differ")
	}

	first, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := writeNPZ(path, arrays); err != nil {
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
	if err := writeNPZ(path, []namedArray{{name: "y", shape: []int{2, 3, 2}, float64s: b}}); err != nil {
		t.Fatal(err)
	}
	data, err := readSamples(path, "svt")
	if err != nil || len(data.Stack) != 2 || !slices.Equal(data.YShape, []int{3, 2}) || !slices.Equal(data.Stack[1], b[6:]) {
		t.Errorf("%v, %v", data.Stack, err)
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
	err := writeNPZ(path, []namedArray{
		{name: "y", shape: []int{1}, float64s: []float64{1}},
		{name: strings.Repeat("z", 1<<16), shape: []int{1}, float64s: []float64{1}},
	})
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
	if err := writeNPZ(link, []namedArray{{name: "y", shape: []int{1, 1}, float64s: []float64{1}}}); err != nil {
		t.Fatal(err)
	}
	if data, err := readData(path, "svt"); err != nil || data.Y[0] != 1 {
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
		{"", `--out is "": expected the name of a file`},
		{dir + "/", fmt.Sprintf(`--out is %q: expected the name of a file`, dir+"/")},
		{dir, fmt.Sprintf(`--out is %q: it is a directory`, dir)},
		{absent + "/o.npz", fmt.Sprintf(`--out is %q: directory %q does not exist`, absent+"/o.npz", absent)},
		{file + "/o.npz", fmt.Sprintf(`--out is %q: %q is not a directory`, file+"/o.npz", file)},
		{os.DevNull, fmt.Sprintf(`--out is %q: it is not a regular file`, os.DevNull)},
	} {
		checkUsage(t, checkWritable(test.path), test.want)
	}
	if err := checkWritable(file); err != nil {
		t.Error(err)
	}
	if err := checkWritable(filepath.Join(dir, "new.npz")); err != nil {
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
	want := fmt.Sprintf("--out is %q: permission denied", file)
	checkUsage(t, checkWritable(file), want)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	checkUsage(t, checkWritable(file), want)
}

// FuzzReadData checks that no file makes the reader panic, and that what it
// accepts is whole. The bytes are taken for a file, and for its array y: no
// mutation of a file gets past the archive's checksum.
func FuzzReadData(f *testing.F) {
	files, err := filepath.Glob(fixture("*.np[zy]"))
	if err != nil || len(files) == 0 {
		f.Fatal("no fixtures", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		if len(data) > 4096 {
			continue
		}
		f.Add(data)
		z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			continue
		}
		for _, entry := range z.File {
			var array bytes.Buffer
			if r, err := entry.Open(); err == nil {
				array.ReadFrom(r)
				r.Close()
			}
			f.Add(array.Bytes())
		}
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		check := func(file []byte) {
			for _, problem := range []string{"lasso", "svt", "matrix-completion"} {
				for _, stacks := range []bool{false, true} {
					data, err := readArchive(bytes.NewReader(file), int64(len(file)), problem, stacks)
					if err != nil {
						if strings.Contains(err.Error(), "\n") {
							t.Errorf("error of several lines: %q", err)
						}
						continue
					}
					n := 1
					for _, k := range data.YShape {
						n *= k
					}
					if len(data.Y) != n || n < 1 {
						t.Errorf("y has %d values and shape %v", len(data.Y), data.YShape)
					}
					for _, y := range data.Stack {
						if len(y) != n {
							t.Errorf("a sample has %d values and shape %v", len(y), data.YShape)
						}
					}
				}
			}
		}
		check(file)
		var wrapped bytes.Buffer
		z := zip.NewWriter(&wrapped)
		for _, name := range []string{"y", "indices", "shape", "X"} {
			w, err := z.Create(name + ".npy")
			if err != nil {
				t.Fatal(err)
			}
			w.Write(file)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		check(wrapped.Bytes())
	})
}
