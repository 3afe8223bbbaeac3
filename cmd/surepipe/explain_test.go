package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/vjp"
)

// What the solver chose by structure is in the JSON, and in the table of run --explain.
func TestChoicesArePrinted(t *testing.T) {
	var risk pipeline.Risk
	risk.Choices = []vjp.Choice{
		{Part: "method", Chosen: "direct", Reason: "the solution is linear in y"},
		{Part: "system", Chosen: "Cholesky", Reason: "its dimension is 10"},
	}
	r := result{D: 3}
	r.fill(&problems.Problem{}, risk, nil)
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	want := `"choices":[{"part":"method","chosen":"direct","reason":"the solution is linear in y"},{"part":"system",`
	if !strings.Contains(string(text), want) {
		t.Errorf("the JSON is %s, expected %s in it", text, want)
	}
	var out bytes.Buffer
	if err := r.writeChoices(&out); err != nil {
		t.Fatal(err)
	}
	if want := "\nchosen by structure\nmethod  direct    the solution is linear in y\nsystem  Cholesky  its dimension is 10\n"; out.String() != want {
		t.Errorf("the table is %q, expected %q", out.String(), want)
	}
	// A line of a file that another run wrote has the choices too.
	var line sweepLine
	if err := json.Unmarshal(text, &line); err != nil || len(line.Choices) != 2 || line.Choices[1].Chosen != "Cholesky" {
		t.Errorf("read back: %+v, %v", line.Choices, err)
	}
}

func TestRunExplains(t *testing.T) {
	data := "../../testdata/diabetes.npz"
	status, out, stderr := command(t, "run", "--problem", "lasso", "--data", data, "--lambda", "0.1max", "--explain")
	if status != exitDone || !strings.Contains(out, "\nchosen by structure\n") || !strings.Contains(out, "SURE") {
		t.Errorf("status %d, %s, %s", status, out, stderr)
	}
	if _, out, _ := command(t, "run", "--problem", "lasso", "--data", data, "--lambda", "0.1max"); strings.Contains(out, "chosen by structure") {
		t.Errorf("without --explain: %s", out)
	}
}
