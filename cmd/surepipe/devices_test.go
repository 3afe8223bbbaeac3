package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestBadLists(t *testing.T) {
	run := strings.Fields("run --problem lasso --data ../../testdata/diabetes.npz --lambda 20 --device")
	for _, list := range []string{"cpu,cpu", "cuda:0,cuda:0", "cpu,cuda:0", "cuda,cuda:1", "cuda:0,", "auto,cuda:1"} {
		status, _, stderr := command(t, append(slices.Clone(run), list)...)
		if status != exitUsage || !strings.Contains(stderr, "expected one device, or several cards of one kind such as cuda:0,cuda:1") {
			t.Errorf("%s: status %d, %q", list, status, stderr)
		}
	}
}

// Samples, points of a sweep and probes that are spread over two emulated cards have the bits of one,
// and shards take them too.
func TestTwoCardsAreOneOnACard(t *testing.T) {
	mc := filepath.Join(t.TempDir(), "mc.npz")
	if status, _, stderr := command(t, "generate", "--problem", "matrix-completion", "--rows", "18", "--cols", "12", "--out", mc); status != exitDone {
		t.Fatal(stderr)
	}
	small := shardedRun(t)[4]
	on := func(device string, args []string) []string {
		cmd := program(t, append(slices.Clone(args), "--device", device)...)
		cmd.Env = append(cmd.Env, "SUREPIPE_EMULATED_CARDS=2")
		out, _ := cmd.Output() // nothing where there are no cards
		var lines []string
		for line := range strings.Lines(string(out)) {
			if strings.HasPrefix(line, "{") {
				lines = append(lines, strings.ReplaceAll(string(withoutTimes([]byte(strings.TrimSpace(line)))), `"`+device+`"`, `"card"`))
			}
		}
		return lines
	}
	if len(on("cuda:1", strings.Fields("run --json --problem svt --lambda 1 --data "+small))) == 0 {
		t.Skip("there are no two emulated cards")
	}
	for name, args := range map[string]string{
		"samples": "montecarlo --problem svt --lambda 1 --trace exact --samples 9 --seeds 2 --parallel 2 --data " + small,
		"points":  "sweep --json --problem svt --lambda 0.5:4:9 --chain 1 --refine 2 --data " + small,
		"probes":  "run --json --problem matrix-completion --lambda 0.2max --trace hutchinson --queries 20 --alo --data " + mc,
	} {
		one, two := on("cuda:0", strings.Fields(args)), on("cuda:0,cuda:1", strings.Fields(args))
		if len(one) == 0 || !slices.Equal(one, two) {
			t.Errorf("%s: two cards differ from one: %d and %d lines\n%.600v\n%.600v", name, len(one), len(two), one, two)
		}
	}
	merged := filepath.Join(t.TempDir(), "run.jsonl")
	on("cuda:0,cuda:1", []string{"run", "--problem", "matrix-completion", "--lambda", "0.2max", "--trace", "hutchinson", "--queries", "20", "--data", mc, "--jsonl", merged, "--shard", "0/2"})
	text, err := os.ReadFile(strings.TrimSuffix(merged, ".jsonl") + ".shard-0000-of-0002.jsonl")
	if err != nil || strings.Count(string(text), "\n") != 11 || !strings.Contains(string(text), `"device":"cuda:0,cuda:1"`) {
		t.Errorf("%d lines, %v", strings.Count(string(text), "\n"), err)
	}
}
