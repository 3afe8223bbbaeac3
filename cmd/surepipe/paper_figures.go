package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"surepipe"
	"surepipe/cmd/surepipe/internal/bar"
	"surepipe/cmd/surepipe/internal/cli"
	"surepipe/cmd/surepipe/internal/report"
	"surepipe/internal/dataio"
	"surepipe/internal/figure"
	"surepipe/internal/lists"
	"surepipe/problems"
	"surepipe/study"
)

// figures are the flags of surepipe paper figures.
type figures struct {
	paperFlags
	which                         string
	samples, seeds, draws, points int
}

func newPaperFigures() *cobra.Command {
	var f figures
	cmd := &cobra.Command{
		Use:   "figures",
		Short: "Draw the paper's figures, with the numbers and data that made them",
		Long: `Draws the figures of Nobel, Candes and Boyd, section III, in a folder:

  1  matrix completion 2000 x 1000: SURE's error relative to the Monte Carlo risk over
     samples of y, and the spread of SURE over seeds at one y
  2  the same of robust PCA 1000 x 1000
  3  matrix completion 2000 x 1000: SURE and the loss over lambda in [1, 2 lambda_max] at
     one y; and SURE's error relative to the Monte Carlo risk for several y; each y is a
     sweep with --tol 1e-5 --trace hutchinson --trace-error 0.33, whose probes add at most a
     third of SURE's own error bar

Figures are .png and .svg; the numbers in them are .csv; the data are in data/, as
surepipe montecarlo takes them, and every estimate is a line of a .jsonl file. The paper's
numbers of samples are far larger than the defaults: --samples 2000 --seeds 100 --draws 6.
The Monte Carlo risk is the mean loss over the same samples.

Repeat the same command to continue after an interrupt; more --samples, --seeds and
--draws extend the results; other settings need another --out. On two processors all
three figures take a few minutes with --scale 0.2; at full size a sample of figure 1 takes
a minute of processor time, one of figure 2 ten seconds, and one of figure 3, which is a
sweep, a quarter of an hour.`,
		Example: `  surepipe paper figures --out figures --scale 0.2
  surepipe paper figures --out figures --figure 2 --samples 2000 --seeds 100`,
		Args: cli.NoArgs,
		RunE: func(*cobra.Command, []string) error { return f.run() },
	}
	f.register(cmd)
	f.which, f.samples, f.seeds, f.draws, f.points = "all", 30, 30, 2, 37
	cli.Bind(cmd,
		cli.Flag{Name: "figure", To: &f.which, Usage: "all, 1, 2 or 3", Values: []string{"all", "1", "2", "3"}},
		cli.Flag{Name: "samples", To: &f.samples, Usage: "figures 1 and 2: samples of y"},
		cli.Flag{Name: "seeds", To: &f.seeds, Usage: "figures 1 and 2: seeds at one sample"},
		cli.Flag{Name: "draws", To: &f.draws, Usage: "figure 3: samples of y"},
		cli.Flag{Name: "points", To: &f.points, Usage: "figure 3: values of lambda"})
	return cmd
}

func (f *figures) run() error {
	if !slices.Contains([]string{"all", "1", "2", "3"}, f.which) {
		return study.Errorf("--figure is %q, expected all, 1, 2 or 3", f.which)
	}
	for _, n := range []struct {
		flag         string
		value, least int
	}{{"samples", f.samples, 2}, {"seeds", f.seeds, 2}, {"draws", f.draws, 2}, {"points", f.points, 2}} {
		if n.value < n.least {
			return study.Errorf("--%s is %d, expected at least %d", n.flag, n.value, n.least)
		}
	}
	if f.out == "" {
		return study.Errorf("--out is missing, expected a folder")
	}
	if err := f.check(); err != nil {
		return err
	}
	if err := f.makeFolder(); err != nil {
		return err
	}
	ctx := f.cmd.Context()
	notConverged := 0
	for _, one := range []struct {
		name string
		draw func(context.Context) (int, error)
	}{
		{"1", func(ctx context.Context) (int, error) {
			return f.spread(ctx, 1, "matrix-completion", "Matrix completion", 2000, 1000, 0.025)
		}},
		{"2", func(ctx context.Context) (int, error) {
			return f.spread(ctx, 2, "robust-pca", "Robust PCA", 1000, 1000, 0.03)
		}},
		{"3", f.curves},
	} {
		if f.which != "all" && f.which != one.name {
			continue
		}
		n, err := one.draw(ctx)
		if err != nil {
			return err
		}
		notConverged += n
	}
	if notConverged > 0 {
		fmt.Fprintf(f.cmd.ErrOrStderr(),
			"surepipe: %d estimates did not converge, and are included in the figures\n", notConverged)
		return errNotConverged
	}
	return nil
}

