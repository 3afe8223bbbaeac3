package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"golang.org/x/sync/errgroup"

	"surepipe"
	"surepipe/cmd/surepipe/internal/bar"
	"surepipe/hutch"
	"surepipe/internal/dataio"
	"surepipe/internal/figure"
	"surepipe/internal/lists"
	"surepipe/problems"
)

// curves draws figure 3: the curves at one y, and the errors over several. Each y is a sweep from
// the largest weight to the smallest, whose solves all start at the one before; sweeps are computed
// side by side. The Monte Carlo risk at a weight is the mean loss over the y.
func (f *figures) curves(ctx context.Context) (notConverged int, err error) {
	const problem = "matrix-completion"
	rows, cols := f.scaled(2000, 1000)
	data, err := generate(problem, rows, cols, f.seed)
	if err != nil {
		return 0, err
	}
	if _, err := f.writeData(problem, rows, cols, data); err != nil {
		return 0, err
	}
	if err := os.MkdirAll(filepath.Join(f.out, "figure3"), 0o777); err != nil {
		return 0, err
	}
	// The data's lambda is a quarter of lambda_max at a y that is not among the samples.
	top := 2 * 4 * *data.Lambda
	lambda := lists.Make(f.points, func(k int) float64 { return math.Pow(top, float64(k)/float64(f.points-1)) })
	// A plot needs no more digits and probes than these.
	o := f.options(problem, data)
	o.Tol, o.Trace, o.Queries, o.TraceError, o.Parallel = 1e-5, hutch.Hutchinson, 0, 0.33, 1
	c := &curveSweeps{figures: f, options: o, lambda: lambda, data: data}
	if err := c.run(ctx); err != nil {
		return 0, err
	}
	return c.draw(fmt.Sprintf("%d × %d", rows, cols))
}

// curveSweeps are the sweeps of figure 3, one for each y.
type curveSweeps struct {
	*figures
	options surepipe.Options
	lambda  []float64
	data    problems.Data
	bar     *bar.Line

	mu    sync.Mutex
	lines [][]surepipe.Point // of each y, from the largest weight to the smallest
}

func (c *curveSweeps) run(ctx context.Context) (err error) {
	c.bar = bar.New(c.cmd)
	defer c.bar.Close()
	c.bar.Label("figure 3: ", "points")
	c.lines = make([][]surepipe.Point, c.draws)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(c.parallel)
	for i := range c.draws {
		g.Go(func() error { return c.sweep(ctx, i) })
	}
	if err := g.Wait(); err != nil {
		if c.cmd.Context().Err() != nil {
			fmt.Fprintf(c.cmd.ErrOrStderr(), "surepipe: %d of %d points are in %s: the same command continues "+
				"from there\n", c.bar.Count(), c.draws*c.points, filepath.Join(c.out, "figure3"))
		}
		return err
	}
	return nil
}

func (c *curveSweeps) sweep(ctx context.Context, draw int) error {
	data := c.data
	data.Y = problems.Sample(data.Mu, *data.Sigma2, c.seed, draw)
	e, err := c.open(data, c.options, c.bar)
	if err != nil {
		return err
	}
	defer e.Close()
	_, err = e.Sweep(ctx, surepipe.Grid{
		Lambda: fmt.Sprintf("1:%s:%d", strconv.FormatFloat(c.lambda[c.points-1], 'g', -1, 64), c.points),
		Chain:  c.points, Shard: surepipe.Shard{Count: 1},
		File: filepath.Join(c.out, "figure3", fmt.Sprintf("sample%03d-of-%d-points.jsonl", draw, c.points)),
		Point: func(p surepipe.Point) error {
			c.add(draw, p)
			return nil
		}})
	return err
}

func (c *curveSweeps) add(draw int, line surepipe.Point) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines[draw] = append(c.lines[draw], line)
	done, next := 0, math.MaxInt
	for i, l := range c.lines {
		done += len(l)
		if len(l) < c.points {
			next = min(next, len(l)*c.draws+i)
		}
	}
	c.bar.Set(done, c.draws*c.points, next)
}

func (c *curveSweeps) draw(size string) (notConverged int, err error) {
	const name = "figure3-hyperparameter"
	lambda := c.lambda
	sweep := figure.Sweep{Title: "Matrix completion " + size + ", one y", Parameter: "λ", Label: "SURE / d"}
	errors := figure.Lines{Title: "Matrix completion " + size, XLabel: "λ", YLabel: "|SURE − risk| / risk"}
	columns := []string{"lambda", "risk"}
	for i := range c.draws {
		errors.Series = append(errors.Series, figure.Series{Name: fmt.Sprintf("sample %d", i)})
		columns = append(columns, fmt.Sprintf("sure_%d", i), fmt.Sprintf("loss_%d", i))
	}
	var table [][]float64
	worst, worstAt := 0.0, 0.0
	for k, at := range lambda {
		row, risk := []float64{at, 0}, 0.0
		for i, lines := range c.lines {
			l := lines[len(lambda)-1-k]
			risk += *l.Loss / float64(c.draws)
			row = append(row, *l.SURE, *l.Loss)
			if !l.Trusted() {
				notConverged++
			}
			if i == 0 {
				d := float64(l.D)
				sweep.Lambda, sweep.SURE, sweep.StdErr = append(sweep.Lambda, at), append(sweep.SURE, *l.SURE/d),
					append(sweep.StdErr, *l.SUREStdErr/d)
				sweep.Loss, sweep.Divergence = append(sweep.Loss, *l.Loss/d), append(sweep.Divergence, l.Divergence)
				sweep.Converged = append(sweep.Converged, l.Trusted())
			}
		}
		row[1] = risk
		table = append(table, row)
		for i, lines := range c.lines {
			relative := math.Abs(*lines[len(lambda)-1-k].SURE-risk) / risk
			// An error that is 0 by chance cannot be shown on a logarithmic axis.
			if relative > 0 {
				errors.Series[i].X, errors.Series[i].Y = append(errors.Series[i].X, at),
					append(errors.Series[i].Y, relative)
			}
			if relative > worst {
				worst, worstAt = relative, at
			}
		}
	}
	if err := dataio.WriteCSV(filepath.Join(c.out, name+".csv"), matrixOf(columns, table)); err != nil {
		return 0, err
	}
	if err := c.save(name, sweep); err != nil {
		return 0, err
	}
	if err := c.save(name+"-errors", errors); err != nil {
		return 0, err
	}
	best, oracle := figure.Minimizer(sweep.SURE, sweep.Converged), figure.Minimizer(sweep.Loss, sweep.Converged)
	return notConverged, c.report(3, fmt.Sprintf(`figure 3: matrix completion %s, %d values of lambda in [1, %.4g], %d samples
  least SURE                %.4g a coordinate, at lambda = %.4g, where the loss is %.4g
  least loss                %.4g a coordinate, at lambda = %.4g
  largest error of SURE     %.2f%% of the Monte Carlo risk, at lambda = %.4g; the paper's less than 1%% at full size
`, size, c.points, lambda[len(lambda)-1], c.draws, sweep.SURE[best], sweep.Lambda[best], sweep.Loss[best],
		sweep.Loss[oracle], sweep.Lambda[oracle], 100*worst, worstAt))
}
