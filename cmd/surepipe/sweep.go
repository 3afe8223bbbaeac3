package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"surepipe"
	"surepipe/cmd/surepipe/internal/bar"
	"surepipe/cmd/surepipe/internal/cli"
	"surepipe/cmd/surepipe/internal/report"
	"surepipe/risk"
	"surepipe/study"
	"surepipe/study/draw"
	"surepipe/study/page"
	"surepipe/study/request"
)

type sweepCommand struct {
	estimation
	outputFlags
	page             pageFlag
	grids            request.Sweep
	csv, jsonl, plot string
	path             string
	shard            string
	asJSON, resume   bool

	line      *bar.Line
	estimator *surepipe.Estimator
	chosen    *surepipe.Fit
	sweep     *study.Sweep
	unwritten error // of the files
}

func (f *sweepCommand) command() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "sweep",
		Short:   "Estimate the risk over a grid of hyperparameters, and find its minimum",
		Long:    helpText("sweep") + "\n\n" + dataHelp(),
		Example: helpText("sweep.examples"),
		Args:    cli.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return f.run() },
	}
	f.estimation.register(cmd, 1)
	cmd.Flags().Lookup("parallel").DefValue = "0" // it depends on the problem
	cli.Bind(cmd, f.foldFlags()...)
	f.coefficients.register(cmd, " at the minimizer")
	cli.DescribeFlags(cmd.Flags(), map[string]string{
		"lambda": "weight of the regularizer: a grid such as 0.01max:2max:40 or 1:100:20, or a list 1,2,5 (or one " +
			"value as surepipe run takes it; default, with no grid at all: 100 weights from the maximum down " +
			"to 1e-4 of it, or 1e-2 where columns outnumber rows; of ridge over the squared singular values of " +
			"X; 20 of completions, down to 0.05 (11, to 0.2, of few entries), and of images about the noise; 8 " +
			"of each of two open weights)",
		"lambda2":  "elastic net: weight of 1/2 ||b||^2, a grid of numbers or a number (default: the file's)",
		"gamma":    "robust PCA: weight of ||S||_1, as --lambda (default: the file's)",
		"parallel": "points in flight at once (default: up to 4 on the host where y has at most a million values)",
		"memory": "memory for the tapes of all points in flight and, if given, the limit of all memory on a " +
			"card; a tape that does not fit is recomputed in parts",
		"verbose": "log every point on standard error",
	})
	f.grids = request.NewSweep()
	cli.Bind(cmd,
		cli.Flag{Name: "criterion", To: (*string)(&f.grids.Criterion), Usage: "minimize this: " +
			risk.JoinCriteria(risk.CriterionNames()) + " (default: lgo with --groups; else sure where sigma2 is " +
			"known; else alo for matrix completion, cv where columns are chosen of a small wide table, gcv for the " +
			"squared loss, alo for others)"},
		cli.Flag{Name: "rule", To: (*string)(&f.grids.Rule),
			Brief: "choose min, the minimum, or 1se, the simplest within an error of it",
			Usage: "choose this point: min, the minimum, or 1se, " +
				"the simplest fit within one standard error of it"},
		cli.Flag{Name: "refine", To: &f.grids.Refine, Usage: "at most this many points between those of the grid " +
			"and beyond its end, for each weight; 0 for none"},
		cli.Flag{Name: "audit", To: &f.grids.Audit, Usage: "check the chosen point by a few fits without a " +
			"random twentieth of the observations, or groups or blocks of them (default: where that is cheap; " +
			"=false for none)"},
		cli.Flag{Name: "chain", To: &f.grids.Chain, Default: "0",
			Brief: "the most points of the grid in a chain of warm starts",
			Usage: "at most this many points of the grid in a " +
				"chain of warm starts: chains run at once with --parallel, and are divided among shards; 1 for none " +
				"(default: 10, or all points where the solver follows the path)"},
		cli.Flag{Name: "csv", To: &f.csv, Usage: "write the points to this .csv `file`", Role: cli.Writes,
			Extensions: []string{"csv"}},
		cli.Flag{Name: "jsonl", To: &f.jsonl, Brief: "write a line of JSON for each point, as soon as it is known",
			Usage: "write a line of JSON for each point to this `file`, as soon " +
				"as it is known; an existing file is an error without " +
				"--resume", Role: cli.Writes, Extensions: []string{"jsonl"}},
		cli.Flag{Name: "resume", To: &f.resume, Usage: "continue the sweep in the --jsonl file, if the file exists"},
		cli.Flag{Name: "shard", To: &f.shard, Brief: "compute a part of the points: i/n, auto or auto/n (merge --help)",
			Usage: "compute some chains of the grid, part `i/n`, auto or auto/n, " +
				"to a file of its own (see surepipe merge --help)"},
		cli.Flag{Name: "path", To: &f.path,
			Brief: "write (.csv) or draw (.png, .svg, .pdf) the coefficients",
			Usage: "regressions: write the coefficients at all points, with weights, " +
				"degrees of freedom and criteria, to this `file`, .csv, or draw them: .png, .svg, .pdf",
			Role: cli.Writes, Extensions: []string{"csv", "png", "svg", "pdf"}},
		cli.Flag{Name: "plot", To: &f.plot, Brief: "draw the criterion along the grid: .png, .svg, .pdf",
			Usage: "draw the criterion, the loss and the divergence, or with two " +
				"grids a map of the criterion, to this `file`: " +
				"" + figureFormats(), Role: cli.Writes, Extensions: draw.Formats()})
	f.registerOut(cmd, "write the fit at the minimizer to this `file` (in the formats of surepipe run --out)")
	f.registerPicture(cmd)
	f.page.register(cmd, "; with --jsonl the lines also keep what it shows of each point, for surepipe view, and with "+
		"--shard for surepipe merge --report")
	cli.Bind(cmd, cli.Flag{Name: "json", To: &f.asJSON, Usage: "print lines of JSON"})
	cli.FlagsFirst(cmd, topics(), helpText("sweep"))
	return cmd
}

