package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/pbnjay/memory"
	"github.com/spf13/cobra"

	"surepipe/hutch"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/vjp"
)

// paperRow is one row of the paper's Tables I to III: the size and what was
// published for it, per coordinate and in seconds on a V100. LASSO has d
// observations of cols variables.
type paperRow struct {
	problem    string
	rows, cols int
	sure, risk float64
	seconds    float64
	bytes      int64 // what our run holds at least
}

func paperRows() []paperRow {
	var rows []paperRow
	lasso := func(d int, sure, risk, seconds float64) {
		// X, its active columns (about a fifth), and the rest.
		rows = append(rows, paperRow{problem: "lasso", rows: d, cols: 2 * d, sure: sure, risk: risk, seconds: seconds, bytes: 8 * int64(d) * int64(2*d) * 5 / 4})
	}
	matrix := func(problem string, m, n int, sure, risk, seconds float64) {
		// A few dozen matrices: probes, sketch and basis.
		rows = append(rows, paperRow{problem: problem, rows: m, cols: n, sure: sure, risk: risk, seconds: seconds, bytes: 8 * int64(m) * int64(n) * 250})
	}
	lasso(250, 0.51, 0.48, 2.54)
	lasso(500, 0.37, 0.50, 2.89)
	lasso(2500, 0.58, 0.51, 3.10)
	lasso(5000, 0.47, 0.53, 9.19)
	lasso(25000, 0.58, 0.54, 287)
	matrix("matrix-completion", 20, 10, 1.16, 1.33, 5.20)
	matrix("matrix-completion", 100, 50, 0.88, 0.96, 49.9)
	matrix("matrix-completion", 200, 100, 0.84, 0.90, 45.1)
	matrix("matrix-completion", 1000, 500, 1.69, 1.70, 41.2)
	matrix("matrix-completion", 2000, 1000, 0.74, 0.74, 114)
	matrix("robust-pca", 10, 10, 5.13, 5.01, 16.0)
	matrix("robust-pca", 50, 50, 0.53, 0.59, 19.9)
	matrix("robust-pca", 100, 100, 0.31, 0.34, 21.5)
	matrix("robust-pca", 500, 500, 0.27, 0.27, 22.1)
	matrix("robust-pca", 1000, 1000, 0.44, 0.44, 31.4)
	return rows
}

func newPaper() *cobra.Command {
	var problem, largest string
	var seed uint64
	var queries int
	cmd := &cobra.Command{
		Use:   "paper",
		Short: "Print the paper's tables with our values and times beside its own",
		Long: `Draws the data sets of Tables I to III of Nobel, Candes and Boyd, estimates their
risk, and prints a row as soon as it is done: SURE per coordinate with its standard
error, the true loss at the same y, the paper's SURE and Monte Carlo risk, our
seconds for solve and divergence, and the paper's on a V100.

The paper's draws are not published: compare SURE with the loss beside it. Rows whose
data do not fit in --largest are left out.`,
		Example: `  surepipe paper --problem matrix-completion
  surepipe paper --largest 1GB --seed 3`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if problem != "all" && !slices.Contains(generators[:3], problem) {
				return usagef("--problem is %q, expected all or one of %s", problem, strings.Join(generators[:3], ", "))
			}
			limit, err := humanize.ParseBytes(largest)
			if err != nil || limit == 0 {
				return usagef("--largest is %q, expected a size such as 1GB", largest)
			}
			if _, err := hutch.NewPlan(hutch.HutchPP, queries, 1<<30); err != nil {
				return planError(err)
			}
			const header = "%-18s %7s %8s  %-15s %7s %8s %9s %8s %13s %10s\n"
			if _, err := fmt.Fprintf(cmd.OutOrStdout(), header, "problem", "d", "p", "SURE/d", "loss/d", "paper's", "its risk", "solve s", "divergence s", "paper's s"); err != nil {
				return err
			}
			for _, row := range paperRows() {
				if problem != "all" && row.problem != problem {
					continue
				}
				if uint64(row.bytes) > limit {
					fmt.Fprintf(cmd.ErrOrStderr(), "surepipe: %s %d x %d is left out: it takes about %s\n", row.problem, row.rows, row.cols, humanize.Bytes(uint64(row.bytes)))
					continue
				}
				line, err := row.run(cmd, seed, queries)
				if err != nil {
					return err
				}
				if _, err := fmt.Fprintln(cmd.OutOrStdout(), line); err != nil {
					return err
				}
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&problem, "problem", "all", "all, "+strings.Join(generators[:3], ", "))
	flags.StringVar(&largest, "largest", humanize.IBytes(memory.TotalMemory()*3/4), "leave out what takes more memory than this")
	flags.Uint64Var(&seed, "seed", 1, "seed of data and probes")
	flags.IntVar(&queries, "queries", hutch.DefaultQueries, "queries of Hutch++")
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc("problem", cobra.FixedCompletions(append([]string{"all"}, generators[:3]...), cobra.ShellCompDirectiveNoFileComp)))
	return cmd
}

// run estimates the row's risk and formats it.
func (r paperRow) run(cmd *cobra.Command, seed uint64, queries int) (string, error) {
	ctx := cmd.Context()
	data, err := generate(r.problem, r.rows, r.cols, r.rows, r.cols, seed)
	if err != nil {
		return "", err
	}
	dev, err := openDevice("auto", 0)
	if err != nil {
		return "", err
	}
	defer dev.Close()
	p, err := problems.New(r.problem, dev, data, problems.Hyper{})
	if err != nil {
		return "", err
	}
	defer p.Release()
	solver, err := vjp.NewSolver(ctx, p.DefaultSolver, p.Solve(), vjp.Options{})
	if err != nil {
		return "", err
	}
	defer solver.Release()
	pipe, err := pipeline.New(dev, solver, p.D, pipeline.Options{Sigma2: *data.Sigma2, Seed: seed, Queries: queries})
	if err != nil {
		return "", err
	}
	risk, err := pipe.Estimate(ctx, data.Y)
	if err != nil {
		return "", err
	}
	d := float64(p.D)
	mark := ""
	if !risk.Trusted() {
		mark = "  NOT CONVERGED"
	}
	return fmt.Sprintf("%-18s %7d %8d  %.3f ± %.3f   %7.3f %8.2f %9.2f %8.3g %13.3g %10.3g%s", r.problem, p.D, p.P, risk.SURE/d, risk.StdErr/d, squaredDistance(risk.MuHat, data.Mu)/d,
		r.sure, r.risk, risk.Solve.Seconds(), risk.Divergence.Seconds(), r.seconds, mark), nil
}
