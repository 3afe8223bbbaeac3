package main

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/spf13/cobra"

	"surepipe/internal/figure"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/study"
	"surepipe/study/load"
)

// monteCarloFlags are the flags of montecarlo that run does not have.
type monteCarloFlags struct {
	y              string
	first, samples int
	seeds          int
	jsonl, shard   string
	resume         bool
	figures        monteCarloFigures
}

// monteCarloFigures are the files of the figures, "" for none.
type monteCarloFigures struct{ plot, running string }

// monteCarloHelp is the command's help.
const monteCarloHelp = `Estimates the risk at many samples y. They come from --y; or from the data, where y
has one more leading axis (N x ...); or, where the data hold mu, they are simulated,
y = mu + sigma noise. --y is read sample by sample and may be larger than memory: a .npy
file, the array y of a .npz file, or "-" for a .npy array on standard input. Prints one
line of JSON a sample, in order, with the keys of surepipe run and "sample"; then a line
of summary, with "summary": true:

  samples, not_converged
  mean_sure, mean_sure_stderr         mean of SURE and its standard error
  sd_sure                             spread of SURE from sample to sample
  rms_sure_stderr                     root mean square of the samples' sure_stderr, which
                                      does not include the trace estimator's own error,
                                      2 sigma2 divergence_stderr
  mean_loss, mean_loss_stderr         the same for ||mu_hat - mu||^2, where mu is known
  mean_gcv, mean_gcv_stderr           the same for gcv and
  mean_alo, mean_alo_stderr           for alo, where they are defined
  rms_alo_probe_stderr                root mean square of alo_probe_stderr
  mean_error, mean_error_stderr       the same for SURE - loss, 0 in expectation
  rms_error                           root mean square of SURE - loss, which
                                      rms_sure_stderr should match
  seeds                               with --seeds: their number,
  seeds_mean_sure, seeds_sd_sure      mean and spread of SURE over them, at one sample,
  seeds_rms_stderr                    and the root mean square of
                                      2 sigma2 divergence_stderr, which the spread
                                      should match
  seeds_mean_gcv, seeds_sd_gcv        the same for gcv and
  seeds_mean_alo, seeds_sd_alo        for alo, whose spread the root mean square of
  seeds_rms_alo_probe_stderr          alo_probe_stderr should match
  seconds

Where sigma2 is not known, SURE and what follows from it are left out, and the figures are
those of gcv. Samples can be simulated only with sigma2.

Multiples of a maximum, such as --lambda 0.25max, refer to the first sample of a stack
(whatever --first is). Where samples are simulated they refer to another, independent draw.

--seeds N estimates the risk at the first sample N more times, with the probes of seeds
--seed, --seed + 1, ...; the spread is that of the trace estimator alone. Their lines have
"repeat" beside "sample".

--jsonl keeps the lines in a file, after a header with the settings and a hash of the data
(of a stack: its first sample). If the run is killed, at any moment, the same command with
--resume continues it and prints what an uninterrupted run would have printed, times
aside; other settings or data are an error. More --samples extend the file. Lines are on
the disk within a second.

A summary as text goes to standard error, with the throughput. Samples and probes are
functions of --seed and the sample's number: the lines are the same, times aside, for any
--parallel and --probe-batch, and for a part of the samples with --first.

`

