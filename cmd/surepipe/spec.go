package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"surepipe/problems"
	"surepipe/study"
)

// specHelp describes specifications, except for their operators and regularizers.
const specHelp = `A specification describes a problem in YAML,

    mu_hat(y) = A argmin_b  1/2 ||A b - y||^2 + r(b),

and takes the place of --problem: surepipe run --spec problem.yaml. The named problems are
specifications too: surepipe spec lasso prints that of --problem lasso.

    name: deblur                 # default: the file's name
    data:                        # files are relative to the specification's folder
      file: data.npz             # arrays by name; --data replaces it
      response: price            # of a table (.csv): y is this column, X and groups are of
                                 # the others; also drop, only, categorical, missing, na and
                                 # index, as the flags of surepipe run
      mu: truth.png              # any array: a file of its own, or part of one,
      w: {file: F, array: N, column: C, where: mask}, or numbers:
      h: [0.25, 0.5, 0.25]
    operator: OPERATOR           # y = operator (synthesis b) + noise
    synthesis: OPERATOR          # optional; --out then writes the signal, synthesis b, too
    regularizer: REGULARIZER
    loss: squared                # optional: logistic, multinomial, poisson, {name: huber, delta: 1.5}
    weights: w                   # optional: weights of the observations, see below
    noise: {variances: v}        # optional: noise that is not white, see below
    intercept: true              # default: false; an intercept that is not penalized
    effects: [rows, cols]        # default: none; for a selection of a matrix, likewise
    standardize: true            # default: false; columns of a matrix scaled to variance 1
    lambda: 0.1                  # and lambda2, gamma; takes precedence over a number in
                                 # the data file; --lambda takes precedence over both
    sigma2: auto                 # a number, auto or a method (see surepipe help data)
    solver: {name: fista, tol: 1e-8, max-iter: 10000, derivative: auto}

Sizes follow from y and the arrays where they can; an operator takes shape: n or
shape: [m, n] where they cannot. An image is a matrix, row-major.

lambda: 0.1max is a tenth of the smallest lambda at which everything that it penalizes is
zero (for tv1d: constant). This maximum is known for l1, elastic-net, l2, group-l2,
group-linf, sorted-l1 and nuclear. With coordinates that no weight penalizes it is known
only where the operator has orthogonal columns.

weights: w gives every observation a weight w_i >= 0, a number for each entry of y,

    mu_hat(y) = A argmin_b  1/2 sum_i w_i ((A b)_i - y_i)^2 + r(b),

where w is the name of an array in data or a list of numbers. An observation of weight 0
is left out of the fit, and mu_hat predicts it. The noise still has one variance sigma2 in
every entry of y. For example, a LASSO with weights from the data file:

    data: data.npz               # X (d x p), y (d), w (d)
    operator: {matrix: X}
    regularizer: {l1: lambda}
    weights: w

noise says how the noise of y is not white; y and the operator are whitened, and sigma2, by
default 1, is the variance of what is left. SURE is then the risk of the whitened mean, and
--out writes the mean in the units of y, or the signal. Its kinds are below.

Penalties of an analysis operator, r(D b), have no proximal operator in closed form. Use
a synthesis form instead: A = operator synthesis, with the penalty on the
coefficients b.

`

func newSpec() *cobra.Command {
	return &cobra.Command{
		Use:   "spec [name]",
		Short: "Print a specification to start from, or list them",
		Long:  specHelp + problems.SpecHelp(),
		Example: `  surepipe spec
  surepipe spec lasso > lasso.yaml
  surepipe run --spec lasso.yaml --data diabetes.npz --lambda 20
  surepipe spec wavelet-denoise > denoise.yaml
  surepipe run --spec denoise.yaml --data noisy.png --out clean.png`,
		ValidArgs: problems.SpecNames(),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return study.Errorf("surepipe spec takes one name, found %d", len(args))
			}
			return nil
		},
		RunE: printSpec,
	}
}

func printSpec(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 3, ' ', 0)
		for _, name := range problems.SpecNames() {
			fmt.Fprintf(w, "%s\t%s\n", name, problems.SpecSummary(name))
		}
		return w.Flush()
	}
	text, err := problems.SpecExample(args[0])
	if err != nil {
		return study.Bad(err)
	}
	_, err = fmt.Fprint(cmd.OutOrStdout(), text)
	return err
}
