package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"surepipe/internal/dataio"
	"surepipe/study"
)

// shardedRun are the arguments of a small run of 11 samples and 3 repetitions.
func shardedRun(t testing.TB) []string {
	t.Helper()
	mu := make([]float64, 30)
	for i := range mu {
		mu[i] = float64(i%5) - 2
	}
	data := save(t, floats("y", mu, 6, 5), floats("mu", mu, 6, 5), floats("sigma2", []float64{0.25}))
	return []string{"montecarlo", "--problem", "svt", "--data", data, "--lambda", "1", "--samples", "11", "--seeds",
		"3", "--trace", "hutchinson", "--queries", "6"}
}

// withShards computes the shards of a run, and returns the name of the merged file and theirs.
func withShards(t testing.TB, run []string, n int) (merged string, files []string) {
	t.Helper()
	merged = filepath.Join(t.TempDir(), "mc.jsonl")
	for i := range n {
		status, stdout, stderr := command(t, append(run, "--jsonl", merged, "--shard", fmt.Sprintf("%d/%d", i, n))...)
		if status != exitDone || stdout != "" {
			t.Fatalf("shard %d: status %d, %q, %s", i, status, stdout, stderr)
		}
		files = append(files, fmt.Sprintf("%s.shard-%04d-of-%04d.jsonl", strings.TrimSuffix(merged, ".jsonl"), i, n))
	}
	return merged, files
}

// linesOf are the lines of a file without their times.
func linesOf(t testing.TB, path string) (lines []string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		lines = append(lines, string(study.WithoutTimes(bytes.TrimSuffix(line, []byte("\n")))))
	}
	return lines
}

func TestShardsOfEveryRunAreMerged(t *testing.T) {
	if got := slices.Sorted(maps.Keys(mergers)); !slices.Equal(got, study.Units()) {
		t.Errorf("merge knows the units %v, shards have %v", got, study.Units())
	}
}

// One machine's file and summary, whatever the number of shards; more shards than units are legal.
func TestMergedShardsAreOneMachinesRun(t *testing.T) {
	run := shardedRun(t)
	whole := filepath.Join(t.TempDir(), "whole.jsonl")
	status, stdout, stderr := command(t, append(run, "--jsonl", whole)...)
	if status != exitDone {
		t.Fatal(stderr)
	}
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	want := study.WithoutTimes([]byte(lines[len(lines)-1]))
	for _, n := range []int{1, 3, 8, 20} {
		merged, files := withShards(t, run, n)
		slices.Reverse(files) // in any order
		plot := filepath.Join(t.TempDir(), "mc.png")
		status, stdout, stderr := command(t, slices.Concat([]string{"merge"}, files,
			[]string{"--jsonl", merged, "--plot", plot})...)
		if status != exitDone {
			t.Fatalf("%d shards: status %d, %s", n, status, stderr)
		}
		if !slices.Equal(linesOf(t, merged), linesOf(t, whole)) {
			t.Errorf("%d shards: the merged file differs from one machine's", n)
		}
		if got := study.WithoutTimes([]byte(strings.TrimSpace(stdout))); !bytes.Equal(got, want) {
			t.Errorf("%d shards: summary %s, expected %s", n, got, want)
		}
		if figure, err := os.ReadFile(plot); err != nil || !carries(t, string(figure), run) {
			t.Errorf("%d shards: the figure has no command of its own, or another one (%v)", n, err)
		}
		// The merged file is one machine's: a longer run continues it.
		longer := slices.Clone(run)
		longer[slices.Index(longer, "--seeds")+1] = "4"
		if status, _, stderr := command(t, append(longer, "--jsonl", merged, "--resume")...); status != exitDone {
			t.Errorf("%d shards: --resume: status %d, %s", n, status, stderr)
		}
	}
}

// carries reports whether a figure has the version, the hash of the data, and a command with all words
// of a run.
func carries(t *testing.T, figure string, run []string) bool {
	t.Helper()
	line := regexp.MustCompile(`Command\x00{5}([ -~]+)`).FindStringSubmatch(figure)
	if line == nil || !strings.Contains(figure, "sha256:") || !strings.Contains(figure, "surepipe "+study.Version()) {
		return false
	}
	for i, word := range run {
		if i > 0 && !strings.Contains(line[1], word) && run[i-1] != "--parallel" && word != "--parallel" {
			t.Logf("no %s in %s", word, line[1])
			return false
		}
	}
	return !strings.Contains(line[1], "shard")
}

