package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"surepipe/internal/dataio"
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
	h := shardHeader{Shard: p, Machine: thisMachine(s.job.device()), Flags: s.flags, Files: s.files, Whole: whole, run: run}
	stderr := s.cmd.ErrOrStderr()
	warn := func(text string) { fmt.Fprintln(stderr, "surepipe: "+text) }
	var known []study.SweepLine
	path := shard.File(s.f.jsonl)
	log, err := openLog(path, h, true, warn, func(line []byte) error {
		point, err := run.(shardedSweep).point(p, len(known), line)
		known = append(known, point)
		return err
	})
	if err != nil {
		return err
	}
	for _, line := range known {
		s.options.Known = append(s.options.Known, s.f.valueOf(line))
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

func readShardedSweep(whole []byte) (_ sharded, err error) {
	r := shardedSweep{}
	if err := json.Unmarshal(whole, &r.keys); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(whole, &r.SweepHeader); err != nil {
		return nil, err
	}
	if !r.Sweep || len(r.Grid) < 1 || len(r.Grid) > 2 || r.Chain < 0 {
		return nil, errors.New("\"whole\" is not the header of a sweep")
	}
	for _, g := range r.Grid {
		if !slices.Contains([]string{"lambda", "lambda2", "gamma"}, g.Weight) {
			return nil, fmt.Errorf("its grid is of %q, expected lambda, lambda2 or gamma", g.Weight)
		}
		text := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
		axis := sweepAxis{name: g.Weight}
		if axis.grid, err = problems.ParseGrid(text(g.From) + ":" + text(g.To) + ":" + strconv.Itoa(g.Points)); err == nil {
			axis.values, err = axis.grid.Values(0)
		}
		if err != nil {
			return nil, fmt.Errorf("its grid of %s is %w", g.Weight, err)
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

func (r shardedSweep) differs(h, of shardHeader) string {
	key, was, is := study.DifferentKey(r.keys, of.run.(shardedSweep).keys, onMachine...)
	switch key {
	case "":
		return differentFlags(h.Flags, of.Flags)
	case "data_sha256":
		return "its sweep had different data"
	}
	return fmt.Sprintf("its sweep had a different %s: %s, expected %s", key, was, is)
}

func (r shardedSweep) lines(first, end int) int {
	bounds := r.Chains()
	return bounds[end] - bounds[first]
}

func (r shardedSweep) mergeFlags() []string {
	return append([]string{"csv", "plot", "out", "no-refine"}, fileFlags...)
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
	f := sweepFlags{axes: r.axes}
	for a, w := range f.weightsOf(point) {
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

// merge writes the points of the grid, refines the minimizer unless that is not wanted, and sums up.
func (r shardedSweep) merge(f *mergeFlags, cmd *cobra.Command, set *shards) error {
	begin := time.Now()
	var known []study.SweepLine
	seconds := 0.0
	err := set.each(cmd.Context(), func(line []byte) error {
		var l study.SweepLine
		err := json.Unmarshal(line, &l)
		known, seconds = append(known, l), seconds+l.Seconds.Total
		return err
	})
	if err != nil {
		return err
	}
	begin = begin.Add(-time.Duration(seconds * float64(time.Second)))
	prepare := r.refined
	if f.noRefine {
		prepare = r.unrefined
	}
	report, follow, err := prepare(f, cmd, set, known, begin)
	if err != nil {
		return err
	}
	var done error
	err = dataio.WriteFile(f.jsonl, func(w io.Writer) error {
		report.out = w
		if done = follow(); report.summed == nil {
			return done
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := study.WriteLine(cmd.OutOrStdout(), report.summed); err != nil {
		return err
	}
	if err := report.writeSummary(cmd.ErrOrStderr(), *report.summed); err != nil {
		return err
	}
	return done
}

// refined prepares to go on after the points of the grid as one machine would, from the data.
func (r shardedSweep) refined(f *mergeFlags, cmd *cobra.Command, set *shards, known []study.SweepLine, begin time.Time) (*sweepReport, func() error, error) {
	sweep, flags := newSweepCommand()
	sweep.SetContext(cmd.Context())
	sweep.SetErr(cmd.ErrOrStderr())
	if err := set.of.setFlags(sweep, f.files); err != nil {
		return nil, nil, usagef("%s: %w; or --no-refine, which needs no data", set.files[set.of.Shard.Index].path, err)
	}
	flags.asJSON, flags.csv, flags.plot, flags.out = true, f.csv, f.figures.plot, f.out
	s, err := flags.openSweep(sweep)
	if err != nil {
		return nil, nil, err
	}
	if err = flags.checkNamed(cmd); err == nil {
		err = r.here(s.header, f.mixed)
	}
	if err != nil {
		s.close()
		return nil, nil, err
	}
	s.header = r.SweepHeader
	report := s.report(nil)
	report.known = known
	for _, line := range known {
		s.options.Known = append(s.options.Known, flags.valueOf(line))
	}
	s.warn()
	return report, func() error {
		defer s.close()
		return s.follow(report, begin)
	}, nil
}

// here rejects a sweep that is opened here and is not the shards'.
func (r shardedSweep) here(h study.SweepHeader, mixed bool) error {
	keys, err := h.Keys()
	if err != nil {
		return err
	}
	var ignored []string
	if mixed {
		ignored = onMachine
	}
	switch key, was, is := study.DifferentKey(r.keys, keys, ignored...); key {
	case "":
		return nil
	case "data_sha256":
		return usagef("the data here are not those of the shards: give --data and the like, or --no-refine")
	default:
		return usagef("the shards had a different %s: %s, here it is %s", key, was, is)
	}
}

// unrefined finds the minimizer among the points of the grid, from the lines alone.
func (r shardedSweep) unrefined(f *mergeFlags, cmd *cobra.Command, set *shards, known []study.SweepLine, begin time.Time) (*sweepReport, func() error, error) {
	sweep, flags := newSweepCommand()
	if err := set.of.setFlags(sweep, set.of.Files); err != nil {
		return nil, nil, usagef("%s: %w", set.files[set.of.Shard.Index].path, err)
	}
	sweep.SetErr(cmd.ErrOrStderr())
	flags.asJSON, flags.csv, flags.plot, flags.coefficients = true, f.csv, f.figures.plot, coefficientFlags{}
	flags.criterion, flags.alo, flags.axes = r.Criterion, r.ALO, r.axes
	report := &sweepReport{bar: newProgress(cmd), cmd: sweep, f: flags, about: known[0].Result, hash: r.Data, total: len(known), hasLoss: known[0].Loss != nil, known: known}
	options := pipeline.SweepOptions{Criterion: r.Criterion, Rule: flags.rule, Sigma2RelStdErr: r.Sigma2RelStdErr, Options: pipeline.Options{Sigma2: r.Sigma2}}
	for _, line := range known {
		options.Known = append(options.Known, flags.valueOf(line))
	}
	var grid [][]float64
	for _, axis := range r.axes {
		grid = append(grid, axis.values)
	}
	choice, edge, err := pipeline.Choose(grid, options)
	if err != nil {
		return nil, nil, err
	}
	at := func(i int, stage pipeline.SweepStage) pipeline.SweepPoint {
		p := pipeline.SweepPoint{Stage: stage, Weights: options.Known[i].Weights, Choice: choice, Edge: edge}
		p.Index = i
		return p
	}
	return report, func() error {
		if err := report.begin(r.SweepHeader); err != nil {
			return err
		}
		flags.note(cmd, study.NoteNotRefined, "the minimizer is that of the grid: the same surepipe sweep with --jsonl %s --resume refines it", f.jsonl)
		return report.finish(at(choice.Minimizer, pipeline.MinimizerStage), at(choice.Chosen, pipeline.ChosenStage), time.Since(begin))
	}, nil
}
