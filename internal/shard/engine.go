package shard

import (
	"fmt"
	"strconv"
	"strings"

	"surepipe/internal/lists"
)

// engine is a system that numbers its tasks in their environment.
type engine struct {
	name string
	// index is the variable with the task's number; the engine is this one where it is set.
	index string
	// within is another variable that must be set too.
	within string
	// count is the variable with the number of tasks, or last that with the largest task's number;
	// both are empty where the engine does not say.
	count, last string
	// first is the variable with the smallest task's number, which is start where there is none;
	// step that with the distance of neighbours, 1 where there is none.
	first, step string
	start       int
	// none is the value of index outside of an array.
	none string
}

// engines in the order in which they are asked. An array's number stands before a process's number
// within a job.
var engines = []engine{
	{name: "a Slurm array", index: "SLURM_ARRAY_TASK_ID", count: "SLURM_ARRAY_TASK_COUNT",
		first: "SLURM_ARRAY_TASK_MIN", last: "SLURM_ARRAY_TASK_MAX", step: "SLURM_ARRAY_TASK_STEP"},
	{name: "an AWS Batch array", index: "AWS_BATCH_JOB_ARRAY_INDEX", count: "AWS_BATCH_JOB_ARRAY_SIZE"},
	{name: "a Kubernetes Indexed Job", index: "JOB_COMPLETION_INDEX"},
	{name: "a Cloud Run job", index: "CLOUD_RUN_TASK_INDEX", count: "CLOUD_RUN_TASK_COUNT"},
	{name: "a Google Batch job", index: "BATCH_TASK_INDEX", count: "BATCH_TASK_COUNT"},
	{name: "a Grid Engine array", index: "SGE_TASK_ID", first: "SGE_TASK_FIRST", last: "SGE_TASK_LAST",
		step: "SGE_TASK_STEPSIZE", none: "undefined"},
	{name: "an LSF array", index: "LSB_JOBINDEX", last: "LSB_JOBINDEX_END", step: "LSB_JOBINDEX_STEP", start: 1,
		none: "0"},
	{name: "a PBS array", index: "PBS_ARRAY_INDEX"},
	{name: "a Torque array", index: "PBS_ARRAYID"},
	{name: "an Open MPI process", index: "OMPI_COMM_WORLD_RANK", count: "OMPI_COMM_WORLD_SIZE"},
	{name: "a Slurm step", index: "SLURM_PROCID", within: "SLURM_STEP_ID", count: "SLURM_NTASKS"},
}

// Detect finds the shard of this task in its environment; source is the variable that numbers it.
// With n > 0 there are n shards and the task's number is the shard's, 0 to n-1. With n = 0 the
// engine must say how many tasks there are, numbered without gaps; the smallest number is shard 0.
// It is an error if no engine is found.
func Detect(getenv func(string) string, n int) (s Shard, source string, err error) {
	for _, e := range engines {
		value := strings.TrimSpace(getenv(e.index))
		if value == "" || value == e.none || e.within != "" && getenv(e.within) == "" {
			continue
		}
		if s, err = e.shard(getenv, n); err != nil {
			return Shard{}, e.index, fmt.Errorf("%s (%s is %s): %w", e.name, e.index, value, err)
		}
		return s, e.index, nil
	}
	names := lists.Map(engines, func(e engine) string { return e.index })
	return s, "", fmt.Errorf("no engine numbers this task: none of %s is set; expected i/n", strings.Join(names, ", "))
}

// variable reads a number from the environment; it is fallback where the name is empty or nothing
// is set.
func variable(getenv func(string) string, name string, fallback int) (int, error) {
	if name == "" {
		return fallback, nil
	}
	text := strings.TrimSpace(getenv(name))
	if text == "" {
		return fallback, nil
	}
	v, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("%s is %q, expected a whole number", name, text)
	}
	return v, nil
}

// shard is the shard of the task in whose environment the engine's variables are.
func (e engine) shard(getenv func(string) string, n int) (s Shard, err error) {
	const unset = -1
	var id, first, last, step, count int
	for _, v := range []struct {
		to       *int
		name     string
		fallback int
	}{{&id, e.index, 0}, {&first, e.first, e.start}, {&last, e.last, unset}, {&step, e.step, 1},
		{&count, e.count, unset}} {
		if *v.to, err = variable(getenv, v.name, v.fallback); err != nil {
			return s, err
		}
	}
	if n > 0 {
		if id < 0 || id >= n {
			return s, fmt.Errorf("there are %d shards, so that tasks must be numbered from 0 to %d", n, n-1)
		}
		return Shard{id, n}, nil
	}
	if step < 1 {
		return s, fmt.Errorf("%s is %d, expected at least 1", e.step, step)
	}
	if last != unset {
		numbered := (last-first)/step + 1
		if count != unset && count != numbered {
			return s, fmt.Errorf("it has %d tasks numbered from %d to %d in steps of %d, with gaps: a shard would "+
				"be missing; give --shard auto/n, which takes the task's number, or i/n", count, first, last, step)
		}
		count = numbered
	}
	if count == unset {
		return s, fmt.Errorf("it does not say how many tasks there are: give --shard auto/n")
	}
	if i := (id - first) / step; count >= 1 && count <= MaxCount && id >= first && (id-first)%step == 0 && i < count {
		return Shard{i, count}, nil
	}
	return s, fmt.Errorf("it is not one of %d tasks numbered from %d in steps of %d", count, first, step)
}
