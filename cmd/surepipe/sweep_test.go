package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image/png"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"surepipe/study"
)

// sweepLines runs surepipe sweep --json and takes its output apart.
func sweepLines(t testing.TB, args ...string) (header map[string]any, points []study.SweepLine, s study.SweepSummary) {
	t.Helper()
	status, stdout, stderr := command(t, append([]string{"sweep", "--json"}, args...)...)
	if status != exitDone {
		t.Fatalf("surepipe sweep %s: status %d, %s", strings.Join(args, " "), status, stderr)
	}
	return parseSweep(t, stdout)
}

func parseSweep(t testing.TB, text string) (header map[string]any, points []study.SweepLine, s study.SweepSummary) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for i, line := range lines {
		var to any
		switch i {
		case 0:
			to = &header
		case len(lines) - 1:
			to = &s
		default:
			points = append(points, study.SweepLine{})
			to = &points[len(points)-1]
		}
		if err := json.Unmarshal([]byte(line), to); err != nil {
			t.Fatalf("line %d: %v: %s", i+1, err, line)
		}
	}
	return header, points, s
}

// A sweep's points are what surepipe run says at the same weights, under the same keys.
func TestSweepAgreesWithRun(t *testing.T) {
	for _, c := range []struct {
		args  []string
		swept []string
	}{
		{[]string{"--problem", "lasso", "--data", "../../testdata/diabetes.npz", "--lambda", "0.01max:2max:9"},
			[]string{"lambda"}},
		{[]string{"--problem", "ridge", "--data", "../../testdata/diabetes.npz", "--lambda", "0.001:10:5"},
			[]string{"lambda"}},
		{[]string{"--problem", "elastic-net", "--data", "../../testdata/diabetes.npz", "--lambda", "10:200:4",
			"--lambda2", "0.01:1:3"}, []string{"lambda", "lambda2"}},
		{[]string{"--problem", "robust-pca", "--data", "../../testdata/rpca40.npz", "--lambda", "30", "--gamma",
			"0.1max:max:4"}, []string{"gamma"}},
		{[]string{"--problem", "matrix-completion", "--data", "../../testdata/mc60x40.npz", "--effects",
			"none", "--lambda", "0.3max:1max:4"}, []string{"lambda"}},
	} {
		header, points, s := sweepLines(t, append(c.args, "--tol", "1e-10", "--refine", "3", "--seed", "4")...)
		if header["sweep"] != true || len(header["grid"].([]any)) != len(c.swept) || !s.Summary ||
			s.Points != len(points) {
			t.Errorf("%v: header %v, %d points, summary %+v", c.args, header, len(points), s)
		}
		for i, p := range points {
			if p.Index != i {
				t.Errorf("%v: point %d has index %d", c.args, i, p.Index)
			}
			args := []string{"run", "--tol", "1e-10", "--seed", "4"}
			for k := 0; k < len(c.args); k += 2 {
				value := c.args[k+1]
				for name, w := range map[string]*study.Number{"lambda": p.Lambda, "lambda2": p.Lambda2,
					"gamma": p.Gamma} {
					if c.args[k] == "--"+name {
						value = strconv.FormatFloat(float64(*w), 'g', -1, 64)
					}
				}
				args = append(args, c.args[k], value)
			}
			o := object(t, args...)
			text, err := json.Marshal(p)
			if err != nil {
				t.Fatal(err)
			}
			var got map[string]any
			if err := json.Unmarshal(text, &got); err != nil {
				t.Fatal(err)
			}
			// Times, inner steps, the error that these leave, and margins over the error of a solve
			// depend on where the solve began. Warnings of the data stand in the summary.
			delete(o, "warnings")
			for key, want := range o {
				v, ok := got[key]
				if !ok {
					t.Errorf("%v: point %d has no %q", c.args, i, key)
				}
				if w, isNumber := want.(float64); isNumber && key != "seconds" && key != "derivative_steps" &&
					key != "divergence_stderr" && key != "space_margin" {
					tol := 1e-6
					if strings.HasPrefix(key, "alo") {
						// of first order in the images' error, which changes where a probe takes one step more
						tol = 1e-4
					}
					if g := v.(float64); math.Abs(g-w) > tol*math.Max(math.Abs(w), 1) {
						t.Errorf("%v: point %d: %s is %.12g, surepipe run says %.12g", c.args, i, key, g, w)
					}
				}
			}
		}
	}
}

