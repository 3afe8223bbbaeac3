package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"surepipe/internal/dataio"
	"surepipe/problems"
)

// text writes a file and returns its path.
func text(t testing.TB, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// The same arrays give the same risk from whatever format they come.
func TestFormatsGiveTheSameRisk(t *testing.T) {
	x := []float64{1, 2, 0, 1, 0, 3, 2, 2, 1, 0, 0, 1}
	y := []float64{4, -1, 7, 2, 0.5, 1}
	mu := []float64{3, 0, 6, 2, 0, 1}
	dir := t.TempDir()
	file := func(name string, err error) string {
		if err != nil {
			t.Fatal(err)
		}
		return filepath.Join(dir, name)
	}
	all := save(t, floats("X", x, 6, 2), floats("y", y, 6), floats("mu", mu, 6))
	xNPY := file("X.npy", dataio.WriteNPY(filepath.Join(dir, "X.npy"), floats("", x, 6, 2)))
	yNPY := file("y.npy", dataio.WriteNPY(filepath.Join(dir, "y.npy"), floats("", y, 6)))
	muCSV := file("mu.csv", dataio.WriteCSV(filepath.Join(dir, "mu.csv"), floats("", mu, 6)))
	yCSV := file("y.csv", dataio.WriteCSV(filepath.Join(dir, "y.csv"), floats("", y, 6)))
	table := "a,price,b\n"
	coords := "%%MatrixMarket matrix coordinate real general\n6 2 8\n"
	for i := range 6 {
		table += fmt.Sprintln(x[2*i], ",", y[i], ",", x[2*i+1])
		for j := range 2 {
			if v := x[2*i+j]; v != 0 {
				coords += fmt.Sprintln(i+1, j+1, v)
			}
		}
	}
	csv, mtx := text(t, "table.csv", table), text(t, "X.mtx", coords)
	flags := []string{"run", "--problem", "lasso", "--lambda", "0.7", "--sigma2", "1.5", "--tol", "1e-12"}
	want := object(t, append(flags, "--data", all)...)
	for _, in := range [][]string{
		{"--data", csv, "--response", "price", "--mu", muCSV, "--intercept=false", "--standardize=false"},
		{"--data", mtx, "--y", yNPY, "--mu", all},
		{"--X", mtx, "--y", yCSV, "--mu", muCSV},
		{"--data", xNPY, "--y", yNPY, "--mu", muCSV},
		{"--data", yNPY, "--X", xNPY, "--mu", muCSV},
		{"--data", all, "--y", yCSV},
		{"--X", all, "--y", all, "--mu", all},
	} {
		got := object(t, append(flags, in...)...)
		for _, key := range []string{"sure", "loss", "divergence"} {
			near(t, strings.Join(in, " ")+" "+key, got[key].(float64), want[key].(float64))
		}
	}
}

// The entries of a sparse matrix are the observations of a completion.
func TestSparseMatrixIsACompletion(t *testing.T) {
	mtx := text(t, "m.mtx", "%%MatrixMarket matrix coordinate real general\n3 4 5\n1 1 2\n3 4 -1\n2 2 3\n1 3 "+
		"1\n3 1 0.5\n")
	var full strings.Builder
	for i := range 3 {
		fmt.Fprintf(&full, "%d,%d,%d,%d\n", i, i+1, 2*i, 1)
	}
	mu := text(t, "mu.csv", full.String())
	npz := save(t, floats("y", []float64{2, 1, 3, 0.5, -1}, 5), floats("indices", []float64{0, 2, 5, 8, 11}, 5),
		floats("shape", []float64{3, 4}, 2), floats("mu", []float64{0, 0, 2, 2, 1}, 5))
	flags := []string{"run", "--problem", "matrix-completion", "--lambda", "0.4", "--sigma2", "0.1", "--trace",
		"exact", "--tol", "1e-11", "--max-iter", "100000"}
	want := object(t, append(flags, "--data", npz)...)
	got := object(t, append(flags, "--data", mtx, "--mu", mu)...)
	near(t, "sure", got["sure"].(float64), want["sure"].(float64))
	near(t, "loss", got["loss"].(float64), want["loss"].(float64))
}

func TestResultsAreWrittenInEveryFormat(t *testing.T) {
	data := save(t, floats("y", []float64{0.1, 0.2, 0.9, 0.8, 0.3, 1.4}, 2, 3))
	dir := t.TempDir()
	var mu []float64
	for _, ext := range []string{".npz", ".npy", ".csv", ".png"} {
		path := filepath.Join(dir, "fit"+ext)
		status, _, stderr := command(t, "run", "--problem", "tv1d", "--data", data, "--sigma2", "0.01", "--lambda",
			"0.05", "--out", path)
		if status != exitDone {
			t.Fatal(stderr)
		}
		set, err := dataio.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		name := "fit"
		if ext == ".npz" {
			name = "mu_hat"
		}
		a, err := set.Floats(name)
		if err != nil {
			t.Fatal(err)
		}
		set.Close()
		if mu == nil {
			mu = a.Data
		}
		if fmt.Sprint(a.Shape) != "[2 3]" {
			t.Errorf("%s: shape %v", ext, a.Shape)
		}
		for i, v := range a.Data {
			tol := 0.0
			if ext == ".png" {
				tol = 1.0 / (1 << 16)
			}
			if want := min(mu[i], 1); v < want-tol || v > max(mu[i], want)+tol || ext != ".png" && v != mu[i] {
				t.Errorf("%s: [%d] is %g, expected %g", ext, i, v, mu[i])
			}
		}
		if clamped := strings.Contains(stderr, "1 of 6 pixels were outside [0, 1]"); clamped != (ext == ".png") {
			t.Errorf("%s: standard error holds %q", ext, stderr)
		}
	}
}

func TestSigma2AutoIsNamedInTheOutput(t *testing.T) {
	o := object(t, "run", "--problem", "lasso", "--data", "../../testdata/diabetes.npz", "--sigma2", "auto")
	// Ten columns without an intercept: 442 - 10 degrees of freedom in place of 431.
	near(t, "sigma2", o["sigma2"].(float64), 2932.68157*431/432)
	if o["sigma2_method"] != "ols-residual" || o["sigma2_rel_stderr"].(float64) < 0.067 ||
		o["sigma2_rel_stderr"].(float64) > 0.069 {
		t.Errorf("%v ± %v", o["sigma2_method"], o["sigma2_rel_stderr"])
	}
	_, stdout, _ := command(t, "run", "--problem", "lasso", "--data", "../../testdata/diabetes.npz", "--sigma2", "auto")
	if !strings.Contains(stdout, "estimated by ols-residual") {
		t.Error(stdout)
	}
	o = object(t, "run", "--problem", "lasso", "--data", "../../testdata/diabetes.npz")
	if _, ok := o["sigma2_method"]; ok {
		t.Error("a given sigma2 has a method")
	}
}

// A y that asks for an intercept is named where X has none, dense or sparse.
func TestMissingInterceptIsNamed(t *testing.T) {
	var y []float64
	table, centered, coords := "a,one,y\n", "a,b,y\n", ""
	for i := range 40 {
		a, noise := float64(i%7)-3, math.Sin(float64(i))
		y = append(y, 10+a+noise)
		table += fmt.Sprintf("%g,1,%g\n", a, y[i])
		centered += fmt.Sprintf("%g,%g,%g\n", a, noise, a+noise)
		coords += fmt.Sprintf("%d 1 %g\n%d 2 1\n", i+1, a+0.5, i+1)
	}
	bare := strings.ReplaceAll(strings.ReplaceAll(table, ",1,", ",0,"), "one", "zero")
	yFile := filepath.Join(t.TempDir(), "y.npy")
	if err := dataio.WriteNPY(yFile, floats("", y, 40)); err != nil {
		t.Fatal(err)
	}
	matrix := func(coords string) string {
		return text(t, "X.mtx", "%%MatrixMarket matrix coordinate real general\n40 2 "+fmt.Sprint(strings.Count(coords, "\n"))+"\n"+coords)
	}
	for _, c := range []struct {
		args []string
		want bool
	}{
		{[]string{"--intercept=false", "--response", "y", "--data", text(t, "t.csv", table)}, false},
		{[]string{"--intercept=false", "--response", "y", "--data", text(t, "t.csv", bare)}, true},
		{[]string{"--response", "y", "--data", text(t, "t.csv", bare)}, false},
		{[]string{"--intercept=false", "--response", "y", "--data", text(t, "t.csv", centered)}, false},
		{[]string{"--y", yFile, "--X", matrix(coords)}, false},
		{[]string{"--y", yFile, "--X", matrix(strings.Replace(coords, "7 2 1\n", "", 1))}, true},
		{[]string{"--y", yFile, "--X", matrix(strings.Replace(coords, "7 2 1\n", "7 2 3\n", 1))}, true},
	} {
		for _, name := range [][]string{{"run", "--lambda", "1"}, {"sweep", "--lambda", "1:2:2", "--refine", "0"}} {
			args := append(append(name, "--problem", "ridge", "--sigma2", "1"), c.args...)
			status, _, stderr := command(t, args...)
			if status != exitDone || strings.Contains(stderr, "and no column of X is constant") != c.want {
				t.Errorf("%v: status %d, %s", args, status, stderr)
			}
		}
	}
}

// The error bar grows by what an estimate of sigma2 leaves open, in a sweep as in a run.
func TestErrorBarKnowsThatSigma2IsEstimated(t *testing.T) {
	args := []string{"--problem", "lasso", "--data", "../../testdata/diabetes.npz"}
	auto := object(t, append([]string{"run", "--lambda", "100", "--sigma2", "auto"}, args...)...)
	at := func(o map[string]any, key string) float64 { return o[key].(float64) }
	sigma2 := at(auto, "sigma2")
	known := object(t, append([]string{"run", "--lambda", "100", "--sigma2",
		strconv.FormatFloat(sigma2, 'g', -1, 64)}, args...)...)
	h := 1e-3 * sigma2
	more := object(t, append([]string{"run", "--lambda", "100", "--sigma2",
		strconv.FormatFloat(sigma2+h, 'g', -1, 64)}, args...)...)
	slope := (at(more, "sure") - at(known, "sure")) / h
	want := math.Hypot(at(known, "sure_stderr"), slope*sigma2*at(auto, "sigma2_rel_stderr"))
	near(t, "sure_stderr", at(auto, "sure_stderr"), want)
	if at(auto, "sure_stderr") < 1.2*at(known, "sure_stderr") {
		t.Errorf("the bar is %g, %g where sigma2 is known", at(auto, "sure_stderr"), at(known, "sure_stderr"))
	}
	_, points, s := sweepLines(t, append([]string{"--lambda", "100:900:3", "--refine", "0", "--sigma2", "auto"},
		args...)...)
	near(t, "sure_stderr of a sweep", *points[2].SUREStdErr, want)
	if *s.Minimizer.SUREStdErr != *points[s.Minimizer.Index].SUREStdErr {
		t.Errorf("the summary has %g", *s.Minimizer.SUREStdErr)
	}
}

// An error bar of 0 is explained, once, and no other is.
func TestErrorBarOfZeroIsExplained(t *testing.T) {
	const note = "the error bar was estimated as 0, which happens where sigma2 is too large"
	data := []string{"--problem", "tv1d", "--data", save(t, floats("y", []float64{1, 2, 2, 3, 1, 2, 2, 1}, 8),
		floats("mu", make([]float64, 8), 8))}
	for _, args := range [][]string{{"run", "--lambda", "1"}, {"sweep", "--lambda", "1:2:3"},
		{"montecarlo", "--lambda", "1", "--samples", "1"}} {
		for sigma2, want := range map[string]int{"0.3": 0, "1e6": 1} {
			if args[0] == "montecarlo" {
				want = 0 // its samples have the sigma2 that is given
			}
			status, _, stderr := command(t, append(append(args, "--sigma2", sigma2), data...)...)
			if status != exitDone || strings.Count(stderr, note) != want {
				t.Errorf("%v with sigma2 %s: status %d, %q", args, sigma2, status, stderr)
			}
		}
	}
	stack := save(t, floats("y", []float64{1, 2, 2, 1, 1, 1, 2, 1}, 2, 4))
	status, _, stderr := command(t, "montecarlo", "--problem", "tv1d", "--data", stack, "--sigma2", "1e6", "--lambda",
		"1")
	if status != exitDone || strings.Count(stderr, note) != 1 {
		t.Errorf("a stack: status %d, %q", status, stderr)
	}
}

// A file that serves as y and as mu is no simulation.
func TestYThatIsMuIsNotSimulated(t *testing.T) {
	y := make([]float64, 64)
	for i := range y {
		y[i] = math.Sin(float64(i)) + float64(i/16)
	}
	npy := filepath.Join(t.TempDir(), "v.npy")
	if err := dataio.WriteNPY(npy, floats("", y, 64)); err != nil {
		t.Fatal(err)
	}
	spec := text(t, "s.yaml", "data: {file: v.npy}\noperator: identity\nregularizer: {tv1d: lambda}\n")
	args := []string{"--spec", spec, "--lambda", "1", "--sigma2", "auto", "--mu", npy}
	o := object(t, append([]string{"run", "--data", npy}, args...)...)
	if o["sigma2_method"] != "mad" {
		t.Errorf("found %v", o)
	}
	none := text(t, "s.yaml", "data: {mu: mu.npy}\noperator: identity\nregularizer: {tv1d: lambda}\n")
	args[1] = none
	status, _, stderr := command(t, append([]string{"montecarlo"}, args...)...)
	if status != exitUsage || !strings.Contains(stderr, "holds no y to estimate it from") {
		t.Errorf("status %d, %s", status, stderr)
	}
}

// A sigma2 whose risk is not finite is refused before the work.
func TestSigma2OutOfScaleIsRefused(t *testing.T) {
	data := save(t, floats("y", []float64{1, 2, 2, 3}, 4))
	for _, c := range []struct{ y, sigma2, want string }{
		{data, "1e-320", "--sigma2 is 1e-320, too far from the scale of y for a finite risk: ||y||^2/d is 4.5"},
		{data, "1e308", "--sigma2 is 1e+308, too far"},
		{save(t, floats("y", []float64{1, 2, 2e200, 3}, 4)), "1",
			`array "y" has an entry of size 2e+200, expected none above 1e+140`},
		{save(t, floats("y", []float64{0, 2e-170, 1e-170, 3e-171}, 4)), "1",
			`array "y" has no entry above 2e-170 in size, expected some above 1e-140`},
	} {
		for _, sub := range [][]string{{"run", "--lambda", "1"}, {"sweep", "--lambda", "1:2:3"}} {
			status, stdout, stderr := command(t, append(sub, "--problem", "tv1d", "--data", c.y, "--sigma2", c.sigma2,
				"--json")...)
			if status != exitUsage || stdout != "" || !strings.Contains(stderr, c.want) {
				t.Errorf("%s with sigma2 %s: status %d, %s%s", sub[0], c.sigma2, status, stdout, stderr)
			}
		}
	}
}

func TestBadInputsAreRefusedByName(t *testing.T) {
	csv := text(t, "table.csv", "a,b,c\n1,2,3\n4,5,6\n7,8,10\n")
	bare := text(t, "bare.csv", "1,2\n3,4\n")
	twice := text(t, "twice.mtx", "%%MatrixMarket matrix coordinate real general\n2 2 3\n1 1 2\n1 1 3\n2 2 1\n")
	sparse := text(t, "sparse.mtx", "%%MatrixMarket matrix coordinate real general\n9 9 2\n1 1 2\n2 2 1\n")
	npy := filepath.Join(t.TempDir(), "y.npy")
	if err := dataio.WriteNPY(npy, floats("", make([]float64, 3), 3)); err != nil {
		t.Fatal(err)
	}
	spec := text(t, "mine.yaml", "data: {y: [1, 2, 3]}\noperator: identity\nregularizer: {l1: lambda}\n")
	bad := text(t, "bad.yaml", "data: {y: [1, 2, 3]}\n\noperator: identiti\nregularizer: {l1: lambda}\n")
	wide, err := problems.GenerateLasso(10, 20, 1)
	if err != nil {
		t.Fatal(err)
	}
	wideNPZ := save(t, problems.Arrays(wide)...)
	for _, c := range []struct{ args, want string }{
		{"--problem lasso --data " + csv, "which column is the response? Expected --response NAME, one of a, b, c"},
		{"--problem lasso --data " + bare, "the file has no header line"},
		{"--problem lasso --data " + csv + " --response d", `column "d" is missing`},
		{"--problem lasso --data " + npy + " --response d", "is not a table with a header line"},
		{"--problem svt --data " + csv + " --response a", "y of svt is a matrix"},
		{"--problem lasso --data " + npy, "give the other with --X or --y"},
		{"--problem lasso --lambda 1 --sigma2 1 --data " + sparse + " --y " + npy,
			`array "y" has 3 values, expected 9`},
		{"--problem lasso --data " + sparse, `array "y" is missing`},
		{"--problem svt --data " + sparse, "a sparse matrix, which svt cannot use"},
		{"--problem svt --X " + csv + " --y " + csv, "svt has no design matrix"},
		{"--problem matrix-completion --data " + twice, "1 entries repeat a place"},
		{"--problem matrix-completion --data " + csv, "no entry of the 3 x 3 matrix is missing"},
		{"--problem matrix-completion --lambda 1 --sigma2 median-singular-value --data " + sparse,
			"sigma2 cannot be estimated (median-singular-value): 2 of the 81 entries"},
		{"--problem lasso --lambda 1 --sigma2 ols-residual --data " + wideNPZ,
			"sigma2 cannot be estimated (ols-residual)"},
		{"--problem lasso --lambda 1 --sigma2 mad --data " + wideNPZ,
			"sigma2 cannot be estimated (mad): the rows of a regression may be in any order"},
		{"--problem lasso --lambda 1 --sigma2 median-singular-value --data " + wideNPZ,
			"y has shape (10,) and is not a matrix"},
		{"--problem ols --sigma2 auto --data " + wideNPZ,
			"sigma2 cannot be estimated (gcv-residual): lambda is given, but ols has no such weight"},
		{"--problem lasso --lambda 1 --sigma2 car --data " + wideNPZ, "expected a number or one of auto, ols-residual"},
		{"--problem lasso --lambda 1 --out fit.bmp --data " + wideNPZ,
			"expected a name that ends in .npz, .npy, .png, .jpg, .tif or .csv"},
		{"--problem lasso --lambda 1 --out fit.jpg --data " + wideNPZ,
			"mu_hat has shape (10,): an image is a matrix, or (rows, columns, 3)"},
		{"--problem lasso --lambda 1 --out fit.png --data " + wideNPZ, "an image is a matrix"},
		{"--problem lasso --y " + sparse + " --X " + csv, "holds a sparse matrix, expected a dense array"},
		{"--problem lasso --spec " + spec, "expected one of them"},
		{"--spec " + bad, "bad.yaml:3: operator \"identiti\" is unknown (did you mean \"identity\"?)"},
		{"--spec /nowhere/problem.yaml", "/nowhere/problem.yaml: no such file"},
		{"--spec " + spec + " --sigma2 1", "mine.yaml:3: lambda has no value"},
		{"--spec " + spec + " --sigma2 1 --lambda 1 --gamma 1", "--gamma is given, but mine has no such weight"},
		{"--spec " + spec + " --sigma2 1 --lambda 0", "--lambda is 0, expected a positive number"},
		{"--spec " + spec + " --sigma2 1 --lambda 1 --data " + csv,
			"every array of the specification has a file of its own"},
		{"--spec " + spec + " --sigma2 1 --lambda 1 --X " + csv, "the specification has no array of that name"},
		{"--spec " + spec + " --sigma2 auto --lambda 1", "sigma2 cannot be estimated (mad)"},
		{"--spec=", "--spec is empty"},
	} {
		status, stdout, stderr := command(t, append([]string{"run"}, strings.Fields(c.args)...)...)
		if status != exitUsage || stdout != "" || strings.Count(stderr, "\n") != 1 ||
			!strings.Contains(stderr, c.want) {
			t.Errorf("surepipe run %s: status %d, expected %q in one line, found %q%q", c.args, status, c.want,
				stdout, stderr)
		}
	}
}

// A table of sequences, side by side, is denoised row by row.
func TestSequencesSideBySide(t *testing.T) {
	rows := text(t, "rows.csv", "1,1,5,5\n0,9,9,0\n")
	o := object(t, "run", "--problem", "tv1d", "--data", rows, "--lambda", "0.5", "--sigma2", "1", "--trace", "exact")
	// Two pieces in the first row, three in the second.
	near(t, "divergence", o["divergence"].(float64), 5)
	var line map[string]any
	status, stdout, stderr := command(t, "run", "--problem", "tv1d", "--data", text(t, "y.csv", "1\n1\n5\n5\n"),
		"--lambda", "0.5", "--sigma2", "1", "--trace", "exact", "--json")
	if status != exitDone {
		t.Fatal(stderr)
	}
	if err := json.Unmarshal([]byte(stdout), &line); err != nil {
		t.Fatal(err)
	}
	near(t, "divergence of a column", line["divergence"].(float64), 2)
}
