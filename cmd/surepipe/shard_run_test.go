package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"surepipe/study"
)

// shardedEstimates are small estimates by probes: with leave-one-out from them, an
// unrolled derivative, all unit vectors, and a completion, whose probes are used by their moments.
func shardedEstimates(t testing.TB) map[string][]string {
	t.Helper()
	diabetes := "run --problem lasso --data ../../testdata/diabetes.npz --sigma2 3000 --lambda 20 --seed 3 "
	mc := filepath.Join(t.TempDir(), "mc.npz")
	if status, _, stderr := command(t, "generate", "--problem", "matrix-completion", "--rows", "30", "--cols", "20",
		"--out", mc); status != exitDone {
		t.Fatal(stderr)
	}
	return map[string][]string{
		"leave-one-out": strings.Fields(diabetes + "--trace hutchinson --queries 14 --alo --intercept"),
		"unrolled": strings.Fields(diabetes +
			"--trace hutchinson --queries 9 --solver fista --derivative unrolled"),
		"exact": {"run", "--problem", "svt", "--data", shardedRun(t)[4], "--lambda", "1", "--trace", "exact"},
		"completion": {"run", "--problem", "matrix-completion", "--data", mc, "--lambda", "0.2max", "--trace",
			"hutchinson", "--queries", "12"},
	}
}

// The merged result of an estimate is one machine's, whatever the number of shards.
func TestMergedProbesAreOneMachines(t *testing.T) {
	for name, run := range shardedEstimates(t) {
		t.Run(name, func(t *testing.T) {
			want, stdout, stderr := command(t, append(slices.Clone(run), "--json")...)
			if want != exitDone {
				t.Fatal(stderr)
			}
			whole := string(study.WithoutTimes([]byte(strings.TrimSpace(stdout))))
			for _, n := range []int{3, 40} {
				merged, files := withShards(t, run, n)
				slices.Reverse(files)
				out := filepath.Join(t.TempDir(), "fit.npz")
				status, last, stderr := mergeFiles(t, files, "--jsonl", merged, "--out", out)
				if status != want {
					t.Fatalf("%d shards: status %d, %s", n, status, stderr)
				}
				if got := linesOf(t, merged); len(got) != 1 || got[0] != whole {
					t.Errorf("%d shards: %s, expected %s", n, got, whole)
				}
				if string(study.WithoutTimes([]byte(last))) != whole || !strings.Contains(stderr, "divergence") {
					t.Errorf("%d shards: standard output %s, expected %s; %s", n, last, whole, stderr)
				}
				if _, err := os.Stat(out); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// What cannot be divided is refused by name, with the reason; a complete shard has nothing to do, and
// one with another solution is not continued.
func TestBadFlagsOfShardedProbes(t *testing.T) {
	run := shardedEstimates(t)["leave-one-out"]
	merged, files := withShards(t, run, 2)
	shard := "--shard 0/2 --jsonl " + merged
	for _, c := range []struct{ args, want string }{
		{"--shard 0/2", "--shard needs --jsonl"}, {"--jsonl " + merged, "--jsonl is for --shard"},
		{"--shard= --jsonl " + merged, "--shard is empty"},
		{shard + " --trace auto", "--trace is auto, whose probes cannot be divided among shards: it takes the " +
			"trace in closed form"},
		{shard + " --trace hutch++ --queries 12",
			"--trace is hutch++, whose probes cannot be divided among shards: its probes follow from a sketch"},
		{shard + " --trace na-hutch++ --queries 12", "the vectors of its sketches"},
		{shard + " --trace xtrace", "leaves out each vector"},
		{shard + " --trace xnystrace", "leaves out each vector"}, {shard + " --queries auto", "--queries is auto"},
		{shard + " --json", "found --json"}, {shard + " --out x.npz", "found --out"},
		{shard + " --seed 4", `it was begun with --seed "3", expected "4"`},
	} {
		if status, _, stderr := command(t, append(slices.Clone(run),
			strings.Fields(c.args)...)...); status != exitUsage || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: status %d, %q, expected %q", c.args, status, stderr, c.want)
		}
	}
	if status, _, stderr := command(t, "run", "--exec", "cat", "--data", "../../testdata/diabetes.npz", "--trace",
		"hutchinson", "--queries", "4", "--shard", "0/2", "--jsonl", merged); status != exitUsage ||
		!strings.Contains(stderr, "which --exec does not have") {
		t.Errorf("status %d, %q", status, stderr)
	}
	status, _, stderr := command(t, append(slices.Clone(run), strings.Fields(shard)...)...)
	if status != exitDone || !strings.Contains(stderr, "7 of 14 probes, is complete") {
		t.Errorf("status %d, %q", status, stderr)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(text), "\n")
	head, err := study.ParseShardHeader([]byte(strings.TrimSuffix(lines[0], "\n")))
	if err != nil {
		t.Fatal(err)
	}
	other := strings.Replace(lines[0], head.Fit.B[:20], "sha256:0000000000000", 1)
	if err := os.WriteFile(files[0], []byte(other+lines[1]), 0o666); err != nil {
		t.Fatal(err)
	}
	status, _, stderr = command(t, append(slices.Clone(run), strings.Fields(shard)...)...)
	if status != exitUsage || !strings.Contains(stderr, "its solution is another one") {
		t.Errorf("status %d, %q", status, stderr)
	}
	for _, i := range []int{0, 1} { // all shards agree on a solution that is not the one found here
		text, err := os.ReadFile(files[i])
		if err != nil {
			t.Fatal(err)
		}
		text = []byte(strings.Replace(string(text), head.Fit.B[:20], "sha256:0000000000000", 1))
		if i == 0 {
			text = []byte(other + strings.Join(lines[1:], ""))
		}
		if err := os.WriteFile(files[i], text, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	status, _, stderr = mergeFiles(t, files, "--jsonl", merged)
	if status != exitUsage || !strings.Contains(stderr, "the solution here is not that of the shards") {
		t.Errorf("status %d, %q", status, stderr)
	}
	if _, err := os.Stat(merged); err == nil {
		t.Error("something was written")
	}
	for _, c := range []struct{ args, want string }{{"--csv x.csv",
		"--csv has no meaning for these shards, whose unit is a probe"},
		{"--no-refine", "--no-refine has no meaning"}} {
		if status, _, stderr := mergeFiles(t, files, append(strings.Fields(c.args), "--jsonl",
			merged)...); status != exitUsage || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: status %d, %q", c.args, status, stderr)
		}
	}
}
