package main

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"surepipe/internal/dataio"
	"surepipe/risk"
	"surepipe/study"
)

// unknownSigma2 is a file of a regression, 60 x 20, without sigma2; and a stack of n samples.
func unknownSigma2(t *testing.T, n int) (data, stack string) {
	rng := rand.New(rand.NewPCG(4, 4))
	const d, p = 60, 20
	x, ys := make([]float64, d*p), make([]float64, n*d)
	for i := range x {
		x[i] = rng.NormFloat64()
	}
	for k := range n {
		for i := range d {
			ys[k*d+i] = 2*x[i*p] - 2*x[i*p+1] + x[i*p+2] + rng.NormFloat64()
		}
	}
	data = save(t, floats("X", x, d, p), floats("y", ys[:d], d))
	return data, save(t, floats("X", x, d, p), floats("y", ys, n, d))
}

// sureKeys are the keys that need sigma2.
var sureKeys = []string{"sigma2", "sure", "sure_stderr", "sure_per_coordinate"}

// Without sigma2 surepipe run prints all that does not need it, and what needs it is absent: neither
// 0 nor NaN.
func TestRunWithoutSigma2(t *testing.T) {
	data, _ := unknownSigma2(t, 1)
	args := []string{"run", "--problem", "lasso", "--data", data, "--lambda", "8"}
	o := object(t, append(args, "--alo")...)
	for _, key := range sureKeys {
		if v, ok := o[key]; ok {
			t.Errorf("%s is %v", key, v)
		}
	}
	with := object(t, append(args, "--sigma2", "1")...)
	for _, key := range []string{"df", "gcv", "gcv_stderr", "gcv_trace_stderr", "sigma2_df"} {
		near(t, key, o[key].(float64), with[key].(float64))
	}
	for _, key := range []string{"aic", "bic", "alo", "alo_stderr"} {
		if v, ok := o[key].(float64); !ok || math.IsNaN(v) {
			t.Errorf("%s is %v", key, o[key])
		}
	}
	if _, asked := with["alo"]; asked {
		t.Error("alo without --alo, where the divergence takes no probes")
	}
	if o["alo_probe_stderr"] != 0.0 {
		t.Errorf("alo_probe_stderr is %v for the exact diagonal", o["alo_probe_stderr"])
	}
	near(t, "gcv", o["gcv"].(float64), 60*o["residual"].(float64)/math.Pow(60-o["df"].(float64), 2))
	status, stdout, _ := command(t, append(args, "--alo")...)
	if status != exitDone || strings.Contains(stdout, "SURE") || strings.Contains(stdout, "NaN") ||
		!strings.Contains(stdout, "unknown") || !strings.Contains(stdout, "GCV  ") ||
		!strings.Contains(stdout, "ALO  ") {
		t.Errorf("status %d\n%s", status, stdout)
	}
}

// Where a number means something else than a reader may think, the output says what it is about.
func TestOutputsSayWhatTheyAreAbout(t *testing.T) {
	mc := []string{"--problem", "matrix-completion", "--data", "../../testdata/mc60x40.npz"}
	o := object(t, append([]string{"run", "--alo"}, mc...)...)
	if s, _ := o["sure_estimates"].(string); !strings.Contains(s, "observed entries") {
		t.Errorf("SURE is about %q", s)
	}
	if s, _ := o["alo_estimates"].(string); !strings.Contains(s, "not observed") {
		t.Errorf("leave-one-out is about %q", s)
	}
	header, _, _ := sweepLines(t, append(mc, "--lambda", "0.3max:max:2", "--refine", "0", "--criterion", "gcv")...)
	if header["criterion"] != "gcv" || header["sure_estimates"] == nil || header["alo_estimates"] == nil {
		t.Errorf("header %v", header)
	}
	for _, args := range [][]string{append([]string{"run"}, mc...),
		append([]string{"sweep", "--lambda", "0.3max:max:2", "--refine", "0", "--criterion", "gcv"}, mc...)} {
		if _, stdout, _ := command(t, args...); !strings.Contains(stdout,
			"SURE is about the squared error at the observed entries") ||
			!strings.Contains(stdout, "aims at the squared error of predicting an entry that is not observed") {
			t.Errorf("%v:\n%s", args, stdout)
		}
	}
	o = object(t, "run", "--problem", "robust-pca", "--data", "../../testdata/rpca40.npz")
	if s, _ := o["sure_estimates"].(string); !strings.Contains(s, "not of the split") {
		t.Errorf("SURE of robust PCA is about %q", s)
	}
	o = object(t, "run", "--problem", "lasso", "--data", "../../testdata/diabetes.npz")
	if o["sure_estimates"] != nil || o["alo_estimates"] != nil {
		t.Errorf("%v", o)
	}
}

