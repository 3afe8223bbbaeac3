package main

import (
	"errors"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"surepipe"
	"surepipe/cmd/surepipe/internal/bar"
	"surepipe/cmd/surepipe/internal/cli"
	"surepipe/cmd/surepipe/internal/report"
	"surepipe/internal/dataio"
	"surepipe/problems"
	"surepipe/risk/warning"
	"surepipe/study"
	"surepipe/study/draw"
)

type mergeCommand struct {
	cmd      *cobra.Command
	jsonl    string
	mixed    bool
	figures  draw.MonteCarlo
	csv, out string
	noRefine bool
	page     pageFlag
	moved    map[string]*string // by the name of a flag for a file
}

func newMerge() *cobra.Command {
	f := &mergeCommand{moved: map[string]*string{}}
	f.cmd = &cobra.Command{
		Use:     "merge FILE...",
		Short:   "Merge the files of a run's shards",
		Long:    helpText("merge"),
		Example: helpText("merge.examples"),
		RunE:    func(_ *cobra.Command, args []string) error { return f.merge(args) },
	}
	cli.Bind(f.cmd,
		cli.Flag{Name: "jsonl", To: &f.jsonl, Usage: "write the merged lines to this `file`, which must not exist",
			Role: cli.Writes, Extensions: []string{"jsonl"}},
		cli.Flag{Name: "mixed", To: &f.mixed, Usage: "also merge shards of different versions, BLAS kernels or " +
			"devices, which agree up to rounding"},
		cli.Flag{Name: "plot", To: &f.figures.Histogram, Usage: "draw the figure of surepipe montecarlo or sweep " +
			"--plot to this .png, .svg or .pdf `file`", Role: cli.Writes, Extensions: draw.Formats()},
		cli.Flag{Name: "running", To: &f.figures.Running, Usage: "montecarlo: draw the running mean of SURE - loss, " +
			"or of SURE, to this `file`", Role: cli.Writes, Extensions: draw.Formats()},
		cli.Flag{Name: "csv", To: &f.csv, Usage: "sweep: write the points to this .csv `file`", Role: cli.Writes,
			Extensions: []string{"csv"}},
		cli.Flag{Name: "out", To: &f.out, Usage: "sweep: write the fit at the minimizer to this `file`, in the " +
			"formats of surepipe run --out", Role: cli.Writes, Extensions: extensions(dataio.Written())},
		cli.Flag{Name: "no-refine", To: &f.noRefine, Usage: "sweep: the minimizer is that of the grid, for which " +
			"the data are not needed; surepipe sweep --resume goes on from there"})
	f.page.register(f.cmd, "")
	for _, name := range fileFlags {
		f.moved[name] = new(string)
		cli.Bind(f.cmd, cli.Flag{Name: name, To: f.moved[name], Usage: "sweep: the `file` of the shards' " +
			"--" + name +
			", where its path is another one now", Role: cli.Reads})
	}
	return f.cmd
}

func (f *mergeCommand) check(files []string) error {
	switch {
	case len(files) == 0:
		return study.Errorf("surepipe merge takes the files of the shards, found none")
	case f.jsonl == "":
		return study.Errorf("--jsonl is missing, expected the file for the merged lines")
	}
	if _, err := os.Stat(f.jsonl); err == nil {
		return study.Errorf("--jsonl is %q, which exists: remove it, or choose another name", f.jsonl)
	}
	if f.out != "" && f.noRefine {
		return study.Errorf("--out is the fit, which --no-refine does not compute: expected one of them")
	}
	if err := f.page.check(); err != nil {
		return err
	}
	return checkFigures(f.figures)
}

type merger struct {
	// flags are those of surepipe merge that the run has a use for, besides --jsonl and --mixed.
	flags []string
	// merge writes what one machine would have written.
	merge func(f *mergeCommand, set *surepipe.Shards) error
}

// mergers are those of the runs, by their units.
var mergers = map[string]merger{
	study.SampleUnit: {[]string{"plot", "running", "report"}, (*mergeCommand).samples},
	study.ChainUnit: {append([]string{"csv", "plot", "out", "no-refine", "report"}, fileFlags...),
		(*mergeCommand).sweep},
}

// errIncomplete is returned after the missing shards have been printed.
var errIncomplete = errors.New("shards are missing")

func (f *mergeCommand) merge(files []string) error {
	if err := f.check(files); err != nil {
		return err
	}
	set, err := surepipe.ReadShards(f.cmd.Context(), f.mixed, problems.Disk, files...)
	if err != nil {
		return err
	}
	run := mergers[set.Of.Shard.Unit]
	f.cmd.Flags().Visit(func(flag *pflag.Flag) {
		if !slices.Contains(append([]string{"jsonl", "mixed", "help"}, run.flags...), flag.Name) && err == nil {
			err = study.Errorf("--%s has no meaning for these shards, whose unit is a %s: expected some of --jsonl, "+
				"--mixed, --%s", flag.Name, set.Of.Shard.Unit, study.Option(strings.Join(run.flags, ", --")))
		}
	})
	if err != nil {
		return err
	}
	var data []cli.NamedFile
	for _, name := range slices.Sorted(maps.Keys(set.Of.Files)) {
		data = append(data, cli.Named("the file of the shards' --"+name, set.Of.Files[name]))
	}
	if err := cli.CheckOverwrite(f.cmd, data); err != nil {
		return err
	}
	if missing := set.Missing(); len(missing) > 0 {
		array := study.Ranges(missing)
		if err := study.WriteLine(f.cmd.OutOrStdout(), map[string]any{"missing": missing, "array": array}); err != nil {
			return err
		}
		f.cmd.PrintErrf("surepipe: %d of %d shards are missing or incomplete: compute them with --array=%s, and merge "+
			"again\n", len(missing), set.Of.Shard.Count, array)
		return errIncomplete
	}
	return run.merge(f, set)
}

