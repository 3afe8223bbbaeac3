package main

import (
	"errors"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"surepipe/internal/dataio"
	"surepipe/internal/figure"
	"surepipe/pipeline"
	"surepipe/study"
)

// merger merges the shards of a run.
type merger struct {
	// flags are those of surepipe merge that the run has a use for, besides --jsonl and --mixed.
	flags []string
	// merge writes what one machine would have written.
	merge func(f *mergeFlags, cmd *cobra.Command, set *study.Shards) error
}

// mergerOf is the merger of a run by its unit.
func mergerOf(unit string) merger {
	switch unit {
	case study.ChainUnit:
		return merger{append([]string{"csv", "plot", "out", "no-refine"}, fileFlags...), mergeSweep}
	case study.ProbeUnit:
		return merger{append([]string{"out"}, fileFlags...), mergeProbes}
	}
	return merger{[]string{"plot", "running"}, mergeSampled}
}

// mergeSampled writes the lines of a whole Monte Carlo run, its summary and its figures.
func mergeSampled(f *mergeFlags, cmd *cobra.Command, set *study.Shards) error {
	var m study.Merged
	err := dataio.WriteFile(f.jsonl, func(w io.Writer) (err error) {
		m, err = set.MergeSamples(cmd.Context(), w)
		return err
	})
	if err != nil {
		return err
	}
	s := m.Tally
	s.Warnings = slices.Concat(s.Notes, summaryWarnings(s))
	if err := writeSummary(cmd, s, study.Throughput{}, s.Warnings); err != nil {
		return err
	}
	notes, err := shardProvenance(set.Of)
	if err != nil {
		return usagef("%s: %w", set.Files[set.Of.Shard.Index].Path, err)
	}
	if err := f.figures.draw(s, m.Problem, m.D, notes...); err != nil {
		return err
	}
	return unsettledSummary(&s.Summary)
}

// shardProvenance are the notes of figures: the command that the shards were, without --shard. Files
// that were written before first lines had the command have none.
func shardProvenance(h study.ShardHeader) ([]figure.Note, error) {
	if h.Flags == nil {
		return nil, nil
	}
	run := newMonteCarlo()
	if err := takeFlags(h, run, h.Files); err != nil {
		return nil, err
	}
	whole, err := study.ReadShardedSamples(h.Whole)
	return provenance(run, whole.Data), err
}

