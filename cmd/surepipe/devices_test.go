package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"surepipe/study"
)

func TestBadLists(t *testing.T) {
	run := strings.Fields("run --problem lasso --data ../../testdata/diabetes.npz --lambda 20 --device")
	for _, list := range []string{"cpu,cpu", "cuda:0,cuda:0", "cpu,cuda:0", "cuda,cuda:1", "cuda:0,", "auto,cuda:1"} {
		status, _, stderr := command(t, append(slices.Clone(run), list)...)
		if status != exitUsage || !strings.Contains(stderr,
			"expected one device, or several cards of one kind such as cuda:0,cuda:1") {
			t.Errorf("%s: status %d, %q", list, status, stderr)
		}
	}
}

// Samples and points of a sweep that are spread over two emulated cards have the bits of one, and shards take them too.
// A card that breaks costs its own work only: the other computes that again, to the same bits, whichever of them breaks
// and when.
func TestTwoCardsAreOneOnACard(t *testing.T) {
	mc := filepath.Join(t.TempDir(), "mc.npz")
	if status, _, stderr := command(t, "generate", "--problem", "matrix-completion", "--rows", "18", "--cols", "12",
		"--out", mc); status != exitDone {
		t.Fatal(stderr)
	}
	small := shardedRun(t)[4]
	on := func(device string, args []string) []string {
		lines, _ := onCards(t, "", device, args)
		return lines
	}
	if len(on("cuda:1", strings.Fields("run --json --problem svt --lambda 1 --data "+small))) == 0 {
		t.Skip("there are no two emulated cards")
	}
	for name, args := range dividedRuns(small, mc) {
		one, two := on("cuda:0", strings.Fields(args)), on("cuda:0,cuda:1", strings.Fields(args))
		if len(one) == 0 || !slices.Equal(one, two) {
			t.Errorf("%s: two cards differ from one: %d and %d lines\n%.600v\n%.600v", name, len(one), len(two), one,
				two)
		}
		for card, n := range map[int]int{0: 25, 1: 150} {
			got, stderr := onCards(t, fmt.Sprintf("%d:%d", card, n), "cuda:0,cuda:1", strings.Fields(args))
			if text := fmt.Sprintf("cuda:%d has failed, and what it had in work is computed again elsewhere",
				card); !strings.Contains(stderr, text) {
				t.Errorf("%s: launch %d of card %d: %s", name, n, card, stderr)
			}
			if !slices.Equal(got, one) {
				t.Errorf("%s: launch %d of card %d: %d lines, want %d\n%.600v\n%.600v", name, n, card, len(got),
					len(one), got, one)
			}
		}
	}
	// With no card left the fault is the program's.
	lines, stderr := onCards(t, "0:25", "cuda:0",
		strings.Fields("sweep --json --problem svt --lambda 0.5:4:9 --data "+small))
	if !strings.Contains(stderr, "LaunchFailed") {
		t.Errorf("one card, which fails: %d lines, %s", len(lines), stderr)
	}
	merged := filepath.Join(t.TempDir(), "mc.jsonl")
	on("cuda:0,cuda:1", append(strings.Fields(dividedRuns(small, mc)["samples"]), "--jsonl", merged, "--shard", "0/2"))
	text, err := os.ReadFile(strings.TrimSuffix(merged, ".jsonl") + ".shard-0000-of-0002.jsonl")
	if err != nil || strings.Count(string(text), "\n") != 6 ||
		!strings.Contains(string(text), `"device":"cuda:0,cuda:1"`) {
		t.Errorf("%d lines, %v", strings.Count(string(text), "\n"), err)
	}
}

// dividedRuns are runs on several cards: spread over them, or, for one estimate, on the first that works.
func dividedRuns(svt, completion string) map[string]string {
	return map[string]string{
		"samples": "montecarlo --problem svt --lambda 1 --trace exact --samples 9 --seeds 2 --parallel 2 --data " + svt,
		"points":  "sweep --json --problem svt --lambda 0.5:4:9 --chain 1 --refine 2 --audit --data " + svt,
		"entries": "montecarlo --problem matrix-completion --lambda 0.2max --trace hutchinson --queries 20 " +
			"--samples 9 --parallel 2 --data " + completion,
	}
}

// onCards runs the program on two emulated cards, with a fault, and returns the lines of its results,
// without times and the device's name; there are none where there are no cards.
func onCards(t *testing.T, fault, device string, args []string) (lines []string, stderr string) {
	t.Helper()
	cmd := program(t, append(slices.Clone(args), "--device", device)...)
	cmd.Env = append(cmd.Env, "SUREPIPE_EMULATED_CARDS=2", "SUREPIPE_EMULATED_FAULT="+fault)
	var errors strings.Builder
	cmd.Stderr = &errors
	out, _ := cmd.Output()
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, "{") {
			lines = append(lines, strings.ReplaceAll(string(study.WithoutTimes([]byte(strings.TrimSpace(line)))),
				`"`+device+`"`, `"card"`))
		}
	}
	return lines, errors.String()
}
