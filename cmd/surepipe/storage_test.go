package main

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"surepipe/internal/dataio"
	"surepipe/risk/warning"
	"surepipe/study/load"
)

// regressionFiles are X and y in files, X as rows and as float32s too.
func regressionFiles(t *testing.T, d, p int) (npz, x, y string) {
	t.Helper()
	rng := rand.New(rand.NewPCG(9, 9))
	values, obs := make([]float64, d*p), make([]float64, d)
	for i := range d {
		for j := range p {
			v := rng.NormFloat64() + float64(j%5)
			values[i*p+j] = v
			if j%(p/6) == 0 {
				obs[i] += v
			}
		}
		obs[i] += rng.NormFloat64()
	}
	dir := t.TempDir()
	npz, x, y = filepath.Join(dir, "d.npz"), filepath.Join(dir, "X.npy"), filepath.Join(dir, "y.npy")
	if err := dataio.WriteNPZ(npz, floats("X", values, d, p), floats("y", obs, d),
		floats("sigma2", []float64{1})); err != nil {
		t.Fatal(err)
	}
	if err := dataio.WriteNPY(x, floats("X", values, d, p)); err != nil {
		t.Fatal(err)
	}
	if err := dataio.WriteNPY(y, floats("y", obs, d)); err != nil {
		t.Fatal(err)
	}
	return npz, x, y
}

// Responses that share an X in a file print what they print with X in memory: it is in memory for all of them where it
// fits, and each has columns of its own where it does not.
func TestResponsesShareAStoredX(t *testing.T) {
	_, x, y := regressionFiles(t, 30, 300)
	rng, both := rand.New(rand.NewPCG(1, 9)), make([]float64, 60)
	for i := range both {
		both[i] = rng.NormFloat64()
	}
	if err := dataio.WriteNPY(y, floats("y", both, 30, 2)); err != nil {
		t.Fatal(err)
	}
	for _, more := range []string{"--standardize", "--intercept --memory 250kB", "--intercept --memory 500MB"} {
		args := append(strings.Fields("sweep --problem lasso --lambda 0.1max:max:5 --json --X "+x+" --y "+y),
			strings.Fields(more)...)
		want, got := lines(t, append(args, "--storage", "memory")...), lines(t, append(args, "--storage", "mapped")...)
		for i := range want {
			for _, key := range []string{"lambda", "gcv", "alo", "df"} {
				if v, ok := want[i][key].(float64); ok {
					near(t, fmt.Sprintf("%s, line %d: %s", more, i, key), got[i][key].(float64), v)
				}
			}
		}
		if held := got[len(got)-1]["storage"] == nil; held != !strings.Contains(more, "250kB") {
			t.Errorf("%s: storage %v", more, got[len(got)-1]["storage"])
		}
	}
}

// A risk does not depend on where X is stored, in any of the problems with a matrix.
func TestStorageDoesNotChangeTheRisk(t *testing.T) {
	npz, x, y := regressionFiles(t, 30, 300)
	spec := text(t, "l.yaml", "name: mine\noperator: {matrix: X}\nregularizer: {elastic-net: {weight: lambda, "+
		"weight2: 2}}\ndata: "+npz+"\n")
	for _, c := range [][]string{
		{"--problem", "lasso", "--lambda", "0.1max"},
		{"--problem", "lasso", "--lambda", "0.3max", "--intercept"},
		{"--problem", "lasso", "--lambda", "0.1max", "--standardize"},
		{"--problem", "elastic-net", "--lambda", "0.2max", "--lambda2", "3", "--intercept", "--standardize"},
		{"--problem", "ridge", "--lambda", "30", "--trace", "exact"},
		{"--spec", spec, "--lambda", "0.1max", "--intercept"},
	} {
		from := []string{"--data", npz}
		if c[0] == "--spec" {
			from = nil
		}
		args := append([]string{"run", "--seed", "1"}, append(c, from...)...)
		memory := object(t, append(args, "--storage", "memory")...)
		if memory["storage"] != nil {
			t.Errorf("%v: in memory: %v", c, memory["storage"])
		}
		files := [][]string{append(args, "--storage", "mapped"), append(args, "--storage", "float32")}
		if c[0] != "--spec" {
			files = append(files, append([]string{"run", "--seed", "1", "--sigma2", "1", "--X", x, "--y", y,
				"--storage", "mapped"}, c...))
		}
		for _, other := range files {
			got := object(t, other...)
			if single := strings.Contains(fmt.Sprint(got["warnings"]),
				warning.Float32.Code); single != (other[len(other)-1] == load.StorageSingle) {
				t.Errorf("%v: warnings %v", other, got["warnings"])
			}
			storage, _ := got["storage"].(map[string]any)
			if passes, _ := storage["passes"].(float64); !(passes >= 2) ||
				storage["bytes_read"].(float64) < passes*storage["bytes"].(float64) {
				t.Errorf("%v: storage %v", other, storage)
			}
			for _, key := range []string{"sure", "divergence", "residual", "lambda"} {
				near(t, strings.Join(other, " ")+": "+key, got[key].(float64), memory[key].(float64))
			}
		}
	}
}

