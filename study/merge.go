package study

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"slices"
)

// Merged are what the lines of all shards are summed up to.
type Merged struct {
	Tally   *Tally
	Problem string
	D       int
}

// MergeSamples writes the header and the lines of the whole run, and sums them up.
func (s *Shards) MergeSamples(ctx context.Context, w io.Writer) (m Merged, err error) {
	m.Tally = NewTally()
	seconds := 0.0
	if err := WriteLine(w, s.Of.Whole); err != nil {
		return m, err
	}
	err = s.each(ctx, func(line []byte) error {
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
