package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"surepipe/hutch"
	"surepipe/pipeline"
	"surepipe/study"
)

// undivided says why the probes of an estimator cannot be divided among shards.
var undivided = map[string]string{
	pipeline.Auto:   "it takes the trace in closed form where there is one, without probes",
	hutch.HutchPP:   "its probes follow from a sketch, whose vectors are multiplied with each other",
	hutch.NAHutchPP: "the vectors of its sketches are multiplied with each other",
	hutch.XTrace:    "it leaves out each vector of its sketch in turn",
	hutch.XNysTrace: "it leaves out each vector of its sketch in turn",
}

// checkShard rejects flags that have no meaning for a part of the probes.
func (f *runFlags) checkShard(cmd *cobra.Command) error {
	if changed := cmd.Flags().Changed; !changed("shard") {
		if changed("jsonl") {
			return usagef("--jsonl is for --shard, found none; --json prints the result as a line of JSON")
		}
		return nil
	}
	reason, whole := undivided[f.trace]
	switch {
	case f.jsonl == "":
		return usagef("--shard needs --jsonl, which names the file of the merged result")
	case f.exec.given():
		return usagef("--shard divides the probes of a derivative, which --exec does not have")
	case whole:
		return usagef("--trace is %s, whose probes cannot be divided among shards: %s; expected hutchinson or exact",
			f.trace, reason)
	case f.trace == hutch.Hutchinson && f.queries.auto:
		return usagef("--queries is auto, so that the number of probes follows from their spread: to divide them " +
			"among shards give a number")
	}
	for _, name := range []string{"out", "coefficients-csv", "json", "explain", "image-risk"} {
		if cmd.Flags().Changed(name) {
			return usagef("--shard computes a part of the probes: surepipe merge prints the result, and takes "+
				"--out; found --%s", name)
		}
	}
	return nil
}

// header describes the estimate.
func (r *runJob) header() (study.ProbesHeader, error) {
	probes, err := r.Pipeline.Probes()
	return study.ProbesHeader{
		Run: study.RunFormat, Problem: r.Problem.Name,
		Plan: study.PlanResult{Estimator: r.f.trace, Probes: probes, Seed: r.f.seed}, Sigma2: r.Sigma2,
		Data: study.DataHash(r.file.Data),
	}, err
}

// shardHeader is the first line of the shard's file, but for the solution.
func (r *runJob) shardHeader() (h study.ShardHeader, path string, err error) {
	s, err := parseShard(r.cmd, r.f.shard)
	if err != nil {
		return h, "", err
	}
	run, err := r.header()
	if err != nil {
		return h, "", err
	}
	h, err = study.NewShardHeader(study.PartOf(s, study.ProbeUnit, run.Plan.Probes),
		study.ThisMachine(r.Device()), run)
	h.Flags, h.Files = givenFlags(r.cmd)
	return h, s.File(r.f.jsonl), err
}

// computeShard computes one shard of the probes, to its own file.
func (r *runJob) computeShard() error {
	h, path, err := r.shardHeader()
	if err != nil {
		return err
	}
	stderr := r.cmd.ErrOrStderr()
	p := h.Shard
	complete := func() error {
		fmt.Fprintf(stderr, "surepipe: shard %d/%d, %d of %d probes, is complete: %s\n", p.Index, p.Count, p.N,
			p.Total, path)
		return nil
	}
	// A complete file needs no solve, and that of another shard is turned away before it.
	if was, lines, err := study.CheckShard(path); err == nil && was.Fit != nil {
		text, err := json.Marshal(was)
		if err != nil {
			return err
		}
		h.Fit = was.Fit
		if _, err := h.Continues(text); err != nil {
			return usagef("%s: %w", path, err)
		}
		if lines == p.N {
			return complete()
		}
	}
	var log *study.Log
	division := pipeline.NewDivision(p.First, p.First+p.N, p.Total)
	division.Solved = func(f pipeline.Fit) (err error) {
		h.Fit = study.HashFit(f)
		known := p.First
		log, err = openLog(path, h, true, func(string) {}, func(line []byte) error {
			probe, err := study.ReadProbe(line, known)
			division.Know(known, probe)
			known++
			return err
		})
		return err
	}
	division.Taken = func(i int, probe pipeline.DividedProbe) error {
		line, err := json.Marshal(study.ProbeLineOf(i, probe))
		if err != nil {
			return err
		}
		return log.WriteLine(line)
	}
	_, err = r.Pipeline.EstimateDivided(r.cmd.Context(), r.file.Y, division)
	r.bar.close()
	if log != nil {
		if closeErr := log.Close(); err == nil {
			err = closeErr
		}
	}
	var input usageError
	var bad *study.Error
	switch {
	case errors.As(err, &input):
		return input
	case errors.As(err, &bad):
		return bad
	case err != nil && r.cmd.Context().Err() != nil && log != nil:
		fmt.Fprintf(stderr, "surepipe: what was done is in %s: the same command continues from there\n", path)
		return err
	case err != nil:
		return err
	}
	return complete()
}