func (f *sweepCommand) check() error {
	f.begin()
	if err := f.CheckSweep(&f.grids); err != nil {
		return err
	}
	if err := f.checkNamed(f.cmd); err != nil {
		return err
	}
	if f.resume && f.jsonl == "" {
		return study.Errorf("--resume needs --jsonl, which is missing")
	}
	if f.shard != "" {
		if f.jsonl == "" {
			return study.Errorf("--shard needs --jsonl, which names the file of the merged lines")
		}
		for _, name := range []string{"csv", "plot", "out", "coefficients-csv", "json"} {
			if f.cmd.Flags().Changed(name) {
				return study.Errorf("--shard computes a part of the points: give --csv, --plot and --out to surepipe "+
					"merge, found --%s", name)
			}
		}
	}
	if err := draw.CheckPath(f.plot); err != nil {
		return study.Errorf("--plot: %w", err)
	}
	if err := f.checkPath(); err != nil {
		return err
	}
	if err := f.page.check(); err != nil {
		return err
	}
	return f.outputFlags.check(f.cmd, f.shard)
}

func (f *sweepCommand) open() error {
	if err := f.check(); err != nil {
		return err
	}
	f.line = bar.New(f.cmd)
	f.line.Label("", "points")
	f.Keep.B = f.out != "" || f.coefficients.wanted()
	e, err := f.estimation.open(f.line)
	if err != nil {
		f.line.Close()
		return err
	}
	f.estimator = e
	if err = f.checkResponses(&f.outputFlags, e); err == nil && len(e.Responses()) == 1 {
		var of surepipe.Shard
		if of, err = f.parseShard(f.shard); err == nil {
			err = f.prepare(of)
		}
	}
	if err != nil {
		f.close()
	}
	return err
}

