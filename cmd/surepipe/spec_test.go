package main

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/internal/dataio"
	"surepipe/internal/dataio/images"
	"surepipe/problems"
)

// example writes the specification of that name to dir and returns its path.
func example(t testing.TB, dir, name string) string {
	t.Helper()
	status, text, stderr := command(t, "spec", name)
	if status != exitDone {
		t.Fatalf("surepipe spec %s: %s", name, stderr)
	}
	path := filepath.Join(dir, name+".yaml")
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// addGroups adds groups of four columns to the data of a regression with p columns.
func addGroups(t *testing.T, path string, p int) {
	t.Helper()
	file, err := readFile(t.Context(), path, "lasso")
	if err != nil {
		t.Fatal(err)
	}
	labels := make([]float64, p)
	for j := range labels {
		labels[j] = float64(j / 4)
	}
	if err := dataio.WriteNPZ(path, append(problems.Arrays(file.Data), floats("groups", labels, p))...); err != nil {
		t.Fatal(err)
	}
}

// addDifferences adds the matrix of differences of p coefficients to the data of a regression.
func addDifferences(t *testing.T, path string, p int) {
	t.Helper()
	file, err := readFile(t.Context(), path, "lasso")
	if err != nil {
		t.Fatal(err)
	}
	d := make([]float64, (p-1)*p)
	for i := range p - 1 {
		d[i*p+i], d[i*p+i+1] = -1, 1
	}
	if err := dataio.WriteNPZ(path, append(problems.Arrays(file.Data), floats("D", d, p-1, p))...); err != nil {
		t.Fatal(err)
	}
}

// Every named problem is the specification that is printed for it.
func TestNamedProblemsAreTheirSpecifications(t *testing.T) {
	dir := t.TempDir()
	for _, name := range problems.Names() {
		generator, size := name, []string{"--rows", "24", "--cols", "16"}
		switch name {
		case "tv2d":
			generator = "svt"
		case "trend1d", "whittaker":
			generator, size = "tv1d", []string{"--d", "60"}
		case "ols", "ridge", "lasso", "elastic-net", "group-lasso", "fused-lasso", "generalized-lasso":
			generator, size = "lasso", []string{"--d", "60", "--p", "40"}
		case "tv1d":
			size = []string{"--d", "200"}
		}
		data := filepath.Join(dir, name+".npz")
		if status, _, stderr := command(t, append([]string{"generate", "--problem", generator, "--out", data},
			size...)...); status != exitDone {
			t.Fatal(stderr)
		}
		if name == "group-lasso" {
			addGroups(t, data, 40)
		}
		if name == "generalized-lasso" {
			addDifferences(t, data, 40)
		}
		weights := [][]string{{}}
		switch name {
		case "ridge", "whittaker":
			weights = [][]string{{"--lambda", "3"}}
		case "elastic-net":
			weights = [][]string{{"--lambda2", "2"}, {"--lambda2", "0"}, {"--lambda", "0.3max", "--lambda2", "1"}}
		case "robust-pca":
			weights = append(weights, []string{"--lambda", "0.3max", "--gamma", "0.2max"})
		case "fused-lasso":
			weights = [][]string{{"--lambda", "2", "--gamma", "3"}}
		case "lasso", "group-lasso", "svt", "matrix-completion", "tv1d", "tv2d", "trend1d", "generalized-lasso":
			weights = append(weights, []string{"--lambda", "0.3max"})
		}
		spec := example(t, dir, name)
		for _, w := range weights {
			named := append([]string{"run", "--problem", name, "--data", data}, w...)
			if name == "matrix-completion" {
				named = append(named, "--effects", "rows,cols")
			}
			want, got := object(t, named...), object(t, append([]string{"run", "--spec", spec, "--data", data}, w...)...)
			for _, key := range []string{"problem", "d", "p", "sigma2", "derivative"} {
				if got[key] != want[key] {
					t.Errorf("%s %v: %s is %v, expected %v", name, w, key, got[key], want[key])
				}
			}
			if g, w := fmt.Sprint(got["solver"]), fmt.Sprint(want["solver"]); len(weights) == 1 && g != w {
				t.Errorf("%s: solver %s, expected %s", name, g, w)
			}
			for _, key := range []string{"lambda", "lambda2", "gamma", "sure", "loss", "divergence", "residual"} {
				w, ok := want[key].(float64)
				if g, found := got[key].(float64); found != ok || math.Abs(g-w) > 1e-12*math.Abs(w) {
					t.Errorf("%s: %s is %v, expected %v", name, key, got[key], want[key])
				}
			}
		}
	}
}

// scene is a picture of m x n pixels between 0.2 and 0.8, smooth but for a disc.
func scene(m, n int) dataio.Array {
	a := dataio.Array{Name: "mu", Shape: []int{m, n}}
	for i := range m {
		for j := range n {
			v := 0.4 + 0.2*math.Sin(float64(i)/20)*math.Cos(float64(j)/15)
			if math.Hypot(float64(i-m/2), float64(j-n/3)) < float64(n)/5 {
				v += 0.2
			}
			a.Data = append(a.Data, v)
		}
	}
	return a
}

// withNoise is y = mu + sigma noise.
func withNoise(mu dataio.Array, sigma2 float64) dataio.Array {
	y := mu
	y.Name, y.Data = "y", problems.Sample(mu.Data, sigma2, 3, 0)
	return y
}

// The specifications that are not named problems run on data made for them, and SURE is
// near the true loss.
func TestExamplesRunOnTheirData(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, err error) string {
		if err != nil {
			t.Fatal(err)
		}
		return filepath.Join(dir, name)
	}
	const sigma2 = 0.0025
	mu := scene(64, 48)
	y := withNoise(mu, sigma2)
	image := write("image.npz", dataio.WriteNPZ(filepath.Join(dir, "image.npz"), y, mu))

	mask := dataio.Array{Shape: mu.Shape, Data: make([]float64, len(mu.Data))}
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range mask.Data {
		mask.Data[i] = float64(rng.IntN(5) / 2)
	}
	write("mask.png", errorOf(dataio.WriteImage(filepath.Join(dir, "mask.png"),
		func(w io.Writer) (int, error) { return images.EncodePNG(w, mask, 8) })))

	regression := filepath.Join(dir, "regression.npz")
	data, err := problems.GenerateLasso(120, 40, 5)
	if err != nil {
		t.Fatal(err)
	}
	groups := make([]float64, 40)
	for j := range groups {
		groups[j] = float64(j / 4)
	}
	// The first coefficients add up to at least 1, and the last ones to nothing.
	bound, sum := make([]float64, 40), make([]float64, 40)
	for j := range 10 {
		bound[j], sum[39-j] = -1, 1
	}
	arrays := append(problems.Arrays(data), floats("groups", groups, 40), floats("G", bound, 1, 40),
		floats("h", []float64{-1}, 1), floats("E", sum, 1, 40), floats("e", []float64{0}, 1))
	write("regression.npz", dataio.WriteNPZ(regression, arrays...))

	table := dataio.Array{Shape: []int{120, 41}, Labels: dataio.Labels{Columns: []string{"response"}}}
	for j := range 40 {
		table.Columns = append(table.Columns, fmt.Sprint("x", j))
	}
	for i := range 120 {
		table.Data = append(append(table.Data, data.Y[i]), data.X.(*mat.Dense).RawRowView(i)...)
	}
	csv := write("table.csv", dataio.WriteCSV(filepath.Join(dir, "table.csv"), table))
	truth := write("mu.npy", dataio.WriteNPY(filepath.Join(dir, "mu.npy"), floats("mu", data.Mu, 120)))

	for _, c := range []struct {
		name string
		args []string
	}{
		{"wavelet-denoise", []string{"--data", image}},
		{"wavelet-denoise", []string{"--data", image, "--lambda", "0.2max"}},
		// SURE does not ask that mu be in the range of A.
		{"deblur", []string{"--data", image, "--sigma2", "0.0025", "--lambda", "0.05", "--tol", "1e-4"}},
		{"inpaint", []string{"--y", image, "--mu", image, "--sigma2", "0.0025", "--tol", "1e-4"}},
		{"tv-deblur", []string{"--data", image, "--sigma2", "0.0025", "--lambda", "0.02"}},
		{"tv-inpaint", []string{"--y", image, "--mu", image, "--sigma2", "0.0025", "--lambda", "0.05"}},
		{"nonnegative-tv", []string{"--data", image, "--sigma2", "0.0025", "--lambda", "0.02", "--tol", "1e-2"}},
		{"tv-wavelets", []string{"--data", image, "--sigma2", "0.0025", "--tol", "1e-3"}},
		{"isotonic", []string{"--data", regression}},
		{"simplex", []string{"--data", regression}},
		{"ball", []string{"--data", regression, "--lambda", "4"}},
		{"constrained", []string{"--data", regression}},
		{"slope", []string{"--data", regression}},
		{"group-lasso", []string{"--data", regression}},
		{"lasso-csv", []string{"--data", csv, "--response", "response", "--mu", truth}},
	} {
		out := filepath.Join(dir, "signal.npy")
		o := object(t, append([]string{"run", "--spec", example(t, dir, c.name), "--trace", "hutchinson", "--out",
			out}, c.args...)...)
		// The signal is the whole image, and not what was observed of it.
		if signal := readOnly(t, out); strings.HasPrefix(c.name, "tv-") && !slices.Equal(signal.Shape, mu.Shape) {
			t.Errorf("%s: the signal has shape %v, expected %v", c.name, signal.Shape, mu.Shape)
		}
		sure, loss, bar := o["sure"].(float64), o["loss"].(float64), o["sure_stderr"].(float64)
		// The trace adds its own error, and an estimated sigma2 the shift that the help gives.
		trace := 2 * o["sigma2"].(float64) * o["divergence_stderr"].(float64)
		shift := 0.0
		if rel, ok := o["sigma2_rel_stderr"].(float64); ok {
			shift = rel * o["sigma2"].(float64) * math.Abs(2*o["divergence"].(float64)-o["d"].(float64))
		}
		if e := math.Sqrt(bar*bar + trace*trace + shift*shift); math.Abs(sure-loss) > 3*e {
			t.Errorf("%s %v: SURE %g, loss %g, error %g", c.name, c.args, sure, loss, e)
		}
	}
}