func newMonteCarlo() *cobra.Command {
	var f estimatorFlags
	var o monteCarloFlags
	cmd := &cobra.Command{
		Use:     "montecarlo",
		Aliases: []string{"mc"},
		Short:   "Estimate the risk at many y",
		Long:    monteCarloHelp + dataHelp() + "\n" + execMonteCarloHelp,
		Example: `  surepipe montecarlo --exec 'python3 tv.py {lambda}' --data truth.npz --sigma2 0.01 --lambda 0.05 --samples 20
  surepipe montecarlo --problem matrix-completion --data mc.npz --samples 400 > mc.jsonl
  surepipe mc --problem svt --data stack.npz --lambda 30 --parallel 4
  surepipe mc --problem lasso --data lasso.npz --samples 2000 --seeds 100 --jsonl mc.jsonl --resume --plot mc.png --running mean.png
  surepipe mc --problem svt --y frames.npy --sigma2 4 --lambda 30 --first 1000 --samples 50
  produce | surepipe mc --problem svt --y - --sigma2 4 --lambda 30`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runMonteCarlo(cmd, &f, &o) },
	}
	f.register(cmd, defaultParallel())
	flags := cmd.Flags()
	describeFlags(flags, map[string]string{"parallel": "samples in flight at once"})
	flags.StringVar(&o.y, "y", "", "the samples, a stack N x ... in a numpy .npy `file` (or .npz, or - for "+
		"standard input)")
	flags.IntVar(&o.first, "first", 0, "number of the first sample, from 0")
	flags.IntVar(&o.samples, "samples", 100, "number of samples (default: all of a stack, else 100)")
	flags.IntVar(&o.seeds, "seeds", 0, "repeat the estimate at the first sample with this many seeds")
	flags.StringVar(&o.jsonl, "jsonl", "", "also write the lines to this `file`")
	flags.BoolVar(&o.resume, "resume", false, "continue the run in the --jsonl file, if the file exists")
	flags.StringVar(&o.shard, "shard", "", "compute one part of the samples, `i/n`, auto or auto/n, to a file of "+
		"its own (see surepipe merge --help)")
	flags.StringVar(&o.figures.plot, "plot", "", "draw the histogram of SURE to this .png, .svg or .pdf `file`")
	flags.StringVar(&o.figures.running, "running", "",
		"draw the running mean of SURE - loss, or of SURE, to this `file`")
	flags.Lookup("samples").DefValue = "0"
	markFile(cmd, reads, "y", "npy", "npz")
	markFile(cmd, writes, "jsonl", "jsonl")
	for _, name := range []string{"plot", "running"} {
		markFile(cmd, writes, name, figure.Formats()...)
	}
	cmd.SetUsageFunc(ownFlagsFirst)
	return cmd
}

// check rejects flags that are wrong for any data.
func (o *monteCarloFlags) check(cmd *cobra.Command) error {
	switch {
	case o.samples < 1:
		return usagef("--samples is %d, expected at least 1", o.samples)
	case o.first < 0:
		return usagef("--first is %d, expected 0 or more", o.first)
	case o.first > math.MaxInt-o.samples:
		return usagef("--first is %d and --samples is %d, expected a last sample of at most %d", o.first,
			o.samples, math.MaxInt)
	case o.seeds < 0 || o.seeds == 1:
		return usagef("--seeds is %d, expected at least 2, or 0 for none", o.seeds)
	case o.resume && o.jsonl == "":
		return usagef("--resume needs --jsonl, which is missing")
	}
	switch {
	case o.shard == "":
	case o.jsonl == "":
		return usagef("--shard needs --jsonl, which names the file of the merged lines")
	case o.y == "-":
		return usagef("--shard is for samples that every shard can read, found --y -")
	case o.figures != monteCarloFigures{}:
		return usagef("--shard computes a part of the samples: give --plot and --running to surepipe merge")
	}
	return o.figures.check()
}

func (f monteCarloFigures) check() error {
	for _, plot := range []struct{ flag, path string }{{"plot", f.plot}, {"running", f.running}} {
		if plot.path == "" {
			continue
		}
		if _, err := figure.Format(plot.path); err != nil {
			return usagef("--%s is %q: %w", plot.flag, plot.path, err)
		}
	}
	return nil
}

// open opens the source of the samples and reads the rest of the data. Multiples of a maximum refer
// to Data.Y.
func (o *monteCarloFlags) open(cmd *cobra.Command, f *estimatorFlags) (_ *study.SampleSource, data problems.Data,
	err error) {
	bar := newProgress(cmd)
	defer bar.close()
	if o.y != "" {
		ys, err := study.OpenSamples(o.y, cmd.InOrStdin())
		if err != nil {
			return nil, data, err
		}
		file, err := f.ReadAround(bar.preparing(cmd.Context()), ys)
		f.takeData(file)
		if err != nil {
			ys.Close()
			return nil, data, err
		}
		if f.Data == "" {
			f.Data = ys.Name
		}
		if coloured(file.Data) {
			ys.Close()
			return nil, data, f.whitenedOnly()
		}
		return ys, file.Data, nil
	}
	file, err := f.ReadSamples(bar.preparing(cmd.Context()))
	f.takeData(file)
	switch {
	case err != nil:
		return nil, data, err
	case file.Stack != nil && coloured(file.Data):
		return nil, data, f.whitenedOnly()
	case file.Stack != nil:
		return study.HeldSamples(f.Name(), file.Stack, file.YShape), file.Data, nil
	case !f.LossOf().Squared():
		return nil, data, usagef("%s: samples are simulated around mu with normal noise, which the %s loss is "+
			"not for: expected a stack of samples (N x ...)", f.Name(), f.LossOf().Name)
	case file.Mu == nil:
		return nil, data, usagef("%s: \"y\" is one sample and there is no \"mu\" to simulate more from; expected "+
			"a stack of samples (N x ...) or mu", f.Name())
	}
	data = file.Data
	sigma2 := f.noise(data)
	if f.Fits {
		return nil, data, usagef("--sigma2 is %s, which takes fits to %s: to simulate samples, give sigma2 "+
			"as a number", f.Sigma2Method, f.Name())
	}
	if sigma2 == 0 && data.Sigma2 == nil {
		return nil, data, usagef("--sigma2 is missing and %s holds no sigma2: to simulate samples around mu, "+
			"give the variance of the noise", f.Name())
	}
	// Weights relative to a maximum refer to a y that is not among the samples.
	if sigma2 > 0 && len(data.Mu) == len(data.Y) {
		data.Y = problems.Sample(data.Mu, sigma2, f.seed, -1)
	}
	return study.Simulated(data.Mu, data.YShape, sigma2, f.seed), data, nil
}

