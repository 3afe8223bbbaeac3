package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A sweep by cross-validation goes on after an interruption, and in shards, to the same bits.
func TestCrossValidationResumesAndDivides(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	sweep := func(more ...string) []string {
		return append([]string{"sweep", "--problem", "lasso", "--data", "../../testdata/diabetes.npz", "--lambda",
			"10:1000:8", "--criterion", "cv", "--folds", "5", "--repeats", "2", "--blocks", "3", "--chain", "4"}, more...)
	}
	seconds := regexp.MustCompile(`"seconds":(\{[^}]*\}|[0-9.e-]+)`)
	points := func(path string) []string {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.SplitAfter(seconds.ReplaceAllString(string(text), `"seconds":0`), "\n")
		return lines[1 : len(lines)-1]
	}
	run := func(args []string) {
		if status, _, stderr := command(t, args...); status != 0 {
			t.Fatalf("%v: status %d: %s", args, status, stderr)
		}
	}
	run(sweep("--jsonl", at("whole.jsonl")))
	whole, err := os.ReadFile(at("whole.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	half := bytes.Join(bytes.SplitAfter(whole, []byte("\n"))[:6], nil)
	if err := os.WriteFile(at("half.jsonl"), half, 0o666); err != nil {
		t.Fatal(err)
	}
	run(sweep("--jsonl", at("half.jsonl"), "--resume"))
	for i := range 2 {
		run(sweep("--jsonl", at("parts.jsonl"), "--shard", fmt.Sprintf("%d/2", i)))
	}
	shards, _ := filepath.Glob(at("parts*shard*"))
	run(append([]string{"merge", "--jsonl", at("merged.jsonl")}, shards...))
	want := points(at("whole.jsonl"))
	for _, name := range []string{"half.jsonl", "merged.jsonl"} {
		got := points(at(name))
		for i, line := range want[:8] {
			if i >= len(got) || got[i] != line {
				t.Errorf("%s, line %d differs:\n%s", name, i, line)
				break
			}
		}
	}
	var line struct {
		Criteria map[string]float64
		Digest   struct{ Units int }
	}
	if err := json.Unmarshal(bytes.Split(whole, []byte("\n"))[3], &line); err != nil || !(line.Criteria["cv"] > 0) ||
		!(line.Criteria["cv_stderr"] > 0) || line.Digest.Units != 148 {
		t.Errorf("%+v, %v", line, err)
	}

	// The summary of a sweep that was complete has the minimizer's value, too.
	run(sweep("--jsonl", at("whole.jsonl"), "--resume"))
	again, err := os.ReadFile(at("whole.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.Split(bytes.TrimSpace(again), []byte("\n"))
	var summary struct {
		Minimizer struct{ Criteria map[string]float64 }
	}
	if err := json.Unmarshal(lines[len(lines)-1], &summary); err != nil || !(summary.Minimizer.Criteria["cv"] > 0) {
		t.Errorf("the summary of a sweep that is resumed when it is complete has %+v, %v", summary, err)
	}
}

// Groups of a table's column are left out together, and the column is none of X.
func TestGroupsOfATable(t *testing.T) {
	var table strings.Builder
	table.WriteString("y,x,who\n")
	for i := range 60 {
		fmt.Fprintf(&table, "%g,%g,s%d\n", math.Sin(float64(i))+float64(i/6), math.Cos(float64(i)), i/6)
	}
	path := filepath.Join(t.TempDir(), "table.csv")
	if err := os.WriteFile(path, []byte(table.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	args := []string{"sweep", "--problem", "ridge", "--data", path, "--response", "y", "--lambda", "1:100:3",
		"--criterion", "cv", "--json"}
	_, out, stderr := command(t, append(args, "--groups", "who")...)
	var line struct {
		P      int
		Digest struct{ Units int }
	}
	if err := json.Unmarshal([]byte(strings.Split(out, "\n")[1]), &line); err != nil || line.P != 1 ||
		line.Digest.Units != 10 {
		t.Errorf("%+v, %v, %s", line, err, stderr)
	}
	for _, wrong := range [][]string{{"--groups", "whom"}, {"--blocks", "-1"}, {"--folds", "1"}, {"--repeats", "-2"},
		{"--groups", "who", "--blocks", "3"}} {
		if status, _, stderr := command(t, append(args, wrong...)...); status != 2 ||
			!strings.Contains(stderr, strings.TrimPrefix(wrong[0], "--")) {
			t.Errorf("%v: status %d: %s", wrong, status, stderr)
		}
	}
}

// Where leave-one-out, a default, is not defined at any point of a small completion, or leave-group-out at most of a
// sweep, cross-validation takes its place
// with a warning, after an interruption too; where it is asked for that is an error, which names what to choose.
func TestUndefinedDefaultFallsBackToCrossValidation(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	table := "a,b,c\n,1.46,3.36\n3.30,,3.30\n1.73,3.38,5.04\n1.67,,\n4.27,5.46,\n"
	if err := os.WriteFile(at("t.csv"), []byte(table), 0o666); err != nil {
		t.Fatal(err)
	}
	sweep := func(more ...string) []string {
		return append([]string{"sweep", "--problem", "matrix-completion", "--data", at("t.csv"), "--effects", "rows,cols",
			"--lambda", "0.001max:0.01max:3", "--json"}, more...)
	}
	last := func(args []string) (s struct {
		Criterion string
		Minimizer struct{ Criteria map[string]float64 }
		Warnings  []struct{ Code string }
	}) {
		status, stdout, stderr := command(t, args...)
		lines := strings.Split(strings.TrimSpace(stdout), "\n")
		if err := json.Unmarshal([]byte(lines[len(lines)-1]), &s); err != nil || status != 0 {
			t.Fatalf("status %d: %v: %s", status, err, stderr)
		}
		return s
	}
	whole := last(sweep("--jsonl", at("whole.jsonl")))
	if whole.Criterion != "cv" || !strings.Contains(fmt.Sprint(whole.Warnings), "criterion-undefined") ||
		!(whole.Minimizer.Criteria["cv_stderr"] > 0) {
		t.Errorf("%+v", whole)
	}
	text, err := os.ReadFile(at("whole.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	half := bytes.Join(bytes.SplitAfter(text, []byte("\n"))[:3], nil)
	if err := os.WriteFile(at("half.jsonl"), half, 0o666); err != nil {
		t.Fatal(err)
	}
	if again := last(sweep("--jsonl", at("half.jsonl"), "--resume")); fmt.Sprint(again) != fmt.Sprint(whole) {
		t.Errorf("continued: %+v, expected %+v", again, whole)
	}
	if asked := last(sweep("--criterion", "cv")); fmt.Sprint(asked.Minimizer) != fmt.Sprint(whole.Minimizer) {
		t.Errorf("asked for: %+v, expected %+v", asked, whole)
	}
	if status, _, stderr := command(t, sweep("--criterion", "alo")...); status != 1 ||
		!strings.Contains(stderr, "choose cv, or larger weights") {
		t.Errorf("status %d: %s", status, stderr)
	}
	// A coefficient that one site alone determines ends leave-group-out where the penalty lets it in.
	var sites strings.Builder
	sites.WriteString("site,dose,only,y\n")
	for i := range 60 {
		dose, only := (i*37)%23, (i*13)%7*max(0, 1-i/10)
		fmt.Fprintf(&sites, "%d,%d,%d,%g\n", i/10, dose, only, float64(dose+5*only)+3*math.Sin(float64(i*i)))
	}
	if err := os.WriteFile(at("sites.csv"), []byte(sites.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	grouped := []string{"sweep", "--problem", "lasso", "--data", at("sites.csv"), "--response", "y", "--groups", "site",
		"--lambda", "0.01max:max:12", "--json"}
	left, asked := last(grouped), last(append(grouped, "--criterion", "cv"))
	if left.Criterion != "cv" || fmt.Sprint(left.Minimizer) != fmt.Sprint(asked.Minimizer) {
		t.Errorf("groups: %+v, expected %+v", left, asked)
	}
}

// Where each plant has one outcome, leave-one-out is known for large weights only, and its least there is next to where
// it is not known: one machine and merged shards go on by cross-validation, and from lines alone there is no answer.
func TestPlantsThatSeparateOutcomesFallBackToCrossValidation(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	var table strings.Builder
	table.WriteString("plant,uptake,cold\n")
	for i := range 84 {
		fmt.Fprintf(&table, "p%d,%d,%d\n", i/7, 10+(i*37)%23, i/7%2)
	}
	if err := os.WriteFile(at("plants.csv"), []byte(table.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	type summary struct {
		Criterion string
		Minimizer struct {
			Lambda   float64
			Criteria map[string]float64
		}
		Warnings []struct{ Code string }
	}
	last := func(args ...string) (s summary) {
		status, stdout, stderr := command(t, args...)
		lines := strings.Split(strings.TrimSpace(stdout), "\n")
		if err := json.Unmarshal([]byte(lines[len(lines)-1]), &s); err != nil || status != 0 {
			t.Fatalf("%v: status %d: %v: %s", args, status, err, stderr)
		}
		return s
	}
	sweep := []string{"sweep", "--problem", "lasso", "--data", at("plants.csv"), "--response", "cold", "--loss",
		"logistic", "--lambda", "0.001max:max:15", "--chain", "5"}
	s := last(append(sweep, "--json")...)
	if s.Criterion != "cv" || !(s.Minimizer.Criteria["cv"] < 0.01) ||
		!strings.Contains(fmt.Sprint(s.Warnings), "criterion-undefined") {
		t.Errorf("%+v", s)
	}
	merge := []string{"merge", "--jsonl", at("merged.jsonl")}
	for i := range 2 {
		args := append(sweep, "--jsonl", at("merged.jsonl"), "--shard", fmt.Sprintf("%d/2", i))
		if status, _, stderr := command(t, args...); status != 0 {
			t.Fatalf("status %d: %s", status, stderr)
		}
		merge = append(merge, at(fmt.Sprintf("merged.shard-000%d-of-0002.jsonl", i)))
	}
	status, _, stderr := command(t, append(merge, "--no-refine")...)
	if status != 2 || !strings.Contains(stderr, "goes on by cross-validation: merge without --no-refine") {
		t.Errorf("status %d: %s", status, stderr)
	}
	if merged := last(merge...); fmt.Sprint(merged) != fmt.Sprint(s) {
		t.Errorf("merged: %+v, expected %+v", merged, s)
	}
}