// mergeSweep writes the points of the grid, refines the minimizer unless that is not wanted, and sums up.
func mergeSweep(f *mergeFlags, cmd *cobra.Command, set *study.Shards) error {
	begin := time.Now()
	r, err := study.ReadShardedSweep(set.Of.Whole)
	if err != nil {
		return err
	}
	known, seconds, err := set.Points(cmd.Context())
	if err != nil {
		return err
	}
	begin = begin.Add(-time.Duration(seconds * float64(time.Second)))
	prepare := refined
	if f.noRefine {
		prepare = unrefined
	}
	report, follow, err := prepare(r, f, cmd, set, known, begin)
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
func refined(
	r study.ShardedSweep, f *mergeFlags, cmd *cobra.Command, set *study.Shards, known []study.SweepLine,
	begin time.Time,
) (*sweepReport, func() error, error) {
	sweep, flags := newSweepCommand()
	sweep.SetContext(cmd.Context())
	sweep.SetErr(cmd.ErrOrStderr())
	if err := setFlags(set.Of, sweep, f.files); err != nil {
		return nil, nil, usagef("%s: %w; or --no-refine, which needs no data", set.Files[set.Of.Shard.Index].Path,
			err)
	}
	flags.asJSON, flags.csv, flags.plot, flags.out = true, f.csv, f.figures.plot, f.out
	s, err := flags.openSweep(sweep)
	if err != nil {
		return nil, nil, err
	}
	if err = flags.checkNamed(cmd); err == nil {
		err = sweepHere(r, s.header, f.mixed)
	}
	if err != nil {
		s.close()
		return nil, nil, err
	}
	s.header = r.SweepHeader
	report := s.report(nil)
	report.known = known
	for _, line := range known {
		s.options.Known = append(s.options.Known, study.KnownPoint(flags.criterion, flags.axes, line))
	}
	s.warn()
	return report, func() error {
		defer s.close()
		return s.follow(report, begin)
	}, nil
}

// sweepHere rejects a sweep that is opened here and is not the shards'.
func sweepHere(r study.ShardedSweep, h study.SweepHeader, mixed bool) error {
	keys, err := h.Keys()
	if err != nil {
		return err
	}
	var ignored []string
	if mixed {
		ignored = study.OnMachine
	}
	switch key, was, is := study.DifferentKey(r.Keys, keys, ignored...); key {
	case "":
		return nil
	case "data_sha256":
		return usagef("the data here are not those of the shards: give --data and the like, or --no-refine")
	default:
		return usagef("the shards had a different %s: %s, here it is %s", key, was, is)
	}
}

// unrefined finds the minimizer among the points of the grid, from the lines alone.
func unrefined(
	r study.ShardedSweep, f *mergeFlags, cmd *cobra.Command, set *study.Shards, known []study.SweepLine,
	begin time.Time,
) (*sweepReport, func() error, error) {
	sweep, flags := newSweepCommand()
	if err := setFlags(set.Of, sweep, set.Of.Files); err != nil {
		return nil, nil, usagef("%s: %w", set.Files[set.Of.Shard.Index].Path, err)
	}
	sweep.SetErr(cmd.ErrOrStderr())
	flags.asJSON, flags.csv, flags.plot, flags.coefficients = true, f.csv, f.figures.plot, coefficientFlags{}
	flags.criterion, flags.alo, flags.axes = r.Criterion, r.ALO, r.Axes
	report := &sweepReport{bar: newProgress(cmd), cmd: sweep, f: flags, about: known[0].Result, hash: r.Data,
		total: len(known), hasLoss: known[0].Loss != nil, known: known}
	options := pipeline.SweepOptions{Criterion: r.Criterion, Rule: flags.rule, Sigma2RelStdErr: r.Sigma2RelStdErr,
		Options: pipeline.Options{Sigma2: r.Sigma2}}
	for _, line := range known {
		options.Known = append(options.Known, study.KnownPoint(flags.criterion, flags.axes, line))
	}
	var grid [][]float64
	for _, axis := range r.Axes {
		grid = append(grid, axis.Values)
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
		flags.note(cmd, study.NoteNotRefined, "the minimizer is that of the grid: the same surepipe sweep with "+
			"--jsonl %s --resume refines it", f.jsonl)
		return report.finish(at(choice.Minimizer, pipeline.MinimizerStage),
			at(choice.Chosen, pipeline.ChosenStage), time.Since(begin))
	}, nil
}

// mergeProbes solves the problem once more, and writes the result as one machine would.
func mergeProbes(f *mergeFlags, cmd *cobra.Command, set *study.Shards) error {
	r, err := study.ReadShardedProbes(set.Of.Whole)
	if err != nil {
		return err
	}
	if set.Of.Fit == nil {
		return usagef("%s: its first line has no \"fit\"", set.Files[set.Of.Shard.Index].Path)
	}
	division := pipeline.NewDivision(0, r.Plan.Probes, r.Plan.Probes)
	if err := set.Probes(cmd.Context(), division); err != nil {
		return err
	}
	run, flags := newRunCommand()
	run.SetContext(cmd.Context())
	run.SetErr(cmd.ErrOrStderr())
	if err := setFlags(set.Of, run, f.files); err != nil {
		return usagef("%s: %w", set.Files[set.Of.Shard.Index].Path, err)
	}
	flags.out = f.out
	j, err := flags.openRun(run)
	if err != nil {
		return err
	}
	defer j.close()
	if err := flags.checkNamed(cmd); err != nil {
		return err
	}
	h, err := j.header()
	if err != nil {
		return err
	}
	here, err := study.NewShardHeader(set.Of.Shard, study.ThisMachine(j.Device()), h)
	if err != nil {
		return err
	}
	here.Flags, here.Fit = set.Of.Flags, set.Of.Fit
	why := here.SameRun(set.Of)
	if machine := here.Machine.Differs(set.Of.Machine); why == nil && machine != "" && !f.mixed {
		why = errors.New("the machine has " + machine)
	}
	if why != nil {
		return usagef("the estimate here is not that of the shards: %w", why)
	}
	division.Solved = func(fit pipeline.Fit) error {
		if got := study.HashFit(fit); *got != *set.Of.Fit && !f.mixed {
			return usagef("the solution here is not that of the shards: b %.23s..., mu_hat %.23s..., expected "+
				"%.23s... and %.23s...", got.B, got.MuHat, set.Of.Fit.B, set.Of.Fit.MuHat)
		}
		return nil
	}
	risk, err := j.Pipeline.EstimateDivided(cmd.Context(), j.file.Y, division)
	j.bar.close()
	var input usageError
	if errors.As(err, &input) {
		return input
	}
	if err != nil {
		return err
	}
	return j.report(risk, func(r study.Result) error {
		line := func(w io.Writer) error { return study.WriteLine(w, r) }
		if err := dataio.WriteFile(f.jsonl, line); err != nil {
			return err
		}
		if err := line(cmd.OutOrStdout()); err != nil {
			return err
		}
		return writeResultTable(&r, cmd.ErrOrStderr())
	})
}
