package study

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
)

// ShardedSamples are the samples of a Monte Carlo run, by the first line of its file.
type ShardedSamples struct{ MonteCarloHeader }

// Merged are what the lines of all shards are summed up to.
type Merged struct {
	Tally   *Tally
	Problem string
	D       int
}

func ReadShardedSamples(whole []byte) (r ShardedSamples, err error) {
	if err := json.Unmarshal(whole, &r.MonteCarloHeader); err != nil {
		return r, err
	}
	if r.MonteCarlo != logFormat {
		return r, fmt.Errorf("\"whole\" is of format %d of surepipe montecarlo, expected %d", r.MonteCarlo, logFormat)
	}
	return r, nil
}

func (r ShardedSamples) check(p ShardPart) error {
	if p.Samples < 0 || p.Samples > p.Total || p.From < 0 {
		return fmt.Errorf("its first line has the shard %d of %d of %d units (%q), which does not exist", p.Index,
			p.Count, p.Total, p.Unit)
	}
	return nil
}

func (r ShardedSamples) differs(h, of ShardHeader) error {
	if err := r.MonteCarloHeader.differs(of.run.(ShardedSamples).MonteCarloHeader); err != nil {
		return err
	}
	for _, f := range []struct {
		name    string
		was, is any
	}{
		{"first sample", h.Shard.From, of.Shard.From}, {"number of units", h.Shard.Total, of.Shard.Total},
		{"number of samples", h.Shard.Samples, of.Shard.Samples},
		{"file of samples, by its hash,", h.Samples, of.Samples},
	} {
		if f.was != f.is {
			return fmt.Errorf("its %s is %v, expected %v", f.name, f.was, f.is)
		}
	}
	return nil
}

func (r ShardedSamples) lines(first, end int) int { return end - first }

// place takes the line that is sample or repetition number First + n of the run.
func (r ShardedSamples) place(p ShardPart, n int, line []byte) error {
	record, err := ParseLine(line)
	if err != nil {
		return err
	}
	sample, repeat := p.From+p.First+n, -1
	if k := p.First + n - p.Samples; k >= 0 {
		sample, repeat = p.From, k
	}
	found := -1
	if record.Repeat != nil {
		found = *record.Repeat
	}
	if *record.Sample != sample || found != repeat {
		return fmt.Errorf("it is %s, expected %s", unitName(*record.Sample, found), unitName(sample, repeat))
	}
	return nil
}

func unitName(sample, repeat int) string {
	if repeat < 0 {
		return fmt.Sprintf("sample %d", sample)
	}
	return fmt.Sprintf("repetition %d of sample %d", repeat, sample)
}

// MergeSamples writes the header and the lines of the whole run, and sums them up.
func (s *Shards) MergeSamples(ctx context.Context, w io.Writer) (m Merged, err error) {
	m.Tally = NewTally()
	seconds := 0.0
	if err := WriteLine(w, s.Of.Whole); err != nil {
		return m, err
	}
	err = s.Each(ctx, func(line []byte) error {
		r, err := ParseLine(line)
		if err != nil {
			return err
		}
		m.Tally.Add(r)
		m.Problem, m.D, seconds = cmp.Or(m.Problem, r.Problem), r.D, seconds+r.Seconds.Total
		_, err = w.Write(append(slices.Clip(line), '\n'))
		return err
	})
	m.Tally.Finish(0)
	m.Tally.Seconds = seconds
	return m, err
}
