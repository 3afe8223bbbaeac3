package main

import (
	"fmt"
	"math"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"gonum.org/v1/gonum/stat"

	"surepipe/pipeline"
	"surepipe/problems"
)

func newMonteCarlo() *cobra.Command {
	var f estimatorFlags
	var samples int
	cmd := &cobra.Command{
		Use:     "montecarlo",
		Aliases: []string{"mc"},
		Short:   "Estimate the risk at many y",
		Long: `Streams many samples y through the pipeline: those in the data, where y has one
more leading axis (N x ...), else simulated ones, y = mu + sigma noise, where the
data hold mu. Prints one line of JSON a sample, in order, with the keys of
surepipe run and "sample"; then one line of summary, with "summary": true:

  samples, not_converged
  mean_sure, mean_sure_stderr         mean of SURE and its standard error
  sd_sure                             spread of SURE from sample to sample
  rms_sure_stderr                     root mean square of the samples' sure_stderr, which
                                      leaves out the trace estimator's own error,
                                      2 sigma2 divergence_stderr
  mean_loss, mean_loss_stderr         the same of ||mu_hat - mu||^2, where mu is known
  mean_error, mean_error_stderr       and of SURE - loss, 0 in expectation
  rms_error                           root mean square of SURE - loss, which
                                      rms_sure_stderr should match
  seconds

Multiples of a maximum, such as --lambda 0.25max, refer to the first sample of a stack,
and to a draw of their own where samples are simulated.

The summary is printed for people on standard error too. Samples and probes are
functions of --seed and the sample's number: the lines are the same, times aside,
for any --parallel and --probe-batch.

` + dataHelp,
		Example: `  surepipe montecarlo --problem matrix-completion --data mc.npz --samples 400 > mc.jsonl
  surepipe mc --problem svt --data stack.npz --lambda 30 --parallel 4`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runMonteCarlo(cmd, &f, samples) },
	}
	f.register(cmd, defaultParallel())
	cmd.Flags().IntVar(&samples, "samples", 100, "how many samples to simulate, where the data hold no stack of them")
	return cmd
}

func runMonteCarlo(cmd *cobra.Command, f *estimatorFlags, count int) error {
	if err := f.check(cmd); err != nil {
		return err
	}
	if count < 1 {
		return usagef("--samples is %d, expected at least 1", count)
	}
	dev, err := f.openDevice(cmd)
	if err != nil {
		return err
	}
	file, err := readSamples(f.data, f.problem)
	if err != nil {
		dev.Close()
		return err
	}
	switch {
	case file.Stack != nil && cmd.Flags().Changed("samples"):
		err = usagef("--samples is for simulated samples, but %s holds %d of its own in \"y\"", f.data, len(file.Stack))
	case file.Stack != nil:
		count = len(file.Stack)
	case file.Mu == nil:
		err = usagef("%s: \"y\" is one sample and there is no \"mu\" to simulate more from; expected a stack of samples (N x ...) or mu", f.data)
	}
	if err != nil {
		dev.Close()
		return err
	}
	begin := time.Now()
	bar := newProgress(cmd.ErrOrStderr())
	data := file.Data
	if file.Stack == nil {
		// Weights relative to a maximum refer to a y that is none of the samples.
		if sigma2 := f.noise(data); sigma2 > 0 && len(data.Mu) == len(data.Y) {
			data.Y = problems.Sample(data.Mu, sigma2, f.seed, -1)
		}
	}
	job, err := f.open(cmd, dev, data, nil)
	if err != nil {
		return err
	}
	defer job.close()
	if file.Stack != nil {
		f.warn(cmd, job.problem)
	}
	ys := func(yield func([]float64, error) bool) {
		for i := range count {
			y := problemSample(file, job.sigma2, f.seed, i)
			if !yield(y, nil) {
				return
			}
		}
	}
	s := summary{Summary: true}
	for risk, err := range job.pipeline.Stream(cmd.Context(), ys) {
		if err != nil {
			bar.done()
			return err
		}
		r := f.result(job)
		r.Sample = &risk.Index
		r.fill(risk, file.Mu)
		if err := writeLine(cmd.OutOrStdout(), r); err != nil {
			return err
		}
		s.add(r, risk)
		bar.set(s.Samples, count)
	}
	bar.done()
	s.finish(time.Since(begin))
	if err := writeLine(cmd.OutOrStdout(), s); err != nil {
		return err
	}
	if err := s.writeTable(cmd); err != nil {
		return err
	}
	if s.NotConverged > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "surepipe: %d of %d samples did not converge, and are in the means above; raise --max-iter, or --tol if that is enough, or try another --solver\n", s.NotConverged, s.Samples)
		return errNotConverged
	}
	return nil
}

