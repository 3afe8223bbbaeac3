package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"surepipe"
	"surepipe/cmd/surepipe/internal/bar"
	"surepipe/cmd/surepipe/internal/cli"
	"surepipe/cmd/surepipe/internal/report"
	"surepipe/internal/dataio"
	"surepipe/internal/figure"
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
		Long:  helpText("figures"),
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
	for k, draw := range []func(context.Context) (int, error){
		func(ctx context.Context) (int, error) {
			return f.spread(ctx, 1, "matrix-completion", "Matrix completion", 2000, 1000, 0.025)
		},
		func(ctx context.Context) (int, error) {
			return f.spread(ctx, 2, "robust-pca", "Robust PCA", 1000, 1000, 0.03)
		},
		f.curves,
	} {
		if f.which != "all" && f.which != strconv.Itoa(k+1) {
			continue
		}
		n, err := draw(ctx)
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

// spread draws figure 1 or 2: the estimates at samples around the data's mu, from sample 0 on, whose lines are kept
// in a file and continued.
func (f *figures) spread(ctx context.Context, number int, problem, title string, rows, cols int,
	papers float64) (notConverged int, err error) {
	data, _, err := f.draw(problem, rows, cols)
	if err != nil {
		return 0, err
	}
	line := bar.New(f.cmd)
	defer line.Close()
	line.Label(fmt.Sprintf("figure %d: ", number), "samples")
	e, err := f.open(data.Data, f.options(data), line)
	if err != nil {
		return 0, err
	}
	defer e.Close()
	name := filepath.Join(f.out, fmt.Sprintf("figure%d-%s", number, problem))
	m, err := e.MonteCarloBelow(ctx, surepipe.Draws{Count: f.samples, Seeds: f.seeds, File: name + ".jsonl"})
	if err != nil {
		return 0, err
	}
	s, err := (&estimation{cmd: f.cmd}).compute(m, line, "the same command")
	if err != nil {
		return 0, err
	}
	risk := *s.MeanLoss
	table := tableOf("over_seeds", "sample_or_seed", "sure", "loss", "relative_error")
	var samples, seeds []float64
	for i, sure := range s.PerSample.SURE {
		samples = append(samples, (sure-risk)/risk)
		table.Data = append(table.Data, 0, float64(i), sure, s.PerSample.Loss[i], samples[i])
	}
	for i, sure := range s.PerSeed.SURE {
		seeds = append(seeds, (sure-*s.SeedsMeanSURE)/risk)
		table.Data = append(table.Data, 1, float64(i), sure, s.PerSample.Loss[0], seeds[i])
	}
	largest := 100 * max(slices.Max(samples), -slices.Min(samples))
	text := fmt.Sprintf(`figure %d: %s %d x %d, d = %d
  Monte Carlo risk          %.4g a coordinate (mean loss over %d samples)
  mean of SURE - loss       %.2g ± %.2g of it
  largest error of SURE     %.2f%% of it; the paper's %.1f%% over 2000 samples at full size
  spread over samples       %.2f%% (standard deviation)
  spread over %3d seeds     %.2f%%
`, number, title, data.rows, data.cols, s.D, risk/float64(s.D), s.Samples, *s.MeanError/risk,
		*s.MeanErrorStdErr/risk, largest, 100*papers, 100**s.SDSURE/risk, s.Seeds, 100**s.SeedsSDSURE/risk)
	if rates := report.Rates(&s.Speed); rates != "" {
		text += "  throughput                " + rates + "\n"
	}
	return s.NotConverged, f.keep(number, name, text, table, figure.Histogram{
		Title: fmt.Sprintf("%s %d × %d, d = %d", title, data.rows, data.cols, s.D),
		Label: "error relative to the Monte Carlo risk", Samples: samples, SamplesName: "SURE over samples of y",
		Seeds: seeds, SeedsName: "SURE over seeds at one y, about its mean",
	})
}

// tableOf is a table without rows; its cells are those of Data.
func tableOf(columns ...string) dataio.Array {
	return dataio.Array{Labels: dataio.Labels{Columns: columns}}
}

// keep draws a figure, and one of its errors where there is one, and writes the numbers in it and what it says, which
// it prints.
func (f *figures) keep(number int, name, text string, table dataio.Array, figures ...figure.Figure) error {
	cols := len(table.Labels.Columns)
	table.Shape = []int{len(table.Data) / cols, cols}
	if err := dataio.WriteCSV(name+".csv", table); err != nil {
		return err
	}
	for k, suffix := range []string{"", "-errors"}[:len(figures)] {
		for _, format := range []string{".png", ".svg"} {
			if err := figure.Save(name+suffix+format, figures[k]); err != nil {
				return err
			}
		}
	}
	if _, err := fmt.Fprint(f.cmd.OutOrStdout(), text); err != nil {
		return err
	}
	return writeText(filepath.Join(f.out, fmt.Sprintf("figure%d.txt", number)), text)
}
