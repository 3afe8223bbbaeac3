package study

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"surepipe/pipeline"
	"surepipe/problems"
)

// ShardedSweep is a sweep, by the first line of its file.
type ShardedSweep struct {
	SweepHeader
	Keys map[string]json.RawMessage
	Axes []Axis
}

// OnMachine are the keys of the header that the machine has too.
var OnMachine = []string{"device", "blas", "version"}

func ReadShardedSweep(whole []byte) (r ShardedSweep, err error) {
	if err := json.Unmarshal(whole, &r.Keys); err != nil {
		return r, err
	}
	if err := json.Unmarshal(whole, &r.SweepHeader); err != nil {
		return r, err
	}
	if !r.Sweep || len(r.Grid) < 1 || len(r.Grid) > 2 || r.Chain < 0 {
		return r, errors.New("\"whole\" is not the header of a sweep")
	}
	for _, g := range r.Grid {
		if !slices.Contains([]string{"lambda", "lambda2", "gamma"}, g.Weight) {
			return r, fmt.Errorf("its grid is of %q, expected lambda, lambda2 or gamma", g.Weight)
		}
		text := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
		axis := Axis{Name: g.Weight}
		if axis.Grid, err = problems.ParseGrid(text(g.From) + ":" + text(g.To) + ":" +
			strconv.Itoa(g.Points)); err == nil {
			axis.Values, err = axis.Grid.Values(0)
		}
		if err != nil {
			return r, fmt.Errorf("its grid of %s is %w", g.Weight, err)
		}
		r.Axes = append(r.Axes, axis)
	}
	return r, nil
}

func (r ShardedSweep) check(p ShardPart) error {
	if units := len(r.Chains()) - 1; p.Total != units {
		return fmt.Errorf("its first line has a total of %d units, expected the %d chains of its grid", p.Total,
			units)
	}
	return nil
}

func (r ShardedSweep) differs(h, of ShardHeader) error {
	key, was, is := DifferentKey(r.Keys, of.run.(ShardedSweep).Keys, OnMachine...)
	switch key {
	case "":
		return differentFlags(h.Flags, of.Flags)
	case "data_sha256":
		return errors.New("its sweep had different data")
	}
	return fmt.Errorf("its sweep had a different %s: %s, expected %s", key, was, is)
}

func (r ShardedSweep) lines(first, end int) int {
	bounds := r.Chains()
	return bounds[end] - bounds[first]
}

func (r ShardedSweep) place(p ShardPart, n int, line []byte) error {
	_, err := r.Point(p, n, line)
	return err
}

// Point reads line n of a part.
func (r ShardedSweep) Point(p ShardPart, n int, line []byte) (point SweepLine, err error) {
	var kind struct {
		Index *int `json:"index"`
	}
	if err := json.Unmarshal(line, &kind); err != nil {
		return point, err
	}
	if kind.Index == nil {
		return point, errors.New("it has no \"index\"")
	}
	if err := json.Unmarshal(line, &point); err != nil {
		return point, err
	}
	if i := r.Chains()[p.First] + n; point.Index != i {
		return point, fmt.Errorf("it is point %d, expected point %d", point.Index, i)
	}
	if point.Stage != pipeline.GridStage {
		return point, fmt.Errorf("it is a point of the stage %q, expected %q", point.Stage, pipeline.GridStage)
	}
	for a, w := range WeightsAt(r.Axes, point) {
		if want := r.weight(a, point.Index); w != want {
			return point, fmt.Errorf("it has %s %g, expected %g", r.Axes[a].Name, w, want)
		}
	}
	return point, nil
}

// weight is that of axis a at point i of the grid: the first axis varies fastest, from its greatest
// value to its least.
func (r ShardedSweep) weight(a, i int) float64 {
	for _, axis := range r.Axes[:a] {
		i /= len(axis.Values)
	}
	values := r.Axes[a].Values
	return values[len(values)-1-i%len(values)]
}

// Points are the lines of all shards, and the time that they took.
func (s *Shards) Points(ctx context.Context) (points []SweepLine, seconds float64, err error) {
	err = s.Each(ctx, func(line []byte) error {
		var l SweepLine
		err := json.Unmarshal(line, &l)
		points, seconds = append(points, l), seconds+l.Seconds.Total
		return err
	})
	return points, seconds, err
}
