package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The folder holds each table as printed, its numbers, and data that give them again.
func TestPaperTablesKeepTheDataThatMadeThem(t *testing.T) {
	dir := t.TempDir()
	status, stdout, stderr := command(t, "paper", "tables", "--out", dir, "--scale", "0.02", "--largest", "1MB",
		"--samples", "4")
	if status != exitDone {
		t.Fatalf("status %d, %s", status, stderr)
	}
	printed := strings.Split(strings.TrimSpace(stdout), "\n")
	text, err := os.ReadFile(filepath.Join(dir, "tables.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if len(lines) != len(printed)-1 || len(lines) < 11 {
		t.Fatalf("%d lines kept, %d printed", len(lines), len(printed))
	}
	tables := map[int]int{}
	for i, text := range lines {
		var line tableLine
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatal(err)
		}
		tables[line.Table]++
		if !strings.HasPrefix(printed[i+1], line.Problem) {
			t.Errorf("line %d is of %s, printed %q", i, line.Problem, printed[i+1])
		}
		again := object(t, "run", "--problem", line.Problem, "--data", filepath.Join(dir, line.Data), "--seed", "1",
			"--trace", "hutch++", "--queries", "102")
		if again["sure"] != *line.SURE || again["loss"] != *line.Loss {
			t.Errorf("%s: SURE %v, from the data kept %v", line.Data, *line.SURE, again["sure"])
		}
		if line.Risk == nil || !(*line.RiskStdErr > 0) || line.RiskSamples != 4 || line.Paper.Risk == 0 {
			t.Errorf("line %s", text)
		}
		if d := float64(line.D); (line.Analytic != nil) != (line.Problem == "lasso") || line.Analytic != nil &&
			math.Abs(*line.Analytic-*line.SURE) > 1e-6*d+8*line.Sigma2*line.DivergenceStdErr {
			t.Errorf("closed form %v of line %s", line.Analytic, text)
		}
	}
	for i, name := range []string{"table1-lasso", "table2-matrix-completion", "table3-robust-pca"} {
		text, err := os.ReadFile(filepath.Join(dir, name+".txt"))
		if err != nil || !strings.Contains(string(text), "Sizes are 0.02 of the paper's") ||
			!strings.Contains(string(text), printed[0]) {
			t.Errorf("%s.txt: %v\n%s", name, err, text)
		}
		cells, err := os.ReadFile(filepath.Join(dir, name+".csv"))
		if err != nil {
			t.Fatal(err)
		}
		table, err := csv.NewReader(bytes.NewReader(cells)).ReadAll()
		if err != nil || len(table) != 1+tables[i+1] || len(table[0]) != len(tableColumns) {
			t.Errorf("%s.csv: %v\n%s", name, err, cells)
		}
	}
}

// Data that are not kept are made again by the command that is.
func TestPaperTablesNameTheCommandThatMakesLargeData(t *testing.T) {
	kept, named := t.TempDir(), t.TempDir()
	for dir, keep := range map[string]string{kept: "1MB", named: "1kB"} {
		if status, _, stderr := command(t, "paper", "tables", "--out", dir, "--scale", "0.1", "--largest", "1MB",
			"--samples", "0", "--problem", "lasso", "--keep", keep, "--seed", "5"); status != exitDone {
			t.Fatalf("status %d, %s", status, stderr)
		}
	}
	text, err := os.ReadFile(filepath.Join(named, "tables.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var line tableLine
	if err := json.Unmarshal([]byte(strings.SplitN(string(text), "\n", 2)[0]), &line); err != nil {
		t.Fatal(err)
	}
	args := strings.Fields(line.Data)
	if len(args) < 4 || args[0] != "surepipe" {
		t.Fatalf("data %q", line.Data)
	}
	name := args[len(args)-1]
	args[len(args)-1] = filepath.Join(named, name)
	if status, _, stderr := command(t, args[1:]...); status != exitDone {
		t.Fatalf("%s: %s", line.Data, stderr)
	}
	want, err := os.ReadFile(filepath.Join(kept, name))
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(named, name))
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s differs from the data that were kept: %v", line.Data, err)
	}
}

