package main

import (
	"github.com/spf13/cobra"

	"surepipe/cmd/surepipe/internal/bar"
	"surepipe/cmd/surepipe/internal/cli"
	"surepipe/cmd/surepipe/internal/report"
	"surepipe/hutch"
	"surepipe/pipeline"
	"surepipe/study"
	"surepipe/study/load"
)

// runCommand is surepipe run.
type runCommand struct {
	estimation
	outputFlags
	jsonl, shard    string
	asJSON, explain bool
	imageRisk       bool

	line *bar.Line
	job  *study.Estimator
	file load.Contents
}

func newRun() *cobra.Command { return new(runCommand).command() }

// command is the command with its flags.
func (f *runCommand) command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Estimate the risk at one y",
		Long: `Solves one problem, differentiates the solution, and prints Stein's unbiased
estimate of the risk with its standard error, and what can be said without sigma2.

Results go to standard output, everything else to standard error.

` + exitHelp + "\n\n" + dataHelp(),
		Example: `  surepipe run --problem lasso --data diabetes.npz --lambda 20
  surepipe run --problem ridge --data diabetes.npz --lambda 0.1 --json
  surepipe run --problem matrix-completion --data mc.npz --lambda 0.25max --out fit.npz
  surepipe run --problem lasso --data table.csv --response price --lambda 0.1max --sigma2 auto
  surepipe run --problem lasso --data table.csv --response price --lambda 0.1max --coefficients --out fit.npz
  surepipe run --problem tv1d --data series.csv --lambda 12 --sigma2 auto --out smooth.csv
  surepipe run --spec denoise.yaml --data noisy.png --out clean.png
  surepipe run --problem robust-pca --data video.npz --sigma2 4 --lambda 60 --gamma 8 --trace hutchinson --queries 300` + execExample,
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
		cli.Flag{Name: "explain", To: &f.explain, Usage: "also print what was chosen based on the structure of the " +
			"problem (method, derivative, linear systems), and why; --json always has this, as choices"})
	f.registerPicture(cmd)
	cli.Bind(cmd,
		cli.Flag{Name: "shard", To: &f.shard, Usage: "compute some of the probes of --trace hutchinson or exact, " +
			"part `i/n`, auto or auto/n, to a file of its own (see surepipe merge --help)"},
		cli.Flag{Name: "jsonl", To: &f.jsonl, Usage: "with --shard: the `file` for the merged result, after which " +
			"the shard's is named", Role: cli.Writes, Extensions: []string{"jsonl"}})
	return cmd
}

// check rejects flags that are wrong for any data.
func (f *runCommand) check() error {
	if err := f.estimation.check(); err != nil {
		return err
	}
	if err := f.checkShard(); err != nil {
		return err
	}
	return f.outputFlags.check(f.cmd, f.shard)
}

// undivided says why the probes of an estimator cannot be divided among shards.
var undivided = map[string]string{
	pipeline.Auto:   "it takes the trace in closed form where there is one, without probes",
	hutch.HutchPP:   "its probes follow from a sketch, whose vectors are multiplied with each other",
	hutch.NAHutchPP: "the vectors of its sketches are multiplied with each other",
	hutch.XTrace:    "it leaves out each vector of its sketch in turn",
	hutch.XNysTrace: "it leaves out each vector of its sketch in turn",
}

// checkShard rejects flags that have no meaning for a part of the probes.
func (f *runCommand) checkShard() error {
	changed := f.cmd.Flags().Changed
	if !changed("shard") {
		if changed("jsonl") {
			return study.Errorf("--jsonl is for --shard, found none; --json prints the result as a line of JSON")
		}
		return nil
	}
	reason, whole := undivided[f.Trace.Estimator]
	switch {
	case f.jsonl == "":
		return study.Errorf("--shard needs --jsonl, which names the file of the merged result")
	case f.Program.Given():
		return study.Errorf("--shard divides the probes of a derivative, which --exec does not have")
	case whole:
		return study.Errorf("--trace is %s, whose probes cannot be divided among shards: %s; expected hutchinson or "+
			"exact",
			f.Trace.Estimator, reason)
	case f.Trace.Estimator == hutch.Hutchinson && f.Trace.Queries.Auto:
		return study.Errorf("--queries is auto, so that the number of probes follows from their spread: to divide " +
			"them among shards give a number")
	}
	for _, name := range []string{"out", "coefficients-csv", "json", "explain", "image-risk"} {
		if changed(name) {
			return study.Errorf("--shard computes a part of the probes: surepipe merge prints the result, and takes "+
				"--out; found --%s", name)
		}
	}
	return nil
}

