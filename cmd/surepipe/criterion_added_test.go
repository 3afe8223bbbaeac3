package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"surepipe/risk"
)

// hannanQuinn is minus twice the logarithm of the likelihood plus 2 log log d for each degree of freedom
// (Hannan and Quinn 1979).
var hannanQuinn = risk.Rule{
	Name: "hqc", Label: "HQC", Losses: risk.Likelihoods,
	Help: "minus twice the logarithm of the likelihood, plus 2 df log log d",
	Value: func(f risk.Fitted) (float64, float64) {
		return f.Information(2 * math.Log(math.Log(float64(f.Terms.D)))), math.NaN()
	},
	Text: func(risk.Fitted) string { return "after Hannan and Quinn" },
}

// A criterion that is added by one row, in a process of its own, is in the help, in the report, in JSON, in the
// columns of a sweep, in figures, in the choice and in means over samples.
func TestACriterionIsARow(t *testing.T) {
	if !inOwnProcess(t) {
		return
	}
	risk.Register(hannanQuinn)
	for _, help := range []string{"help criteria", "sweep --help"} {
		if _, out, _ := command(t, strings.Fields(help)...); !strings.Contains(out, "hqc") {
			t.Errorf("surepipe %s does not name hqc", help)
		}
	}
	run := []string{"run", "--problem", "lasso", "--data", "../../testdata/diabetes.npz", "--lambda", "100"}
	if _, out, _ := command(t, run...); !strings.Contains(out, "HQC") ||
		!strings.Contains(out, "after Hannan and Quinn") {
		t.Errorf("the report has no HQC:\n%s", out)
	}
	dir := t.TempDir()
	table, plot := filepath.Join(dir, "points.csv"), filepath.Join(dir, "curve.svg")
	status, out, stderr := command(t, "sweep", "--problem", "lasso", "--data", "../../testdata/diabetes.npz",
		"--lambda", "10:1000:8",
		"--criterion", "hqc", "--json", "--csv", table, "--plot", plot)
	if status != 0 {
		t.Fatalf("status %d: %s", status, stderr)
	}
	least, at := math.Inf(1), -1
	var summary struct {
		Criterion string
		Minimizer struct {
			Index    int
			Criteria map[string]float64
		}
	}
	lines := bytes.Split(bytes.TrimSpace([]byte(out)), []byte("\n"))
	for _, line := range lines[1 : len(lines)-1] {
		var p struct {
			Index    int
			D        float64
			DF       float64
			BIC      float64
			Criteria map[string]float64
		}
		if err := json.Unmarshal(line, &p); err != nil {
			t.Fatal(err)
		}
		want := p.BIC + p.DF*(2*math.Log(math.Log(p.D))-math.Log(p.D))
		if got := p.Criteria["hqc"]; math.Abs(got-want) > 1e-9*math.Abs(want) {
			t.Errorf("point %d: hqc %.12g, expected %.12g", p.Index, got, want)
		}
		if p.Criteria["hqc"] < least {
			least, at = p.Criteria["hqc"], p.Index
		}
	}
	if err := json.Unmarshal(lines[len(lines)-1], &summary); err != nil {
		t.Fatal(err)
	}
	if summary.Criterion != "hqc" || summary.Minimizer.Index != at || summary.Minimizer.Criteria["hqc"] != least {
		t.Errorf("summary %+v, expected point %d with %g", summary, at, least)
	}
	for file, want := range map[string]string{table: ",hqc", plot: "HQC"} {
		if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s does not hold %q (%v)", filepath.Base(file), want, err)
		}
	}
	if status, _, stderr := command(t, "sweep", "--problem", "lasso", "--data", "../../testdata/diabetes.npz",
		"--lambda", "10:1000:8",
		"--criterion", "hqc", "--rule", "1se"); status != 2 || !strings.Contains(stderr, "hqc does not have") {
		t.Errorf("--rule 1se: status %d, %s", status, stderr)
	}
	samples := filepath.Join(dir, "samples.npz")
	command(t, "generate", "--problem", "lasso", "--d", "60", "--p", "20", "--out", samples)
	of := []string{"montecarlo", "--problem", "lasso", "--data", samples, "--lambda", "0.2max", "--samples", "4"}
	_, out, _ = command(t, of...)
	lines = bytes.Split(bytes.TrimSpace([]byte(out)), []byte("\n"))
	mean := 0.0
	for _, line := range lines {
		var p struct{ Criteria map[string]float64 }
		if err := json.Unmarshal(line, &p); err != nil {
			t.Fatal(err)
		}
		mean += p.Criteria["hqc"] / 4
		if at := p.Criteria["mean_hqc"]; at != 0 && math.Abs(mean-at) > 1e-9*mean {
			t.Errorf("the mean of hqc is %g, expected %g", at, mean)
		}
	}
	if !strings.Contains(out, `"mean_hqc_stderr"`) {
		t.Errorf("no mean of hqc in %s", lines[len(lines)-1])
	}
	if _, err := risk.ParseCriterion("cp"); err == nil || !strings.Contains(fmt.Sprint(err), "hqc") {
		t.Errorf("an unknown criterion is %v", err)
	}
}
