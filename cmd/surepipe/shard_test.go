package main

import (
	"bytes"
	"fmt"
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

// What is not a shard of the run is refused by name, with the reason, and nothing is written.
func TestForeignAndMalformedShardsAreRefused(t *testing.T) {
	run := shardedRun(t)
	_, files := withShards(t, run, 4)
	other := func(change ...string) string {
		args := slices.Clone(run)
		for i := 0; i < len(change); i += 2 {
			if at := slices.Index(args, change[i]); at >= 0 {
				args[at+1] = change[i+1]
			} else {
				args = append(args, change[i], change[i+1])
			}
		}
		_, files := withShards(t, args, 4)
		return files[1]
	}
	text, err := os.ReadFile(files[1])
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(text), "\n")
	lines = lines[:len(lines)-1]
	// edited is the file with the first line's old replaced by new.
	edited := func(old, new string) string {
		if !strings.Contains(lines[0], old) {
			t.Fatalf("%q is not in %s", old, lines[0])
		}
		return strings.Replace(lines[0], old, new, 1) + strings.Join(lines[1:], "")
	}
	write := func(text string) string {
		path := filepath.Join(t.TempDir(), "shard.jsonl")
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	head, err := study.ParseShardHeader([]byte(lines[0]))
	if err != nil {
		t.Fatal(err)
	}
	whole, err := study.ReadMonteCarloHeader(head.Whole)
	if err != nil {
		t.Fatal(err)
	}
	data := whole.Data
	_, three := withShards(t, run, 3)
	for name, c := range map[string]struct{ file, want string }{
		"other lambda":       {other("--lambda", "2"), `it was begun with --lambda "2", expected "1"`},
		"other seed":         {other("--seed", "7"), `it was begun with --seed "7", expected "0"`},
		"other tolerance":    {other("--tol", "1e-3"), "it was begun with --tol"},
		"other estimator":    {other("--trace", "exact"), "it was begun with --trace"},
		"other queries":      {other("--queries", "8"), "it was begun with --queries"},
		"other first sample": {other("--first", "2"), "it was begun with --first"},
		"other solver":       {other("--solver", "fista"), "it was begun with --solver"},
		"more samples":       {other("--samples", "12"), "its number of units is 15, expected 14"},
		"other split":        {other("--samples", "12", "--seeds", "2"), "its number of samples is 12, expected 11"},
		"other data":         {write(edited(data[:20], "sha256:0000000000000")), "it was begun with other data"},
		"other count":        {three[1], "its number of shards is 3, expected 4"},
		"other BLAS":         {write(edited(`"blas":"`, `"blas":"x`)), "it was computed with BLAS"},
		"other SIMD":         {write(edited(`"simd":"`, `"simd":"x`)), "it was computed with SIMD instructions"},
		"other device":       {write(edited(`"device":"`, `"device":"x`)), "it was computed with device"},
		"other version":      {write(edited(`"version":"`, `"version":"x`)), "it was computed with version"},
		"no file":            {filepath.Join(t.TempDir(), "none.jsonl"), "no such file"},
		"a folder":           {t.TempDir(), "is a directory"},
		"empty":              {write(""), "it has no complete line"},
		"no newline":         {write(strings.TrimSuffix(lines[0], "\n")), "it has no complete line"},
		"text":               {write("hello\nworld\n"), "it does not begin with a line of JSON"},
		"an array":           {write("[1]\n"), "it does not begin with a line of JSON"},
		"a number":           {write("3\n"), "it does not begin with a line of JSON"},
		"null":               {write("null\n"), "it is not the file of a shard"},
		"another object":     {write("{}\n"), "it is not the file of a shard"},
		"a whole run":        {write(`{"montecarlo":1,"settings":{}}` + "\n"), "it is not the file of a shard"},
		"no header":          {write(strings.Join(lines[1:], "")), "it is not the file of a shard"},
		"a wrong type":       {write(edited(`"index":1`, `"index":"one"`)), "was not written by a shard"},
		"a negative index":   {write(edited(`"index":1`, `"index":-1`)), "which does not exist"},
		"too large an index": {write(edited(`"index":1`, `"index":4`)), "which does not exist"},
		"another's index":    {write(edited(`"index":1`, `"index":2`)), "its first line has the units from"},
		"no shards":          {write(edited(`"count":4`, `"count":0`)), "which does not exist"},
		"negative total":     {write(edited(`"total":14`, `"total":-14`)), "which does not exist"},
		"too many samples":   {write(edited(`"samples":11`, `"samples":15`)), "which does not exist"},
		"another unit":       {write(edited(`"unit":"sample"`, `"unit":"thing"`)), "which does not exist"},
		"other first":        {write(edited(`"first":3`, `"first":4`)), "its first line has the units from 4 on"},
		"other n":            {write(edited(`"n":4`, `"n":5`)), "expected 4 from 3 on"},
		"swapped lines": {write(lines[0] + lines[2] + lines[1] + strings.Join(lines[3:], "")),
			"line 2: it is sample 4, expected sample 3"},
		"a line twice": {write(lines[0] + lines[1] + strings.Join(lines[1:], "")),
			"line 3: it is sample 3, expected sample 4"},
		"a line left out": {write(lines[0] + strings.Join(lines[2:], "")),
			"line 2: it is sample 4, expected sample 3"},
		"a line too many": {write(string(text) + lines[1]), "it has more lines than its shard's 4"},
		"a torn line inside": {write(lines[0] + lines[1][:20] + "\n" + strings.Join(lines[2:], "")),
			"line 2 is not JSON"},
		"a summary":     {write(lines[0] + `{"summary":true}` + "\n"), `line 2: it has no "sample"`},
		"a wrong value": {write(lines[0] + `{"sample":"3"}` + "\n"), "line 2: "},
		"another result": {write(lines[0] + strings.Replace(strings.Join(lines[1:], ""), `"divergence":`, `"divergence":1`, 1)),
			"are both shard 1 of 4: line 2 of them differs"},
		"a binary file": {write("\x00\x01\x02\n\x03"), "it does not begin with a line of JSON"},
	} {
		merged := filepath.Join(t.TempDir(), "merged.jsonl")
		status, stdout, stderr := command(t, slices.Concat([]string{"merge"}, files,
			[]string{c.file, "--jsonl", merged})...)
		if status != exitUsage || stdout != "" || !strings.Contains(stderr, c.want) ||
			!strings.Contains(stderr, c.file) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: status %d, %q, expected %q", name, status, stderr, c.want)
		}
		if _, err := os.Stat(merged); err == nil {
			t.Errorf("%s: something was written", name)
		}
	}
	// The same files twice are the same run; other machines' are with --mixed.
	merged := filepath.Join(t.TempDir(), "merged.jsonl")
	for _, args := range [][]string{slices.Concat(files, files),
		slices.Concat(files[:1], []string{write(edited(`"blas":"`, `"blas":"x`))}, files[2:], []string{"--mixed"})} {
		if status, _, stderr := command(t, slices.Concat([]string{"merge", "--jsonl", merged},
			args)...); status != exitDone {
			t.Errorf("status %d, %s", status, stderr)
		}
		if status, _, stderr := command(t, slices.Concat([]string{"merge", "--jsonl", merged},
			args)...); status != exitUsage || !strings.Contains(stderr, "which exists") {
			t.Errorf("status %d, %s", status, stderr)
		}
		os.Remove(merged)
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
