package main

import (
	"fmt"
	"log/slog"
	"math"

	"github.com/spf13/cobra"

	"surepipe/dataio"
	"surepipe/pipeline"
	"surepipe/problems"
)

func newRun() *cobra.Command {
	var f estimatorFlags
	var out string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Estimate the risk at one y",
		Long: `Solves one problem, differentiates the solution, and prints Stein's unbiased
estimate of the risk with its standard error.

Results go to standard output, everything else to standard error. Exit status:
0 done, 1 a failure, 2 bad usage or bad input, 3 not converged (the result is
printed all the same), 130 interrupted.

` + dataHelp,
		Example: `  surepipe run --problem lasso --data diabetes.npz --lambda 20
  surepipe run --problem ridge --data diabetes.npz --lambda 0.1 --json
  surepipe run --problem matrix-completion --data mc.npz --lambda 0.25max --out fit.npz
  surepipe run --problem robust-pca --data video.npz --sigma2 4 --lambda 60 --gamma 8 --trace hutchinson --queries 300`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runRun(cmd, &f, out, asJSON)
		},
	}
	f.register(cmd, 1)
	cobra.CheckErr(cmd.Flags().MarkHidden("parallel"))
	cmd.Flags().StringVar(&out, "out", "", "write mu_hat and b to this .npz `file`")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	cobra.CheckErr(cmd.MarkFlagFilename("out", "npz"))
	return cmd
}

const dataHelp = `The data are arrays in numpy's .npz format:

  ols, ridge, lasso, elastic-net   X (d x p), y (d)
  svt, robust-pca                  y (m x n)
  matrix-completion                y (d), indices (d, places in the row-major
                                   m x n matrix), shape (m, n)
  any, optional                    mu (as y), and the scalars sigma2, lambda,
                                   lambda2, gamma, used where no flag is given`

func runRun(cmd *cobra.Command, f *estimatorFlags, out string, asJSON bool) error {
	ctx := cmd.Context()
	if err := f.check(cmd); err != nil {
		return err
	}
	if out != "" {
		if err := checkWritable(out); err != nil {
			return err
		}
	}
	dev, err := f.openDevice(cmd)
	if err != nil {
		return err
	}
	file, err := readData(f.data, f.problem)
	if err != nil {
		dev.Close()
		return err
	}
	bar := newProgress(cmd.ErrOrStderr())
	job, err := f.open(cmd, dev, file.Data, func(p pipeline.Progress) { bar.set(p.Done, p.Total) })
	if err != nil {
		return err
	}
	defer job.close()
	f.warn(cmd, job.problem)
	risk, err := job.pipeline.Estimate(ctx, file.Y)
	bar.done()
	if err != nil {
		return err
	}
	r := f.result(job)
	r.fill(risk, file.Mu)
	if out != "" {
		if err := writeEstimate(out, job.problem, risk); err != nil {
			return err
		}
	}
	if asJSON {
		err = writeLine(cmd.OutOrStdout(), r)
	} else {
		err = r.writeTable(cmd.OutOrStdout())
	}
	if err == nil {
		err = f.converged(cmd, risk)
	}
	return err
}

// converged says what to try, and returns errNotConverged, where a result is not
// what was asked for.
func (f *estimatorFlags) converged(cmd *cobra.Command, risk pipeline.Risk) error {
	if risk.Implausible {
		fmt.Fprintf(cmd.ErrOrStderr(), "surepipe: a divergence of %g is none that such an estimator can have (0 to %d): the iteration's derivative has not settled; ask for a smaller --tol with more --max-iter, or --derivative implicit\n",
			risk.Trace.Trace, len(risk.MuHat))
		return errNotConverged
	}
	if !risk.Converged && risk.Derivative == "direct" {
		fmt.Fprintf(cmd.ErrOrStderr(), "surepipe: the closed form leaves an optimality of %.1e: X is ill conditioned; mu_hat and its risk may be good all the same, b is not well determined\n", risk.Optimality)
		return errNotConverged
	}
	if !risk.Converged {
		fmt.Fprintf(cmd.ErrOrStderr(), "surepipe: not converged after %d iterations: optimality %.1e, asked for %.1e; raise --max-iter, or --tol if that is enough, or try another --solver\n",
			risk.Iterations, risk.Optimality, f.tol)
		return errNotConverged
	}
	if risk.Unsolved > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "surepipe: the derivative is not converged: %d probes stopped short after %d steps, for the solution is nearly not unique; raise the weight of the regularizer, or try --derivative unrolled\n",
			risk.Unsolved, risk.InnerSteps)
		return errNotConverged
	}
	return nil
}

// warn says what the user should know about the estimator that the flags ask for.
func (f *estimatorFlags) warn(cmd *cobra.Command, p *problems.Problem) {
	if p.Relative {
		fmt.Fprintln(cmd.ErrOrStderr(), "surepipe: a weight is a multiple of its maximum at this y, so the estimator looks at y: SURE is only approximately unbiased")
	}
}

// hyper parses the weights.
func (f *estimatorFlags) hyper() (h problems.Hyper, err error) {
	for _, w := range []struct {
		flag, text string
		to         *problems.Weight
	}{{"--lambda", f.lambda, &h.Lambda}, {"--lambda2", f.lambda2, &h.Lambda2}, {"--gamma", f.gamma, &h.Gamma}} {
		if w.text == "" {
			continue
		}
		if *w.to, err = problems.ParseWeight(w.text); err != nil {
			return h, usagef("%s is %w", w.flag, err)
		}
	}
	return h, nil
}

// result is what the flags and the problem say about every sample.
func (f *estimatorFlags) result(j *job) result {
	weight := func(v float64) *number {
		if math.IsNaN(v) {
			return nil
		}
		n := number(v)
		return &n
	}
	return result{
		Problem: j.problem.Name, D: j.problem.D, P: j.problem.P, Sigma2: j.sigma2,
		Lambda: weight(j.problem.Lambda), Lambda2: weight(j.problem.Lambda2), Gamma: weight(j.problem.Gamma),
		Solver: solverResult{Name: j.solver.Name()}, Device: j.dev.Name(), Version: version(),
	}
}

// writeEstimate writes mu_hat and b.
func writeEstimate(path string, p *problems.Problem, risk pipeline.Risk) error {
	return dataio.WriteNPZ(path,
		dataio.Array{Name: "mu_hat", Shape: p.MuShape, Data: risk.MuHat},
		dataio.Array{Name: "b", Shape: p.BShape, Data: risk.B},
	)
}

// logger writes to standard error when --verbose asks for it.
func (f *estimatorFlags) logger(cmd *cobra.Command) *slog.Logger {
	if !f.verbose {
		return nil
	}
	return slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))
}