// open reads the data and makes the estimator.
func (f *runCommand) open() error {
	if err := f.check(); err != nil {
		return err
	}
	devices, file, err := f.read()
	if err != nil {
		return err
	}
	f.file = file
	f.Keep.B = f.out != "" || f.coefficients.wanted() || f.picture.Wanted()
	f.Keep.NoMuHat = !f.Keep.B
	f.line = bar.New(f.cmd)
	if f.job, err = f.estimation.open(devices, file.Data, f.line); err != nil {
		f.line.Close()
		return err
	}
	if err = f.checkProblem(&f.outputFlags, f.job.Problem); err == nil && f.imageRisk {
		err = f.job.CheckProjected()
	}
	if err != nil {
		f.close()
		return err
	}
	f.noteProblem(f.job.Problem)
	f.noteData(file.Data)
	return nil
}

func (f *runCommand) close() {
	f.line.Close()
	f.job.Close()
}

func (f *runCommand) run() error {
	if err := f.open(); err != nil {
		return err
	}
	defer f.close()
	if f.shard != "" {
		return f.computeShard()
	}
	risk, err := f.job.Estimate(f.cmd.Context(), f.file.Y)
	f.line.Close()
	if err != nil {
		return err
	}
	return f.report(risk, f.show)
}

// header describes the estimate, whose probes are divided.
func (f *runCommand) header() (study.ProbesHeader, error) {
	return study.NewProbesHeader(f.job, f.file.Data, f.Trace.Estimator, f.Trace.Seed)
}

// computeShard computes one shard of the probes, to its own file.
func (f *runCommand) computeShard() error {
	whole, err := f.header()
	if err != nil {
		return err
	}
	s, err := f.divide(f.shard, f.jsonl, f.job.Device(), study.ShardPart{Unit: study.ProbeUnit,
		Total: whole.Plan.Probes}, whole)
	if err != nil {
		return err
	}
	err = f.job.ComputeProbes(f.cmd.Context(), f.file.Y, s.ShardHeader, s.path)
	f.line.Close()
	return f.completed(s, err, s.Shard.N, s.Shard.Total, "probes")
}

// report writes the files that were asked for, prints the result, and says what is to be known of it.
func (f *runCommand) report(risk pipeline.Risk, show func(study.Result) error) error {
	result := f.result(f.job)
	result.Fill(f.job.Problem, risk, f.file.Mu)
	// The result is printed even if a file cannot be written.
	c, loss, unwritten, err := f.write(&f.outputFlags, written{f.job, f.file.Data, risk, result})
	if err != nil {
		return err
	}
	var projected study.ProjectedResult
	if f.imageRisk {
		var notes study.Notes
		if projected, notes, err = f.job.Projected(f.cmd.Context(), f.file.Y, f.file.Mu, f.Trace.Seed); err != nil {
			return err
		}
		for _, n := range notes {
			f.note(n)
		}
	}
	result = f.result(f.job)
	result.Fill(f.job.Problem, risk, f.file.Mu)
	result.ProjectedResult, result.StorageResult = projected, study.StorageOf(f.job.Problem)
	result.SignalLoss = loss
	if f.coefficients.print {
		result.CoefficientsResult = c
	}
	if err := show(result); err != nil {
		return err
	}
	if unwritten != nil {
		return unwritten
	}
	if risk.Floored {
		f.say("%s", study.ZeroBarText(f.Estimate != nil))
	}
	return f.converged(risk)
}

// show prints a result, as text or JSON.
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
