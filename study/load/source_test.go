package load

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/internal/dataio"
	"surepipe/internal/dataio/dataiotest"
	"surepipe/problems"
	"surepipe/study"
)

func fixture(name string) string {
	return filepath.Join("..", "..", "internal", "dataio", "testdata", "npz", name)
}

// arraysOf reads the arrays of a file for a problem.
func arraysOf(ctx context.Context, path, problem string, stacks bool) (Contents, error) {
	f := Source{Files: problems.Disk, Problem: problem, Data: path}
	if stacks {
		return f.ReadSamples(ctx)
	}
	return f.Read(ctx)
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
			data, err := arraysOf(t.Context(), fixture(test.file), "lasso", false)
			if err != nil {
				t.Fatal(err)
			}
			if !mat.Equal(data.X, mat.NewDense(2, 3, test.x)) {
				t.Errorf("X = %v, want %v", data.X.(*mat.Dense).RawMatrix().Data, test.x)
			}
			if !slices.Equal(data.Y, test.y) || !slices.Equal(data.YShape, []int{2}) {
				t.Errorf("y = %v of shape %v, want %v", data.Y, data.YShape, test.y)
			}
			if data.Mu != nil || data.Stack != nil || data.Lambda != nil {
				t.Error("arrays that are not in the file were read")
			}
			if data.Sigma2 != nil && *data.Sigma2 != 2 {
				t.Errorf("sigma2 = %v, want 2", *data.Sigma2)
			}
		})
	}
}

func TestReadDataReadsScalarsOfAnyRank(t *testing.T) {
	data, err := arraysOf(t.Context(), fixture("scalars.npz"), "lasso", false)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		got  *float64
		want float64
	}{{"sigma2", data.Sigma2, 2}, {"lambda", data.Lambda, 0.5}, {"lambda2", data.Lambda2, 3},
		{"gamma", data.Gamma, 4}} {
		if test.got == nil || *test.got != test.want {
			t.Errorf("%s is not %g", test.name, test.want)
		}
	}
}

// A decompressor may return an element in two pieces.
func TestReadDataReadsLongCompressedArrays(t *testing.T) {
	data, err := arraysOf(t.Context(), fixture("long.npz"), "svt", false)
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
		data, err := arraysOf(t.Context(), fixture(file), "matrix-completion", false)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(data.Indices, []int{0, 2, 5}) || !slices.Equal(data.Shape, []int{2, 3}) ||
			!slices.Equal(data.Y, []float64{1, 2, 3}) {
			t.Errorf("%s: indices %v, shape %v, y %v", file, data.Indices, data.Shape, data.Y)
		}
	}
}

// Unsigned integers of a numpy file are the pixels of an image where the problem is of images, and numbers elsewhere.
func TestPixelsOfAnImageAreNumbersFromZeroToOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "grey.npy")
	err := dataio.WriteFile(path, func(w io.Writer) error {
		_, err := dataio.EncodeNPYOfDepth(w, dataio.Array{Shape: []int{2, 2}, Data: []float64{0, 0.2, 0.4, 1}}, 8)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for problem, want := range map[string][]float64{"tv2d": {0, 0.2, 0.4, 1}, "svt": {0, 51, 102, 255}} {
		data, err := arraysOf(t.Context(), path, problem, false)
		if err != nil || !slices.Equal(data.Y, want) || data.Depth.Scaled != (problem == "tv2d") {
			t.Errorf("%s: %v, %+v, %v, expected %v", problem, data.Y, data.Depth, err, want)
		}
	}
}

func TestReadSamplesCutsAStack(t *testing.T) {
	data, err := arraysOf(t.Context(), fixture("stack.npz"), "lasso", true)
	if err != nil {
		t.Fatal(err)
	}
	want := [][]float64{{0, 1}, {2, 3}, {4, 5}, {6, 7}, {8, 9}, {10, 11}}
	if !slices.EqualFunc(data.Stack, want, slices.Equal) || !slices.Equal(data.Y, want[0]) ||
		!slices.Equal(data.YShape, []int{2}) {
		t.Errorf("stack %v, y %v of shape %v", data.Stack, data.Y, data.YShape)
	}
	if !slices.Equal(data.Mu, []float64{7, 8}) {
		t.Errorf("mu = %v", data.Mu)
	}

	data, err = arraysOf(t.Context(), fixture("stack_matrix.npz"), "robust-pca", true)
	if err != nil {
		t.Fatal(err)
	}
	want = [][]float64{{0, 1, 2, 3, 4, 5}, {6, 7, 8, 9, 10, 11}}
	if !slices.EqualFunc(data.Stack, want, slices.Equal) || !slices.Equal(data.YShape, []int{3, 2}) {
		t.Errorf("stack %v of shape %v", data.Stack, data.YShape)
	}
}

func TestReadSamplesTakesASingleSampleOrMuAlone(t *testing.T) {
	data, err := arraysOf(t.Context(), fixture("long.npz"), "svt", true)
	if err != nil || data.Stack != nil || len(data.Y) != 10000 {
		t.Errorf("single sample: %v, stack %v", err, data.Stack)
	}
	data, err = arraysOf(t.Context(), fixture("mu_alone.npz"), "svt", true)
	if err != nil || data.Stack != nil || !slices.Equal(data.Y, data.Mu) || !slices.Equal(data.YShape, []int{4, 3}) {
		t.Errorf("mu alone: %v, y %v", err, data.Y)
	}
}

func TestReadDataRefusesUnknownProblems(t *testing.T) {
	if _, err := arraysOf(t.Context(), fixture("f8.npz"), "lassso", false); err == nil ||
		!strings.Contains(err.Error(), `problem "lassso" is unknown, expected one of ols, ridge`) {
		t.Errorf("%v", err)
	}
}

func TestReadDataRefusesBadFiles(t *testing.T) {
	holds := `; the file holds "X", "y"`
	for _, test := range []struct{ file, problem, want string }{
		{"absent.npz", "lasso", `: no such file or directory`},
		{"", "lasso", `: is a directory, expected .npz, .npy, .mat, .h5, .cfl, .png, .jpg, .tif, .nii, .mtx, .csv or .tsv`},
		{"zero_length.npz", "lasso", `: is empty (0 bytes), expected .npz, .npy, .mat, .h5, .cfl, .png, .jpg, .tif, .nii, .mtx, .csv or .tsv`},
		{"text.npz", "lasso", `: has an unknown format, expected .npz, .npy, .mat, .h5, .cfl, .png, .jpg, .tif, .nii, .mtx, .csv or .tsv`},
		{"single.npy", "lasso", `: the file holds a single array, expected X and y: give the other with --X or --y`},
		{"truncated.npz", "lasso", `: is truncated or corrupt (zip: not a valid zip file)`},
		{"checksum.npz", "lasso", `: array "y" is truncated or corrupt (zip: checksum error)`},
		{"garbage.npz", "svt", `: array "y" is truncated or corrupt (its header is not a .npy header)`},
		{"no_newline.npz", "svt", `: array "y" is truncated or corrupt (its header is not a .npy header)`},
		{"order_of_keys.npz", "svt", `: array "y" is truncated or corrupt (its header is not a .npy header)`},
		{"huge_shape.npz", "svt", `: array "y" is truncated or corrupt (holds 2 values, but its header states shape (1000000000000, 1000000000))`},
		{"negative_shape.npz", "svt", `: array "y" is truncated or corrupt (its header states shape (-2, -1))`},
		{"short_values.npz", "svt", `: array "y" is truncated or corrupt (holds 3 values, but its header states shape (2, 2))`},

		{"string.npz", "lasso", `: array "y": found dtype <U5, expected real numbers`},
		{"complex.npz", "lasso", `: array "y": found complex numbers, expected real ones`},
		{"object.npz", "lasso", `: array "y": found dtype object, expected real numbers`},
		{"structured.npz", "lasso", `: array "y": found a structured dtype, expected real numbers`},
		{"date.npz", "lasso", `: array "y": found dtype <M8[D], expected real numbers`},
		{"longdouble.npz", "lasso", `: array "y": found dtype <f16, expected real numbers of at most 64 bits`},
		{"mask.npz", "matrix-completion", `: array "indices": found dtype |b1, expected integers`},

		{"flat_X.npz", "lasso", `: array "X" has shape (6,), expected (d, p)`},
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
			_, err := arraysOf(t.Context(), fixture(test.file), test.problem, false)
			checkUsage(t, err, fixture(test.file)+test.want)
		})
	}
}

