package main

import (
	"cmp"

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

const runHelp = `Solves one problem, differentiates the solution, and prints Stein's unbiased
estimate of the risk with its standard error, and what can be said without sigma2.

Results go to standard output, everything else to standard error.

` + exitHelp

func (f *runCommand) command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Estimate the risk at one y",
		Long:  runHelp + "\n\n" + dataHelp(),
		Example: `  surepipe run --problem lasso --data diabetes.npz --lambda 20
  surepipe run --problem ridge --data diabetes.npz --lambda 0.1 --json
  surepipe run --problem matrix-completion --data mc.npz --lambda 0.25max --out fit.npz
  surepipe run --problem lasso --data table.csv --response price --lambda 0.1max --sigma2 auto
  surepipe run --problem lasso --data table.csv --response price --lambda 0.1max \
      --coefficients --out fit.npz
  surepipe run --problem tv1d --data series.csv --lambda 12 --sigma2 auto --out smooth.csv
  surepipe run --spec denoise.yaml --data noisy.png --out clean.png
  surepipe run --problem robust-pca --data video.npz --sigma2 4 --lambda 60 --gamma 8` + execExample,
		Args: cli.NoArgs,
		RunE: func(*cobra.Command, []string) error { return f.run() },
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
	cli.FlagsFirst(cmd, topics(), runHelp)
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
	if len(e.Responses()) > 1 {
		return f.runMany(e)
	}
	if err := f.checkProblem(&f.outputFlags, e); err != nil {
		return err
	}
	if job, _ := e.Below(); f.imageRisk {
		if err := job.CheckProjected(); err != nil {
			return err
		}
	}
	f.tell()
	fit, err := e.Fit(f.cmd.Context())
	f.line.Close()
	if err != nil {
		return err
	}
	return f.report(fit)
}

// report writes the files that were asked for, prints the result, and says what is to be known of it.
func (f *runCommand) report(fit *surepipe.Fit) error {
	// The result is printed even if a file cannot be written.
	c, unwritten, err := f.write(&f.outputFlags, fit)
	if err == nil && f.imageRisk {
		err = fit.Project(f.cmd.Context())
	}
	if err == nil && f.audit {
		_, err = fit.Audit(f.cmd.Context())
	}
	if err != nil {
		return err
	}
	result := fit.Result
	if f.coefficients.print {
		result.CoefficientsResult = c
	}
	unwritten = cmp.Or(unwritten, f.writePage(fit, result))
	if err := f.show(result); err != nil {
		return err
	}
	if unwritten != nil {
		return unwritten
	}
	risk := fit.Risk()
	if risk.Floored {
		f.say("%s", study.ZeroBarText(f.Estimate != nil))
	}
	return f.converged(risk)
}

func (f *runCommand) writePage(fit *surepipe.Fit, result study.Result) error {
	return f.page.write(f.cmd, f.shown(), func(d *page.Document) {
		j, data := fit.Estimator().Below()
		d.Point(study.SweepLine{Result: result, Look: page.NewLooker(j, data.Data, 1).Look(fit.Risk())})
	})
}

func (f *runCommand) show(r study.Result) error {
	out := f.cmd.OutOrStdout()
	if f.asJSON {
		return study.WriteLine(out, r)
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
		return report.Choices(&r, out)
	}
	return nil
}