// A sweep minimizes what it is told, in its table, lines, summary, .csv and figure, and goes on after
// an interruption with the same criterion only.
func TestSweepByAnyCriterion(t *testing.T) {
	data, _ := unknownSigma2(t, 1)
	dir := t.TempDir()
	args := []string{"--problem", "lasso", "--data", data, "--lambda", "0.01max:max:7"}
	for _, criterion := range append(risk.CriterionNames(), "") {
		with := slices.Clone(args)
		if criterion != "" {
			with = append(with, "--criterion", string(criterion))
		}
		if criterion == risk.SURE {
			with = append(with, "--sigma2", "1")
		}
		if criterion == risk.LGO {
			with = append(with, "--blocks", "5")
		}
		csv, plot, log := filepath.Join(dir, "c"+string(criterion)+".csv"),
			filepath.Join(dir, "p"+string(criterion)+".svg"), filepath.Join(dir, "l"+string(criterion)+".jsonl")
		header, points, s := sweepLines(t, append(with, "--csv", csv, "--plot", plot, "--jsonl", log)...)
		if criterion == "" {
			criterion = risk.GCV
		}
		if header["criterion"] != string(criterion) || s.Criterion != criterion {
			t.Errorf("%s: the header has %v, the summary %s", criterion, header["criterion"], s.Criterion)
		}
		least, _ := points[s.Minimizer.Index].Value(criterion)
		table := readOnly(t, csv)
		column := slices.Index(table.Columns, string(criterion))
		for i, p := range points {
			v, _ := p.Value(criterion)
			if !(least <= v) || table.Data[i*table.Shape[1]+column] != v {
				t.Errorf("%s: point %d has %g, the minimizer %g", criterion, i, v, least)
			}
		}
		if hasSURE := slices.Contains(table.Columns, "sure"); hasSURE != (criterion == risk.SURE) {
			t.Errorf("%s: columns %v", criterion, table.Columns)
		}
		if text, err := os.ReadFile(plot); err != nil || !strings.Contains(string(text), criterion.Rule().Label) {
			t.Errorf("%s: the figure does not name it: %v", criterion, err)
		}
		resumed(t, log, append(with, "--jsonl", log, "--resume"))
	}
	if status, _, stderr := command(t, append([]string{"sweep", "--criterion", "bic", "--jsonl",
		filepath.Join(dir, "lgcv.jsonl"), "--resume"}, args...)...); status != exitUsage ||
		!strings.Contains(stderr, `it was begun with criterion "gcv", expected "bic"`) {
		t.Errorf("status %d: %s", status, stderr)
	}
	status, stdout, _ := command(t, append([]string{"sweep"}, args...)...)
	if status != exitDone || !strings.Contains(stdout, "criterion  gcv") || strings.Contains(stdout, "SURE") ||
		!strings.Contains(stdout, ": GCV ") {
		t.Errorf("status %d\n%s", status, stdout)
	}
	_, stdout, _ = command(t, append([]string{"sweep", "--criterion", "alo", "--sigma2", "1"}, args...)...)
	if !strings.Contains(stdout, "SURE   ± s.e.") || !strings.Contains(stdout, "ALO   ± s.e.") {
		t.Errorf("with sigma2:\n%s", stdout)
	}
}