// errorOf drops the count that comes with an error.
func errorOf(_ int, err error) error { return err }

// A photograph with noise, denoised by wavelet soft thresholding of all shifts: SURE is the true loss
// within its error bar, with the variance given and with it estimated, and the image
// is written back.
func TestPhotographIsDenoised(t *testing.T) {
	const photograph = "../../testdata/camera.png"
	const sigma2 = 0.01
	mu := readOnly(t, photograph)
	dir := t.TempDir()
	noisy, clean := filepath.Join(dir, "noisy.npy"), filepath.Join(dir, "clean.png")
	y := withNoise(mu, sigma2)
	if err := dataio.WriteNPY(noisy, y); err != nil {
		t.Fatal(err)
	}
	spec := example(t, dir, "wavelet-denoise")
	run := func(sigma2 string) (sure, loss, bar float64, o map[string]any) {
		o = object(t, "run", "--spec", spec, "--data", noisy, "--mu", photograph, "--sigma2", sigma2, "--out", clean)
		bar = math.Hypot(o["sure_stderr"].(float64), 2*o["sigma2"].(float64)*o["divergence_stderr"].(float64))
		return o["sure"].(float64), o["loss"].(float64), bar, o
	}
	sure, loss, bar, _ := run("0.01")
	if math.Abs(sure-loss) > 2.5*bar {
		t.Errorf("SURE %g, loss %g, error bar %g", sure, loss, bar)
	}
	if before := sigma2 * float64(len(y.Data)); loss > before/3 {
		t.Errorf("loss %g, of the noisy image %g", loss, before)
	}
	written, err := dataio.Open(clean)
	if err != nil {
		t.Fatal(err)
	}
	defer written.Close()
	image, err := written.Floats("clean")
	if err != nil {
		t.Fatal(err)
	}
	clamped := 0.0
	for i, v := range image.Data {
		clamped += (v - mu.Data[i]) * (v - mu.Data[i])
	}
	// What is clamped to [0, 1], where the truth is, comes nearer to it; 16 bits change little.
	if clamped > loss*(1+1e-6) || clamped < 0.9*loss {
		t.Errorf("the written image has a loss of %g, the estimate %g", clamped, loss)
	}
	sure, loss, bar, o := run("auto")
	if o["sigma2_method"] != "smooth-blocks" || math.Abs(o["sigma2"].(float64)/sigma2-1) > 0.1 {
		t.Errorf("sigma2 %v by %v", o["sigma2"], o["sigma2_method"])
	}
	// The photograph's own details count as noise: the shift is known here.
	shift := (o["sigma2"].(float64) - sigma2) * (2*o["divergence"].(float64) - o["d"].(float64))
	if math.Abs(sure-shift-loss) > 2.5*bar {
		t.Errorf("with an estimated sigma2: SURE %g less %g, loss %g, error bar %g", sure, shift, loss, bar)
	}
}