func (f *mergeCommand) files(set *surepipe.Shards) (map[string]string, error) {
	moved := map[string]string{}
	for name, path := range f.moved {
		if f.cmd.Flags().Changed(name) {
			moved[name] = *path
		}
	}
	files, err := set.Of.FilesOf(moved)
	if err != nil {
		return nil, study.Errorf("%s: %w; or --no-refine, which needs no data", f.first(set), err)
	}
	return files, nil
}

// first is the file with the header of all.
func (f *mergeCommand) first(set *surepipe.Shards) string { return set.Files[set.Of.Shard.Index].Path }

// as gives a command the flags of the shards, with these files.
func (f *mergeCommand) as(cmd *cobra.Command, set *surepipe.Shards, files map[string]string) error {
	cmd.SetContext(f.cmd.Context())
	cmd.SetErr(f.cmd.ErrOrStderr())
	cmd.SetOut(f.cmd.OutOrStdout())
	if err := setFlags(set.Of, cmd, files); err != nil {
		return study.Errorf("%s: %w", f.first(set), err)
	}
	return nil
}

func (f *mergeCommand) samples(set *surepipe.Shards) error {
	var t *surepipe.Spread
	err := dataio.WriteFile(f.jsonl, func(w io.Writer) (err error) {
		t, err = surepipe.MergeSamples(f.cmd.Context(), w, set)
		return err
	})
	if err != nil {
		return err
	}
	run := new(monteCarloCommand)
	if err := f.as(run.command(), set, set.Of.Files); err != nil {
		return err
	}
	whole, err := study.ReadMonteCarloHeader(set.Of.Whole)
	if err != nil {
		return err
	}
	t.Warnings = slices.Clone(t.Notes)
	return run.sumUp(f.cmd, t, f.figures, f.page, cli.Origin(run.cmd, whole.Data))
}

// sweep writes the points of the grid, refines the minimizer unless that is not wanted, and sums up.
func (f *mergeCommand) sweep(set *surepipe.Shards) error {
	run := new(sweepCommand)
	if err := f.refine(run, set); err != nil {
		return err
	}
	run.asJSON, run.csv, run.plot, run.out, run.page = true, f.csv, f.figures.Histogram, f.out, f.page
	if run.estimator != nil {
		defer run.close()
	}
	var r *study.Swept
	var done error
	err := dataio.WriteFile(f.jsonl, func(w io.Writer) error {
		done = run.follow(w, func(swept *study.Swept) error {
			r = swept
			return study.WriteLine(w, r.Summary)
		})
		if r == nil {
			return done
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := study.WriteLine(f.cmd.OutOrStdout(), r.Summary); err != nil {
		return err
	}
	if err := report.Swept(f.cmd.ErrOrStderr(), r); err != nil {
		return err
	}
	return done
}

// refine prepares to go on after the points of the grid as one machine would, from the data; or, where that is not
// wanted, from the lines alone.
func (f *mergeCommand) refine(run *sweepCommand, set *surepipe.Shards) (err error) {
	cmd := run.command()
	if f.noRefine {
		if err := f.as(cmd, set, set.Of.Files); err != nil {
			return err
		}
		run.coefficients, run.line = coefficientFlags{}, bar.New(f.cmd)
		run.note(study.NewNote(warning.NotRefined, "the minimizer is that of the grid: the same surepipe sweep with "+
			"--jsonl %s --resume refines it", f.jsonl))
		if run.sweep, err = set.Alone(f.cmd.Context(), run.grids.Rule); err != nil {
			return err
		}
		run.sweep.Options.Fallback = !cmd.Flags().Changed("criterion")
		if c := run.sweep.Options.Criterion; run.sweep.FallsBack() {
			return study.Errorf("%s is not defined next to its least, where one machine goes on by cross-validation: "+
				"merge without --no-refine, or give shards --criterion cv", c)
		}
		return nil
	}
	files, err := f.files(set)
	if err != nil {
		return err
	}
	if err := f.as(cmd, set, files); err != nil {
		return err
	}
	run.out, run.page = f.out, f.page
	if err := run.open(); err != nil {
		return err
	}
	if err = run.checkNamed(f.cmd); err == nil {
		err = run.sweep.After(f.cmd.Context(), set)
	}
	if err != nil {
		run.close()
	}
	return err
}
