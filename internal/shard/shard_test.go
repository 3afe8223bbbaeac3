package shard_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"surepipe/internal/shard"
)

// The shards of any amount of work are its units in order, each once, in equal parts.
func TestShardsTile(t *testing.T) {
	for _, total := range []int{0, 1, 7, 8, 100, 101, math.MaxInt} {
		for _, n := range []int{1, 2, 3, 7, 8, 64, 1000} {
			next, least, most := 0, math.MaxInt, 0
			for i := range n {
				first, end := shard.Shard{Index: i, Count: n}.Range(total)
				if first != next || end < first {
					t.Fatalf("%d of %d of %d units: %d to %d, expected from %d", i, n, total, first, end, next)
				}
				next, least, most = end, min(least, end-first), max(most, end-first)
			}
			if next != total || most-least > 1 {
				t.Errorf("%d shards of %d units end at %d, with %d to %d units", n, total, next, least, most)
			}
		}
	}
}

func TestParse(t *testing.T) {
	none := func(string) string { return "" }
	for text, want := range map[string]shard.Shard{"0/1": {0, 1}, "3/8": {3, 8}, "999999/1000000": {999999, 1000000}} {
		if got, source, err := shard.Parse(text, none); got != want || source != "" || err != nil {
			t.Errorf("%s: %v, %q, %v", text, got, source, err)
		}
	}
	for text, want := range map[string]string{
		"8/8": "numbered from 0 to 7", "-1/8": "numbered from 0 to 7", "3": "expected i/n", "": "expected i/n",
		"a/8": "expected i/n",
		"1/0": "expected a number of shards", "1/x": "expected a number of shards",
		"1/2/3": "expected a number of shards", "auto/0": "expected a number of shards",
		"1/1000001": "from 1 to 1000000", "auto": "no engine numbers this task",
		"auto/8": "no engine numbers this task",
	} {
		if got, _, err := shard.Parse(text, none); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v, expected %q", text, got, err, want)
		}
	}
}

// environment reads "A=1 B=2".
func environment(text string) func(string) string {
	return func(name string) string {
		for _, v := range strings.Fields(text) {
			if key, value, _ := strings.Cut(v, "="); key == name {
				return value
			}
		}
		return ""
	}
}

