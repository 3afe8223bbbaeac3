package main

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/spf13/cobra"

	"surepipe/hutch"
	"surepipe/pipeline"
	"surepipe/study"
)

// runHeader describes an estimate at one y.
type runHeader struct {
	Run     int        `json:"run"` // the format, 1
	Problem string     `json:"problem"`
	Plan    planResult `json:"plan"`
	Sigma2  float64    `json:"sigma2,omitempty"`
	Data    string     `json:"data_sha256"`
}

// planResult is the plan of the trace's estimate.
type planResult struct {
	Estimator string `json:"estimator"`
	Probes    int    `json:"probes"`
	Seed      uint64 `json:"seed"`
}

const runFormat = 1

// fitResult has hashes of a solution.
type fitResult struct {
	B     string `json:"b_sha256"`
	MuHat string `json:"mu_hat_sha256"`
}

func fitOf(f pipeline.Fit) *fitResult {
	return &fitResult{"sha256:" + hex.EncodeToString(f.B[:]), "sha256:" + hex.EncodeToString(f.MuHat[:])}
}

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
		return usagef("--trace is %s, whose probes cannot be divided among shards: %s; expected hutchinson or exact", f.trace, reason)
	case f.trace == hutch.Hutchinson && f.queries.auto:
		return usagef("--queries is auto, so that the number of probes follows from their spread: to divide them among shards give a number")
	}
	for _, name := range []string{"out", "coefficients-csv", "json", "explain", "image-risk"} {
		if cmd.Flags().Changed(name) {
			return usagef("--shard computes a part of the probes: surepipe merge prints the result, and takes --out; found --%s", name)
		}
	}
	return nil
}

// header describes the estimate.
func (r *runJob) header() (runHeader, error) {
	probes, err := r.pipeline.Probes()
	return runHeader{
		Run: runFormat, Problem: r.problem.Name, Plan: planResult{r.f.trace, probes, r.f.seed}, Sigma2: r.sigma2, Data: study.DataHash(r.file.Data),
	}, err
}

// shardHeader is the first line of the shard's file, but for the solution.
func (r *runJob) shardHeader() (h shardHeader, path string, err error) {
	s, err := parseShard(r.cmd, r.f.shard)
	if err != nil {
		return h, "", err
	}
	run, err := r.header()
	if err != nil {
		return h, "", err
	}
	h, err = newShardHeader(partOf(s, probeUnit, run.Plan.Probes), thisMachine(r.device()), run)
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
		fmt.Fprintf(stderr, "surepipe: shard %d/%d, %d of %d probes, is complete: %s\n", p.Index, p.Count, p.N, p.Total, path)
		return nil
	}
	// A complete file needs no solve, and that of another shard is turned away before it.
	if was, lines, err := checkShard(path); err == nil && was.Fit != nil {
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
		h.Fit = fitOf(f)
		known := p.First
		log, err = openLog(path, h, true, func(string) {}, func(line []byte) error {
			probe, err := readProbe(line, known)
			division.Know(known, probe)
			known++
			return err
		})
		return err
	}
	division.Taken = func(i int, probe pipeline.DividedProbe) error {
		line, err := json.Marshal(probeLineOf(i, probe))
		if err != nil {
			return err
		}
		return log.WriteLine(line)
	}
	_, err = r.pipeline.EstimateDivided(r.cmd.Context(), r.file.Y, division)
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

// probeLine is the line of a probe in a shard's file.
type probeLine struct {
	Probe *int `json:"probe"`
	// Quad is <v, J v>, Norm2 ||J v||^2 and Left the bound of the error of Quad.
	Quad  float64 `json:"quad"`
	Norm2 float64 `json:"norm2"`
	Left  float64 `json:"left,omitempty"`
	// Steps and Unsolved are those of the derivative's linear systems.
	Steps    int `json:"steps,omitempty"`
	Unsolved int `json:"unsolved,omitempty"`
	// Samples are the v_i (J v)_i for leave-one-out, as base64 of float64, little endian.
	Samples string `json:"samples,omitempty"`
}