func (f *sweepCommand) prepare(of surepipe.Shard) (err error) {
	if f.sweep, err = f.estimator.SweepBelow(f.cmd.Context(), f.grids, of); err != nil {
		return err
	}
	if f.path != "" {
		if err := f.sweep.KeepPath(); err != nil {
			return err
		}
	}
	// A signal is drawn with the curve, and in the picture.
	o := &f.sweep.Options
	o.KeepB = o.KeepB || (f.plot != "" || f.picture.Wanted()) && f.sweep.Estimator.Problem.Signal != nil
	f.page.look(f.sweep)
	return nil
}

// checkPath rejects a file of coefficients that cannot be written, or that points of another run would lack.
func (f *sweepCommand) checkPath() error {
	switch {
	case f.path == "":
		return nil
	case f.resume || f.shard != "":
		return study.Errorf("--path needs the coefficients of all points, which --resume and --shard do not keep")
	case filepath.Ext(f.path) == ".csv":
		return nil
	}
	if err := draw.CheckPath(f.path); err != nil {
		return study.Errorf("--path: %w, or .csv for the numbers", err)
	}
	return nil
}

func (f *sweepCommand) close() {
	f.line.Close()
	f.estimator.Close()
}

// tabulate prints the points to out.
func (f *sweepCommand) tabulate(out io.Writer) {
	s := f.sweep
	show := report.Sweep{Sweep: s, Out: out}
	done := 0
	s.Finish = f.finish
	s.Begin = func() error {
		f.tell()
		if f.asJSON {
			go s.Header.Data() // while the first points are computed
			return nil
		}
		return show.Begin()
	}
	s.Point = func(line study.SweepLine) error {
		done++
		f.line.Set(min(done, s.Total()), s.Total(), done)
		if f.asJSON {
			if done == 1 {
				if err := study.WriteLine(out, s.Header); err != nil {
					return err
				}
			}
			return study.WriteLine(out, line)
		}
		return show.Point(line)
	}
}

func (f *sweepCommand) run() error {
	if err := f.open(); err != nil {
		return err
	}
	defer f.close()
	if f.shard != "" {
		return f.computeShard()
	}
	m, out := f.estimator, f.cmd.OutOrStdout()
	n := len(m.Responses())
	if n > 1 {
		f.tell()
	}
	parts, said, printed := make([]*sweepCommand, n), make([]bytes.Buffer, n), make([]bytes.Buffer, n)
	for k, e := range m.Responses() {
		part, err := f.part(k, &said[k])
		if err != nil {
			return inResponse(e, err)
		}
		part.sweep.File.Path, part.sweep.File.Resume = part.jsonl, part.resume
		parts[k] = part
	}
	doubts := make([]error, n)
	err := m.Each(f.cmd.Context(), func(_ context.Context, k int, e *surepipe.Estimator) error {
		to := io.Writer(&printed[k])
		if n == 1 {
			to = out
		}
		err := parts[k].follow(to, func(r *study.Swept) error {
			if f.asJSON {
				return study.WriteLine(to, r.Summary)
			}
			return report.Swept(to, r)
		})
		if errors.Is(err, errNotConverged) {
			doubts[k], err = err, nil
		}
		return inResponse(e, err)
	})
	f.line.Close()
	fits := make([]*surepipe.Fit, n)
	for k, part := range parts {
		if n > 1 && !f.asJSON {
			fmt.Fprintf(out, "response %s\n", part.response)
		}
		out.Write(printed[k].Bytes())
		f.cmd.ErrOrStderr().Write(said[k].Bytes())
		fits[k] = part.chosen
	}
	if err == nil {
		err = writeJoined(f.out, m, fits)
	}
	return cmp.Or(err, cmp.Or(doubts...))
}