// resumed fails unless a sweep that continues after the first four lines of its file writes the same
// points.
func resumed(t *testing.T, log string, args []string) {
	t.Helper()
	want, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(want), "\n")
	if err := os.WriteFile(log, []byte(strings.Join(lines[:4], "")), 0o666); err != nil {
		t.Fatal(err)
	}
	_, first, s := parseSweep(t, strings.TrimSuffix(string(want), "\n"))
	_, again, other := sweepLines(t, args...)
	if s.Minimizer.Index != other.Minimizer.Index || len(first) != len(again) {
		t.Fatalf("%v: the minimizer is %d of %d, expected %d of %d", args, other.Minimizer.Index, len(again),
			s.Minimizer.Index, len(first))
	}
	for i := range first {
		a, b := first[i], again[i]
		a.Seconds, b.Seconds = study.SecondsResult{}, study.SecondsResult{}
		one, _ := json.Marshal(a)
		two, _ := json.Marshal(b)
		if string(one) != string(two) {
			t.Errorf("%v: point %d\n%s\nexpected\n%s", args, i, two, one)
		}
	}
}

// A map of two weights by a criterion that is not defined everywhere.
func TestSweepOfTwoWeightsWithoutSigma2(t *testing.T) {
	data, _ := unknownSigma2(t, 1)
	plot := filepath.Join(t.TempDir(), "map.svg")
	_, points, s := sweepLines(t, "--problem", "elastic-net", "--data", data, "--lambda", "0.01max:max:4",
		"--lambda2", "0.1:10:3", "--criterion", "alo", "--plot", plot)
	for _, p := range points {
		if *p.ALO < *s.Minimizer.ALO {
			t.Errorf("point %d has %g, the minimizer %g", p.Index, *p.ALO, *s.Minimizer.ALO)
		}
	}
	if text, err := os.ReadFile(plot); err != nil || !strings.Contains(string(text), "ALO") {
		t.Errorf("the map does not name it: %v", err)
	}
}

// Where the diagonal is not known, nor probes enough to estimate it, --criterion alo is refused, and
// surepipe run --alo goes on without it.
func TestLeaveOneOutNeedsTheDiagonal(t *testing.T) {
	mc := []string{"--problem", "matrix-completion", "--data", "../../testdata/mc60x40.npz", "--trace", "hutchinson",
		"--queries", "3", "--derivative", "unrolled", "--tol", "1e-5"}
	status, _, stderr := command(t, append([]string{"sweep", "--criterion", "alo", "--lambda", "0.3max:0.6max:2"},
		mc...)...)
	if status != exitUsage || !strings.Contains(stderr, "--criterion alo: ") {
		t.Errorf("status %d: %s", status, stderr)
	}
	o := object(t, append([]string{"run", "--alo"}, mc...)...)
	text, _ := json.Marshal(o["warnings"])
	if o["alo"] != nil || !strings.Contains(string(text), "no-leave-one-out") {
		t.Errorf("alo %v, warnings %s", o["alo"], text)
	}
	// The probes of the exact trace are the unit vectors, whatever their batches.
	exact := append([]string{"run", "--alo", "--trace", "exact"}, mc[:4]...)
	one, two := object(t, exact...), object(t, append(exact, "--probe-batch", "70", "--parallel", "2")...)
	if one["alo"] == nil || one["alo"] != two["alo"] || one["alo_stderr"] != two["alo_stderr"] ||
		one["warnings"] != nil && strings.Contains(fmt.Sprint(one["warnings"]), "no-leave-one-out") {
		t.Errorf("alo %v ± %v, in other batches %v ± %v", one["alo"], one["alo_stderr"], two["alo"], two["alo_stderr"])
	}
}