// The files hold what the lines hold; the figure decodes; --out is the estimate at the
// minimizer.
func TestSweepWritesItsFiles(t *testing.T) {
	dir := t.TempDir()
	csv, out := filepath.Join(dir, "s.csv"), filepath.Join(dir, "s.npz")
	const data = "../../testdata/rpca50x30.npz"
	base := []string{"--problem", "robust-pca", "--data", data, "--tol", "1e-4", "--queries", "12"}
	for name, args := range map[string][]string{
		"one": {"--lambda", "0.1max:0.9max:5", "--refine", "4"},
		"two": {"--lambda", "0.1max:0.9max:4", "--gamma", "0.05max:0.5max:3", "--refine", "2"},
	} {
		args = append(args, base...)
		for _, ext := range []string{"png", "svg", "pdf"} {
			plot := filepath.Join(dir, name+"."+ext)
			jsonl := filepath.Join(dir, name+ext+".jsonl")
			status, stdout, stderr := command(t,
				append([]string{"sweep", "--json", "--csv", csv, "--plot", plot, "--out", out, "--jsonl", jsonl},
					args...)...)
			if status != exitDone {
				t.Fatalf("status %d, %s", status, stderr)
			}
			lines, err := os.ReadFile(jsonl)
			if err != nil || string(lines) != stdout {
				t.Errorf("%s: --jsonl has %q, --json %q, %v", name, lines, stdout, err)
			}
			_, points, s := parseSweep(t, stdout)
			picture, err := os.ReadFile(plot)
			if err != nil {
				t.Fatal(err)
			}
			switch ext {
			case "png":
				if img, err := png.Decode(bytes.NewReader(picture)); err != nil || img.Bounds().Dx() < 300 {
					t.Errorf("%s: %v", plot, err)
				}
			case "svg":
				if !bytes.Contains(picture, []byte("<svg")) || !bytes.Contains(picture, []byte("robust-pca")) {
					t.Errorf("%s is no picture of the sweep", plot)
				}
			case "pdf":
				if !bytes.HasPrefix(picture, []byte("%PDF")) {
					t.Errorf("%s is no PDF", plot)
				}
			}
			mu, muHat := readArray(t, data, "mu"), readArray(t, out, "mu_hat")
			near(t, "loss of --out", squaredDistance(muHat, mu), *s.Minimizer.Loss)

			table := readOnly(t, csv)
			if table.Shape[0] != len(points) {
				t.Fatalf("%s has shape %v, expected %d rows", csv, table.Shape, len(points))
			}
			for i, p := range points {
				row := table.Data[i*table.Shape[1]:][:table.Shape[1]]
				at := func(column string) float64 { return row[slices.Index(table.Columns, column)] }
				if at("sure") != *p.SURE || at("lambda") != float64(*p.Lambda) || at("loss") != *p.Loss ||
					at("converged") != 1 {
					t.Errorf("%s: row %d is %v", csv, i, row)
				}
			}
		}
	}
}