func probeLineOf(i int, p pipeline.DividedProbe) probeLine {
	var text []byte
	for _, v := range p.Samples {
		text = binary.LittleEndian.AppendUint64(text, math.Float64bits(v))
	}
	return probeLine{&i, p.Quad, p.Norm2, p.Left, p.Steps, p.Unsolved, base64.StdEncoding.EncodeToString(text)}
}

// readProbe reads the line of probe i.
func readProbe(line []byte, i int) (p pipeline.DividedProbe, err error) {
	var l probeLine
	if err := json.Unmarshal(line, &l); err != nil {
		return p, err
	}
	if l.Probe == nil {
		return p, errors.New("it has no \"probe\"")
	}
	if *l.Probe != i {
		return p, fmt.Errorf("it is probe %d, expected probe %d", *l.Probe, i)
	}
	text, err := base64.StdEncoding.DecodeString(l.Samples)
	if err == nil && len(text)%8 != 0 {
		err = fmt.Errorf("%d bytes, expected a multiple of 8", len(text))
	}
	if err != nil {
		return p, fmt.Errorf("its samples: %w", err)
	}
	p = pipeline.DividedProbe{Steps: l.Steps, Unsolved: l.Unsolved}
	p.Quad, p.Norm2, p.Left = l.Quad, l.Norm2, l.Left
	for ; len(text) > 0; text = text[8:] {
		p.Samples = append(p.Samples, math.Float64frombits(binary.LittleEndian.Uint64(text)))
	}
	return p, nil
}

// shardedProbes are the probes of an estimate.
type shardedProbes struct{ runHeader }

func readShardedProbes(whole []byte) (r shardedProbes, err error) {
	if err := json.Unmarshal(whole, &r.runHeader); err != nil {
		return r, err
	}
	if r.Run != runFormat {
		return r, fmt.Errorf("\"whole\" is of format %d of surepipe run, expected %d", r.Run, runFormat)
	}
	return r, nil
}

func (r shardedProbes) check(p shardPart) error {
	if p.Total != r.Plan.Probes {
		return fmt.Errorf("its first line has a total of %d units, expected the %d probes of its plan", p.Total, r.Plan.Probes)
	}
	return nil
}

func (r shardedProbes) differs(h, of shardHeader) error {
	want := of.run.(shardedProbes)
	if err := differentFlags(h.Flags, of.Flags); err != nil {
		return err
	}
	for _, f := range []struct {
		name    string
		was, is any
	}{{"problem", r.Problem, want.Problem}, {"plan", r.Plan, want.Plan}, {"sigma2", r.Sigma2, want.Sigma2}} {
		if f.was != f.is {
			return fmt.Errorf("its %s is %v, expected %v", f.name, f.was, f.is)
		}
	}
	switch {
	case r.Data != want.Data:
		return errors.New("it was begun with other data")
	case h.Fit == nil || of.Fit == nil:
		return errors.New("its first line has no \"fit\"")
	case *h.Fit != *of.Fit && h.Machine == of.Machine:
		return fmt.Errorf("its solution is another one: b %.23s..., mu_hat %.23s..., expected %.23s... and %.23s...", h.Fit.B, h.Fit.MuHat, of.Fit.B, of.Fit.MuHat)
	}
	return nil
}

func (r shardedProbes) lines(first, end int) int { return end - first }

func (r shardedProbes) place(p shardPart, n int, line []byte) error {
	_, err := readProbe(line, p.First+n)
	return err
}

// probes makes what all shards have computed known to a division of all probes.
func (s *shards) probes(ctx context.Context, division *pipeline.Division) error {
	next := 0
	return s.each(ctx, func(line []byte) error {
		probe, err := readProbe(line, next)
		division.Know(next, probe)
		next++
		return err
	})
}