// Many samples without sigma2, in their summary and figures; simulation needs sigma2.
func TestMonteCarloWithoutSigma2(t *testing.T) {
	_, stack := unknownSigma2(t, 5)
	dir := t.TempDir()
	plot, running := filepath.Join(dir, "p.svg"), filepath.Join(dir, "r.svg")
	status, stdout, stderr := command(t, "montecarlo", "--problem", "lasso", "--data", stack, "--lambda", "8",
		"--alo", "--seeds", "2", "--plot", plot, "--running", running)
	if status != exitDone {
		t.Fatalf("status %d: %s", status, stderr)
	}
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	mean := 0.0
	for _, line := range lines[:5] {
		var o map[string]any
		if err := json.Unmarshal([]byte(line), &o); err != nil {
			t.Fatal(err)
		}
		for _, key := range sureKeys {
			if v, ok := o[key]; ok {
				t.Errorf("%s is %v", key, v)
			}
		}
		mean += o["alo"].(float64) / 5
	}
	var s map[string]any
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &s); err != nil {
		t.Fatal(err)
	}
	near(t, "mean_alo", s["mean_alo"].(float64), mean)
	for _, key := range []string{"mean_sure", "rms_sure_stderr", "mean_error", "seeds_mean_sure"} {
		if v, ok := s[key]; ok {
			t.Errorf("%s is %v", key, v)
		}
	}
	if s["mean_gcv"] == nil || s["seeds_mean_gcv"] == nil || strings.Contains(stderr, "mean SURE") ||
		!strings.Contains(stderr, "mean GCV") {
		t.Errorf("%v\n%s", s, stderr)
	}
	for _, path := range []string{plot, running} {
		if text, err := os.ReadFile(path); err != nil || !strings.Contains(string(text), "GCV") {
			t.Errorf("%s does not name GCV: %v", path, err)
		}
	}
	x := []float64{1, 0, 0, 1, 1, 1}
	simulate := save(t, dataio.Array{Name: "X", Shape: []int{3, 2}, Data: x}, floats("y", []float64{1, 2, 3}, 3),
		floats("mu", []float64{1, 2, 3}, 3))
	if status, _, stderr := command(t, "montecarlo", "--problem", "lasso", "--data", simulate, "--lambda",
		"1"); status != exitUsage || !strings.Contains(stderr, "--sigma2 is missing and") {
		t.Errorf("status %d: %s", status, stderr)
	}
}

// Where the divergence takes probes leave-one-out comes with them, and its error says which part they
// are: in the JSON, the text, the columns of a sweep and the summary of many samples.
func TestLeaveOneOutFromTheProbesOfTheDivergence(t *testing.T) {
	mc := []string{"--problem", "matrix-completion", "--data", "../../testdata/mc60x40.npz", "--derivative", "unrolled",
		"--tol", "1e-5"} // the implicit derivative has an exact diagonal
	o := object(t, append([]string{"run"}, mc...)...)
	alo, stderr, probes := o["alo"].(float64), o["alo_stderr"].(float64), o["alo_probe_stderr"].(float64)
	exact := object(t, append([]string{"run"}, mc[:4]...)...)["alo"].(float64)
	if !(probes > 0) || stderr <= probes || math.Abs(alo-exact) > 4*probes {
		t.Errorf("alo %g ± %g, %g of it from the probes; exact %g", alo, stderr, probes, exact)
	}
	if again := object(t, append([]string{"run", "--probe-batch", "7", "--parallel", "2"},
		mc...)...); again["alo"] != o["alo"] || again["alo_probe_stderr"] != o["alo_probe_stderr"] {
		t.Errorf("alo %v ± %v, in other batches %v ± %v", o["alo"], o["alo_probe_stderr"], again["alo"],
			again["alo_probe_stderr"])
	}
	_, text, _ := command(t, append([]string{"run"}, mc...)...)
	if !strings.Contains(text, "from probes: ±") ||
		!strings.Contains(text, "aims at the squared error of predicting an entry that is not observed") {
		t.Errorf("text %s", text)
	}
	csv := filepath.Join(t.TempDir(), "s.csv")
	command(t, append([]string{"sweep", "--criterion", "alo", "--lambda", "0.3max:2max:3", "--refine", "0", "--csv",
		csv}, mc...)...)
	table, err := os.ReadFile(csv)
	if err != nil || !strings.Contains(string(table), ",alo,alo_stderr,alo_probe_stderr,") {
		t.Errorf("%v: %s", err, table)
	}
	_, stdout, stderrText := command(t, append([]string{"montecarlo", "--samples", "2", "--seeds", "3"}, mc...)...)
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	var s map[string]any
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &s); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"mean_alo", "rms_alo_probe_stderr", "seeds_mean_alo", "seeds_sd_alo",
		"seeds_rms_alo_probe_stderr"} {
		if v, ok := s[key].(float64); !ok || !(v > 0) {
			t.Errorf("%s is %v", key, s[key])
		}
	}
	if !strings.Contains(stderrText, "sd of leave-one-out over 3 seeds") {
		t.Errorf("%s", stderrText)
	}
}
