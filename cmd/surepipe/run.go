package main

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"surepipe"
	"surepipe/cmd/surepipe/internal/bar"
	"surepipe/cmd/surepipe/internal/cli"
	"surepipe/cmd/surepipe/internal/report"
	"surepipe/study"
	"surepipe/study/page"
)

type runCommand struct {
	estimation
	outputFlags
	page             pageFlag
	asJSON, explain  bool
	imageRisk, audit bool

	line *bar.Line
}

func (f *runCommand) command() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "run",
		Short:   "Estimate the risk at one y",
		Long:    helpText("run") + "\n\n" + dataHelp(),
		Example: helpText("run.examples"),
		Args:    cli.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return f.run() },
	}
	f.estimation.register(cmd, 1)
	f.coefficients.register(cmd, "")
	cmd.Flags().Lookup("parallel").Usage = "with --exec: calls of the command at once"
	f.registerOut(cmd, "write to this `file`: the fit, with all that surepipe predict needs (.npz), or mu_hat "+
		"alone (.npy, .csv, .png, .jpg, .tif); for a specification with a synthesis also the signal (.npz), or the "+
		"signal alone")
	cli.Bind(cmd,
		cli.Flag{Name: "json", To: &f.asJSON, Usage: "print one JSON object"},
		cli.Flag{Name: "image-risk", To: &f.imageRisk, Usage: "also estimate the risk of the image itself, in what " +
			"the operator sees, by projected SURE: the signal of tomography, MRI, deblurring; it solves once more"},
		cli.Flag{Name: "audit", To: &f.audit, Usage: "also compare what alo, or gcv, says of some observations with " +
			"a few fits without them: a random twentieth, or groups or blocks"},
		cli.Flag{Name: "explain", To: &f.explain, Usage: "also print what was chosen based on the structure of the " +
			"problem (method, derivative, linear systems), and why; --json always has this, as choices"})
	cli.Bind(cmd, f.foldFlags()...)
	f.registerPicture(cmd)
	f.page.register(cmd, "")
	cli.FlagsFirst(cmd, topics(), helpText("run"))
	return cmd
}

func (f *runCommand) check() error {
	if err := f.estimation.check(); err != nil {
		return err
	}
	if err := f.page.check(); err != nil {
		return err
	}
	return f.outputFlags.check(f.cmd, "")
}

func (f *runCommand) run() error {
	if err := f.check(); err != nil {
		return err
	}
	f.Keep.B = f.out != "" || f.audit || f.coefficients.wanted() || f.picture.Wanted() ||
		f.page.report != ""
	f.Keep.NoMuHat = !f.Keep.B
	f.line = bar.New(f.cmd)
	defer f.line.Close()
	e, err := f.estimation.open(f.line)
	if err != nil {
		return err
	}
	defer e.Close()
	if err := f.checkResponses(&f.outputFlags, e); err != nil {
		return err
	}
	if job, _ := e.Below(); f.imageRisk {
		if err := job.CheckProjected(); err != nil {
			return err
		}
	}
	f.tell()
	fits := make([]*surepipe.Fit, len(e.Responses()))
	beside := make([]error, len(fits))
	err = e.Each(f.cmd.Context(), func(ctx context.Context, k int, of *surepipe.Estimator) (err error) {
		if fits[k], err = of.Fit(ctx); err == nil {
			beside[k] = inResponse(of, f.besideFit(ctx, fits[k]))
		}
		return inResponse(of, err)
	})
	f.line.Close()
	if err != nil {
		return err
	}
	return cmp.Or(f.report(e, fits), cmp.Or(beside...))
}

// besideFit computes what was asked for beside a fit, which is kept where that fails.
func (f *runCommand) besideFit(ctx context.Context, fit *surepipe.Fit) (err error) {
	if f.imageRisk {
		err = fit.Project(ctx)
	}
	if f.audit && ctx.Err() == nil {
		_, audit := fit.Audit(ctx)
		err = cmp.Or(err, audit)
	}
	return err
}

// report writes the files that were asked for, prints the results, and says what is to be known of them.
func (f *runCommand) report(e *surepipe.Estimator, fits []*surepipe.Fit) error {
	parts, results, out := make([]runCommand, len(fits)), make([]study.Result, len(fits)), f.cmd.OutOrStdout()
	var unwritten error // the results are printed even if a file cannot be written
	for k, fit := range fits {
		part := *f
		part.estimation = f.of(e, k, f.cmd.ErrOrStderr())
		if part.page.report = forResponse(f.page.report, part.response); part.response != "" {
			part.out = ""
		}
		c, failed, err := part.write(&part.outputFlags, fit)
		if err != nil {
			return err
		}
		results[k] = fit.Result
		if part.coefficients.print {
			results[k].CoefficientsResult = c
		}
		unwritten = cmp.Or(unwritten, failed, part.writePage(fit, results[k]))
		parts[k] = part
	}
	if err := f.show(out, results); err != nil {
		return err
	}
	if unwritten = cmp.Or(unwritten, writeJoined(f.out, e, fits)); unwritten != nil {
		return unwritten
	}
	var doubted error
	for k, fit := range fits {
		risk := fit.Risk()
		if risk.Floored {
			parts[k].say("%s", study.ZeroBarText(parts[k].Estimate != nil))
		}
		doubted = cmp.Or(parts[k].converged(risk), doubted)
	}
	return doubted
}

func (f *runCommand) writePage(fit *surepipe.Fit, result study.Result) error {
	return f.page.write(f.cmd, f.shown(), func(d *page.Document) {
		j, data := fit.Estimator().Below()
		d.Point(study.SweepLine{Result: result, Look: page.NewLooker(j, data.Data, 1).Look(fit.Risk())})
	})
}

// show prints the results: that of one response alone, of several all with their names.
func (f *runCommand) show(out io.Writer, results []study.Result) error {
	switch {
	case f.asJSON && len(results) == 1:
		return study.WriteLine(out, results[0])
	case f.asJSON:
		return study.WriteLine(out, results)
	}
	for _, r := range results {
		if len(results) > 1 {
			fmt.Fprintf(out, "response %s\n", r.Response)
		}
		if err := report.Result(&r, out); err != nil {
			return err
		}
		if r.Coefficients != nil {
			if err := report.Coefficients(&r.CoefficientsResult, out); err != nil {
				return err
			}
		}
		if f.explain {
			if err := report.Choices(&r, out); err != nil {
				return err
			}
		}
	}
	return nil
}