// scipyRows are the arrays of a matrix without its zeros, as scipy writes it, of format csr.
func scipyRows(x []float64, d, p int) []dataio.Array {
	indptr, indices, data := []int64{0}, []int64{}, []float64{}
	for u, v := range x {
		if v != 0 {
			indices, data = append(indices, int64(u%p)), append(data, v)
		}
		if u%p == p-1 {
			indptr = append(indptr, int64(len(data)))
		}
	}
	ints := func(name string, v []int64) dataio.Array {
		return dataio.Array{Name: name, Shape: []int{len(v)}, Ints: v}
	}
	return []dataio.Array{
		ints("indices", indices), ints("indptr", indptr), {Name: "format", Texts: []string{"csr"}},
		ints("shape", []int64{int64(d), int64(p)}), floats("data", data, len(data)),
	}
}

// sparseFiles writes a sparse X as scipy does, and y.
func sparseFiles(t *testing.T, format string, d, p int) (x, y string) {
	t.Helper()
	rng := rand.New(rand.NewPCG(3, 9))
	dense, obs := make([]float64, d*p), make([]float64, d)
	for i := range d {
		for j := range p {
			if rng.IntN(12) == 0 {
				dense[i*p+j] = rng.NormFloat64() + 1
			}
			if j%(p/6) == 0 {
				obs[i] += 3 * dense[i*p+j]
			}
		}
		obs[i] += rng.NormFloat64()
	}
	arrays := scipyRows(dense, d, p)
	if format == "csc" {
		turned := make([]float64, d*p)
		for u, v := range dense {
			turned[u%p*d+u/p] = v
		}
		arrays = scipyRows(turned, p, d)
		arrays[2].Texts, arrays[3].Ints = []string{"csc"}, []int64{int64(d), int64(p)}
	}
	dir := t.TempDir()
	x, y = filepath.Join(dir, "X.npz"), filepath.Join(dir, "y.npy")
	if err := dataio.WriteNPZ(x, arrays...); err != nil {
		t.Fatal(err)
	}
	if err := dataio.WriteNPY(y, floats("y", obs, d)); err != nil {
		t.Fatal(err)
	}
	return x, y
}

// A sparse matrix that stays where it lies gives what one in memory gives, to 1e-9.
func TestSparseStorageDoesNotChangeTheRisk(t *testing.T) {
	for _, format := range []string{"csr", "csc"} {
		x, y := sparseFiles(t, format, 60, 400)
		spec := text(t, "l.yaml", "name: mine\noperator: {csr: X}\nregularizer: {elastic-net: {weight: lambda, "+
			"weight2: 2}}\ndata: "+x+"\n")
		for _, c := range [][]string{
			{"--problem", "lasso", "--lambda", "0.1max", "--X", x},
			{"--problem", "lasso", "--lambda", "0.1max", "--intercept", "--X", x},
			{"--problem", "lasso", "--lambda", "0.1max", "--standardize", "--data", x},
			{"--problem", "elastic-net", "--lambda", "0.2max", "--lambda2", "3", "--intercept", "--standardize",
				"--X", x},
			{"--problem", "lasso", "--lambda", "0.1max", "--X", x, "--memory", "64KB"},
			{"--problem", "ridge", "--lambda", "30", "--trace", "exact", "--X", x},
			{"--spec", spec, "--lambda", "0.1max", "--intercept"},
		} {
			args := append([]string{"run", "--seed", "1", "--sigma2", "1", "--y", y}, c...)
			memory := object(t, append(args, "--storage", "memory")...)
			got := object(t, append(args, "--storage", "mapped")...)
			storage, _ := got["storage"].(map[string]any)
			if bytes, _ := storage["bytes"].(float64); memory["storage"] != nil || !(bytes > 0) {
				t.Errorf("%v: storage %v, in memory %v", c, storage, memory["storage"])
			}
			for _, key := range []string{"sure", "divergence", "residual", "lambda"} {
				if is, was := got[key].(float64), memory[key].(float64); math.Abs(is-was) > 1e-9*math.Max(1,
					math.Abs(was)) {
					t.Errorf("%s %v: %s is %.15g, in memory %.15g", format, c, key, is, was)
				}
			}
		}
		status, _, stderr := command(t, "run", "--problem", "lasso", "--lambda", "0.1max", "--sigma2", "1", "--X", x,
			"--y", y, "--storage", "float32")
		if status != exitUsage || !strings.Contains(stderr,
			"holds a sparse matrix, expected a dense one with --storage float32") {
			t.Errorf("status %d, %s", status, stderr)
		}
	}
}

