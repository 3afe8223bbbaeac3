package main

import (
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"surepipe/internal/dataio"
	"surepipe/internal/stored"
	"surepipe/problems"
	"surepipe/study"
)

// rowsProblem is the problem whose data are drawn row by row.
const rowsProblem = "lasso"

// singleProblem is the problem whose y and mu may be written as float32.
const singleProblem = "matrix-completion"

// single rounds y and mu to float32s, as which they are written.
func single(arrays []dataio.Array) {
	for k, a := range arrays {
		if a.Name == "y" || a.Name == "mu" {
			arrays[k].Single = true
			for i, v := range a.Data {
				a.Data[i] = float64(float32(v))
			}
		}
	}
}

// checkRows rejects the flags of [generateFlags.rows] for other problems.
func (f *generateFlags) checkRows(cmd *cobra.Command) error {
	for name, takes := range map[string][]string{"nonzeros": {rowsProblem}, "float32": {rowsProblem, singleProblem}} {
		if cmd.Flags().Changed(name) && !slices.Contains(takes, f.problem) {
			return study.Errorf("--%s does not apply to %s", name, f.problem)
		}
	}
	if cmd.Flags().Changed("nonzeros") && f.nonzeros < 1 {
		return study.Errorf("--nonzeros is %d, expected at least 1", f.nonzeros)
	}
	return nil
}

// rows draws data whose X is written row by row; nil where it is drawn in memory, as all is that takes
// less than half of that.
func (f *generateFlags) rows(cmd *cobra.Command, sizes []int) (drawing, error) {
	if f.problem != rowsProblem {
		return nil, nil
	}
	l := problems.LassoRows{D: sizes[0], P: sizes[1], Nonzeros: f.nonzeros, Single: f.single, Seed: f.seed}
	if f.nonzeros == 0 && !f.single && stored.Fits("X", 2*l.Bytes()) == nil {
		return nil, nil
	}
	if err := stored.Fits("a row of X", 8*(3*float64(l.P)+2*float64(l.D))); err != nil {
		return nil, study.Errorf("%s: %w", f.problem, err)
	}
	if free := stored.Disk(filepath.Dir(f.out)); free > 0 && l.Bytes() > float64(free) {
		return nil, study.Errorf("--out: X takes %.3g GB, and the disk of %s has %.3g GB left", l.Bytes()/1e9, f.out,
			float64(free)/1e9)
	}
	return func() error {
		var data problems.Data
		x := dataio.Rows{Name: "X", Rows: l.D, Cols: l.P, Single: l.Single,
			Each: func(write func([]float64) error) (err error) {
				data, err = l.Draw(func(row []float64) error {
					if err := cmd.Context().Err(); err != nil {
						return err
					}
					return write(row)
				})
				return err
			}}
		err := l.Check()
		if err != nil {
			return study.Errorf("%s: %w", f.problem, err)
		}
		if err := dataio.WriteNPZRows(f.out, x, func() []dataio.Array { return problems.Arrays(data) }); err != nil {
			return err
		}
		f.wrote(cmd, f.try(problems.Generator{}))
		return nil
	}, nil
}
