package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"surepipe"
	"surepipe/array"
	"surepipe/cmd/surepipe/internal/bar"
	"surepipe/cmd/surepipe/internal/cli"
	"surepipe/hutch"
	"surepipe/internal/dataio"
	"surepipe/problems"
	"surepipe/study"
	"surepipe/study/request"
)

func newPaper() *cobra.Command {
	cmd := newPaperTables("paper", 0)
	cmd.Short = "Reproduce the paper's tables and figures, with our values and times beside its own"
	cmd.Long = `Without a subcommand it runs surepipe paper tables --samples 0, which ` + helpText("paper")
	cmd.Example = `  surepipe paper --largest 300MB
  surepipe paper --problem matrix-completion --seed 3
  surepipe paper tables --out tables
  surepipe paper figures --out figures --scale 0.2`
	cmd.AddCommand(newPaperTables("tables", 8), newPaperFigures())
	return cmd
}

// paperFlags are the flags that the paper's tables and figures share.
type paperFlags struct {
	cmd      *cobra.Command
	out      string
	scale    float64
	seed     uint64
	queries  int
	parallel int
	device   string
	keep     string
}

func (f *paperFlags) register(cmd *cobra.Command) {
	*f = paperFlags{cmd: cmd, scale: 1, seed: 1, queries: hutch.DefaultQueries, parallel: runtime.GOMAXPROCS(0),
		device: "auto", keep: "256MB"}
	cli.Bind(cmd,
		cli.Flag{Name: "out", To: &f.out, Usage: "`folder` for the results, their data, and all " +
			"numbers", Role: cli.Fills},
		cli.Flag{Name: "scale", To: &f.scale, Usage: "multiply the paper's sizes by this, such as 0.2; no side " +
			"shrinks below 10"},
		cli.Flag{Name: "seed", To: &f.seed, Usage: "seed of data and probes"},
		cli.Flag{Name: "queries", To: &f.queries, Usage: "queries of Hutch++, the paper's trace estimator"},
		cli.Flag{Name: "parallel", To: &f.parallel, Usage: "samples in flight at once"},
		cli.Flag{Name: "device", To: &f.device, Usage: "auto, or " + strings.Join(array.Kinds(), ", ")},
		cli.Flag{Name: "keep", To: &f.keep, Usage: "write data files up to this size; for larger ones keep the " +
			"command that generates them"})
}

// check rejects flags that are wrong, and makes gonum use a native BLAS, which is also used to draw
// the data.
func (f *paperFlags) check() error {
	// The last bits of the drawn data depend on the library, which is therefore chosen first, so
	// that the same command draws the same data.
	if err := array.UseNative(); err != nil {
		return study.Bad(err)
	}
	switch {
	case !(f.scale > 0) || f.scale > 1:
		return study.Errorf("--scale is %g, expected more than 0 and at most 1", f.scale)
	case f.parallel < 1 || f.parallel > request.MostParallel:
		return study.Errorf("--parallel is %d, expected 1 to %d", f.parallel, request.MostParallel)
	}
	if _, err := parseSize("keep", f.keep); err != nil {
		return err
	}
	_, err := hutch.NewPlan(hutch.HutchPP, f.queries, 1<<30)
	return study.PlanError(err)
}

func parseSize(flag, text string) (uint64, error) {
	n, err := humanize.ParseBytes(text)
	if err != nil || n == 0 {
		return 0, study.Errorf("--%s is %q, expected a size such as 1GB", flag, text)
	}
	return n, nil
}

func (f *paperFlags) makeFolder() error {
	if err := os.MkdirAll(filepath.Join(f.out, "data"), 0o777); err != nil {
		return study.Errorf("--out is %q: %w", f.out, err)
	}
	if err := dataio.CheckWritable(filepath.Join(f.out, "data", "test")); err != nil {
		return study.Errorf("--out is %q: %w", f.out, err)
	}
	return nil
}

func (f *paperFlags) scaled(rows, cols int) (int, int) {
	s := min(1, max(f.scale, 10/float64(min(rows, cols))))
	return int(math.Round(s * float64(rows))), int(math.Round(s * float64(cols)))
}

// paperData are the data of a problem that were drawn with rows and cols.
type paperData struct {
	problems.Data
	problem    string
	rows, cols int
}

// draw draws the data of one of the paper's problems at the scaled size, and writes them to the folder, where there is
// one. file is their name in it, or, for data above --keep, the command that generates them.
func (f *paperFlags) draw(problem string, rows, cols int) (d paperData, file string, err error) {
	d.problem = problem
	d.rows, d.cols = f.scaled(rows, cols)
	if d.Data, err = paperTable(problem).draw(d.rows, d.cols, f.seed); err != nil || f.out == "" {
		return d, "", err
	}
	limit, err := parseSize("keep", f.keep)
	if err != nil {
		return d, "", err
	}
	arrays, bytes := problems.Arrays(d.Data), 0
	for _, a := range arrays {
		bytes += 8 * (len(a.Data) + len(a.Ints))
	}
	file = filepath.Join("data", fmt.Sprintf("%s-%dx%d.npz", problem, d.rows, d.cols))
	if uint64(bytes) > limit {
		g, _ := generator(problem)
		return d, fmt.Sprintf("surepipe generate --problem %s --%s %d --%s %d --seed %d --out %s", problem, g.Sizes[0],
			d.rows, g.Sizes[1], d.cols, f.seed, file), nil
	}
	return d, file, dataio.WriteNPZ(filepath.Join(f.out, file), arrays...)
}

func (f *paperFlags) options(d paperData) surepipe.Options {
	o := surepipe.Options{Problem: surepipe.Problem(d.problem), Sigma2: *d.Sigma2, Lambda: format(*d.Lambda),
		Compute: surepipe.Compute{Seed: f.seed, Device: f.device, Trace: hutch.HutchPP, Queries: f.queries,
			Parallel: f.parallel}}
	if d.Gamma != nil {
		o.Gamma = format(*d.Gamma)
	}
	return o
}

func (f *paperFlags) open(d problems.Data, o surepipe.Options, line *bar.Line) (*surepipe.Estimator, error) {
	a := surepipe.Arrays{X: d.X, Y: d.Y, Shape: d.YShape, Mu: d.Mu}
	if d.Indices != nil {
		a.Indices, a.Shape = d.Indices, d.Shape
	}
	data, err := a.Data()
	if err != nil {
		return nil, err
	}
	o.Progress = line.Follower()
	return surepipe.Open(line.Preparing(f.cmd.Context()), data, o)
}
