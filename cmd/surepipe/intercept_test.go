package main

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"surepipe/internal/dataio"
	"surepipe/study"
)

// Data that were shifted, and --intercept, give what the data whose means were taken off
// give, but for the intercept's degree of freedom: Efron's diabetes data have none.
func TestInterceptTakesShiftsBack(t *testing.T) {
	const data = "../../testdata/diabetes.npz"
	x, y := readArray(t, data, "X"), readArray(t, data, "y")
	const shift, own = 152.1, 3.5 // of y, and of every column of X
	const d, p = 442, 10
	for i := range y {
		y[i] += shift
	}
	for i := range x {
		x[i] += own
	}
	moved := save(t, floats("X", x, d, p), floats("y", y, d), floats("sigma2", readArray(t, data, "sigma2")))
	for _, problem := range []string{"lasso", "ridge"} {
		args := []string{"run", "--problem", problem, "--lambda", "20", "--tol", "1e-10"}
		out := filepath.Join(t.TempDir(), "fit.npz")
		want := object(t, append(args, "--data", data, "--out", out)...)
		b := readArray(t, out, "b")
		got := object(t, append(args, "--data", moved, "--intercept", "--out", out)...)
		for i, v := range readArray(t, out, "b") {
			if math.Abs(v-b[i]) > 1e-5 {
				t.Errorf("%s: b[%d] is %g, expected %g", problem, i, v, b[i])
			}
		}
		intercept := shift
		for _, v := range b {
			intercept -= own * v
		}
		near(t, "the intercept", got["intercept"].(float64), intercept)
		near(t, "the intercept in the file", readArray(t, out, "intercept")[0], intercept)
		near(t, "divergence", got["divergence"].(float64), want["divergence"].(float64)+1)
		near(t, "jacobian_fro2", got["jacobian_fro2"].(float64), want["jacobian_fro2"].(float64)+1)
		near(t, "residual", got["residual"].(float64), want["residual"].(float64))
		near(t, "SURE", got["sure"].(float64), want["sure"].(float64)+2*want["sigma2"].(float64))
		if _, ok := want["intercept"]; ok {
			t.Error("an intercept that was not asked for")
		}
	}
	// The variance that Efron and others give has 442 - 11 degrees of freedom.
	got := object(t, "run", "--problem", "ols", "--data", moved, "--intercept", "--sigma2", "auto")
	near(t, "sigma2", got["sigma2"].(float64), 2932.68157)
	near(t, "the divergence of OLS", got["divergence"].(float64), 11)
	near(t, "the residual of OLS", got["residual"].(float64), 431*2932.68157)

	status, stdout, stderr := command(t, "run", "--problem", "lasso", "--data", moved, "--lambda", "0.1max",
		"--intercept")
	if status != exitDone || !strings.Contains(stdout, "\nintercept ") ||
		strings.Contains(stderr, "without an intercept") {
		t.Errorf("status %d, %s%s", status, stdout, stderr)
	}
	if _, _, stderr := command(t, "run", "--problem", "lasso", "--data", moved, "--lambda",
		"0.1max"); !strings.Contains(stderr, "without an intercept the fit and sigma2 are poor; "+
		"--intercept fits one\n") {
		t.Errorf("the warning is %q", stderr)
	}
}

// Over many samples SURE with an intercept has the loss for its mean; a mean of mu is
// part of the loss.
func TestInterceptIsUnbiased(t *testing.T) {
	const d, p = 40, 60
	rng := rand.New(rand.NewPCG(2, 3))
	x, mu := make([]float64, d*p), make([]float64, d)
	for i := range d {
		mu[i] = 30
		for j := range p {
			if rng.Float64() < 0.3 {
				x[i*p+j] = 1 + rng.NormFloat64()
			}
			if j < 3 {
				mu[i] += 2 * x[i*p+j]
			}
		}
	}
	data := save(t, floats("X", x, d, p), floats("mu", mu, d), floats("sigma2", []float64{1}))
	for _, problem := range []string{"lasso", "ridge"} {
		args := []string{"montecarlo", "--problem", problem, "--data", data, "--lambda", "4", "--samples", "300"}
		status, stdout, stderr := command(t, append(args, "--intercept")...)
		if status != exitDone {
			t.Fatal(stderr)
		}
		lines := strings.Split(strings.TrimSpace(stdout), "\n")
		if !strings.Contains(lines[0], `"intercept":`) {
			t.Errorf("a sample without an intercept: %s", lines[0])
		}
		var s study.Summary
		if err := json.Unmarshal([]byte(lines[len(lines)-1]), &s); err != nil {
			t.Fatal(err)
		}
		if !(math.Abs(*s.MeanError) < 4**s.MeanErrorStdErr) {
			t.Errorf("%s: SURE - loss is %g ± %g", problem, *s.MeanError, *s.MeanErrorStdErr)
		}
		if r := *s.RMSError / *s.RMSSUREStdErr; !(r > 0.8 && r < 1.25) {
			t.Errorf("%s: SURE - loss spreads by %g, its error bar says %g", problem, *s.RMSError, *s.RMSSUREStdErr)
		}
		if !(*s.MeanLoss < d) {
			t.Errorf("%s: the loss is %g, above that of y", problem, *s.MeanLoss)
		}
	}
}

