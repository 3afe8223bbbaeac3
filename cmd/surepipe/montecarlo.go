package main

import (
	"cmp"
	"fmt"
	"math"
	"runtime"
	"slices"

	"github.com/spf13/cobra"

	"surepipe"
	"surepipe/cmd/surepipe/internal/bar"
	"surepipe/cmd/surepipe/internal/cli"
	"surepipe/cmd/surepipe/internal/report"
	"surepipe/internal/digits"
	"surepipe/study"
	"surepipe/study/draw"
	"surepipe/study/load"
	"surepipe/study/page"
	"surepipe/study/request"
)

type monteCarloCommand struct {
	estimation
	y              string
	first, samples int
	seeds          int
	jsonl, shard   string
	resume         bool
	figures        draw.MonteCarlo
	page           pageFlag
}

func (f *monteCarloCommand) command() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "montecarlo",
		Aliases: []string{"mc"},
		Short:   "Estimate the risk at many y",
		Long:    helpText("montecarlo") + "\n\n" + dataHelp() + "\n" + helpText("exec-many") + "\n",
		Example: helpText("montecarlo.examples"),
		Args:    cli.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return f.run() },
	}
	f.register(cmd, runtime.GOMAXPROCS(0))
	cli.DescribeFlags(cmd.Flags(), map[string]string{"parallel": "samples in flight at once"})
	cli.Bind(cmd,
		cli.Flag{Name: "y", To: &f.y, Usage: "the samples, a stack N x ... in a numpy .npy `file` (or .npz, or - for " +
			"standard input)", Role: cli.Reads, Extensions: []string{"npy", "npz"}},
		cli.Flag{Name: "first", To: &f.first, Usage: "number of the first sample, from 0"},
		cli.Flag{Name: "samples", To: &f.samples, Default: "0", Usage: "number of samples (default: all of a stack, " +
			"else 100)"},
		cli.Flag{Name: "seeds", To: &f.seeds, Usage: "repeat the estimate at the first sample with this many seeds"},
		cli.Flag{Name: "jsonl", To: &f.jsonl, Usage: "also write the lines to this `file`", Role: cli.Writes,
			Extensions: []string{"jsonl"}},
		cli.Flag{Name: "resume", To: &f.resume, Usage: "continue the run in the --jsonl file, if the file exists"},
		cli.Flag{Name: "shard", To: &f.shard,
			Brief: "compute a part of the samples: i/n, auto or auto/n (merge --help)",
			Usage: "compute one part of the samples, `i/n`, auto or auto/n, to a " +
				"file of its own (see surepipe merge --help)"},
		cli.Flag{Name: "plot", To: &f.figures.Histogram, Brief: "draw the histogram of SURE: .png, .svg, .pdf",
			Usage: "draw the histogram of SURE to this .png, .svg or " +
				".pdf `file`", Role: cli.Writes, Extensions: draw.Formats()},
		cli.Flag{Name: "running", To: &f.figures.Running, Usage: "draw the running mean of SURE - loss, or of SURE, " +
			"to this `file`", Role: cli.Writes, Extensions: draw.Formats()})
	f.page.register(cmd, "")
	cli.FlagsFirst(cmd, topics(), helpText("montecarlo"))
	return cmd
}

func (f *monteCarloCommand) check() error {
	// The samples, with a file of X where there is one, are all the data of the problem.
	data := f.Data
	if l, known := load.LayoutOf(f.Problem); f.y != "" && f.Data == "" && !f.Program.Given() && known &&
		(!l.Design || f.X != "") && !l.Selection {
		f.Data = f.y
	}
	if err := f.estimation.check(); err != nil {
		return err
	}
	f.Data = data
	switch {
	case f.Given("samples") && f.samples < 1:
		return study.Errorf("--samples is %d, expected at least 1", f.samples)
	case f.first < 0:
		return study.Errorf("--first is %d, expected 0 or more", f.first)
	case f.first > math.MaxInt-f.samples:
		return study.Errorf("--first is %d and --samples is %d, expected a last sample of at most %d", f.first,
			f.samples, math.MaxInt)
	case f.seeds < 0 || f.seeds == 1:
		return study.Errorf("--seeds is %d, expected at least 2, or 0 for none", f.seeds)
	case f.resume && f.jsonl == "":
		return study.Errorf("--resume needs --jsonl, which is missing")
	}
	switch {
	case f.shard == "":
	case f.jsonl == "":
		return study.Errorf("--shard needs --jsonl, which names the file of the merged lines")
	case f.y == "-":
		return study.Errorf("--shard is for samples that every shard can read, found --y -")
	case f.figures.Wanted():
		return study.Errorf("--shard computes a part of the samples: give --plot and --running to surepipe merge")
	}
	if l := f.LossOf(); !l.Squared() && f.figures.Wanted() {
		return study.Errorf("--plot and --running draw SURE or gcv, which are for the squared loss, and the loss is %s",
			l.Name)
	}
	if err := f.page.check(); err != nil {
		return err
	}
	return checkFigures(f.figures)
}

