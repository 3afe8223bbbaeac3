package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"surepipe/risk/warning"
	"surepipe/study"
)

// tinyCompletion is one whose divergence is 2.7; lambda goes with it.
func tinyCompletion(t *testing.T) []string {
	data := save(t, floats("y", []float64{7, 4, 8}, 3), floats("indices", []float64{0, 3, 4}, 3),
		floats("shape", []float64{3, 2}, 2))
	return []string{"--problem", "matrix-completion", "--data", data, "--lambda", "3.189043743820395", "--sigma2", "1"}
}

// --verify adds a row and a key. A result that fails the check has a warning and status 3; one that
// passes has neither.
func TestVerify(t *testing.T) {
	diabetes := []string{"run", "--problem", "lasso", "--data", "../../testdata/diabetes.npz", "--verify"}
	status, stdout, stderr := command(t, diabetes...)
	if status != exitDone || !strings.Contains(stdout, "verified    0.") || strings.Contains(stdout, "NOT VERIFIED") {
		t.Errorf("status %d\n%s%s", status, stdout, stderr)
	}
	o := object(t, diabetes...)
	v, ok := o["verification"].(map[string]any)
	if !ok || !(v["largest"].(float64) <= 4) || v["probes"].(float64) != 3 || v["solver"] != "fista" ||
		v["other"] != "admm" || len(v["comparisons"].([]any)) != 8 {
		t.Errorf("verification: %v", o["verification"])
	}
	for i, name := range []string{"fit", "optimality", "columns", "solution", "other solver", "derivative",
		"divergence", "diagonal"} {
		if c := v["comparisons"].([]any)[i].(map[string]any); c["name"] != name || !(c["bars"].(float64) <= 4) {
			t.Errorf("comparison %d: %v, expected %s", i, c, name)
		}
	}
	if _, ok := object(t, diabetes[:5]...)["verification"]; ok {
		t.Error("a verification that nobody asked for")
	}
	// Right or marked: with the row, the key, the warning and the status that belong together.
	status, stdout, stderr = command(t, append(append([]string{"run"}, tinyCompletion(t)...), "--effects", "none", "--verify",
		"--json")...)
	var r study.Result
	if err := json.Unmarshal([]byte(stdout), &r); err != nil {
		t.Fatal(err)
	}
	right := r.Divergence > 2.699 && r.Divergence < 2.701
	doubted := len(r.Warnings) == 1 && r.Warnings[0].Is(warning.Unverified) &&
		strings.Contains(stderr, r.Warnings[0].Text)
	if r.Verification == nil || r.Doubted() != doubted || right == doubted || (status == exitNotConverged) != doubted {
		t.Errorf("status %d, divergence %g, %+v, %v\n%s", status, r.Divergence, r.Verification, r.Warnings, stderr)
	}
}

// A sweep and a montecarlo check every result, and a sweep without --verify is not one with it.
func TestVerifyOfMany(t *testing.T) {
	data := []string{"--problem", "lasso", "--data", "../../testdata/diabetes.npz"}
	log := filepath.Join(t.TempDir(), "s.jsonl")
	args := append([]string{"--lambda", "50:200:3", "--refine", "2", "--verify", "--jsonl", log}, data...)
	_, points, _ := sweepLines(t, args...)
	for _, p := range points {
		if p.Verification == nil || p.Doubted() {
			t.Errorf("point %d: %+v", p.Index, p.Verification)
		}
	}
	if _, again, _ := sweepLines(t, append(args, "--resume")...); len(again) != len(points) ||
		again[0].Verification.Largest != points[0].Verification.Largest {
		t.Errorf("%d points of a sweep that was done, expected %d", len(again), len(points))
	}
	status, _, stderr := command(t, append([]string{"sweep", "--lambda", "50:200:3", "--refine", "2", "--jsonl", log,
		"--resume"}, data...)...)
	if status != exitUsage || !strings.Contains(stderr, "it was begun with verify") {
		t.Errorf("status %d, %s", status, stderr)
	}
	stack := save(t, floats("y", []float64{1, 2, 4, 8, 9, 9, 1, 5}, 2, 4))
	status, stdout, stderr := command(t, "montecarlo", "--problem", "tv1d", "--data", stack, "--sigma2", "1",
		"--lambda", "1", "--verify", "--seeds", "2")
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	if status != exitDone || len(lines) != 5 {
		t.Fatalf("status %d\n%s%s", status, stdout, stderr)
	}
	for i, line := range lines[:4] {
		if strings.Contains(line, `"verification"`) != (i < 2) {
			t.Errorf("line %d: %s", i, line)
		}
	}
}

// The warnings about a result on standard error are also in its JSON, in the same words.
func TestJSONHoldsWhatStderrWarnsOf(t *testing.T) {
	x := floats("X", []float64{1, 2, 3, 5, 2, 1, 4, 0, 1, 3, 2, 2}, 6, 2)
	data := save(t, x, floats("y", []float64{101, 102, 99, 100, 103, 98}, 6))
	out := filepath.Join(t.TempDir(), "fit.npy")
	for _, args := range [][]string{{"run", "--lambda", "0.5max", "--out", out},
		{"sweep", "--lambda", "0.5max:0.9max:2", "--refine", "0"}} {
		status, stdout, stderr := command(t, append(args, "--problem", "lasso", "--data", data, "--sigma2", "1e7",
			"--json")...)
		if status != exitDone {
			t.Fatalf("%v: status %d, %s", args, status, stderr)
		}
		want := []string{warning.RelativeWeight.Code, warning.NoIntercept.Code, warning.Sigma2Contradicted.Code,
			warning.MuHatAlone.Code, warning.ErrorBarFloor.Code}
		if args[0] == "sweep" {
			want = []string{warning.RelativeWeight.Code, warning.NoIntercept.Code, warning.ErrorBarFloor.Code}
			stdout = strings.Split(stdout, "\n")[1]
		}
		var r study.Result
		if err := json.Unmarshal([]byte(stdout), &r); err != nil {
			t.Fatal(err)
		}
		var codes []string
		for _, w := range r.Warnings {
			codes = append(codes, w.Code)
			if !warning.Find(w.Code).Quiet && !strings.Contains(stderr, w.Text) {
				t.Errorf("%v: %q is not on standard error: %s", args, w.Text, stderr)
			}
		}
		if strings.Join(codes, " ") != strings.Join(want, " ") {
			t.Errorf("%v: warnings %v, expected %v", args, codes, want)
		}
		if *r.SUREStdErr <= 0 {
			t.Errorf("%v: an error bar of %g", args, *r.SUREStdErr)
		}
	}
}
