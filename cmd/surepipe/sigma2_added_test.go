package main

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"surepipe/internal/dataio"
	"surepipe/internal/noise"
)

// firstDifferences estimates sigma2 of a sequence as the mean of (y_{i+1} - y_i)^2 / 2 (von Neumann 1941).
var firstDifferences = noise.Method{
	Name: "first-differences", Help: "half of the mean square of the first differences: a smooth sequence",
	Suits: func(o noise.Observed) bool { return o.Sequence() && len(o.Y) > 1000 },
	Estimate: func(o noise.Observed) (noise.Estimate, error) {
		if !o.Sequence() {
			return noise.Estimate{}, &noise.Refusal{Method: "first-differences", Reason: "y is no sequence"}
		}
		sum, n := 0.0, float64(len(o.Y)-1)
		for i, v := range o.Y[1:] {
			sum += (v - o.Y[i]) * (v - o.Y[i])
		}
		return noise.Estimate{Sigma2: sum / (2 * n), RelStdErr: math.Sqrt(3 / n), Method: "first-differences"}, nil
	},
}

// A method for sigma2 that is added by one row, in a process of its own, is in the help, in errors, in JSON, in
// specifications, and what auto takes where it suits.
func TestAMethodForSigma2IsARow(t *testing.T) {
	if !inOwnProcess(t) {
		return
	}
	noise.Register(firstDifferences)
	if _, out, _ := command(t, "help", "data"); !strings.Contains(out, "first-differences") {
		t.Error("help data does not name first-differences")
	}
	dir := t.TempDir()
	write := func(name string, n int) (string, float64) {
		y, sum := make([]float64, n), 0.0
		for i, rng := 0, rand.New(rand.NewPCG(1, 2)); i < n; i++ {
			if y[i] = math.Sin(float64(i)/50) + rng.NormFloat64(); i > 0 {
				sum += (y[i] - y[i-1]) * (y[i] - y[i-1]) / float64(2*(n-1))
			}
		}
		file := filepath.Join(dir, name)
		if err := dataio.WriteNPY(file, dataio.Array{Shape: []int{n}, Data: y}); err != nil {
			t.Fatal(err)
		}
		return file, sum
	}
	long, want := write("long.npy", 2000)
	short, _ := write("short.npy", 200)
	spec := filepath.Join(dir, "tv.yaml")
	if err := os.WriteFile(spec, []byte("data: long.npy\noperator: identity\nregularizer: {tv1d: lambda}\n"+
		"sigma2: first-differences\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"--problem", "tv1d", "--data", long, "--sigma2", "first-differences"},
		{"--problem", "tv1d", "--data", long, "--sigma2", "auto"},
		{"--spec", spec},
	} {
		status, out, stderr := command(t, append([]string{"run", "--lambda", "5", "--json"}, args...)...)
		var r struct {
			Sigma2    float64
			Method    string  `json:"sigma2_method"`
			RelStdErr float64 `json:"sigma2_rel_stderr"`
		}
		if err := json.Unmarshal([]byte(out), &r); err != nil {
			t.Fatalf("%v: status %d: %s", args, status, stderr)
		}
		if r.Method != "first-differences" || math.Abs(r.Sigma2-want) > 1e-12*want || r.RelStdErr != math.Sqrt(3./1999) {
			t.Errorf("%v: %+v, expected %g", args, r, want)
		}
	}
	_, out, _ := command(t, "run", "--problem", "tv1d", "--data", short, "--lambda", "5", "--sigma2", "auto", "--json")
	if !strings.Contains(out, `"sigma2_method":"mad"`) {
		t.Errorf("a short sequence: %s, expected the MAD", out)
	}
	if status, _, stderr := command(t, "run", "--problem", "lasso", "--data", "../../testdata/diabetes.npz", "--lambda",
		"100", "--sigma2", "first-differences"); status != 2 || !strings.Contains(stderr, "y is no sequence") {
		t.Errorf("a regression: status %d, %s", status, stderr)
	}
	if status, _, stderr := command(t, "run", "--problem", "tv1d", "--data", long, "--lambda", "5", "--sigma2",
		"median"); status != 2 || !strings.Contains(stderr, "first-differences") {
		t.Errorf("an unknown method: status %d, %s", status, stderr)
	}
}
