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
	merge func(f *mergeFlags, cmd *cobra.Command, set *shards) error
}

// mergerOf is the merger of a run by its unit.
func mergerOf(unit string) merger {
	switch unit {
	case chainUnit:
		return merger{append([]string{"csv", "plot", "out", "no-refine"}, fileFlags...), mergeSweep}
	case probeUnit:
		return merger{append([]string{"out"}, fileFlags...), mergeProbes}
	}
	return merger{[]string{"plot", "running"}, mergeSampled}
}

// mergeSampled writes the lines of a whole Monte Carlo run, its summary and its figures.
func mergeSampled(f *mergeFlags, cmd *cobra.Command, set *shards) error {
	var m mergedSamples
	err := dataio.WriteFile(f.jsonl, func(w io.Writer) (err error) {
		m, err = set.mergeSamples(cmd.Context(), w)
		return err
	})
	if err != nil {
		return err
	}
	s := m.tally
	s.Warnings = slices.Concat(s.Notes, summaryWarnings(s))
	if err := study.WriteLine(cmd.OutOrStdout(), s.Summary); err != nil {
		return err
	}
	if err := writeSummaryTable(&s.Summary, cmd.ErrOrStderr(), throughput{}); err != nil {
		return err
	}
	printWarnings(cmd.ErrOrStderr(), s.Warnings)
	notes, err := shardProvenance(set.of)
	if err != nil {
		return usagef("%s: %w", set.files[set.of.Shard.Index].path, err)
	}
	if err := f.figures.draw(s, m.problem, m.d, notes...); err != nil {
		return err
	}
	return unsettledSummary(&s.Summary)
}

// shardProvenance are the notes of figures: the command that the shards were, without --shard. Files
// that were written before first lines had the command have none.
func shardProvenance(h shardHeader) ([]figure.Note, error) {
	if h.Flags == nil {
		return nil, nil
	}
	run := newMonteCarlo()
	if err := takeFlags(h, run, h.Files); err != nil {
		return nil, err
	}
	whole, err := readShardedSamples(h.Whole)
	return provenance(run, whole.Data), err
}

// mergeSweep writes the points of the grid, refines the minimizer unless that is not wanted, and sums up.
func mergeSweep(f *mergeFlags, cmd *cobra.Command, set *shards) error {
	begin := time.Now()
	r, err := readShardedSweep(set.of.Whole)
	if err != nil {
		return err
	}
	known, seconds, err := set.points(cmd.Context())
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
	r shardedSweep, f *mergeFlags, cmd *cobra.Command, set *shards, known []study.SweepLine, begin time.Time,
) (*sweepReport, func() error, error) {
	sweep, flags := newSweepCommand()
	sweep.SetContext(cmd.Context())
	sweep.SetErr(cmd.ErrOrStderr())
	if err := setFlags(set.of, sweep, f.files); err != nil {
		return nil, nil, usagef("%s: %w; or --no-refine, which needs no data", set.files[set.of.Shard.Index].path, err)
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
		s.options.Known = append(s.options.Known, valueOf(flags.criterion, flags.axes, line))
	}
	s.warn()
	return report, func() error {
		defer s.close()
		return s.follow(report, begin)
	}, nil
}

// sweepHere rejects a sweep that is opened here and is not the shards'.
func sweepHere(r shardedSweep, h study.SweepHeader, mixed bool) error {
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
func unrefined(
	r shardedSweep, f *mergeFlags, cmd *cobra.Command, set *shards, known []study.SweepLine, begin time.Time,
) (*sweepReport, func() error, error) {
	sweep, flags := newSweepCommand()
	if err := setFlags(set.of, sweep, set.of.Files); err != nil {
		return nil, nil, usagef("%s: %w", set.files[set.of.Shard.Index].path, err)
	}
	sweep.SetErr(cmd.ErrOrStderr())
	flags.asJSON, flags.csv, flags.plot, flags.coefficients = true, f.csv, f.figures.plot, coefficientFlags{}
	flags.criterion, flags.alo, flags.axes = r.Criterion, r.ALO, r.axes
	report := &sweepReport{bar: newProgress(cmd), cmd: sweep, f: flags, about: known[0].Result, hash: r.Data, total: len(known), hasLoss: known[0].Loss != nil, known: known}
	options := pipeline.SweepOptions{Criterion: r.Criterion, Rule: flags.rule, Sigma2RelStdErr: r.Sigma2RelStdErr, Options: pipeline.Options{Sigma2: r.Sigma2}}
	for _, line := range known {
		options.Known = append(options.Known, valueOf(flags.criterion, flags.axes, line))
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

// mergeProbes solves the problem once more, and writes the result as one machine would.
func mergeProbes(f *mergeFlags, cmd *cobra.Command, set *shards) error {
	r, err := readShardedProbes(set.of.Whole)
	if err != nil {
		return err
	}
	if set.of.Fit == nil {
		return usagef("%s: its first line has no \"fit\"", set.files[set.of.Shard.Index].path)
	}
	division := pipeline.NewDivision(0, r.Plan.Probes, r.Plan.Probes)
	if err := set.probes(cmd.Context(), division); err != nil {
		return err
	}
	run, flags := newRunCommand()
	run.SetContext(cmd.Context())
	run.SetErr(cmd.ErrOrStderr())
	if err := setFlags(set.of, run, f.files); err != nil {
		return usagef("%s: %w", set.files[set.of.Shard.Index].path, err)
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
	here, err := newShardHeader(set.of.Shard, thisMachine(j.device()), h)
	if err != nil {
		return err
	}
	here.Flags, here.Fit = set.of.Flags, set.of.Fit
	why := here.sameRun(set.of)
	if machine := here.Machine.differs(set.of.Machine); why == nil && machine != "" && !f.mixed {
		why = errors.New("the machine has " + machine)
	}
	if why != nil {
		return usagef("the estimate here is not that of the shards: %w", why)
	}
	division.Solved = func(fit pipeline.Fit) error {
		if got := fitOf(fit); *got != *set.of.Fit && !f.mixed {
			return usagef("the solution here is not that of the shards: b %.23s..., mu_hat %.23s..., expected %.23s... and %.23s...", got.B, got.MuHat, set.of.Fit.B, set.of.Fit.MuHat)
		}
		return nil
	}
	risk, err := j.pipeline.EstimateDivided(cmd.Context(), j.file.Y, division)
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
