package study

import (
	"context"
	"encoding/json"
	"io"
	"slices"

	"surepipe/pipeline"
)

// MergeSamples writes the header and the lines of the whole run, and sums them up.
func (s *Shards) MergeSamples(ctx context.Context, w io.Writer) (*Tally, error) {
	t, seconds := NewTally(), 0.0
	if err := WriteLine(w, s.Of.Whole); err != nil {
		return nil, err
	}
	err := s.each(ctx, func(line []byte) error {
		r, err := ParseLine(line)
		if err != nil {
			return err
		}
		t.Add(r)
		seconds += r.Seconds.Total
		_, err = w.Write(append(slices.Clip(line), '\n'))
		return err
	})
	t.Finish(0)
	t.Seconds = seconds
	return t, err
}

// After has the sweep go on after the points that shards of it have computed, or begin anew where one machine would
// go on by cross-validation, which shards do not.
func (s *Sweep) After(ctx context.Context, set *Shards) error {
	h, err := set.Of.Here(s.Estimator.Device(), s.Header)
	if err == nil {
		err = h.SameRun(set.Of, set.Mixed)
	}
	if err != nil {
		return Errorf("the run here is not that of the shards: %w", err)
	}
	if s.Header, err = ReadSweepHeader(set.Of.Whole); err == nil {
		s.Known, s.Seconds, err = set.Points(ctx)
	}
	if err == nil && s.FallsBack() {
		s.Known = nil
	}
	return err
}

// Alone is the sweep of the shards by their lines alone, whose minimum is that of the grid.
func (s *Shards) Alone(ctx context.Context, rule pipeline.Rule) (*Sweep, error) {
	h, err := ReadSweepHeader(s.Of.Whole)
	if err != nil {
		return nil, err
	}
	alone := &Sweep{Header: h, Options: pipeline.SweepOptions{Criterion: h.Criterion, Rule: rule,
		Options: pipeline.Options{Sigma2: h.Sigma2}}}
	if h.Sigma2RelStdErr != nil {
		alone.Options.Sigma2RelStdErr = *h.Sigma2RelStdErr
	}
	if alone.Axes, err = h.Axes(); err != nil {
		return nil, err
	}
	if alone.Known, alone.Seconds, err = s.Points(ctx); err == nil {
		alone.Template = alone.Known[0].Result
	}
	return alone, err
}

// Points are the lines of all shards, and the time that they took.
func (s *Shards) Points(ctx context.Context) (points []SweepLine, seconds float64, err error) {
	err = s.each(ctx, func(line []byte) error {
		var l SweepLine
		err := json.Unmarshal(line, &l)
		points, seconds = append(points, l), seconds+l.Seconds.Total
		return err
	})
	return points, seconds, err
}
