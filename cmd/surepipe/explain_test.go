package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"surepipe/cmd/surepipe/internal/report"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/study"
	"surepipe/vjp"
)

// What the solver chose by structure is in the JSON, and in the table of run --explain.
func TestChoicesArePrinted(t *testing.T) {
	var risk pipeline.Risk
	risk.Choices = []vjp.Choice{
		{Part: "method", Chosen: "direct", Reason: "the solution is linear in y"},
		{Part: "system", Chosen: "Cholesky", Reason: "its dimension is 10"},
	}
	r := study.Result{D: 3}
	r.Fill(&problems.Problem{}, risk, nil)
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	want := `"choices":[{"part":"method","chosen":"direct","reason":"the solution is linear in y"},{"part":"system",`
	if !strings.Contains(string(text), want) {
		t.Errorf("the JSON is %s, expected %s in it", text, want)
	}
	var out bytes.Buffer
	if err := report.Choices(&r, &out); err != nil {
		t.Fatal(err)
	}
	if want := "\nchosen by structure\nmethod  direct    the solution is linear in y\nsystem  Cholesky  its " +
		"dimension is 10\n"; out.String() != want {
		t.Errorf("the table is %q, expected %q", out.String(), want)
	}
	// A line of a file that another run wrote has the choices too.
	var line study.SweepLine
	if err := json.Unmarshal(text, &line); err != nil || len(line.Choices) != 2 ||
		line.Choices[1].Chosen != "Cholesky" {
		t.Errorf("read back: %+v, %v", line.Choices, err)
	}
}

func TestRunExplains(t *testing.T) {
	data := "../../testdata/diabetes.npz"
	status, out, stderr := command(t, "run", "--problem", "lasso", "--data", data, "--lambda", "0.1max", "--explain")
	if status != exitDone || !strings.Contains(out, "\nchosen by structure\n") || !strings.Contains(out, "SURE") {
		t.Errorf("status %d, %s, %s", status, out, stderr)
	}
	if _, out, _ := command(t, "run", "--problem", "lasso", "--data", data, "--lambda",
		"0.1max"); strings.Contains(out, "chosen by structure") {
		t.Errorf("without --explain: %s", out)
	}
}

// The margin of the tangent space is printed where it is small, and with --explain.
func TestMarginIsPrinted(t *testing.T) {
	for _, c := range []struct {
		margin         float64
		table, explain bool
	}{{0, false, false}, {0.4, true, true}, {99, true, true}, {101, false, true}} {
		r := study.Result{D: 3}
		r.Fill(&problems.Problem{}, pipeline.Risk{SpaceMargin: c.margin}, nil)
		var table, explained bytes.Buffer
		if err := report.Result(&r, &table); err != nil {
			t.Fatal(err)
		}
		if err := report.Choices(&r, &explained); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(table.String(), "margin") != c.table ||
			strings.Contains(explained.String(), "margin") != c.explain {
			t.Errorf("margin %g:\n%s%s", c.margin, &table, &explained)
		}
	}
	// The error of mu_hat has the weights of the observations.
	r := study.Result{D: 3}
	r.Fill(&problems.Problem{}, pipeline.Risk{MeanWeight: 2, Convergence: vjp.Convergence{Converged: true,
		Error: 0.5}}, nil)
	var table bytes.Buffer
	if err := report.Result(&r, &table); err != nil || !r.Solver.MuHatErrorWeighted ||
		!strings.Contains(table.String(), "sqrt(w) mu_hat within 5.0e-01") {
		t.Errorf("%v\n%s", err, &table)
	}
}