// coloured reports whether y is whitened before it is fitted.
func coloured(data problems.Data) bool { return data.Spec != nil && data.Spec.Noise() != "" }

// whitenedOnly refuses samples that would have to be whitened.
func (f *estimatorFlags) whitenedOnly() error {
	return usagef("%s: a stack of samples and a specification with noise, which whitens only a single y: "+
		"expected mu, to simulate samples from", f.Name())
}

// count is the number of samples to compute.
func (o *monteCarloFlags) count(cmd *cobra.Command, ys *study.SampleSource) (int, error) {
	switch {
	case ys.Total < 0:
		return o.samples, nil
	case o.first >= ys.Total:
		return 0, usagef("--first is %d, but %s holds samples 0 to %d", o.first, ys.Name, ys.Total-1)
	case !cmd.Flags().Changed("samples"):
		return ys.Total - o.first, nil
	case o.samples > ys.Total-o.first:
		return 0, usagef("--samples is %d, but %s holds %d from sample %d on", o.samples, ys.Name,
			ys.Total-o.first, o.first)
	}
	return o.samples, nil
}

func runMonteCarlo(cmd *cobra.Command, f *estimatorFlags, o *monteCarloFlags) error {
	// The samples, with a file of X where there is one, are all the data of the problem.
	data := f.Data
	if l, known := load.LayoutOf(f.Problem); o.y != "" && f.Data == "" && !f.exec.given() && known &&
		(!l.Design || f.X != "") && !l.Selection {
		f.Data = o.y
	}
	if err := f.check(cmd); err != nil {
		return err
	}
	f.Data = data
	if err := o.check(cmd); err != nil {
		return err
	}
	if l := f.LossOf(); !l.Squared() && o.figures != (monteCarloFigures{}) {
		return usagef("--plot and --running draw SURE or gcv, which are for the squared loss, and the loss is %s",
			l.Name)
	}
	dev, err := f.openDevice(cmd)
	if err != nil {
		return err
	}
	ys, rest, err := o.open(cmd, f)
	if err != nil {
		f.closeDevices(dev)
		return err
	}
	defer ys.Close()
	count, err := o.count(cmd, ys)
	if err != nil {
		f.closeDevices(dev)
		return err
	}
	bar := newProgress(cmd)
	defer bar.close()
	bar.label("", "samples")
	job, err := f.open(cmd, dev, rest, bar)
	if err != nil {
		return err
	}
	defer job.Close()
	if ys.Total >= 0 {
		f.warn(cmd, job.Problem)
	}
	f.warnData(cmd, rest)
	var doubts []pipeline.Warning
	m := &study.MonteCarlo{
		Estimator: job, Template: f.result(job), Samples: ys, Mu: rest.Mu, First: o.first, Count: count,
		Part: study.Part{End: count + o.seeds}, Seed: f.seed,
		Log: o.jsonl, Resume: o.resume, Out: cmd.OutOrStdout(),
		Warn: func(text string) {
			doubts = append(doubts, pipeline.Warning{Code: study.NoteLog, Text: text})
			fmt.Fprintln(cmd.ErrOrStderr(), "surepipe: "+text)
		},
	}
	if m.Log != "" {
		whole := study.NewMonteCarloHeader(estimatorSettings(cmd), rest, job.Device())
		m.Header = whole
		if o.shard != "" {
			return o.runShard(cmd, m, bar, whole)
		}
	}
	r, err := computeSamples(cmd.Context(), m, bar, "--resume")
	if err != nil {
		return err
	}
	s := r.Tally
	warnings := summaryWarnings(s)
	s.Warnings = slices.Concat(s.Notes, doubts, warnings)
	if err := writeSummary(cmd, s, r.Speed, warnings); err != nil {
		return err
	}
	notes := provenance(cmd, study.DataHash(rest))
	if err := o.figures.draw(s, job.Problem.Name, job.Problem.D, notes...); err != nil {
		return err
	}
	return unsettledSummary(&s.Summary)
}