// A sweep names the minimizer's intercept, and does not go on with one that has none.
func TestSweepNamesTheIntercept(t *testing.T) {
	log := filepath.Join(t.TempDir(), "sweep.jsonl")
	out := filepath.Join(t.TempDir(), "best.npz")
	args := []string{"--problem", "lasso", "--data", "../../testdata/diabetes.npz", "--lambda", "0.01max:max:6",
		"--jsonl", log}
	header, _, s := sweepLines(t, append(args, "--intercept", "--out", out)...)
	if header["intercept"] != true || s.Minimizer.Intercept == nil || *s.Minimizer.Intercept != readArray(t, out,
		"intercept")[0] {
		t.Errorf("header %v, minimizer %+v", header, s.Minimizer)
	}
	status, _, stderr := command(t, append([]string{"sweep", "--resume"}, args...)...)
	if status != exitUsage || !strings.Contains(stderr, log+": it was begun with") {
		t.Errorf("status %d, %s", status, stderr)
	}
	if status, _, stderr := command(t, append([]string{"sweep", "--resume", "--intercept"},
		args...)...); status != exitDone {
		t.Errorf("status %d, %s", status, stderr)
	}
}

func TestInterceptIsForRegressions(t *testing.T) {
	dir := t.TempDir()
	y := filepath.Join(dir, "y.csv")
	if err := dataio.WriteCSV(y, floats("y", []float64{1, 2, 3, 4, 5, 9}, 2, 3)); err != nil {
		t.Fatal(err)
	}
	status, _, stderr := command(t, "run", "--problem", "svt", "--data", y, "--sigma2", "1", "--lambda", "1",
		"--intercept")
	if want := "surepipe: --intercept is for ols, ridge, lasso, elastic-net, group-lasso, fused-lasso, " +
		"generalized-lasso and specifications, found --problem svt\n"; status != exitUsage || stderr != want {
		t.Errorf("status %d, %s", status, stderr)
	}
}

// Samples and X may be files of their own, with no other data.
func TestSamplesBesideXAlone(t *testing.T) {
	x := []float64{1, 2, 0, 4, 5, 1, 3, 3}
	ys := []float64{11, 12, 13, 15, 9, 8, 9, 7}
	dir := t.TempDir()
	xFile, yFile := filepath.Join(dir, "x.npy"), filepath.Join(dir, "y.npy")
	for path, a := range map[string]dataio.Array{xFile: floats("X", x, 4, 2), yFile: floats("y", ys, 2, 4)} {
		if err := dataio.WriteNPY(path, a); err != nil {
			t.Fatal(err)
		}
	}
	together := save(t, floats("X", x, 4, 2), floats("y", ys, 2, 4))
	args := []string{"mc", "--problem", "ridge", "--sigma2", "1", "--lambda", "2", "--intercept"}
	var printed []string
	for _, source := range [][]string{{"--data", together}, {"--X", xFile, "--y", yFile},
		{"--data", together, "--y", yFile}} {
		status, stdout, stderr := command(t, append(slices.Clone(args), source...)...)
		if status != exitDone {
			t.Fatalf("%v: status %d, %s", source, status, stderr)
		}
		printed = append(printed, seconds.ReplaceAllString(stdout, ""))
	}
	for _, text := range printed[1:] {
		if text != printed[0] {
			t.Errorf("%s\nexpected\n%s", text, printed[0])
		}
	}
}

// At the largest useful weight the estimate is the mean: the divergence is the intercept's 1,
// and the coefficient that is about to leave 0 is a decision in doubt.
func TestTheLargestWeightLeavesTheInterceptAlone(t *testing.T) {
	for _, c := range []struct {
		args      []string
		low, high float64
	}{{[]string{"--intercept"}, 1, 2}, {nil, 0, 1}} {
		args := append([]string{"run", "--problem", "lasso", "--data", "../../testdata/diabetes.npz", "--lambda",
			"1max"}, c.args...)
		o := object(t, args...)
		if o["divergence"] != c.low || o["divergence_low"] != c.low || o["divergence_high"] != c.high {
			t.Errorf("%v: divergence %v, %v to %v, expected %v, %v to %v", args, o["divergence"], o["divergence_low"],
				o["divergence_high"], c.low, c.low, c.high)
		}
	}
}