// Files that are torn anywhere, or not there, are listed as an array; after the same commands again
// the merged file is one machine's.
func TestKilledShardsAreListedAndContinue(t *testing.T) {
	run := shardedRun(t)
	merged, files := withShards(t, run, 5)
	want := map[string][]string{}
	for _, file := range files {
		want[file] = linesOf(t, file)
	}
	for _, i := range []int{1, 2, 4} {
		text, err := os.ReadFile(files[i])
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(files[i], text[:len(text)-7*i], 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(files[2]); err != nil {
		t.Fatal(err)
	}
	left := slices.Delete(slices.Clone(files), 2, 3)
	status, stdout, stderr := command(t, slices.Concat([]string{"merge"}, left, []string{"--jsonl", merged})...)
	if status != exitIncomplete || stdout != `{"array":"1-2,4","missing":[1,2,4]}`+"\n" ||
		!strings.Contains(stderr, "3 of 5 shards are missing or incomplete: compute them with --array=1-2,4") {
		t.Fatalf("status %d, %q, %q", status, stdout, stderr)
	}
	if _, err := os.Stat(merged); err == nil {
		t.Error("something was written though shards are missing")
	}
	t.Setenv("SLURM_ARRAY_TASK_COUNT", "3")
	for _, i := range []int{1, 2, 4} {
		t.Setenv("SLURM_ARRAY_TASK_ID", fmt.Sprint(i))
		status, _, stderr := command(t, append(run, "--jsonl", merged, "--shard", "auto/5")...)
		if status != exitDone || !strings.Contains(stderr,
			fmt.Sprintf("SLURM_ARRAY_TASK_ID says that this is shard %d/5", i)) {
			t.Fatalf("status %d, %s", status, stderr)
		}
	}
	for _, file := range files {
		if !slices.Equal(linesOf(t, file), want[file]) {
			t.Errorf("%s differs after it was torn and continued", file)
		}
	}
	if status, _, stderr := command(t, slices.Concat([]string{"merge"}, files,
		[]string{"--jsonl", merged})...); status != exitDone {
		t.Errorf("status %d, %s", status, stderr)
	}
}

// Samples that have not converged make merge's exit status 3, and not the shards'.
func TestShardsThatDidNotConvergeAreDone(t *testing.T) {
	run := append(shardedRun(t), "--solver", "fista", "--max-iter", "1", "--tol", "1e-14")
	merged, files := withShards(t, run, 2)
	status, _, stderr := command(t, slices.Concat([]string{"merge"}, files, []string{"--jsonl", merged})...)
	whole, _, _ := command(t, run...)
	if status != whole {
		t.Errorf("merge: status %d, one machine: %d, %s", status, whole, stderr)
	}
}

// A sweep's file has one writer too.
func TestASweepsFileIsLocked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sweep.jsonl")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := study.Lock(file); err != nil {
		t.Fatal(err)
	}
	data := save(t, floats("y", []float64{3, 1, 4, 1, 5, 9}, 2, 3), floats("sigma2", []float64{1}))
	for _, more := range [][]string{nil, {"--resume"}} {
		status, _, stderr := command(t, append([]string{"sweep", "--problem", "svt", "--data", data, "--lambda",
			"1:2:2", "--jsonl", path}, more...)...)
		if status != exitFailure || !strings.Contains(stderr, "another process writes to this file") {
			t.Errorf("%v: status %d, %s", more, status, stderr)
		}
	}
	if text, err := os.ReadFile(path); err != nil || len(text) > 0 {
		t.Errorf("the file has been changed: %q, %v", text, err)
	}
}

// A second writer of a file is turned away.
func TestAShardsFileIsLocked(t *testing.T) {
	run := shardedRun(t)
	merged, files := withShards(t, run, 2)
	file, err := os.OpenFile(files[0], os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := study.Lock(file); err != nil {
		t.Fatal(err)
	}
	status, _, stderr := command(t, append(run, "--jsonl", merged, "--shard", "0/2")...)
	if status != exitFailure || !strings.Contains(stderr, "another process writes to this file") {
		t.Errorf("status %d, %q", status, stderr)
	}
}

// All of a stack counts, though the run's own header holds a hash of its first sample alone.
func TestShardsOfOtherSamplesAreRefused(t *testing.T) {
	stack := make([]float64, 4*30)
	for i := range stack {
		stack[i] = float64(i % 7)
	}
	merged, ys := filepath.Join(t.TempDir(), "mc.jsonl"), filepath.Join(t.TempDir(), "y.npy")
	var files []string
	for i := range 2 {
		stack[119] = float64(i)
		if err := dataio.WriteNPY(ys, floats("y", stack, 4, 6, 5)); err != nil {
			t.Fatal(err)
		}
		status, _, stderr := command(t, "montecarlo", "--problem", "svt", "--y", ys, "--sigma2", "1", "--lambda", "1",
			"--jsonl", merged, "--shard", fmt.Sprintf("%d/2", i))
		if status != exitDone {
			t.Fatal(stderr)
		}
		files = append(files, fmt.Sprintf("%s.shard-%04d-of-0002.jsonl", strings.TrimSuffix(merged, ".jsonl"), i))
	}
	status, _, stderr := command(t, "merge", files[0], files[1], "--jsonl", merged)
	if status != exitUsage || !strings.Contains(stderr, "its file of samples, by its hash, is sha256:") {
		t.Errorf("status %d, %q", status, stderr)
	}
}

func TestBadShardFlags(t *testing.T) {
	run := shardedRun(t)
	out := filepath.Join(t.TempDir(), "mc.jsonl")
	for _, c := range []struct{ args, want string }{
		{"--shard 0/2", "--shard needs --jsonl"},
		{"--shard 2/2 --jsonl " + out, `--shard is "2/2": shards are numbered from 0 to 1`},
		{"--shard auto --jsonl " + out, "--shard is \"auto\": no engine numbers this task"},
		{"--shard 0/2 --jsonl " + out + " --plot x.png", "give --plot and --running to surepipe merge"},
		{"--shard= --jsonl " + out, "--shard is empty"},
	} {
		status, _, stderr := command(t, append(run, strings.Fields(c.args)...)...)
		if status != exitUsage || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: status %d, %q, expected %q", c.args, status, stderr, c.want)
		}
	}
	for _, c := range []struct{ args, want string }{
		{"", "takes the files of the shards, found none"}, {"a.jsonl", "--jsonl is missing"},
		{"a.jsonl --jsonl /nowhere/b", `--jsonl is "/nowhere/b"`},
	} {
		status, _, stderr := command(t, append([]string{"merge"}, strings.Fields(c.args)...)...)
		if status != exitUsage || !strings.Contains(stderr, c.want) {
			t.Errorf("merge %s: status %d, %q, expected %q", c.args, status, stderr, c.want)
		}
	}
}