// A sweep takes far fewer passes than it has weights, and its bits do not depend on --parallel.
func TestStoredSweepTakesFewPasses(t *testing.T) {
	npz, _, _ := regressionFiles(t, 30, 300)
	run := func(args ...string) []map[string]any {
		_, stdout, stderr := command(t, append([]string{"sweep", "--problem", "lasso", "--data", npz, "--lambda",
			"0.1max:1max:40", "--refine", "0", "--json"}, args...)...)
		var lines []map[string]any
		for line := range strings.SplitSeq(strings.TrimSpace(stdout), "\n") {
			var o map[string]any
			if err := json.Unmarshal([]byte(line), &o); err != nil {
				t.Fatalf("%v: %s", err, stderr)
			}
			lines = append(lines, o)
		}
		return lines
	}
	want, got, again := run("--storage", "memory"), run("--storage", "mapped"),
		run("--storage", "mapped", "--parallel", "1")
	for i, line := range got[1 : len(got)-1] {
		near(t, "sure", line["sure"].(float64), want[i+1]["sure"].(float64))
		if line["sure"] != again[i+1]["sure"] {
			t.Errorf("point %d: %v and %v", i, line["sure"], again[i+1]["sure"])
		}
	}
	storage := got[len(got)-1]["storage"].(map[string]any)
	if passes := storage["passes"].(float64); passes > 20 {
		t.Errorf("%g passes for 40 weights", passes)
	}
}

// The refinement of the minimizer takes a few passes for all its points, and goes on with the same
// bits after some of them.
func TestStoredRefinementSharesPasses(t *testing.T) {
	npz, _, _ := regressionFiles(t, 30, 300)
	jsonl := filepath.Join(t.TempDir(), "s.jsonl")
	run := func(args ...string) (lines []map[string]any) {
		_, stdout, stderr := command(t, append([]string{"sweep", "--problem", "lasso", "--data", npz, "--lambda",
			"0.002max:1max:10", "--intercept", "--tol", "1e-6", "--json"}, args...)...)
		for line := range strings.SplitSeq(strings.TrimSpace(stdout), "\n") {
			var o map[string]any
			if err := json.Unmarshal([]byte(line), &o); err != nil {
				t.Fatalf("%v: %s", err, stderr)
			}
			lines = append(lines, o)
		}
		return lines
	}
	passes := func(lines []map[string]any) float64 {
		return lines[len(lines)-1]["storage"].(map[string]any)["passes"].(float64)
	}
	memory, grid, all := run(), run("--storage", "mapped", "--refine", "0"),
		run("--storage", "mapped", "--jsonl", jsonl)
	if len(all) != len(memory) || len(all) < len(grid)+4 {
		t.Fatalf("%d lines, in memory %d, without refinement %d", len(all), len(memory), len(grid))
	}
	for i, line := range all[1 : len(all)-1] {
		near(t, "sure", line["sure"].(float64), memory[i+1]["sure"].(float64))
		near(t, "lambda", line["lambda"].(float64), memory[i+1]["lambda"].(float64))
		if line["solver"].(map[string]any)["converged"] != true {
			t.Errorf("point %d: %v", i, line["solver"])
		}
	}
	if more := passes(all) - passes(grid); more > 6 {
		t.Errorf("%g passes for %d points of the refinement", more, len(all)-len(grid))
	}
	whole := linesOf(t, jsonl)
	for _, keep := range []int{len(whole) - 3, len(grid) - 1, 5} {
		text, err := os.ReadFile(jsonl)
		if err != nil {
			t.Fatal(err)
		}
		kept := strings.Join(strings.SplitAfter(string(text), "\n")[:keep], "")
		if err := os.WriteFile(jsonl, []byte(kept), 0o600); err != nil {
			t.Fatal(err)
		}
		run("--storage", "mapped", "--jsonl", jsonl, "--resume")
		for i, line := range linesOf(t, jsonl)[:len(whole)-1] {
			if line != whole[i] {
				t.Errorf("%d lines kept: line %d differs\n%s\n%s", keep, i, line, whole[i])
			}
		}
	}
}

// A result is verified by some passes, and not by solvers that take one in every step.
func TestStoredResultIsVerified(t *testing.T) {
	npz, _, _ := regressionFiles(t, 30, 300)
	got := object(t, "run", "--problem", "lasso", "--data", npz, "--lambda", "0.2max", "--intercept", "--storage",
		"mapped", "--verify")
	if passes := got["storage"].(map[string]any)["passes"].(float64); got["verification"] == nil || passes > 1500 {
		t.Errorf("%g passes, verification %v", passes, got["verification"])
	}
}

