package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// No output replaces an input, by its own name or by another.
func TestOutputsDoNotOverwriteInputs(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	csv := file("in.csv", "a,b\n1,2\n3,4\n5,7\n")
	spec := file("v.yaml", "data: {y: [1, 2, 3]}\noperator: identity\nregularizer: {l1: lambda}\n")
	link := filepath.Join(dir, "link.csv")
	if err := os.Symlink(csv, link); err != nil {
		t.Skip(err)
	}
	for _, c := range []struct{ args, output, input string }{
		{"run --problem ols --response b --sigma2 1 --data IN --out IN", "out", "data"},
		{"run --problem ols --response b --sigma2 1 --data IN --out LINK", "out", "data"},
		{"run --problem svt --lambda 1 --sigma2 1 --data LINK --mu IN --out IN", "out", "data"},
		{"run --problem svt --lambda 1 --sigma2 1 --y IN --out LINK", "out", "y"},
		{"sweep --problem lasso --response b --sigma2 1 --lambda 1:2:3 --data IN --csv IN", "csv", "data"},
		{"sweep --spec SPEC --sigma2 1 --lambda 1:2:3 --csv SPEC", "csv", "spec"},
		{"sweep --problem lasso --sigma2 1 --lambda 1:2:3 --X IN --y SPEC --jsonl IN --resume", "jsonl", "X"},
		{"montecarlo --problem svt --sigma2 1 --lambda 1 --y IN --jsonl IN --resume", "jsonl", "y"},
		{"montecarlo --problem svt --sigma2 1 --lambda 1 --mu IN --running IN", "running", "mu"},
		{"montecarlo --problem svt --sigma2 1 --lambda 1 --mu IN --plot LINK", "plot", "mu"},
	} {
		line := strings.NewReplacer("IN", csv, "LINK", link, "SPEC", spec).Replace(c.args)
		before, _ := os.ReadFile(csv)
		status, stdout, stderr := command(t, strings.Fields(line)...)
		if status != exitUsage || stdout != "" || !strings.Contains(stderr, "--"+c.output+" is ") ||
			!strings.Contains(stderr, "the file of --"+c.input+":") {
			t.Errorf("%s: status %d, %s", c.args, status, stderr)
		}
		if after, _ := os.ReadFile(csv); string(after) != string(before) {
			t.Errorf("%s: the input was written to", c.args)
		}
	}
}

// A file that a specification names is an input too, though another replaces it.
func TestOutputsDoNotOverwriteWhatASpecificationNames(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"y.csv": "1\n2\n3\n", "w.csv": "1\n1\n2\n", "other.csv": "3\n4\n5\n",
		"named.yaml": "data: {y: y.csv, w: {file: w.csv}}\noperator: {diagonal: w}\nregularizer: {l1: lambda}\n",
		"whole.yaml": "data: y.csv\noperator: identity\nregularizer: {l1: lambda}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(dir, "y.csv"), filepath.Join(dir, "link.csv")); err != nil {
		t.Skip(err)
	}
	for _, c := range []struct {
		args   string
		output string
	}{
		{"run --spec DIR/named.yaml --sigma2 1 --lambda 1 --out DIR/y.csv", "out"},
		{"run --spec DIR/named.yaml --sigma2 1 --lambda 1 --out DIR/w.csv", "out"},
		{"run --spec DIR/whole.yaml --sigma2 1 --lambda 1 --out DIR/link.csv", "out"},
		{"run --spec DIR/whole.yaml --y DIR/other.csv --sigma2 1 --lambda 1 --out DIR/y.csv", "out"},
		{"sweep --spec DIR/whole.yaml --sigma2 1 --lambda 1:2:3 --csv DIR/y.csv", "csv"},
		{"montecarlo --spec DIR/whole.yaml --mu DIR/other.csv --sigma2 1 --lambda 1 --jsonl DIR/y.csv --resume",
			"jsonl"},
	} {
		status, stdout, stderr := command(t, strings.Fields(strings.ReplaceAll(c.args, "DIR", dir))...)
		if status != exitUsage || stdout != "" || !strings.Contains(stderr, "--"+c.output+" is ") ||
			!strings.Contains(stderr, ".yaml names: an output must not overwrite an input") {
			t.Errorf("%s: status %d, %s", c.args, status, stderr)
		}
	}
	if y, _ := os.ReadFile(filepath.Join(dir, "y.csv")); string(y) != "1\n2\n3\n" {
		t.Errorf("y.csv holds %q", y)
	}
	status, _, stderr := command(t, "run", "--spec", filepath.Join(dir, "whole.yaml"), "--sigma2", "1", "--lambda",
		"1", "--out", filepath.Join(dir, "fit.csv"))
	if status != exitDone {
		t.Errorf("status %d, %s", status, stderr)
	}
}

// A file that is no log is left as it is, whatever its only line.
func TestResumeLeavesOtherFilesAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notes.txt")
	for _, content := range []string{"my notes", "my notes\n", "{\"sweep\":tru", "\n", "a\nb\n", "3"} {
		for _, args := range [][]string{
			{"sweep", "--problem", "lasso", "--data", "../../testdata/diabetes.npz", "--lambda", "100:900:3"},
			{"montecarlo", "--problem", "matrix-completion", "--data", "../../testdata/mc60x40.npz", "--samples", "2",
				"--effects", "none"},
		} {
			if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
				t.Fatal(err)
			}
			if content == "{\"sweep\":tru" && args[0] == "sweep" {
				continue // a header that is torn
			}
			status, stdout, stderr := command(t, append(args, "--jsonl", path, "--resume")...)
			if status != exitUsage || stdout != "" ||
				!strings.Contains(stderr, "does not begin with the header of a "+args[0]) &&
					!strings.Contains(stderr, "its first line is none") {
				t.Errorf("%s of %q: status %d, %s%s", args[0], content, status, stdout, stderr)
			}
			if after, _ := os.ReadFile(path); string(after) != content {
				t.Errorf("%s: %q became %q", args[0], content, after)
			}
		}
	}
}

// fullDisk takes nothing.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestUnwritableOutputIsAFailure(t *testing.T) {
	for _, args := range [][]string{{"run", "--help"}, {"--help"}, {"--version"}, {"spec"},
		{"run", "--problem", "lasso", "--data", "../../testdata/diabetes.npz"}} {
		var stderr bytes.Buffer
		if status := execute(context.Background(), args, fullDisk{}, &stderr); status != exitFailure ||
			!strings.HasSuffix(stderr.String(), "surepipe: no space left\n") {
			t.Errorf("%v: status %d, %q", args, status, stderr.String())
		}
	}
}
