package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"surepipe/study"
)

// shardedSweeps are small sweeps: one weight in chains of 4 points, two weights, and one in which
// every point is a unit, because the derivative is unrolled.
func shardedSweeps() map[string][]string {
	diabetes := "--data ../../testdata/diabetes.npz --sigma2 3000 --seed 5"
	return map[string][]string{
		"one weight": strings.Fields("sweep --problem lasso " + diabetes +
			" --lambda 0.02max:max:11 --solver fista --tol 1e-6 --chain 4 --trace hutchinson --queries 8"),
		"two weights": strings.Fields("sweep --problem elastic-net " + diabetes +
			" --lambda 0.05max:max:5 --lambda2 0.1:100:3 --criterion gcv --rule 1se --refine 3 --intercept"),
		"unrolled": strings.Fields("sweep --problem lasso " + diabetes +
			" --lambda 0.1max:max:5 --solver fista --tol 1e-3 --derivative unrolled --refine 2"),
	}
}

// mergeFiles merges files, and returns the status and the last line of standard output.
func mergeFiles(t testing.TB, files []string, args ...string) (status int, last, stderr string) {
	t.Helper()
	status, stdout, stderr := command(t, slices.Concat([]string{"merge"}, files, args)...)
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	return status, lines[len(lines)-1], stderr
}

// The merged file of a sweep, its summary and its tables are one machine's, whatever the number of
// shards.
func TestMergedSweepIsOneMachines(t *testing.T) {
	for name, run := range shardedSweeps() {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			whole, csv := filepath.Join(dir, "whole.jsonl"), filepath.Join(dir, "whole.csv")
			want, _, stderr := command(t, append(run, "--jsonl", whole, "--csv", csv, "--out",
				filepath.Join(dir, "whole.npz"))...)
			if want != exitDone && want != exitNotConverged {
				t.Fatal(stderr)
			}
			for _, n := range []int{3, 16} {
				merged, files := withShards(t, run, n)
				slices.Reverse(files)
				table, plot, out := filepath.Join(dir, fmt.Sprint(n, ".csv")), filepath.Join(dir, "sweep.png"),
					filepath.Join(dir, fmt.Sprint(n, ".npz"))
				status, last, stderr := mergeFiles(t, files, "--jsonl", merged, "--csv", table, "--plot", plot,
					"--out", out)
				if status != want {
					t.Fatalf("%d shards: status %d, %s", n, status, stderr)
				}
				lines := linesOf(t, whole)
				if !slices.Equal(linesOf(t, merged), lines) {
					t.Errorf("%d shards: the merged file differs from one machine's", n)
				}
				if got := string(study.WithoutTimes([]byte(last))); got != lines[len(lines)-1] {
					t.Errorf("%d shards: the summary differs from one machine's", n)
				}
				a, _ := os.ReadFile(csv)
				if b, err := os.ReadFile(table); err != nil || !bytes.Equal(a, b) {
					t.Errorf("%d shards: the .csv file differs from one machine's (%v)", n, err)
				}
				for _, file := range []string{plot, out} {
					if _, err := os.Stat(file); err != nil {
						t.Error(err)
					}
				}
				if !strings.Contains(stderr, "minimizer") {
					t.Errorf("%d shards: no table on standard error: %s", n, stderr)
				}
			}
		})
	}
}