// Genotypes are those of a file of their numbers.
func TestGenotypes(t *testing.T) {
	const d, p = 22, 40
	rng := rand.New(rand.NewPCG(6, 6))
	stem := filepath.Join(t.TempDir(), "g")
	bed, values := []byte{0x6c, 0x1b, 0x01}, make([]float64, d*p)
	for j := range p {
		line, sum, present := make([]byte, (d+3)/4), 0.0, 0.0
		for i := range d {
			code := rng.IntN(4)
			if i < 2 {
				code = 3 * i // there is some variation
			}
			line[i/4] |= byte(code << (2 * (i % 4)))
			if values[i*p+j] = []float64{2, math.NaN(), 1, 0}[code]; code != 1 {
				sum, present = sum+values[i*p+j], present+1
			}
		}
		for i := range d {
			if math.IsNaN(values[i*p+j]) {
				values[i*p+j] = sum / present
			}
		}
		bed = append(bed, line...)
	}
	for name, content := range map[string]string{".bed": string(bed), ".fam": strings.Repeat("f i 0 0 1 2\n", d),
		".bim": strings.Repeat("1 s 0 1 A G\n", p)} {
		if err := os.WriteFile(stem+name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	obs := make([]float64, d)
	for i := range obs {
		obs[i] = values[i*p] - values[i*p+9] + 0.3*rng.NormFloat64()
	}
	y := text(t, "y.csv", "")
	if err := dataio.WriteCSV(y, floats("y", obs, d, 1)); err != nil {
		t.Fatal(err)
	}
	whole := save(t, floats("X", values, d, p), floats("y", obs, d))
	rest := []string{"--lambda", "0.2max", "--intercept", "--standardize"}
	want := object(t, append([]string{"run", "--problem", "lasso", "--data", whole}, rest...)...)
	spec := text(t, "l.yaml", "data: {file: "+stem+".bed, y: "+y+"}\noperator: {matrix: X}\nregularizer: {l1: lambda}\n")
	for _, from := range [][]string{{"--problem", "lasso", "--X", stem + ".bed", "--y", y},
		{"--problem", "lasso", "--data", stem + ".bed", "--y", y}, {"--spec", spec}} {
		got := object(t, append(append([]string{"run"}, from...), rest...)...)
		near(t, "divergence", got["divergence"].(float64), want["divergence"].(float64))
		near(t, "residual", got["residual"].(float64), want["residual"].(float64))
		if missing, _ := got["storage"].(map[string]any)["missing"].(float64); missing == 0 {
			t.Error("no missing genotypes are reported")
		}
		if warnings := fmt.Sprint(got["warnings"]); !strings.Contains(warnings, warning.MissingGenotypes.Code) {
			t.Errorf("the warnings are %s", warnings)
		}
	}
}

func TestStorageErrors(t *testing.T) {
	npz, x, y := regressionFiles(t, 8, 12)
	nan := filepath.Join(t.TempDir(), "nan.npy")
	if err := dataio.WriteNPY(nan, dataio.Array{Shape: []int{2, 1}, Data: []float64{1, math.NaN()}}); err != nil {
		t.Fatal(err)
	}
	fit := filepath.Join(t.TempDir(), "none.bed")
	for want, args := range map[string][]string{
		`--storage is "disk", expected one of auto, memory, mapped, float32`: {"--problem", "lasso", "--data", npz,
			"--lambda", "1", "--storage", "disk"},
		"--storage is for ols, ridge": {"--problem", "svt", "--data", npz,
			"--lambda", "1", "--storage", "mapped"},
		"none.fam: no such file or directory, expected a line of 6 words": {"--problem", "lasso", "--X", fit, "--y",
			y, "--lambda", "1"},
		`"y" has 12 values, expected 8`: {"--problem", "lasso", "--X", x, "--y",
			text(t, "y.csv", strings.Repeat("1\n", 12)), "--lambda", "1", "--storage", "mapped"},
		`nan.npy: array "X" holds NaN at [1, 0]`: {"--problem", "lasso", "--X", nan, "--y",
			text(t, "y.csv", "1\n2\n"), "--lambda", "1", "--storage", "mapped"},
		"columns of A matter, which take": {"--problem", "lasso", "--data", npz, "--lambda", "0.001", "--storage",
			"mapped", "--memory", "256"},
	} {
		if status, _, stderr := command(t, append([]string{"run"}, args...)...); status == exitDone ||
			!strings.Contains(stderr, want) {
			t.Errorf("%v: status %d, %s, expected %q", args, status, stderr, want)
		}
	}
}