func TestDetect(t *testing.T) {
	slurm := "SLURM_ARRAY_TASK_ID=%d SLURM_ARRAY_TASK_COUNT=%d SLURM_ARRAY_TASK_MIN=%d SLURM_ARRAY_TASK_MAX=%d " +
		"SLURM_ARRAY_TASK_STEP=%d"
	for _, c := range []struct {
		env, text, want, source string
	}{
		{fmt.Sprintf(slurm, 3, 8, 0, 7, 1), "auto", "3/8", "SLURM_ARRAY_TASK_ID"},
		{fmt.Sprintf(slurm, 8, 8, 1, 8, 1), "auto", "7/8", "SLURM_ARRAY_TASK_ID"},
		{fmt.Sprintf(slurm, 9, 4, 1, 13, 4), "auto", "2/4", "SLURM_ARRAY_TASK_ID"},
		// A few shards again, under their own numbers.
		{fmt.Sprintf(slurm, 5, 2, 2, 5, 1), "auto/8", "5/8", "SLURM_ARRAY_TASK_ID"},
		// An array's number goes before a step's.
		{fmt.Sprintf(slurm, 3, 8, 0, 7, 1) + " SLURM_STEP_ID=0 SLURM_PROCID=1 SLURM_NTASKS=2", "auto", "3/8",
			"SLURM_ARRAY_TASK_ID"},
		{"AWS_BATCH_JOB_ARRAY_INDEX=0 AWS_BATCH_JOB_ARRAY_SIZE=3", "auto", "0/3", "AWS_BATCH_JOB_ARRAY_INDEX"},
		{"JOB_COMPLETION_INDEX=4", "auto/5", "4/5", "JOB_COMPLETION_INDEX"},
		{"CLOUD_RUN_TASK_INDEX=1 CLOUD_RUN_TASK_COUNT=2", "auto", "1/2", "CLOUD_RUN_TASK_INDEX"},
		{"BATCH_TASK_INDEX=1 BATCH_TASK_COUNT=2", "auto", "1/2", "BATCH_TASK_INDEX"},
		{"SGE_TASK_ID=5 SGE_TASK_FIRST=1 SGE_TASK_LAST=9 SGE_TASK_STEPSIZE=2", "auto", "2/5", "SGE_TASK_ID"},
		{"LSB_JOBINDEX=4 LSB_JOBINDEX_END=10 LSB_JOBINDEX_STEP=3", "auto", "1/4", "LSB_JOBINDEX"},
		{"PBS_ARRAY_INDEX=2", "auto/3", "2/3", "PBS_ARRAY_INDEX"},
		{"PBS_ARRAYID=2", "auto/3", "2/3", "PBS_ARRAYID"},
		{"OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=3", "auto", "2/3", "OMPI_COMM_WORLD_RANK"},
		{"SLURM_STEP_ID=0 SLURM_PROCID=1 SLURM_NTASKS=2", "auto", "1/2", "SLURM_PROCID"},
		// Outside of an array Grid Engine and LSF set these all the same.
		{"SGE_TASK_ID=undefined LSB_JOBINDEX=0 OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1", "auto", "0/1",
			"OMPI_COMM_WORLD_RANK"},
	} {
		got, source, err := shard.Parse(c.text, environment(c.env))
		if err != nil || got.String() != c.want || source != c.source {
			t.Errorf("%s in %s: %v of %s, %v, expected %s of %s", c.text, c.env, got, source, err, c.want, c.source)
		}
	}
	for _, c := range []struct{ env, text, want string }{
		{fmt.Sprintf(slurm, 5, 3, 0, 7, 1), "auto",
			"a Slurm array (SLURM_ARRAY_TASK_ID is 5): it has 3 tasks numbered from 0 to 7"},
		{fmt.Sprintf(slurm, 8, 8, 1, 8, 1), "auto/8", "numbered from 0 to 7"},
		{"JOB_COMPLETION_INDEX=4", "auto", "give --shard auto/n"},
		{"AWS_BATCH_JOB_ARRAY_INDEX=3 AWS_BATCH_JOB_ARRAY_SIZE=3", "auto", "not one of 3 tasks"},
		{"AWS_BATCH_JOB_ARRAY_INDEX=x AWS_BATCH_JOB_ARRAY_SIZE=3", "auto",
			`AWS_BATCH_JOB_ARRAY_INDEX is "x", expected a whole number`},
		{"SGE_TASK_ID=4 SGE_TASK_FIRST=1 SGE_TASK_LAST=9 SGE_TASK_STEPSIZE=2", "auto", "not one of 5 tasks"},
		{"SGE_TASK_ID=4 SGE_TASK_FIRST=1 SGE_TASK_LAST=9 SGE_TASK_STEPSIZE=0", "auto", "SGE_TASK_STEPSIZE is 0"},
		// A process number outside of a step is that of another program.
		{"SLURM_PROCID=1 SLURM_NTASKS=2", "auto", "no engine numbers this task"},
	} {
		got, _, err := shard.Parse(c.text, environment(c.env))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s in %s: %v, %v, expected %q", c.text, c.env, got, err, c.want)
		}
	}
}

func Example() {
	// Task 2 of a Slurm array of 4 computes 25 of 100 samples.
	s, source, err := shard.Parse("auto", environment(
		"SLURM_ARRAY_TASK_ID=2 SLURM_ARRAY_TASK_COUNT=4 SLURM_ARRAY_TASK_MIN=0 SLURM_ARRAY_TASK_MAX=3"))
	if err != nil {
		fmt.Println(err)
		return
	}
	first, end := s.Range(100)
	fmt.Println(source, s, first, end-1, s.File("mc.jsonl"))
	// Output: SLURM_ARRAY_TASK_ID 2/4 50 74 mc.shard-0002-of-0004.jsonl
}