func TestReadSamplesRefusesBadStacks(t *testing.T) {
	for _, test := range []struct{ file, problem, want string }{
		{"stack_matrix.npz", "lasso", `: array "X" is missing, expected shape (d, p); the file holds "y"`},
		{"stack_matrix.npz", "matrix-completion",
			`: array "y" has shape (2, 3, 2), expected (d,) or (N, d), a stack of N samples`},
		{"f8.npz", "svt", `: array "y" has shape (2,), expected (m, n) or (N, m, n), a stack of N samples`},
		{"stack_nan.npz", "lasso", `: array "y" holds NaN at [3, 1], expected finite numbers`},
		{"mu_turned.npz", "lasso", `: array "X" is missing, expected shape (d, p); the file holds "y", "mu"`},
		{"mu_turned.npz", "tv1d", `: array "mu" has shape (3, 4), expected (3,) as each sample of "y" has`},
		{"nothing.npz", "svt", `: array "y" is missing, expected shape (m, n); the file holds no arrays`},
	} {
		t.Run(test.file+" "+test.problem, func(t *testing.T) {
			_, err := arraysOf(t.Context(), fixture(test.file), test.problem, true)
			checkUsage(t, err, fixture(test.file)+test.want)
		})
	}
}

// checkUsage checks that an error is bad usage, in these words.
func checkUsage(t *testing.T, err error, want string) {
	t.Helper()
	var bad *study.Error
	if !errors.As(err, &bad) {
		t.Fatalf("error %v, want bad usage", err)
	}
	if study.Text(err, func(o study.Option) string { return "--" + string(o) }) != want {
		t.Errorf("error\n%s\nwant\n%s", err, want)
	}
}

func TestReadDataRefusesWhatIsNoRegularFile(t *testing.T) {
	_, err := arraysOf(t.Context(), os.DevNull, "lasso", false)
	checkUsage(t, err, os.DevNull+": is not a regular file, expected .npz, .npy, .mat, .h5, .cfl, .png, .jpg, "+
		".tif, .nii, .mtx, .csv or .tsv")
}

// FuzzReadData checks that no file makes the reader panic, and that what it
// accepts is whole. The bytes are taken for a file, and for its array y: no
// mutation of a file gets past the archive's checksum.
func FuzzReadData(f *testing.F) {
	dataiotest.Seed(f, fixture("*.np[zy]"))
	f.Fuzz(func(t *testing.T, file []byte) {
		check := func(file []byte) {
			for _, problem := range []string{"lasso", "svt", "matrix-completion"} {
				for _, stacks := range []bool{false, true} {
					of := Source{Files: dataio.Memory{"f.npz": {At: bytes.NewReader(file), Size: int64(len(file))}},
						Problem: problem, Data: "f.npz"}
					read := of.Read
					if stacks {
						read = of.ReadSamples
					}
					data, err := read(t.Context())
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