// part is the command's part for response k: itself where there is one. The points and the summary of several are
// printed one response after the other.
func (f *sweepCommand) part(k int, said io.Writer) (*sweepCommand, error) {
	if len(f.estimator.Responses()) == 1 {
		return f, nil
	}
	part := *f
	part.estimation = f.of(f.estimator, k, said)
	part.out, part.estimator, part.line = "", f.estimator.Responses()[k], &bar.Line{}
	for _, path := range []*string{&part.csv, &part.jsonl, &part.plot, &part.path, &part.page.report} {
		*path = forResponse(*path, part.response)
	}
	return &part, part.prepare(surepipe.Shard{})
}

// follow computes the points, prints them to out, and at last shows the summary.
func (f *sweepCommand) follow(out io.Writer, show func(*study.Swept) error) error {
	f.tabulate(out)
	r, err := f.sweep.Run(f.cmd.Context())
	f.line.Close()
	switch {
	case r.Summary.Summary:
		unwritten := f.page.write(f.cmd, f.shown(), func(d *page.Document) { d.Sweep(r) })
		err = cmp.Or(f.unwritten, unwritten, err, show(r))
		f.print(r.Doubts())
	case errors.Is(err, context.Canceled) && f.jsonl != "":
		f.say("%d points are in %s; continue with --resume", len(r.Lines), f.jsonl)
	}
	if err == nil && r.Summary.NotConverged > 0 {
		err = errNotConverged
	}
	return err
}

// finish writes the files that were asked for, with the fit at the chosen point, and completes the summary.
func (f *sweepCommand) finish(r *study.Swept) error {
	f.line.Close()
	s := &r.Summary
	var further []func() error
	if f.csv != "" {
		further = append(further, func() error { return r.WriteCSV(f.csv) })
	}
	if f.plot != "" {
		further = append(further, func() error {
			return draw.Sweep(f.plot, r, f.Name(), f.depth.IsImage(), cli.Origin(f.cmd, r.Header.Data()))
		})
	}
	if f.path != "" {
		further = append(further, func() error {
			if filepath.Ext(f.path) == ".csv" {
				return r.WritePath(f.path)
			}
			return draw.Path(f.path, r, f.Name(), cli.Origin(f.cmd, r.Header.Data()))
		})
	}
	if f.estimator == nil { // of lines alone
		for _, write := range further {
			f.unwritten = cmp.Or(f.unwritten, write())
		}
		s.Warnings = slices.Concat(f.notes, warnings(r.Doubts()))
		return nil
	}
	fit := f.estimator.FitBelow(r)
	f.chosen = fit
	c, unwritten, err := f.write(&f.outputFlags, fit, further...)
	if err != nil {
		return err
	}
	f.unwritten, s.Chosen.SignalLoss = unwritten, fit.SignalLoss
	if f.coefficients.print {
		s.Chosen.CoefficientsResult = c
		if s.Chosen.Index == s.Minimizer.Index {
			s.Minimizer.CoefficientsResult = c
		}
	}
	s.Warnings = slices.Concat(f.notes, warnings(r.Doubts()))
	return nil
}

func (f *sweepCommand) computeShard() error {
	s := f.sweep
	p := s.Shard
	of := surepipe.Shard{Index: p.Index, Count: p.Count}
	first, end, total := s.Bounds()
	done := 0
	s.Begin = func() error {
		f.tell()
		if p.Total < p.Count {
			f.say("the grid has %d chains of warm starts for %d shards, of which some have nothing to do: a smaller "+
				"--chain makes more, of shorter ones", p.Total, p.Count)
		}
		return nil
	}
	s.Point = func(study.SweepLine) error {
		done++
		f.line.Set(done, end-first, done)
		return nil
	}
	s.File.Path, s.File.Resume = of.File(f.jsonl), true
	_, err := s.RunPart(f.cmd.Context())
	f.line.Close()
	return f.completed(of, s.File.Path, err, end-first, total, "points")
}
