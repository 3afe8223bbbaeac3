package main

import (
	"encoding/json"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"surepipe/internal/dataio"
)

// A sparse D of a file of its own gives what a dense D in the archive gives.
func TestSparseMatrixBehindThePenalty(t *testing.T) {
	const d, p = 30, 12
	_, x, y := regressionFiles(t, d, p)
	differences := make([]float64, (p-1)*p)
	for i := range p - 1 {
		differences[i*p+i], differences[i*p+i+1] = -1, 1
	}
	dir := t.TempDir()
	sparse, dense, narrow := filepath.Join(dir, "sparse.npz"), filepath.Join(dir, "D.npy"),
		filepath.Join(dir, "narrow.npz")
	if err := dataio.WriteNPZ(sparse, scipyRows(differences, p-1, p)...); err != nil {
		t.Fatal(err)
	}
	if err := dataio.WriteNPY(dense, floats("D", differences, p-1, p)); err != nil {
		t.Fatal(err)
	}
	if err := dataio.WriteNPZ(narrow, scipyRows(differences[:(p-1)*(p-1)], p-1, p-1)...); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) (int, map[string]any, string) {
		args = append([]string{"run", "--problem", "generalized-lasso", "--X", x, "--y", y, "--sigma2", "1",
			"--lambda", "0.1max", "--json"}, args...)
		status, stdout, stderr := command(t, args...)
		if status != exitDone {
			return status, nil, stderr
		}
		var o map[string]any
		if err := json.Unmarshal([]byte(stdout), &o); err != nil {
			t.Fatal(err)
		}
		return status, o, stderr
	}
	_, want, _ := run("--D", dense)
	_, got, stderr := run("--D", sparse)
	if want == nil || got == nil {
		t.Fatal(stderr)
	}
	for _, key := range []string{"sure", "divergence", "residual"} {
		if g, w := got[key].(float64), want[key].(float64); math.Abs(g-w) > 1e-6*math.Abs(w) {
			t.Errorf("%s is %v, with a dense D %v", key, got[key], want[key])
		}
	}
	for message, args := range map[string][]string{
		`array "D" has shape (11, 11), expected (q, 12)`: {"--D", narrow},
		`array "D" is missing`:                           nil,
	} {
		if status, _, stderr := run(args...); status != exitUsage || !strings.Contains(stderr, message) {
			t.Errorf("%q: status %d, %q, expected %q", args, status, stderr, message)
		}
	}
	status, _, stderr := command(t, "run", "--problem", "lasso", "--X", x, "--y", y, "--D", dense, "--lambda", "1")
	if status != exitUsage || !strings.Contains(stderr, "--D is for generalized-lasso") {
		t.Errorf("lasso with --D: status %d, %q", status, stderr)
	}
}
