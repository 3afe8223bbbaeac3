package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"surepipe/internal/dataio"
)

// lines are the JSON objects that the program prints.
func lines(t *testing.T, args ...string) (all []map[string]any) {
	t.Helper()
	status, stdout, stderr := command(t, args...)
	if status != exitDone {
		t.Fatalf("surepipe %s: status %d, %s", strings.Join(args, " "), status, stderr)
	}
	for s := bufio.NewScanner(strings.NewReader(stdout)); s.Scan(); {
		var o map[string]any
		if err := json.Unmarshal(s.Bytes(), &o); err != nil {
			t.Fatal(err)
		}
		all = append(all, o)
	}
	return all
}

// A named problem and its specification agree over many samples and many weights.
func TestManySamplesAndWeightsOfASpecification(t *testing.T) {
	dir := t.TempDir()
	for name, size := range map[string][]string{"lasso": {"--d", "40"}, "robust-pca": {"--rows", "12", "--cols",
		"10"}, "tv1d": {"--d", "80"}} {
		data := filepath.Join(dir, name+".npz")
		if status, _, stderr := command(t, append([]string{"generate", "--problem", name, "--out", data},
			size...)...); status != exitDone {
			t.Fatal(stderr)
		}
		spec := example(t, dir, name)
		for _, args := range [][]string{{"montecarlo", "--samples", "3", "--data", data},
			{"sweep", "--lambda", "0.1max:0.9max:4", "--refine", "0", "--json", "--data", data}} {
			want, got := lines(t, append(args, "--problem", name)...), lines(t, append(args, "--spec", spec)...)
			if len(got) != len(want) || len(got) < 4 {
				t.Fatalf("%s: %d lines, expected %d", name, len(got), len(want))
			}
			for i := range want {
				w, ok := want[i]["sure"].(float64)
				if g, found := got[i]["sure"].(float64); ok != found || math.Abs(g-w) > 1e-11*math.Abs(w) {
					t.Errorf("%s %s, line %d: SURE %v, expected %v", args[0], name, i, got[i]["sure"], want[i]["sure"])
				}
			}
		}
	}
}

// A sweep by a regularizer around c at y + c is that around 0 at y.
func TestSweepAroundAPoint(t *testing.T) {
	dir := t.TempDir()
	sweep := func(c float64, regularizer string) []map[string]any {
		var y strings.Builder
		for i := range 40 {
			fmt.Fprintln(&y, c+float64(i*i*7%19)/4-2)
		}
		spec := filepath.Join(dir, "spec.yaml")
		for name, text := range map[string]string{spec: "data: {y: y.csv}\noperator: identity\nregularizer: " +
			regularizer + "\nlambda: 1\nsigma2: 1\n", filepath.Join(dir, "y.csv"): y.String()} {
			if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		return lines(t, "sweep", "--spec", spec, "--lambda", "0.1:5:6", "--refine", "0", "--json")
	}
	for _, r := range []string{"{l1: lambda}", "{l2: lambda}"} {
		want, got := sweep(0, r), sweep(3, "{shifted: {to: 3, regularizer: "+r+"}}")
		for i := range want {
			w, ok := want[i]["sure"].(float64)
			if g, found := got[i]["sure"].(float64); ok != found || math.Abs(g-w) > 1e-9*math.Abs(w) {
				t.Errorf("%s, line %d: SURE %v, expected %v", r, i, g, w)
			}
		}
	}
}

// A stack of samples for a specification: each is what it is alone.
func TestStackOfASpecification(t *testing.T) {
	dir := t.TempDir()
	y := make([]float64, 3*16*8)
	for i := range y {
		y[i] = math.Sin(float64(i * i))
	}
	stack, one := filepath.Join(dir, "stack.npy"), filepath.Join(dir, "one.npy")
	if err := dataio.WriteNPY(stack, floats("", y, 3, 16, 8)); err != nil {
		t.Fatal(err)
	}
	spec := filepath.Join(dir, "dct.yaml")
	if err := os.WriteFile(spec, []byte("data: {}\noperator: identity\nsynthesis: {adjoint: dct}\nregularizer: "+
		"{l1: {weight: 0.3, unpenalized: averages}}\nsigma2: 0.2\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	got := lines(t, "mc", "--spec", spec, "--y", stack, "--trace", "exact")
	for i := range 3 {
		if err := dataio.WriteNPY(one, floats("", y[128*i:][:128], 16, 8)); err != nil {
			t.Fatal(err)
		}
		near(t, "sure", got[i]["sure"].(float64), object(t, "run", "--spec", spec, "--y", one, "--trace",
			"exact")["sure"].(float64))
	}
	if got := lines(t, "mc", "--spec", spec, "--y", stack, "--sigma2", "mad", "--trace",
		"exact"); got[0]["sigma2_method"] != "mad" {
		t.Errorf("sigma2 by %v", got[0]["sigma2_method"])
	}
}

// X and mu may come from files of their own beside a stack of samples.
func TestStackBesideOtherFiles(t *testing.T) {
	dir := t.TempDir()
	y := filepath.Join(dir, "y.npy")
	if err := dataio.WriteNPY(y, floats("", []float64{1, 5, 2, 0, 3, 4, 1, 2}, 2, 4)); err != nil {
		t.Fatal(err)
	}
	x := text(t, "X.csv", "1,2\n0,1\n3,1\n1,1\n")
	mu := text(t, "mu.csv", "1\n2\n1\n0\n")
	got := lines(t, "mc", "--problem", "lasso", "--y", y, "--data", x, "--mu", mu, "--sigma2", "auto", "--lambda",
		"0.5")
	if len(got) != 3 || got[0]["loss"] == nil || got[0]["sigma2_method"] != "ols-residual" {
		t.Errorf("%v", got)
	}
	if status, _, stderr := command(t, "mc", "--problem", "lasso", "--y", y, "--data", x, "--response", "a",
		"--sigma2", "1", "--lambda", "1"); status != exitUsage || !strings.Contains(stderr, "y comes from --y") {
		t.Errorf("status %d, %s", status, stderr)
	}
}
