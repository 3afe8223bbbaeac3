package main

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Each line of --path has the coefficients, the degrees of freedom and the criterion of a run at its weight.
func TestThePathHasTheCoefficientsOfEveryPoint(t *testing.T) {
	table, dir := text(t, "motors.csv", motors), t.TempDir()
	path, out := filepath.Join(dir, "path.csv"), filepath.Join(dir, "fit.npz")
	common := strings.Fields("--problem lasso --tol 1e-12 --response mpg --loss poisson --data " + table)
	status, _, stderr := command(t, slices.Concat([]string{"sweep", "--path", path, "--lambda", "0.005max:max:5", "--refine",
		"3", "--parallel", "2"}, common)...)
	file, err := os.Open(path)
	if err != nil || status != exitDone {
		t.Fatalf("status %d, %s, %v", status, stderr, err)
	}
	defer file.Close()
	rows, err := csv.NewReader(file).ReadAll()
	if err != nil || len(rows) < 8 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	at := func(row []string, name string) float64 {
		v, err := strconv.ParseFloat(row[slices.Index(rows[0], name)], 64)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for _, row := range rows[1:] {
		o := object(t, slices.Concat([]string{"run", "--lambda", row[slices.Index(rows[0], "lambda")], "--out", out},
			common)...)
		b := readArray(t, out, "b")
		near(t, "intercept", at(row, "(intercept)"), o["intercept"].(float64))
		near(t, "df", at(row, "df"), o["divergence"].(float64))
		near(t, "alo", at(row, "alo"), o["alo"].(float64))
		for j, name := range []string{"cyl", "disp", "hp", "drat", "wt", "qsec"} {
			near(t, name, at(row, name), b[j])
		}
	}
	picture := filepath.Join(dir, "path.svg")
	command(t, slices.Concat([]string{"sweep", "--path", picture, "--lambda", "0.05max:max:5"}, common)...)
	if drawn, err := os.ReadFile(picture); err != nil || !strings.Contains(string(drawn), "qsec") {
		t.Errorf("%v, %d bytes without the names", err, len(drawn))
	}
	for args, want := range map[string]string{
		"--path x.txt": "--path: ", "--path x.csv --jsonl l.jsonl --resume": "--path needs the coefficients",
	} {
		status, _, stderr := command(t, slices.Concat(strings.Fields("sweep --lambda 1:2:3 "+args), common)...)
		if status != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%s: status %d, %s", args, status, stderr)
		}
	}
}