// The table marks the minimizer, the refinement, and a minimizer at the grid's edge.
func TestSweepPrintsATable(t *testing.T) {
	status, stdout, stderr := command(t, "sweep", "--problem", "lasso", "--data", "../../testdata/diabetes.npz",
		"--lambda", "0.01max:2max:40")
	if status != exitDone || !strings.Contains(stdout, "refined") ||
		!strings.Contains(stdout, "minimizer   lambda = ") || strings.Contains(stderr, "depends on y") {
		t.Errorf("status %d, %s%s", status, stdout, stderr)
	}
	status, stdout, stderr = command(t, "sweep", "--problem", "lasso", "--data", "../../testdata/diabetes.npz",
		"--lambda", "100:800:4", "--refine", "0")
	if status != exitDone || !strings.Contains(stdout, "the lower end of lambda") ||
		!strings.Contains(stderr, "at the edge of the grid, the lower end of --lambda: extend the grid") ||
		strings.Contains(stderr, "depends on y") {
		t.Errorf("status %d, %s%s", status, stdout, stderr)
	}
	status, stdout, stderr = command(t, "sweep", "--problem", "lasso", "--data", "../../testdata/diabetes.npz",
		"--lambda", "1:800:4", "--max-iter", "3")
	if status != exitNotConverged || !strings.Contains(stdout, "NOT CONVERGED") ||
		!strings.Contains(stderr, "did not converge") {
		t.Errorf("status %d, %s%s", status, stdout, stderr)
	}
}

// Where the best fit is the null model, larger weights have the same one: the grid ends nowhere, whether the criterion is
// known beyond it or not. Of the points that are alike the one on the boundary, where the first coefficient is about to
// leave 0, is not chosen.
func TestTheNullModelIsNotAtTheEdge(t *testing.T) {
	noise, diabetes := noiseTable(t)+" --response y", "../../testdata/diabetes.npz"
	rng, pixels := rand.New(rand.NewPCG(1, 2)), strings.Builder{}
	for i := range 196 {
		fmt.Fprintf(&pixels, "%g%c", 3+rng.NormFloat64(), ",,,,,,,,,,,,,\n"[i%14])
	}
	image := text(t, "noise.csv", pixels.String())
	for _, c := range []struct {
		of     string
		edge   bool
		within [2]float64 // of the minimizer, in units of the largest weight of the grid
	}{
		{noise + " --lambda 0.2max:max:5", false, [2]float64{1.01, 2}},
		{noise + " --lambda 0.2max:4max:5", false, [2]float64{1, 1}},
		{noise + " --lambda 0.2max:max:5 --criterion cv", false, [2]float64{1, 1}},
		{noise + " --lambda 0.2max:max:5 --refine 0", false, [2]float64{1, 1}},
		{image + " --lambda 0.05max:max:5 --criterion cv", false, [2]float64{1, 1}}, // flat to the tolerance
		{image + " --lambda 0.05max:0.4max:3 --criterion cv", true, [2]float64{1, 1}},
		{diabetes + " --lambda 1:4:3 --criterion cv", true, [2]float64{1, 1}},
		{diabetes + " --lambda 1e-13max:1e-11max:4", true, [2]float64{1, 1}}, // values that are equal by rounding
		{diabetes + " --lambda 100:800:4 --refine 0", true, [2]float64{0.125, 0.125}},
	} {
		problem := "--problem lasso --data "
		if strings.HasPrefix(c.of, image) {
			problem = "--problem tv2d --y "
		}
		_, points, s := sweepLines(t, strings.Fields(problem+c.of)...)
		_, edge := s.Edges["lambda"]
		at := float64(*s.Minimizer.Lambda / *points[0].Lambda)
		if edge != c.edge || at < c.within[0]-1e-9 || at > c.within[1]+1e-9 {
			t.Errorf("%s: edges %v, the minimizer at %g of the largest weight", c.of, s.Edges, at)
		}
	}
}

