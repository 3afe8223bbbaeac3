package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/hutch"
	"surepipe/internal/dataio"
	"surepipe/problems"
	"surepipe/study"
)

func newPaper() *cobra.Command {
	cmd := newPaperTables("paper", 0)
	cmd.Short = "Reproduce the paper's tables and figures, with our values and times beside its own"
	cmd.Long = `Without a subcommand it runs surepipe paper tables --samples 0, which ` + paperTablesHelp
	cmd.Example = `  surepipe paper --largest 300MB
  surepipe paper --problem matrix-completion --seed 3
  surepipe paper tables --out tables
  surepipe paper figures --out figures --scale 0.2`
	cmd.AddCommand(newPaperTables("tables", 8), newPaperFigures())
	return cmd
}

// paperFlags are the flags that the paper's tables and figures share.
type paperFlags struct {
	out      string
	scale    float64
	seed     uint64
	queries  int
	parallel int
	device   string
	keep     string
}

func (f *paperFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.out, "out", "", "`folder` for the results, their data, and all numbers")
	flags.Float64Var(&f.scale, "scale", 1,
		"multiply the paper's sizes by this, such as 0.2; no side shrinks below 10")
	flags.Uint64Var(&f.seed, "seed", 1, "seed of data and probes")
	flags.IntVar(&f.queries, "queries", hutch.DefaultQueries, "queries of Hutch++, the paper's trace estimator")
	flags.IntVar(&f.parallel, "parallel", defaultParallel(), "samples in flight at once")
	flags.StringVar(&f.device, "device", "auto", "auto, or "+strings.Join(array.Kinds(), ", "))
	flags.StringVar(&f.keep, "keep", "256MB", "write data files up to this size; for larger ones keep the "+
		"command that generates them")
	markFile(cmd, fills, "out")
}

// check rejects flags that are wrong, and makes gonum use a native BLAS, which is also used to draw
// the data.
func (f *paperFlags) check() error {
	// The last bits of the drawn data depend on the library, which is therefore chosen first, so
	// that the same command draws the same data.
	if err := array.UseNative(); err != nil {
		return usageError{err}
	}
	switch {
	case !(f.scale > 0) || f.scale > 1:
		return usagef("--scale is %g, expected more than 0 and at most 1", f.scale)
	case f.parallel < 1 || f.parallel > mostParallel:
		return usagef("--parallel is %d, expected 1 to %d", f.parallel, mostParallel)
	}
	if _, err := parseSize("keep", f.keep); err != nil {
		return err
	}
	_, err := hutch.NewPlan(hutch.HutchPP, f.queries, 1<<30)
	return planError(err)
}

func parseSize(flag, text string) (uint64, error) {
	n, err := humanize.ParseBytes(text)
	if err != nil || n == 0 {
		return 0, usagef("--%s is %q, expected a size such as 1GB", flag, text)
	}
	return n, nil
}

// makeFolder creates the folder --out, and one in it for the data.
func (f *paperFlags) makeFolder() error {
	if err := os.MkdirAll(filepath.Join(f.out, "data"), 0o777); err != nil {
		return usagef("--out is %q: %w", f.out, err)
	}
	if err := dataio.CheckWritable(filepath.Join(f.out, "data", "test")); err != nil {
		return usagef("--out is %q: %w", f.out, err)
	}
	return nil
}

// scaled is the size of a rows x cols problem.
func (f *paperFlags) scaled(rows, cols int) (int, int) {
	s := min(1, max(f.scale, 10/float64(min(rows, cols))))
	return int(math.Round(s * float64(rows))), int(math.Round(s * float64(cols)))
}

// writeData writes the data of a problem that was drawn with rows and cols, and returns the file's
// name, or, for data above --keep, the command that generates them.
func (f *paperFlags) writeData(problem string, rows, cols int, data problems.Data) (string, error) {
	limit, err := parseSize("keep", f.keep)
	if err != nil {
		return "", err
	}
	bytes := 8 * (len(data.Y) + len(data.Mu) + len(data.Indices))
	if data.X != nil {
		bytes += 8 * len(data.X.(*mat.Dense).RawMatrix().Data)
	}
	name := filepath.Join("data", fmt.Sprintf("%s-%dx%d.npz", problem, rows, cols))
	if uint64(bytes) > limit {
		named, _ := problems.Lookup(problem)
		sizes := named.Generator.Sizes
		return fmt.Sprintf("surepipe generate --problem %s --%s %d --%s %d --seed %d --out %s", problem, sizes[0],
			rows, sizes[1], cols, f.seed, name), nil
	}
	return name, dataio.WriteNPZ(filepath.Join(f.out, name), dataArrays(data)...)
}

// estimator returns the flags of surepipe run, with their defaults except for args, and the
// resulting settings.
func (f *paperFlags) estimator(problem string, args ...string) (*estimatorFlags, map[string]string, error) {
	e := &estimatorFlags{}
	cmd := &cobra.Command{}
	e.register(cmd, f.parallel)
	args = append([]string{"--problem=" + problem, "--data=" + problem, fmt.Sprint("--seed=", f.seed),
		"--device=" + f.device, "--trace=hutch++", fmt.Sprint("--queries=", f.queries)}, args...)
	if err := cmd.ParseFlags(args); err != nil {
		return nil, nil, err
	}
	if err := e.check(cmd); err != nil {
		return nil, nil, err
	}
	return e, estimatorSettings(cmd), nil
}

// open opens the device, and a job for e and the data.
func (f *paperFlags) open(cmd *cobra.Command, e *estimatorFlags, data problems.Data,
	bar *progress) (*study.Estimator, error) {
	dev, err := openDevice(cmd.Context(), f.device, 0)
	if err != nil {
		return nil, err
	}
	return e.open(cmd, dev, data, bar)
}

// matrixOf is a table of numbers with names of its columns, for a .csv file.
func matrixOf(columns []string, rows [][]float64) dataio.Array {
	a := dataio.Array{Shape: []int{len(rows), len(columns)}, Labels: dataio.Labels{Columns: columns}}
	for _, row := range rows {
		a.Data = append(a.Data, row...)
	}
	return a
}
