package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Several responses at once print what each alone prints, and one file predicts all of them.
func TestManyResponses(t *testing.T) {
	const table = "../../testdata/guide/diabetes.csv"
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	without := func(line string) map[string]any {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("%v: %.200s", err, line)
		}
		for _, key := range []string{"seconds", "response", "warnings"} {
			delete(m, key)
		}
		return m
	}
	many := strings.Fields("sweep --problem lasso --lambda 0.01max:max:6 --refine 3 --json --data " + table)
	status, stdout, stderr := command(t, append(many, "--response", "progression,bmi", "--out", file("fit.npz"),
		"--path", file("path.csv"))...)
	if status != 0 {
		t.Fatalf("status %d: %s", status, stderr)
	}
	got := strings.Split(strings.TrimSpace(stdout), "\n")
	var want []string
	for _, c := range [][2]string{{"progression", "bmi"}, {"bmi", "progression"}} {
		status, stdout, stderr := command(t, append(many, "--response", c[0], "--drop", c[1], "--path", file("one.csv"),
			"--out", file(c[0]+".npz"))...)
		if status != 0 {
			t.Fatalf("status %d: %s", status, stderr)
		}
		want = append(want, strings.Split(strings.TrimSpace(stdout), "\n")...)
		one, err := os.ReadFile(file("one.csv"))
		if err != nil {
			t.Fatal(err)
		}
		if path, err := os.ReadFile(file("path-" + c[0] + ".csv")); err != nil ||
			strings.Count(string(path), "\n") != strings.Count(string(one), "\n") {
			t.Errorf("the path of %s is another: %v", c[0], err)
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%d lines, expected %d", len(got), len(want))
	}
	for i := range got {
		a, b := without(got[i]), without(want[i])
		for _, key := range []string{"sure", "gcv", "divergence", "residual", "lambda"} {
			if u, ok := a[key].(float64); ok && !(math.Abs(u-b[key].(float64)) <= 1e-9*math.Abs(u)) {
				t.Errorf("line %d: %s is %g, expected %g", i, key, u, b[key])
			}
		}
		if a["data_sha256"] != b["data_sha256"] || (a["audit"] == nil) != (b["audit"] == nil) {
			t.Errorf("line %d is %.300s, expected %.300s", i, got[i], want[i])
		}
	}
	_, all, _ := command(t, "predict", "--fit", file("fit.npz"), "--data", table)
	_, first, _ := command(t, "predict", "--fit", file("progression.npz"), "--data", table)
	_, second, _ := command(t, "predict", "--fit", file("bmi.npz"), "--data", table)
	alone := [][]string{strings.Split(first, "\n"), strings.Split(second, "\n")}
	for i, line := range strings.Split(strings.TrimSpace(all), "\n") {
		for k, cell := range strings.Split(line, ",") {
			v, err := strconv.ParseFloat(cell, 64)
			if i == 0 {
				continue
			}
			if u, _ := strconv.ParseFloat(alone[k][i], 64); err != nil || math.Abs(u-v) > 1e-9 {
				t.Fatalf("row %d: predicted is %s, expected %s", i, cell, alone[k][i])
			}
		}
	}
	status, stdout, _ = command(t, "run", "--problem", "ridge", "--data", table, "--response", "progression,bmi",
		"--lambda", "10", "--json")
	var list []map[string]any
	if err := json.Unmarshal([]byte(stdout), &list); err != nil || status != 0 || len(list) != 2 ||
		list[1]["response"] != "bmi" {
		t.Errorf("status %d, %v: %.200s", status, err, stdout)
	}
	for _, c := range [][2]string{{"--response bmi,bmi", "named twice"}, {"--response bmi,", "empty name"},
		{"--response bmi,progression --picture p.png", "one response"}, {"--response bmi,nothing", "nothing"},
		{"--response bmi,progression --loss cox --time pressure", "one y"}, {"--response bmi,pressure --out f.csv", ".npz"}} {
		if status, _, stderr := command(t, append(strings.Fields("run --problem ridge --lambda 1 --data "+table),
			strings.Fields(c[0])...)...); status != 2 || !strings.Contains(stderr, c[1]) {
			t.Errorf("%s: status %d: %s", c[0], status, stderr)
		}
	}
}

// Responses with different numbers of classes have an X each.
func TestManyResponsesOfClasses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "classes.csv")
	var text strings.Builder
	text.WriteString("a,b,u,v\n")
	for i := range 30 {
		fmt.Fprintf(&text, "%d,%d,%g,%g\n", i%2, i%3, math.Sin(float64(i)), math.Cos(float64(i*i)))
	}
	if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	status, stdout, stderr := command(t, "run", "--problem", "lasso", "--loss", "multinomial", "--lambda", "0.1max", "--data",
		path, "--response", "a, b")
	if status != 0 || strings.Count(stdout, "response ") != 2 {
		t.Errorf("status %d: %s%s", status, stdout, stderr)
	}
}

// Each response has a page of its own.
func TestAPageForEachResponse(t *testing.T) {
	for _, args := range []string{"run --lambda 0.1max", "sweep --lambda 0.1max:max:4"} {
		page := filepath.Join(t.TempDir(), "page.html")
		status, _, stderr := command(t, append(strings.Fields(args), "--problem", "lasso", "--data",
			"../../testdata/guide/visits.csv", "--response", "visits,disea", "--report", page)...)
		if status != exitDone {
			t.Fatal(args, stderr)
		}
		for _, name := range []string{"visits", "disea"} {
			text, err := os.ReadFile(strings.Replace(page, ".html", "-"+name+".html", 1))
			if err != nil || !strings.Contains(string(text), "visits.csv, "+name) {
				t.Errorf("%s: %s: %v", args, name, err)
			}
		}
	}
}

func TestSamplesHaveOneResponse(t *testing.T) {
	_, _, stderr := command(t, strings.Fields("montecarlo --problem lasso --lambda 0.1max --samples 2 --sigma2 1 --data "+
		"../../testdata/guide/visits.csv --response visits,disea")...)
	if !strings.Contains(stderr, "--response names several columns") {
		t.Error(stderr)
	}
}