// The table and the picture say which sigma2 they are of, and where it comes from.
func TestSweepNamesItsSigma2(t *testing.T) {
	plot := filepath.Join(t.TempDir(), "s.svg")
	args := []string{"sweep", "--problem", "lasso", "--data", "../../testdata/diabetes.npz", "--lambda", "100:900:3",
		"--refine", "0", "--plot", plot}
	for _, c := range []struct {
		sigma2        string
		table, figure []string
	}{
		{"2900", []string{"problem  lasso", "d = 442, p = 10", "sigma2   2900\n"}, []string{"d = 442, σ² = 2900"}},
		{"auto", []string{"problem  lasso", "sigma2   2925.", "estimated by ols-residual"},
			[]string{"σ² = 2926", "(ols-residual)"}},
	} {
		status, stdout, stderr := command(t, append(args, "--sigma2", c.sigma2)...)
		if status != exitDone {
			t.Fatal(stderr)
		}
		picture, err := os.ReadFile(plot)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range c.table {
			if at := strings.Index(stdout, want); at < 0 || at > strings.Index(stdout, "SURE") {
				t.Errorf("--sigma2 %s: %q is not above the table\n%s", c.sigma2, want, stdout)
			}
		}
		for _, want := range c.figure {
			if !strings.Contains(string(picture), want) {
				t.Errorf("--sigma2 %s: the picture does not say %q", c.sigma2, want)
			}
		}
	}
}