// The figures stand on the lines and the data beside them; a run that was interrupted goes on,
// and one that is complete computes nothing.
func TestPaperFiguresGoOnAndKeepWhatMadeThem(t *testing.T) {
	dir := t.TempDir()
	args := []string{"paper", "figures", "--out", dir, "--scale", "0.02", "--samples", "6", "--seeds", "4", "--draws",
		"2", "--points", "3", "--queries", "6"}
	ctx, cancel := context.WithCancel(context.Background())
	var stdout, stderr bytes.Buffer
	if status := execute(ctx, args, cancelling{&stdout, cancel}, &stderr); status != exitInterrupted {
		t.Fatalf("interrupted after the first figure: status %d, %s", status, stderr.String())
	}
	if _, err := os.Stat(filepath.Join(dir, "figure1-matrix-completion.png")); err != nil {
		t.Error(err)
	}
	status, first, errs := command(t, args...)
	if status != exitDone || strings.Count(first, "figure ") != 3 {
		t.Fatalf("status %d, %s%s", status, first, errs)
	}
	files := map[string][]byte{}
	for _, name := range []string{
		"figure1-matrix-completion.jsonl", "figure1-matrix-completion.csv", "figure1-matrix-completion.png",
		"figure1-matrix-completion.svg", "figure1.txt",
		"figure2-robust-pca.jsonl", "figure2-robust-pca.csv", "figure2-robust-pca.png", "data/robust-pca-20x20.npz",
		"data/matrix-completion-40x20.npz",
		"figure3/sample001-of-3-points.jsonl", "figure3-hyperparameter.csv", "figure3-hyperparameter.png",
		"figure3-hyperparameter-errors.png", "figure3.txt",
	} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		files[name] = text
	}
	status, second, errs := command(t, args...)
	if status != exitDone || strings.Contains(second, "throughput") {
		t.Errorf("again: status %d, %s%s", status, second, errs)
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !bytes.Equal(got, want) && !strings.HasSuffix(name, ".txt") {
			t.Errorf("%s is another after the same command again: %v", name, err)
		}
	}
	// The folder's data give the folder's lines.
	_, mc, _ := command(t, "mc", "--problem", "robust-pca", "--data", filepath.Join(dir, "data/robust-pca-20x20.npz"),
		"--seed", "1", "--samples", "6", "--seeds", "4", "--trace", "hutch++", "--queries", "6")
	_, lines, _ := strings.Cut(string(files["figure2-robust-pca.jsonl"]), "\n")
	if got := seconds.ReplaceAllString(mc, ""); !strings.HasPrefix(got, seconds.ReplaceAllString(lines, "")) ||
		strings.Count(lines, "\n") != 10 {
		t.Errorf("surepipe montecarlo gives\n%s\nthe figure\n%s", got, lines)
	}
	checkRelativeErrors(t, filepath.Join(dir, "figure2-robust-pca.csv"))
	if status, _, stderr := command(t, append(args, "--queries", "9")...); status != exitUsage ||
		!strings.Contains(stderr, `it was begun with --queries "6", expected "9"`) {
		t.Errorf("other settings: status %d, %s", status, stderr)
	}
}

// checkRelativeErrors holds the last column against the others.
func checkRelativeErrors(t *testing.T, path string) {
	t.Helper()
	a := readOnly(t, path)
	cols := a.Shape[1]
	var risk, mean, samples, seeds float64
	for i := range a.Shape[0] {
		row := a.Data[i*cols:][:cols]
		if row[0] == 0 {
			risk += row[3]
			samples++
		} else {
			mean += row[2]
			seeds++
		}
	}
	risk, mean = risk/samples, mean/seeds
	for i := range a.Shape[0] {
		row := a.Data[i*cols:][:cols]
		want := (row[2] - risk) / risk
		if row[0] == 1 {
			want = (row[2] - mean) / risk
		}
		if math.Abs(row[4]-want) > 1e-9 {
			t.Errorf("%s, row %d: %v, expected a relative error of %v", path, i, row, want)
		}
	}
}

// cancelling cancels at the first write.
type cancelling struct {
	*bytes.Buffer
	cancel context.CancelFunc
}

func (c cancelling) Write(b []byte) (int, error) {
	c.cancel()
	return c.Buffer.Write(b)
}

func TestPaperRefusesBadUsageByName(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, want string }{
		{"paper tables --scale 0", "--scale is 0, expected more than 0 and at most 1"},
		{"paper tables --scale 2", "--scale is 2, expected"},
		{"paper tables --samples 1", "--samples is 1, expected at least 2"},
		{"paper tables --keep lots", `--keep is "lots", expected a size`},
		{"paper tables --queries 7", "--queries is 7: hutch++ takes"},
		{"paper tables --parallel 0", "--parallel is 0"},
		{"paper tables --out " + file, `--out is "` + file + `": `},
		{"paper figures", "--out is missing, expected a folder"},
		{"paper figures --figure 4 --out " + dir, `--figure is "4", expected all, 1, 2 or 3`},
		{"paper figures --points 1 --out " + dir, "--points is 1, expected at least 2"},
		{"paper figures --device tpu --scale 0.02 --out " + dir, `--device is "tpu"`},
		{"paper drawings", `unknown command "drawings"`},
	} {
		status, _, stderr := command(t, strings.Fields(c.args)...)
		if status != exitUsage || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, c.want) {
			t.Errorf("surepipe %s: status %d, %q, expected %q", c.args, status, stderr, c.want)
		}
	}
}

// Scaled sizes keep their shape, and no side is below 10.
func TestPaperSizesScale(t *testing.T) {
	for _, c := range []struct {
		scale                    float64
		rows, cols, rows2, cols2 int
	}{{1, 2000, 1000, 2000, 1000}, {0.2, 2000, 1000, 400, 200}, {0.2, 20, 10, 20, 10}, {0.02, 250, 500, 10, 20},
		{0.01, 1000, 1000, 10, 10}} {
		f := paperFlags{scale: c.scale}
		if rows, cols := f.scaled(c.rows, c.cols); rows != c.rows2 || cols != c.cols2 {
			t.Errorf("%d x %d at %g is %d x %d, expected %d x %d", c.rows, c.cols, c.scale, rows, cols, c.rows2,
				c.cols2)
		}
	}
}
