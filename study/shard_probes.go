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

	"surepipe/pipeline"
)

// ProbesHeader describes an estimate at one y.
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

const RunFormat = 1

// FitResult has hashes of a solution.
type FitResult struct {
	B     string `json:"b_sha256"`
	MuHat string `json:"mu_hat_sha256"`
}

// ProbeLine is the line of a probe in a shard's file.
type ProbeLine struct {
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

// ShardedProbes are the probes of an estimate.
type ShardedProbes struct{ ProbesHeader }

func HashFit(f pipeline.Fit) *FitResult {
	return &FitResult{"sha256:" + hex.EncodeToString(f.B[:]), "sha256:" + hex.EncodeToString(f.MuHat[:])}
}

func ProbeLineOf(i int, p pipeline.DividedProbe) ProbeLine {
	var text []byte
	for _, v := range p.Samples {
		text = binary.LittleEndian.AppendUint64(text, math.Float64bits(v))
	}
	return ProbeLine{&i, p.Quad, p.Norm2, p.Left, p.Steps, p.Unsolved, base64.StdEncoding.EncodeToString(text)}
}

// ReadProbe reads the line of probe i.
func ReadProbe(line []byte, i int) (p pipeline.DividedProbe, err error) {
	var l ProbeLine
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

func ReadShardedProbes(whole []byte) (r ShardedProbes, err error) {
	if err := json.Unmarshal(whole, &r.ProbesHeader); err != nil {
		return r, err
	}
	if r.Run != RunFormat {
		return r, fmt.Errorf("\"whole\" is of format %d of surepipe run, expected %d", r.Run, RunFormat)
	}
	return r, nil
}

func (r ShardedProbes) check(p ShardPart) error {
	if p.Total != r.Plan.Probes {
		return fmt.Errorf("its first line has a total of %d units, expected the %d probes of its plan", p.Total,
			r.Plan.Probes)
	}
	return nil
}

func (r ShardedProbes) differs(h, of ShardHeader) error {
	want := of.run.(ShardedProbes)
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
		return fmt.Errorf("its solution is another one: b %.23s..., mu_hat %.23s..., expected %.23s... and %.23s...",
			h.Fit.B, h.Fit.MuHat, of.Fit.B, of.Fit.MuHat)
	}
	return nil
}

func (r ShardedProbes) lines(first, end int) int { return end - first }

func (r ShardedProbes) place(p ShardPart, n int, line []byte) error {
	_, err := ReadProbe(line, p.First+n)
	return err
}

// Probes makes what all shards have computed known to a division of all probes.
func (s *Shards) Probes(ctx context.Context, division *pipeline.Division) error {
	next := 0
	return s.Each(ctx, func(line []byte) error {
		probe, err := ReadProbe(line, next)
		division.Know(next, probe)
		next++
		return err
	})
}