func TestBadSweepsAreRefusedByName(t *testing.T) {
	const diabetes = " --data ../../testdata/diabetes.npz"
	dir := t.TempDir()
	other := filepath.Join(dir, "other.jsonl")
	if err := os.WriteFile(other, []byte("{\"sample\":0}\n{}\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, want string }{
		{"--problem ols" + diabetes, "no weight is a grid"},
		{"--problem lasso --lambda 3" + diabetes, "no weight is a grid"},
		{"--problem ols --lambda 1:2:3" + diabetes, "--lambda is given, but ols has no such weight"},
		{"--problem lasso --gamma 1:2:3 --lambda 2" + diabetes, "gamma is given, but lasso has no such weight"},
		{"--problem elastic-net --lambda 1:2:3 --lambda2 1:2:3 --gamma 1:2:3" + diabetes, "expected one or two"},
		{"--problem ridge --lambda 0.1max:max:3" + diabetes, "--lambda is max, but this weight has no maximum"},
		{"--problem lasso --lambda 1:2" + diabetes, `--lambda is "1:2", expected FROM:TO:COUNT`},
		{"--problem lasso --lambda 1,3,2" + diabetes, `--lambda is "1,3,2": 3 is followed by 2`},
		{"--problem lasso --lambda 1:2:1" + diabetes, `--lambda is "1:2:1": a grid of 1 points`},
		{"--problem lasso --lambda 2:1:5" + diabetes, `--lambda is "2:1:5": it goes from 2 to 1`},
		{"--problem lasso --lambda 2:2:5" + diabetes, `--lambda is "2:2:5": it goes from 2 to 2`},
		{"--problem lasso --lambda 0:2:5" + diabetes, "an end is 0, expected a positive finite number"},
		{"--problem lasso --lambda 1:inf:5" + diabetes, "an end is +Inf"},
		{"--problem lasso --lambda 2max:5:5" + diabetes, "--lambda: it goes from 1898"},
		{"--problem elastic-net --lambda 1 --lambda2 0:1:5" + diabetes, "--lambda2 is"},
		{"--problem lasso --lambda 1:2:3 --refine -1" + diabetes, "--refine is -1"},
		{"--problem lasso --lambda 1:2:3 --resume" + diabetes, "--resume needs --jsonl"},
		{"--problem lasso --lambda 1:2:3 --plot a.jpg" + diabetes, `ends in ".jpg", expected one of .png`},
		{"--problem lasso --lambda 1:2:3 --csv /nowhere/a.csv" + diabetes, `--csv is "/nowhere/a.csv": directory`},
		{"--problem lasso --lambda 1:2:3 --csv=" + diabetes, "--csv is empty"},
		{"--problem lasso --lambda 1:2:3 --out a.npz --csv ./a.npz" + diabetes,
			`--out is "a.npz" and --csv is "./a.npz", the same file`},
		{"--problem lasso --lambda 1:2:3 --jsonl " + other + diabetes,
			"which exists: continue it with --resume, or remove it"},
		{"--problem lasso --lambda 1:2:3 --resume --jsonl " + other + diabetes,
			"does not begin with the header of a sweep"},
	} {
		status, _, stderr := command(t, append([]string{"sweep"}, strings.Fields(c.args)...)...)
		if status != exitUsage || !strings.Contains(stderr, c.want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("sweep %s: status %d, %q, expected %q", c.args, status, stderr, c.want)
		}
	}
}

// A sweep is continued after any of its lines, whole or torn, to the same lines; with
// other settings or data it is refused.
// A list of weights has these points and no others, also where it goes on and on shards.
func TestSweepOfAList(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "s.jsonl")
	args := []string{"sweep", "--problem", "lasso", "--data", "../../testdata/diabetes.npz", "--lambda", "5,20,30,400",
		"--jsonl", path, "--json"}
	status, want, stderr := command(t, args...)
	if status != exitDone {
		t.Fatal(stderr)
	}
	want = seconds.ReplaceAllString(want, "")
	for _, weight := range []string{`"lambda":5,`, `"lambda":20,`, `"lambda":30,`, `"lambda":400,`, `"points":4`} {
		if !strings.Contains(want, weight) {
			t.Errorf("no %s in %s", weight, want)
		}
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(whole, []byte("\n"))
	if err := os.WriteFile(path, bytes.Join(lines[:3], nil), 0o666); err != nil {
		t.Fatal(err)
	}
	if status, got, stderr := command(t, append(args, "--resume")...); status != exitDone ||
		seconds.ReplaceAllString(got, "") != want {
		t.Errorf("resumed: status %d, %s\n%s\nwant\n%s", status, stderr, got, want)
	}
}

func TestSweepResumes(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "s.jsonl")
	args := []string{"sweep", "--problem", "lasso", "--data", "../../testdata/diabetes.npz", "--lambda", "5:900:15",
		"--refine", "5", "--jsonl", path, "--json"}
	status, want, stderr := command(t, args...)
	if status != exitDone {
		t.Fatal(stderr)
	}
	want = seconds.ReplaceAllString(want, "")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	resume := append(slices.Clone(args), "--resume", "--parallel", "2")
	ends := []int{0}
	for i, b := range whole {
		if b == '\n' {
			ends = append(ends, i+1)
		}
	}
	for k, cut := range ends {
		if testing.Short() && k%3 != 0 {
			continue
		}
		torn := cut
		if k%3 == 0 && k+1 < len(ends) {
			torn = cut + (ends[k+1]-cut)/2
		}
		if err := os.WriteFile(path, whole[:torn], 0o666); err != nil {
			t.Fatal(err)
		}
		status, got, stderr := command(t, resume...)
		if status != exitDone || seconds.ReplaceAllString(got, "") != want {
			t.Errorf("after %d lines and %d bytes: status %d, %s\n%s", k, torn-cut, status, stderr, got)
		}
		file, err := os.ReadFile(path)
		if err != nil || seconds.ReplaceAllString(string(file), "") != want {
			t.Errorf("after %d lines the file holds %s, %v", k, file, err)
		}
	}
	// A last line of zeros is what a loss of power can leave.
	if err := os.WriteFile(path, append(slices.Clone(whole[:ends[5]]), make([]byte, 100)...), 0o666); err != nil {
		t.Fatal(err)
	}
	if status, got, _ := command(t, resume...); status != exitDone || seconds.ReplaceAllString(got, "") != want {
		t.Errorf("after zeros: status %d", status)
	}
	for _, c := range []struct {
		change []string
		want   string
	}{
		{[]string{"--seed", "5"}, "it was begun with seed 0, expected 5"},
		{[]string{"--lambda", "5:900:16"}, "it was begun with grid"},
		{[]string{"--tol", "1e-7"}, "it was begun with tol 1e-8, expected 1e-7"},
		{[]string{"--sigma2", "7"}, "it was begun with sigma2"},
		{[]string{"--queries", "30"}, "it was begun with queries"},
	} {
		status, _, stderr := command(t, append(slices.Clone(resume), c.change...)...)
		if status != exitUsage || !strings.Contains(stderr, c.want) {
			t.Errorf("%v: status %d, %s", c.change, status, stderr)
		}
	}
	set, err := readFile(t.Context(), "../../testdata/diabetes.npz", "lasso")
	if err != nil {
		t.Fatal(err)
	}
	before := study.DataHash(set.Data)
	set.Y[3]++
	if study.DataHash(set.Data) == before {
		t.Error("other data, same hash")
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(whole), before, strings.Repeat("0", 64), 1)),
		0o666); err != nil {
		t.Fatal(err)
	}
	if status, _, stderr := command(t, resume...); status != exitUsage ||
		!strings.Contains(stderr, "it was begun with other data") {
		t.Errorf("other data: status %d, %s", status, stderr)
	}
	// Damage in the middle is not guessed at.
	lines := strings.SplitAfter(string(whole), "\n")
	for _, damaged := range []string{lines[0] + lines[2] + lines[3], lines[0] + "{\n" + lines[1],
		lines[0] + lines[1] + lines[len(lines)-2] + lines[2]} {
		if err := os.WriteFile(path, []byte(damaged), 0o666); err != nil {
			t.Fatal(err)
		}
		if status, _, stderr := command(t, resume...); status != exitUsage ||
			!strings.Contains(stderr, path+": line ") {
			t.Errorf("damaged: status %d, %s", status, stderr)
		}
	}
}

