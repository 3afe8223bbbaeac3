//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// A shard is killed with SIGKILL at ten random moments: before it has written anything, or when its
// file has reached a random size. Then only what merge asks for is computed, and the merged file is
// one machine's.
func TestKilledAtAnyMoment(t *testing.T) {
	const n, kills = 3, 10
	sweep := strings.Fields("sweep --problem lasso --data ../../testdata/diabetes.npz --sigma2 3000 --lambda " +
		"0.01max:max:40 --solver fista --chain 4 --refine 2 --tol 1e-8") // as shards, certified
	monteCarlo := slices.Clone(shardedRun(t))
	monteCarlo[slices.Index(monteCarlo, "--samples")+1] = "200"
	for name, args := range map[string][]string{"montecarlo": monteCarlo, "sweep": sweep} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			whole, merged := filepath.Join(dir, "whole.jsonl"), filepath.Join(dir, "merged.jsonl")
			shard := func(i int) []string {
				return append(slices.Clone(args), "--jsonl", merged, "--shard", fmt.Sprintf("%d/%d", i, n))
			}
			file := func(i int) string {
				return filepath.Join(dir, fmt.Sprintf("merged.shard-%04d-of-%04d.jsonl", i,
					n))
			}
			status, _, stderr := command(t, append(slices.Clone(args), "--jsonl", whole)...)
			if status != exitDone {
				t.Fatal(stderr)
			}
			want := linesOf(t, whole)
			rng := rand.New(rand.NewPCG(uint64(len(name)), 7))
			size := map[string]int64{"montecarlo": 70_000, "sweep": 60_000}[name]
			for range kills {
				i := rng.IntN(n)
				reach := rng.Int64N(size)
				cmd := program(t, shard(i)...)
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				ended := make(chan struct{})
				go func() { cmd.Wait(); close(ended) }()
				for at := int64(0); at < reach; {
					select {
					case <-ended:
						at = reach
					case <-time.After(time.Millisecond):
						if info, err := os.Stat(file(i)); err == nil {
							at = info.Size()
						}
					}
				}
				cmd.Process.Kill()
				<-ended
			}
			var files []string
			for i := range n {
				if _, err := os.Stat(file(i)); err == nil {
					files = append(files, file(i))
				}
			}
			status, last, stderr := mergeFiles(t, files, "--jsonl", merged)
			var asked struct{ Missing []int }
			if status == exitIncomplete {
				if err := json.Unmarshal([]byte(last), &asked); err != nil || len(asked.Missing) == 0 {
					t.Fatalf("%q, %v", last, err)
				}
				for _, i := range asked.Missing {
					if status, _, stderr := command(t, shard(i)...); status != exitDone {
						t.Fatal(stderr)
					}
				}
				files = []string{file(0), file(1), file(2)}
				status, _, stderr = mergeFiles(t, files, "--jsonl", merged)
			}
			if status != exitDone {
				t.Fatalf("status %d, %s", status, stderr)
			}
			if !slices.Equal(linesOf(t, merged), want) {
				t.Error("the merged file is not one machine's")
			}
			t.Logf("%d shards were asked for again", len(asked.Missing))
		})
	}
}
