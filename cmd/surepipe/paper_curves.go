package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"surepipe"
	"surepipe/cmd/surepipe/internal/bar"
	"surepipe/hutch"
	"surepipe/internal/figure"
	"surepipe/problems"
)

// curves draws figure 3: the curves at one y, and the errors over several. Each y is a sweep from
// the largest weight to the smallest, whose solves all start at the one before; sweeps are computed
// side by side. The Monte Carlo risk at a weight is the mean loss over the y.
func (f *figures) curves(ctx context.Context) (notConverged int, err error) {
	data, _, err := f.paperFlags.draw("matrix-completion", 2000, 1000)
	if err != nil {
		return 0, err
	}
	folder := filepath.Join(f.out, "figure3")
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return 0, err
	}
	line := bar.New(f.cmd)
	defer line.Close()
	line.Label("figure 3: ", "points")
	points := make([][]surepipe.Point, f.draws) // of each y, from the largest weight to the smallest
	var done atomic.Int64
	g, within := errgroup.WithContext(ctx)
	g.SetLimit(f.parallel)
	for i := range points {
		g.Go(func() (err error) {
			points[i], err = f.curve(within, i, data, folder, line, func() {
				n := int(done.Add(1))
				line.Set(n, f.draws*f.points, n/f.draws)
			})
			return err
		})
	}
	if err := g.Wait(); err != nil {
		if ctx.Err() != nil {
			fmt.Fprintf(f.cmd.ErrOrStderr(), "surepipe: %d of %d points are in %s: the same command continues "+
				"from there\n", done.Load(), f.draws*f.points, folder)
		}
		return 0, err
	}
	line.Close()
	return f.drawCurves(fmt.Sprintf("%d × %d", data.rows, data.cols), points)
}

// curve are the points of the sweep at one y.
func (f *figures) curve(ctx context.Context, draw int, data paperData, folder string, line *bar.Line,
	done func()) (points []surepipe.Point, err error) {
	// A plot needs no more digits and probes than these.
	o := f.options(data)
	o.Tol, o.Trace, o.Queries, o.TraceError, o.Parallel = 1e-5, hutch.Hutchinson, 0, 0.33, 1
	data.Y = problems.Sample(data.Mu, *data.Sigma2, f.seed, draw)
	e, err := f.open(data.Data, o, line)
	if err != nil {
		return nil, err
	}
	defer e.Close()
	// The data's lambda is a quarter of lambda_max at a y that is not among the samples.
	_, err = e.Sweep(ctx, surepipe.Grid{
		Lambda: fmt.Sprintf("1:%s:%d", format(2*4**data.Lambda), f.points),
		Chain:  f.points, Shard: surepipe.Shard{Count: 1},
		File: filepath.Join(folder, fmt.Sprintf("sample%03d-of-%d-points.jsonl", draw, f.points)),
		Point: func(p surepipe.Point) error {
			points = append(points, p)
			done()
			return nil
		}})
	return points, err
}

func (f *figures) drawCurves(size string, points [][]surepipe.Point) (notConverged int, err error) {
	sweep := figure.Sweep{Title: "Matrix completion " + size + ", one y", Parameter: "λ", Label: "SURE / d"}
	errors := figure.Lines{Title: "Matrix completion " + size, XLabel: "λ", YLabel: "|SURE − risk| / risk"}
	columns := []string{"lambda", "risk"}
	for i := range points {
		errors.Series = append(errors.Series, figure.Series{Name: fmt.Sprintf("sample %d", i)})
		columns = append(columns, fmt.Sprintf("sure_%d", i), fmt.Sprintf("loss_%d", i))
	}
	table := tableOf(columns...)
	worst, worstAt := 0.0, 0.0
	for k := f.points - 1; k >= 0; k-- {
		at, risk := float64(*points[0][k].Lambda), 0.0
		var row []float64
		for _, of := range points {
			l := of[k]
			risk += *l.Loss / float64(f.draws)
			row = append(row, *l.SURE, *l.Loss)
			if !l.Trusted() {
				notConverged++
			}
		}
		table.Data = append(append(table.Data, at, risk), row...)
		for i, of := range points {
			relative := math.Abs(*of[k].SURE-risk) / risk
			if s := &errors.Series[i]; relative > 0 { // 0 cannot be shown on a logarithmic axis
				s.X, s.Y = append(s.X, at), append(s.Y, relative)
			}
			if relative > worst {
				worst, worstAt = relative, at
			}
		}
		l := points[0][k]
		d := float64(l.D)
		sweep.Lambda, sweep.SURE, sweep.StdErr = append(sweep.Lambda, at), append(sweep.SURE, *l.SURE/d),
			append(sweep.StdErr, *l.SUREStdErr/d)
		sweep.Loss, sweep.Divergence = append(sweep.Loss, *l.Loss/d), append(sweep.Divergence, l.Divergence)
		sweep.Converged = append(sweep.Converged, l.Trusted())
	}
	best, oracle := figure.Minimizer(sweep.SURE, sweep.Converged), figure.Minimizer(sweep.Loss, sweep.Converged)
	text := fmt.Sprintf(`figure 3: matrix completion %s, %d values of lambda in [1, %.4g], %d samples
  least SURE                %.4g a coordinate, at lambda = %.4g, where the loss is %.4g
  least loss                %.4g a coordinate, at lambda = %.4g
  largest error of SURE     %.2f%% of the Monte Carlo risk, at lambda = %.4g; the paper's less than 1%% at full size
`, size, f.points, sweep.Lambda[f.points-1], f.draws, sweep.SURE[best], sweep.Lambda[best], sweep.Loss[best],
		sweep.Loss[oracle], sweep.Lambda[oracle], 100*worst, worstAt)
	return notConverged, f.keep(3, filepath.Join(f.out, "figure3-hyperparameter"), text, table, sweep, errors)
}
