package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/study"
)

// checkShard rejects flags that have no meaning for a part of a sweep.
func (f *sweepFlags) checkShard(cmd *cobra.Command) error {
	if !cmd.Flags().Changed("shard") {
		return nil
	}
	if f.jsonl == "" {
		return usagef("--shard needs --jsonl, which names the file of the merged lines")
	}
	for _, name := range []string{"csv", "plot", "out", "coefficients-csv", "json"} {
		if cmd.Flags().Changed(name) {
			return usagef("--shard computes a part of the points: give --csv, --plot and --out to surepipe merge, found --%s", name)
		}
	}
	return nil
}

// computeShard computes one shard of the sweep, to its own file.
func (s *sweepRun) computeShard() error {
	shard, err := parseShard(s.cmd, s.f.shard)
	if err != nil {
		return err
	}
	whole, err := json.Marshal(s.header)
	if err != nil {
		return err
	}
	run, err := readShardedSweep(whole)
	if err != nil {
		return err
	}
	bounds := s.header.Chains()
	p := partOf(shard, chainUnit, len(bounds)-1)
	first, end := bounds[p.First], bounds[p.First+p.N]
	h, err := newShardHeader(p, thisMachine(s.job.device()), s.header)
	if err != nil {
		return err
	}
	h.Flags, h.Files = s.flags, s.files
	stderr := s.cmd.ErrOrStderr()
	warn := func(text string) { fmt.Fprintln(stderr, "surepipe: "+text) }
	var known []study.SweepLine
	path := shard.File(s.f.jsonl)
	log, err := openLog(path, h, true, warn, func(line []byte) error {
		point, err := run.point(p, len(known), line)
		known = append(known, point)
		return err
	})
	if err != nil {
		return err
	}
	for _, line := range known {
		s.options.Known = append(s.options.Known, valueOf(s.f.criterion, s.f.axes, line))
	}
	s.warn()
	if p.Total < p.Count {
		warn(fmt.Sprintf("the grid has %d chains of warm starts for %d shards, of which some have nothing to do: a smaller --chain makes more, of shorter ones", p.Total, p.Count))
	}
	err = s.computePart(log, len(known), first, end)
	if closeErr := log.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		if s.cmd.Context().Err() != nil {
			warn(fmt.Sprintf("what was done is in %s: the same command continues from there", path))
		}
		return err
	}
	fmt.Fprintf(stderr, "surepipe: shard %s, %d of %d points, is complete: %s\n", shard, end-first, bounds[len(bounds)-1], path)
	return nil
}

// computePart computes points first to end-1 of the grid, of which some are known.
func (s *sweepRun) computePart(log *study.Log, known, first, end int) error {
	s.bar.set(known, end-first, known)
	for point, err := range pipeline.SweepPart(s.cmd.Context(), s.file.Y, s.family, s.grid, s.options, first, end) {
		if err != nil {
			s.bar.close()
			return err
		}
		line, err := json.Marshal(s.f.line(s.job, point))
		if err != nil {
			return err
		}
		if err := log.WriteLine(line); err != nil {
			return err
		}
		known++
		s.bar.set(known, end-first, known)
	}
	s.bar.close()
	return nil
}

// shardedSweep is a sweep, by the first line of its file.
type shardedSweep struct {
	study.SweepHeader
	keys map[string]json.RawMessage
	axes []sweepAxis
}

func readShardedSweep(whole []byte) (r shardedSweep, err error) {
	if err := json.Unmarshal(whole, &r.keys); err != nil {
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
		axis := sweepAxis{name: g.Weight}
		if axis.grid, err = problems.ParseGrid(text(g.From) + ":" + text(g.To) + ":" + strconv.Itoa(g.Points)); err == nil {
			axis.values, err = axis.grid.Values(0)
		}
		if err != nil {
			return r, fmt.Errorf("its grid of %s is %w", g.Weight, err)
		}
		r.axes = append(r.axes, axis)
	}
	return r, nil
}

func (r shardedSweep) check(p shardPart) error {
	if units := len(r.Chains()) - 1; p.Total != units {
		return fmt.Errorf("its first line has a total of %d units, expected the %d chains of its grid", p.Total, units)
	}
	return nil
}

// onMachine are the keys of the header that the machine has too.
var onMachine = []string{"device", "blas", "version"}

func (r shardedSweep) differs(h, of shardHeader) error {
	key, was, is := study.DifferentKey(r.keys, of.run.(shardedSweep).keys, onMachine...)
	switch key {
	case "":
		return differentFlags(h.Flags, of.Flags)
	case "data_sha256":
		return errors.New("its sweep had different data")
	}
	return fmt.Errorf("its sweep had a different %s: %s, expected %s", key, was, is)
}

func (r shardedSweep) lines(first, end int) int {
	bounds := r.Chains()
	return bounds[end] - bounds[first]
}

func (r shardedSweep) place(p shardPart, n int, line []byte) error {
	_, err := r.point(p, n, line)
	return err
}

// point reads line n of a part.
func (r shardedSweep) point(p shardPart, n int, line []byte) (point study.SweepLine, err error) {
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
	for a, w := range weightsOf(r.axes, point) {
		if want := r.weight(a, point.Index); w != want {
			return point, fmt.Errorf("it has %s %g, expected %g", r.axes[a].name, w, want)
		}
	}
	return point, nil
}

// weight is that of axis a at point i of the grid: the first axis varies fastest, from its greatest
// value to its least.
func (r shardedSweep) weight(a, i int) float64 {
	for _, axis := range r.axes[:a] {
		i /= len(axis.values)
	}
	values := r.axes[a].values
	return values[len(values)-1-i%len(values)]
}

// points are the lines of all shards, and the time that they took.
func (s *shards) points(ctx context.Context) (points []study.SweepLine, seconds float64, err error) {
	err = s.each(ctx, func(line []byte) error {
		var l study.SweepLine
		err := json.Unmarshal(line, &l)
		points, seconds = append(points, l), seconds+l.Seconds.Total
		return err
	})
	return points, seconds, err
}