// Without refinement the data are not needed, the minimizer is that of the grid, and a sweep goes on
// from the merged file to one machine's.
func TestMergedSweepWithoutRefinement(t *testing.T) {
	run := shardedSweeps()["one weight"]
	data, err := os.ReadFile("../../testdata/diabetes.npz")
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := filepath.Join(t.TempDir(), "d.npz")
	if err := os.WriteFile(elsewhere, data, 0o666); err != nil {
		t.Fatal(err)
	}
	here := slices.Clone(run)
	here[slices.Index(here, "--data")+1] = elsewhere
	whole := filepath.Join(t.TempDir(), "whole.jsonl")
	if status, _, stderr := command(t, append(run, "--jsonl", whole)...); status != exitDone {
		t.Fatal(stderr)
	}
	merged, files := withShards(t, here, 3)
	if err := os.Rename(elsewhere, elsewhere+".npz"); err != nil {
		t.Fatal(err)
	}
	status, _, stderr := mergeFiles(t, files, "--jsonl", merged)
	if status != exitUsage || !strings.Contains(stderr, "which is not there: give --data; or --no-refine") {
		t.Fatalf("status %d, %q", status, stderr)
	}
	moved := filepath.Join(t.TempDir(), "moved.jsonl")
	if status, _, stderr := mergeFiles(t, files, "--jsonl", moved, "--data", elsewhere+".npz"); status != exitDone ||
		!slices.Equal(linesOf(t, moved), linesOf(t, whole)) {
		t.Errorf("--data: status %d, %s", status, stderr)
	}
	csv, plot := filepath.Join(t.TempDir(), "sweep.csv"), filepath.Join(t.TempDir(), "sweep.svg")
	status, last, stderr := mergeFiles(t, files, "--jsonl", merged, "--no-refine", "--csv", csv, "--plot", plot)
	if status != exitDone || !strings.Contains(last, `"code":"not-refined"`) ||
		!strings.Contains(last, `"stage":"grid"`) || !strings.Contains(last, `"optimism"`) {
		t.Fatalf("status %d, %s, %s", status, last, stderr)
	}
	for _, file := range []string{csv, plot} {
		if _, err := os.Stat(file); err != nil {
			t.Error(err)
		}
	}
	if status, _, stderr := command(t, append(run, "--jsonl", merged, "--resume")...); status != exitDone ||
		!slices.Equal(linesOf(t, merged), linesOf(t, whole)) {
		t.Errorf("--resume after --no-refine: status %d, %s", status, stderr)
	}
	other := filepath.Join(t.TempDir(), "other.jsonl")
	wrong := save(t, floats("X", []float64{1, 2, 3, 4, 5, 7}, 3, 2), floats("y", []float64{1, 2, 4}, 3))
	for _, args := range [][]string{{"--data", wrong},
		{"--data", elsewhere + ".npz", "--y", "../../testdata/none.npy"}} {
		if status, _, stderr := mergeFiles(t, files, append(args, "--jsonl", other)...); status != exitUsage {
			t.Errorf("%v: status %d, %s", args, status, stderr)
		}
	}
}

func TestBadFlagsOfShardedSweeps(t *testing.T) {
	run := shardedSweeps()["one weight"]
	merged, files := withShards(t, run, 2)
	for _, c := range []struct{ args, want string }{
		{"--shard 0/2", "--shard needs --jsonl"},
		{"--shard= --jsonl " + merged, "--shard is empty"},
		{"--shard 2/2 --jsonl " + merged, "shards are numbered from 0 to 1"},
		{"--shard 0/2 --json --jsonl " + merged, "found --json"},
		{"--shard 0/2 --csv x.csv --jsonl " + merged, "give --csv, --plot and --out to surepipe merge, found --csv"},
		{"--chain -1", "--chain is -1"},
	} {
		if status, _, stderr := command(t, append(slices.Clone(run),
			strings.Fields(c.args)...)...); status != exitUsage || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: status %d, %q, expected %q", c.args, status, stderr, c.want)
		}
	}
	for _, c := range []struct{ args, want string }{
		{"--running x.png", "--running has no meaning for these shards, whose unit is a chain: expected some of " +
			"--jsonl, --mixed, --csv"},
		{"--out x.npz --no-refine", "--out is the fit, which --no-refine does not compute"},
		{"--csv /nowhere/x.csv", `--csv is "/nowhere/x.csv"`},
		{"--data=", "--data is empty"},
	} {
		status, _, stderr := mergeFiles(t, files, append(strings.Fields(c.args), "--jsonl", merged)...)
		if status != exitUsage || !strings.Contains(stderr, c.want) {
			t.Errorf("merge %s: status %d, %q, expected %q", c.args, status, stderr, c.want)
		}
	}
	// A grid with fewer chains than shards says so; the same shard again has nothing to do.
	_, _, stderr := command(t, append(slices.Clone(run), "--jsonl", filepath.Join(t.TempDir(), "s.jsonl"), "--shard",
		"5/9")...)
	if !strings.Contains(stderr, "3 chains of warm starts for 9 shards") {
		t.Error(stderr)
	}
}