func TestSpecOptionsAreDefaultsOfTheFlags(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mine.yaml")
	text := "data: {y: [5, 1, 2], X: [[1, 2], [0, 3], [1, 1]]}\noperator: {dense: X}\nregularizer: {l1: " +
		"lambda}\nlambda: 0.5\nsigma2: 3\nsolver: {name: admm, tol: 1e-3, max-iter: 900, derivative: unrolled}\n"
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	o := object(t, "run", "--spec", path)
	solver := o["solver"].(map[string]any)
	if o["problem"] != "mine" || solver["name"] != "admm" || o["derivative"] != "unrolled" || o["sigma2"] != 3.0 ||
		o["lambda"] != 0.5 || solver["optimality"].(float64) < 1e-8 {
		t.Errorf("%v", o)
	}
	o = object(t, "run", "--spec", path, "--solver", "fista", "--derivative", "implicit", "--tol", "1e-10",
		"--lambda", "2", "--sigma2", "1")
	solver = o["solver"].(map[string]any)
	if solver["name"] != "fista" || o["derivative"] != "implicit" || o["sigma2"] != 1.0 || o["lambda"] != 2.0 ||
		solver["optimality"].(float64) > 1e-10 {
		t.Errorf("%v", o)
	}
}

func TestSpecsAreListedAndDescribed(t *testing.T) {
	status, stdout, stderr := command(t, "spec")
	if status != exitDone || stderr != "" {
		t.Fatalf("status %d, %s", status, stderr)
	}
	for _, name := range problems.SpecNames() {
		if !strings.Contains(stdout, "\n"+name+" ") && !strings.HasPrefix(stdout, name+" ") {
			t.Errorf("%s is not in\n%s", name, stdout)
		}
	}
	_, stdout, _ = command(t, "spec", "--help")
	for _, word := range []string{"convolution: {kernel: h", "sorted-l1: {weight: W, bh: q}", "linf-ball",
		"group-linf", "synthesis"} {
		if !strings.Contains(stdout, word) {
			t.Errorf("the help does not say %q", word)
		}
	}
	for line := range strings.Lines(stdout) {
		if len([]rune(line)) > 140 {
			t.Errorf("a line of %d: %s", len(line), line)
		}
	}
	if status, _, stderr := command(t, "spec", "laso"); status != exitUsage ||
		!strings.Contains(stderr, `did you mean "lasso"`) {
		t.Errorf("status %d, %s", status, stderr)
	}
}