// An interrupted sweep is status 130, names what to do, and leaves no goroutine.
func TestInterruptedSweepStops(t *testing.T) {
	before := runtime.NumGoroutine()
	path := filepath.Join(t.TempDir(), "s.jsonl")
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		for ctx.Err() == nil {
			if text, _ := os.ReadFile(path); bytes.Count(text, []byte("\n")) > 3 {
				cancel()
			}
			time.Sleep(time.Millisecond)
		}
	}()
	var out, errs bytes.Buffer
	status := execute(ctx, []string{"sweep", "--problem", "robust-pca", "--data", "../../testdata/rpca50x30.npz",
		"--lambda", "0.01max:max:300", "--gamma", "0.1max", "--parallel", "3", "--jsonl", path}, &out, &errs)
	cancelled := errors.Is(ctx.Err(), context.Canceled)
	cancel()
	if status != exitInterrupted || !cancelled || !strings.Contains(errs.String(), "continue with --resume") {
		t.Errorf("status %d, %s", status, errs.String())
	}
	for deadline := time.Now().Add(2 * time.Second); runtime.NumGoroutine() > before+runtime.GOMAXPROCS(0); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
	}
}

// noiseTable is a table whose response has nothing to do with its columns.
func noiseTable(t *testing.T) string {
	rng, table := rand.New(rand.NewPCG(4, 4)), "a,b,y\n"
	for range 80 {
		table += fmt.Sprintf("%g,%g,%g\n", rng.NormFloat64(), rng.NormFloat64(), rng.NormFloat64())
	}
	return text(t, "noise.csv", table)
}

// A point beyond the grid that has not converged ends the search there, and is marked; one of the grid makes the exit
// status 3.
func TestAPointBeyondTheGridThatHasNotConverged(t *testing.T) {
	for iterations, want := range map[string]int{"33": exitDone, "25": exitNotConverged} {
		status, stdout, stderr := command(t, "sweep", "--problem", "lasso", "--data", "../../testdata/diabetes.npz",
			"--solver", "fista", "--lambda", "30:200:4", "--criterion", "gcv", "--tol", "1e-4", "--max-iter", iterations)
		if !strings.Contains(stdout, "refined  NOT CONVERGED") || status != want ||
			strings.Contains(stderr, "did not converge") != (want != exitDone) ||
			!strings.Contains(stderr, "less than at the minimizer, but is not to be trusted") {
			t.Errorf("%s iterations: status %d, expected %d: %s\n%s", iterations, status, want, stderr, stdout)
		}
	}
}