func problemSample(file fileData, sigma2 float64, seed uint64, i int) []float64 {
	if file.Stack != nil {
		return file.Stack[i]
	}
	return problems.Sample(file.Mu, sigma2, seed, i)
}

// summary is the last line of a Monte Carlo run.
type summary struct {
	Summary         bool     `json:"summary"`
	Samples         int      `json:"samples"`
	NotConverged    int      `json:"not_converged"`
	MeanSURE        float64  `json:"mean_sure"`
	MeanSUREStdErr  *float64 `json:"mean_sure_stderr,omitempty"`
	SDSURE          *float64 `json:"sd_sure,omitempty"`
	RMSSUREStdErr   float64  `json:"rms_sure_stderr"`
	MeanLoss        *float64 `json:"mean_loss,omitempty"`
	MeanLossStdErr  *float64 `json:"mean_loss_stderr,omitempty"`
	MeanError       *float64 `json:"mean_error,omitempty"`
	MeanErrorStdErr *float64 `json:"mean_error_stderr,omitempty"`
	RMSError        *float64 `json:"rms_error,omitempty"`
	Seconds         float64  `json:"seconds"`

	sure, stderr, loss, err []float64
}

func (s *summary) add(r result, risk pipeline.Risk) {
	s.Samples++
	if !risk.Trusted() {
		s.NotConverged++
	}
	s.sure = append(s.sure, r.SURE)
	s.stderr = append(s.stderr, r.SUREStdErr)
	if r.Loss != nil {
		s.loss = append(s.loss, *r.Loss)
		s.err = append(s.err, r.SURE-*r.Loss)
	}
}

func (s *summary) finish(took time.Duration) {
	s.Seconds = took.Seconds()
	// moments returns the mean and, with two samples or more, its standard error
	// and the standard deviation.
	moments := func(x []float64) (mean float64, se, sd *float64) {
		if len(x) < 2 {
			return stat.Mean(x, nil), nil, nil
		}
		m, d := stat.MeanStdDev(x, nil)
		e := stat.StdErr(d, float64(len(x)))
		return m, &e, &d
	}
	rms := func(x []float64) float64 {
		sum := 0.0
		for _, v := range x {
			sum += v * v
		}
		return math.Sqrt(sum / float64(len(x)))
	}
	s.MeanSURE, s.MeanSUREStdErr, s.SDSURE = moments(s.sure)
	s.RMSSUREStdErr = rms(s.stderr)
	if len(s.loss) > 0 {
		loss, lossSE, _ := moments(s.loss)
		diff, diffSE, _ := moments(s.err)
		e := rms(s.err)
		s.MeanLoss, s.MeanLossStdErr, s.MeanError, s.MeanErrorStdErr, s.RMSError = &loss, lossSE, &diff, diffSE, &e
	}
}

func (s *summary) writeTable(cmd *cobra.Command) error {
	w := tabwriter.NewWriter(cmd.ErrOrStderr(), 0, 0, 2, ' ', 0)
	row := func(name string, mean float64, se *float64) {
		if se == nil {
			fmt.Fprintf(w, "%s\t%.6g\n", name, mean)
		} else {
			fmt.Fprintf(w, "%s\t%.6g ± %.2g\n", name, mean, *se)
		}
	}
	fmt.Fprintf(w, "samples\t%d in %.3g s\n", s.Samples, s.Seconds)
	row("mean SURE", s.MeanSURE, s.MeanSUREStdErr)
	if s.MeanLoss != nil {
		row("mean loss", *s.MeanLoss, s.MeanLossStdErr)
		row("mean of SURE - loss", *s.MeanError, s.MeanErrorStdErr)
		row("rms of SURE - loss", *s.RMSError, nil)
	}
	row("its estimate, rms of sure_stderr", s.RMSSUREStdErr, nil)
	return w.Flush()
}