func checkFigures(f draw.MonteCarlo) error {
	for _, plot := range []struct{ flag, path string }{{"plot", f.Histogram}, {"running", f.Running}} {
		if err := draw.CheckPath(plot.path); err != nil {
			return study.Errorf("--%s is %q: %w", plot.flag, plot.path, err)
		}
	}
	return nil
}

func (f *monteCarloCommand) run() error {
	if err := f.check(); err != nil {
		return err
	}
	f.Many = &request.Many{Y: f.y, In: f.cmd.InOrStdin()}
	line := bar.New(f.cmd)
	defer line.Close()
	line.Label("", "samples")
	e, err := f.estimation.open(line)
	if err != nil {
		return err
	}
	defer e.Close()
	f.tell()
	of, err := f.parseShard(f.shard)
	if err != nil {
		return err
	}
	d := surepipe.Draws{First: f.first, Count: f.samples, Seeds: f.seeds, File: f.jsonl, Shard: of}
	if f.shard != "" {
		d.File = of.File(f.jsonl)
	} else {
		d.Line = func(line study.SampleLine) error { return study.WriteLine(f.cmd.OutOrStdout(), line) }
	}
	m, err := e.MonteCarloBelow(f.cmd.Context(), d)
	if err != nil {
		return err
	}
	if f.shard != "" {
		return f.computeShard(m, line, of)
	}
	m.File.Resume = f.resume
	told := len(f.notes)
	t, err := f.compute(m, line, "--resume")
	if err != nil {
		return err
	}
	t.Warnings = slices.Concat(t.Notes, f.notes[told:])
	_, data := e.Below()
	return f.sumUp(f.cmd, t, f.figures, f.page, cli.Origin(f.cmd, study.DataHash(data.Data)))
}

func (e *estimation) sumUp(cmd *cobra.Command, t *surepipe.Spread, figures draw.MonteCarlo, html pageFlag,
	o draw.Origin) error {
	t.Warnings = append(t.Warnings, warnings(t.Doubts())...)
	if err := study.WriteLine(cmd.OutOrStdout(), t.Summary); err != nil {
		return err
	}
	if err := report.Summary(t, cmd.ErrOrStderr()); err != nil {
		return err
	}
	e.print(t.Doubts())
	err := html.write(e.cmd, cmp.Or(e.Data, e.Name()), func(d *page.Document) { d.MonteCarlo(t) })
	if err = cmp.Or(figures.Save(t, o), err); err != nil {
		return err
	}
	if t.NotConverged > 0 {
		return errNotConverged
	}
	return nil
}

func (f *monteCarloCommand) computeShard(m *study.MonteCarlo, line *bar.Line, of surepipe.Shard) error {
	t, err := f.compute(m, line, "the same command")
	if err != nil {
		return err
	}
	if t.NotConverged > 0 {
		// No failure: an engine would compute the same again.
		defer f.say("%d did not converge; surepipe merge says so too", t.NotConverged)
	}
	return f.completed(of, m.File.Path, nil, m.Part.End-m.Part.First, m.Count+f.seeds, "samples and repetitions")
}

// compute runs a Monte Carlo run to its end, or to an interrupt: again says how to go on then.
func (e *estimation) compute(m *study.MonteCarlo, line *bar.Line, again string) (*surepipe.Spread, error) {
	m.Step = func(r *study.MonteCarloRun) {
		line.Set(r.Done())
		line.Describe(report.Rates(&r.Tally.Speed) + ", " + report.Remaining(&r.Tally.Speed, r.Left()) + meanText(r))
	}
	r, err := m.Run(e.cmd.Context())
	line.Close()
	if samples, repeats, ok := r.Kept(); ok && e.cmd.Context().Err() != nil {
		e.say("%d samples and %d seeds are in %s: %s continues from there", samples, repeats, m.File.Path, again)
	}
	return r.Tally, err
}

func meanText(r *study.MonteCarloRun) string {
	_, name := r.Tally.Headline()
	if stdErr := r.Mean.StdErr(); !math.IsNaN(stdErr) {
		return fmt.Sprintf("%s %.3g ± %s", name, r.Mean.Mean, digits.Error(stdErr))
	}
	return fmt.Sprintf("%s %.3g", name, r.Mean.Mean)
}
