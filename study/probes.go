package study

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"surepipe/internal/dataio"
	"surepipe/pipeline"
	"surepipe/problems"
)

// ProbesHeader describes an estimate at one y whose probes are divided.
type ProbesHeader struct {
	Run     int        `json:"run"` // the format, 1
	Problem string     `json:"problem"`
	Plan    PlanResult `json:"plan"`
	Sigma2  float64    `json:"sigma2,omitempty"`
	Data    string     `json:"data_sha256"`
}

// PlanResult is the plan of the trace's estimate.
type PlanResult struct {
	Estimator string `json:"estimator"`
	Probes    int    `json:"probes"`
	Seed      uint64 `json:"seed"`
}

const runFormat = 1

// FitResult has hashes of a solution.
type FitResult struct {
	B     string `json:"b_sha256"`
	MuHat string `json:"mu_hat_sha256"`
}

// probeLine is the line of a probe in a shard's file.
type probeLine struct {
	Probe int `json:"probe"`
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

func hashFit(f pipeline.Fit) *FitResult {
	return &FitResult{"sha256:" + hex.EncodeToString(f.B[:]), "sha256:" + hex.EncodeToString(f.MuHat[:])}
}

// differs says how a solution is not the expected one.
func (f FitResult) differs(want FitResult) error {
	return fmt.Errorf("its solution is another one: b %.23s..., mu_hat %.23s..., expected %.23s... and %.23s...",
		f.B, f.MuHat, want.B, want.MuHat)
}

// NewProbesHeader is the header of an estimate with the probes of a trace estimator.
func NewProbesHeader(j *Estimator, data problems.Data, estimator string, seed uint64) (ProbesHeader, error) {
	probes, err := j.Pipeline.Probes()
	return ProbesHeader{Run: runFormat, Problem: j.Problem.Name, Plan: PlanResult{estimator, probes, seed},
		Sigma2: j.Sigma2, Data: DataHash(data)}, err
}

func readProbesHeader(whole []byte) (h ProbesHeader, err error) {
	if err = json.Unmarshal(whole, &h); err == nil && h.Run != runFormat {
		err = fmt.Errorf("\"whole\" is of format %d of surepipe run, expected %d", h.Run, runFormat)
	}
	return h, err
}

// readProbe reads the line of a probe.
func readProbe(line []byte) (p pipeline.DividedProbe, err error) {
	var l probeLine
	if err := json.Unmarshal(line, &l); err != nil {
		return p, err
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

// ComputeProbes computes the probes of a shard of an estimate, to its file. A complete file needs no solve, and that of
// another shard is turned away before it.
func (j *Estimator) ComputeProbes(ctx context.Context, y []float64, h ShardHeader, path string) (err error) {
	p := h.Shard
	if was, lines, err := checkShard(dataio.Disk, path); err == nil && was.Fit != nil {
		text, err := json.Marshal(was)
		if err != nil {
			return err
		}
		h.Fit = was.Fit
		if _, err := h.Continues(text); err != nil {
			return Errorf("%s: %w", path, err)
		}
		if lines == p.N {
			return nil
		}
	}
	var log *Log
	division := pipeline.NewDivision(p.First, p.First+p.N, p.Total)
	division.Solved = func(f pipeline.Fit) (err error) {
		h.Fit = hashFit(f)
		known := p.First
		log, err = File{Path: path, Header: h, Resume: true, Every: syncEvery}.open(func(line []byte) error {
			if err := probeAt(known).check(line); err != nil {
				return err
			}
			probe, err := readProbe(line)
			division.Know(known, probe)
			known++
			return err
		})
		return err
	}
	division.Taken = func(i int, p pipeline.DividedProbe) error {
		var text []byte
		for _, v := range p.Samples {
			text = binary.LittleEndian.AppendUint64(text, math.Float64bits(v))
		}
		return log.Write(probeLine{i, p.Quad, p.Norm2, p.Left, p.Steps, p.Unsolved,
			base64.StdEncoding.EncodeToString(text)})
	}
	_, err = j.Pipeline.EstimateDivided(ctx, y, division)
	if closing := log.Close(); err == nil {
		err = closing
	}
	return badInput(err)
}

// EstimateMerged is the estimate at y with the probes of all shards. The solution must be theirs, unless mixed.
func (j *Estimator) EstimateMerged(ctx context.Context, y []float64, s *Shards, mixed bool) (r pipeline.Risk,
	err error) {
	total := s.Of.Shard.Total
	division := pipeline.NewDivision(0, total, total)
	next := 0
	if err := s.each(ctx, func(line []byte) error {
		probe, err := readProbe(line)
		division.Know(next, probe)
		next++
		return err
	}); err != nil {
		return r, err
	}
	division.Solved = func(f pipeline.Fit) error {
		if got := hashFit(f); *got != *s.Of.Fit && !mixed {
			return Errorf("the solution here is not that of the shards: %w", got.differs(*s.Of.Fit))
		}
		return nil
	}
	r, err = j.Pipeline.EstimateDivided(ctx, y, division)
	return r, badInput(err)
}

// badInput is the bad input in an error of a sample, else the error.
func badInput(err error) error {
	var bad *Error
	if errors.As(err, &bad) {
		return bad
	}
	return err
}