// simulate runs the estimator at samples around the data's mu, from sample 0 on. It keeps the lines
// in the named file of the folder, and continues with those that are there.
func (f *figures) simulate(ctx context.Context, data problems.Data, problem, name, title string) (*surepipe.Spread,
	error) {
	line := bar.New(f.cmd)
	defer line.Close()
	line.Label(title+": ", "samples")
	e, err := f.open(data, f.options(problem, data), line)
	if err != nil {
		return nil, err
	}
	defer e.Close()
	m, err := e.MonteCarloBelow(ctx, surepipe.Draws{Count: f.samples, Seeds: f.seeds, File: filepath.Join(f.out, name)})
	if err != nil {
		return nil, err
	}
	return (&estimation{cmd: f.cmd}).compute(m, line, "the same command")
}

func (f *figures) save(name string, fig figure.Figure) error {
	for _, format := range []string{".png", ".svg"} {
		if err := figure.Save(filepath.Join(f.out, name+format), fig); err != nil {
			return err
		}
	}
	return nil
}

func (f *figures) spread(ctx context.Context, number int, problem, title string, rows, cols int,
	papers float64) (notConverged int, err error) {
	rows, cols = f.scaled(rows, cols)
	data, err := generate(problem, rows, cols, f.seed)
	if err != nil {
		return 0, err
	}
	if _, err := f.writeData(problem, rows, cols, data); err != nil {
		return 0, err
	}
	name := fmt.Sprintf("figure%d-%s", number, problem)
	s, err := f.simulate(ctx, data, problem, name+".jsonl", fmt.Sprintf("figure %d", number))
	if err != nil {
		return 0, err
	}
	risk := *s.MeanLoss
	relative := func(x []float64, to float64) []float64 {
		return lists.Map(x, func(v float64) float64 { return (v - to) / risk })
	}
	samples, seeds := relative(s.PerSample.SURE, risk), relative(s.PerSeed.SURE, *s.SeedsMeanSURE)
	h := figure.Histogram{
		Title:   fmt.Sprintf("%s %d × %d, d = %d", title, rows, cols, s.D),
		Label:   "error relative to the Monte Carlo risk",
		Samples: samples, SamplesName: "SURE over samples of y", Seeds: seeds,
		SeedsName: "SURE over seeds at one y, about its mean",
	}
	if err := f.save(name, h); err != nil {
		return 0, err
	}
	var table [][]float64
	for i, v := range samples {
		table = append(table, []float64{0, float64(i), s.PerSample.SURE[i], s.PerSample.Loss[i], v})
	}
	for k, v := range seeds {
		table = append(table, []float64{1, float64(k), s.PerSeed.SURE[k], s.PerSample.Loss[0], v})
	}
	columns := []string{"over_seeds", "sample_or_seed", "sure", "loss", "relative_error"}
	if err := dataio.WriteCSV(filepath.Join(f.out, name+".csv"), matrixOf(columns, table)); err != nil {
		return 0, err
	}
	largest := func(x []float64) float64 { return 100 * max(slices.Max(x), -slices.Min(x)) }
	text := fmt.Sprintf(`figure %d: %s %d x %d, d = %d
  Monte Carlo risk          %.4g a coordinate (mean loss over %d samples)
  mean of SURE - loss       %.2g ± %.2g of it
  largest error of SURE     %.2f%% of it; the paper's %.1f%% over 2000 samples at full size
  spread over samples       %.2f%% (standard deviation)
  spread over %3d seeds     %.2f%%
`, number, title, rows, cols, s.D, risk/float64(s.D), s.Samples, *s.MeanError/risk,
		*s.MeanErrorStdErr/risk,
		largest(samples), 100*papers, 100**s.SDSURE/risk, s.Seeds, 100**s.SeedsSDSURE/risk)
	if rates := report.Rates(&s.Speed); rates != "" {
		text += "  throughput                " + rates + "\n"
	}
	return s.NotConverged, f.report(number, text)
}

func (f *figures) report(number int, text string) error {
	if _, err := fmt.Fprint(f.cmd.OutOrStdout(), text); err != nil {
		return err
	}
	return dataio.WriteFile(filepath.Join(f.out, fmt.Sprintf("figure%d.txt", number)), write([]byte(text)))
}