// writeSummary prints the summary as JSON, for people, and the warnings.
func writeSummary(cmd *cobra.Command, s *study.Tally, speed study.Throughput, warnings []pipeline.Warning) error {
	if err := study.WriteLine(cmd.OutOrStdout(), s.Summary); err != nil {
		return err
	}
	if err := writeSummaryTable(&s.Summary, cmd.ErrOrStderr(), speed); err != nil {
		return err
	}
	printWarnings(cmd.ErrOrStderr(), warnings)
	return nil
}

// draw draws the figures that were asked for.
func (f monteCarloFigures) draw(s *study.Tally, problem string, dim int, notes ...figure.Note) error {
	title := fmt.Sprintf("%s, d = %d", problem, dim)
	d := float64(dim)
	if len(s.PerSample.SURE) == 0 && len(s.PerSample.GCV) == 0 {
		if f == (monteCarloFigures{}) {
			return nil
		}
		return errors.New("--plot and --running draw SURE or gcv, which are not defined for any sample: there is " +
			"no figure")
	}
	if f.plot != "" {
		h := figure.Histogram{
			Title: title, Label: "SURE / d", Samples: scaled(s.PerSample.SURE, 1/d),
			Seeds: scaled(s.PerSeed.SURE, 1/d),
			Loss:  scaled(s.PerSample.Loss, 1/d),
		}
		if len(s.PerSample.SURE) == 0 {
			h = figure.Histogram{Title: title, Label: "GCV", Samples: s.PerSample.GCV, Seeds: s.PerSeed.GCV}
		}
		if err := figure.Save(f.plot, h, notes...); err != nil {
			return err
		}
	}
	if f.running == "" {
		return nil
	}
	r := figure.Running{Title: title, Label: "mean of SURE / d", Values: scaled(s.PerSample.SURE, 1/d)}
	if len(s.PerSample.SURE) == 0 {
		r = figure.Running{Title: title, Label: "mean of GCV", Values: s.PerSample.GCV}
	} else if len(s.PerSample.Error) > 0 {
		r = figure.Running{Title: title, Label: "mean of (SURE − loss) / d",
			Values: scaled(s.PerSample.Error, 1/d), Zero: "0, unbiased"}
	}
	return figure.Save(f.running, r, notes...)
}

// scaled is x times a, nil if there is none.
func scaled(x []float64, a float64) []float64 {
	var y []float64
	for _, v := range x {
		y = append(y, a*v)
	}
	return y
}

// summaryWarnings are those of all samples together, which are printed on standard error at the end.
func summaryWarnings(s *study.Tally) (all []pipeline.Warning) {
	for _, d := range s.Doubts() {
		text := fmt.Sprintf("at %d of %d samples ", d.N, d.Of)
		switch d.Code {
		case study.NoteErrorBar:
			text = study.ZeroBarText(s.Estimated)
		case pipeline.Sigma2TooLarge:
			text = fmt.Sprintf(tooLargeText, d.N, d.Of, "samples")
		case pipeline.Unverified:
			text = fmt.Sprintf(doubtedText, d.N, d.Of, "samples")
		case pipeline.NotConverged:
			text = fmt.Sprintf("%d of %d samples did not converge, and are included in the means above; "+
				"raise --max-iter, or --tol if less accuracy is enough, or try another --solver", d.N, d.Of)
		default:
			text += ofSamples[d.Code]
		}
		all = append(all, pipeline.Warning{Code: d.Code, Text: text})
	}
	return all
}

// ofSamples are warnings of some samples, by their code.
var ofSamples = map[string]string{
	pipeline.NotSmooth: "differences at steps of different sizes disagree: the command is not smooth; " +
		"try --divergence coupled-bootstrap, or another --eps",
	pipeline.FewObservations: "leave-one-out rests on a few observations, and so does its mean: refits without " +
		"such an observation may be far from it; compare gcv",
	pipeline.NoLeaveOneOut: "there is no leave-one-out, and none of them is in its mean",
	pipeline.Interpolates: "the fit reproduces y, and leave-one-out is not reliable; raise the weight of the " +
		"regularizer",
	pipeline.Ambiguous: "the divergence is not decided within rounding errors and the tolerance: ask for a " +
		"smaller tolerance, remove dependent columns, or change the weight a little",
	pipeline.LargeStep: "the step of differences is above the noise",
}

// unsettledSummary returns errNotConverged where a result should not be trusted.
func unsettledSummary(s *study.Summary) error {
	if s.NotConverged > 0 {
		return errNotConverged
	}
	return nil
}
