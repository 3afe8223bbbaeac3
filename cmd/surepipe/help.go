package main

import (
	"cmp"
	"fmt"
	"strings"

	"surepipe/cmd/surepipe/internal/cli"
	"surepipe/internal/dataio"
	"surepipe/internal/noise"
	"surepipe/loss"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/risk"
)

func formatsHelp() string {
	var b strings.Builder
	for _, f := range dataio.Formats() {
		names := strings.Join(f.Extensions, ", ")
		for line := range strings.Lines(f.Help) {
			fmt.Fprintf(&b, "  %-14s %s\n", names, strings.TrimSuffix(line, "\n"))
			names = ""
		}
	}
	return b.String()
}

func dataHelp() string {
	return arraysHelp() + "\n" + tableHelp + storageHelp + execHelp + "\n" + criteriaHelp() + "\n\n" + lossesHelp()
}

func arraysHelp() string {
	return `The data of a problem are these arrays:

` + layoutHelp() + `  any, optional                    mu (as y), and the scalars sigma2, lambda,
                                   lambda2, gamma, used where no flag is given

They come from --data, a file of any of these formats:

` + formatsHelp() + `
--X, --y and --mu each name a file of their own, in any of these formats. FILE:NAME is one
array of a .npz, .mat or .h5 file.

` + effectsHelp + `Regressions of arrays have no intercept, unless X has a constant column or --intercept adds
one. The intercept of --intercept is not penalized, and its degree of freedom is part of the
divergence; the output has it. b refers to the columns of X as they are in the file.

--sigma2 auto estimates the variance of the noise, by the method that applies:

` + methodsOfSigma2() + `
The errors of smooth-blocks and robust-low-rank include the texture, and the small outliers, that
may be left in them. gcv-residual takes fits first, the same for run, sweep and montecarlo, at the
other weights given; it is biased up by the squared bias of its fit over d - df.

--sigma2 mad and so on force one; the output names the method. One whose assumption has no
meaning for the data is an error: mad and smooth-blocks take y for a signal, and the rows of
a regression may be in any order. A SURE of less than -3 error bars is marked
sigma2-too-large: SURE estimates a squared error, and falls as sigma2 rises.

An estimate with relative standard error e (sigma2_rel_stderr in the output)
contributes e sigma2 (2 divergence - d) to the error of SURE, and sure_stderr is then
sqrt(bar^2 + (e sigma2 (2 divergence - d))^2), where bar is the error bar for a known
sigma2, about sigma2 sqrt(2 d).
`
}

func methodsOfSigma2() string {
	var b strings.Builder
	for _, m := range noise.Methods() {
		b.WriteString(cli.Hanging(fmt.Sprintf("  %-22s", m.Name), strings.Fields(m.Help), 96))
	}
	return b.String()
}

// layoutHelp lists the arrays of the named problems, grouping those with the same layout.
func layoutHelp() string {
	var layouts []problems.Layout
	names := map[problems.Layout][]string{}
	for _, n := range problems.Registered() {
		if names[n.Layout] == nil {
			layouts = append(layouts, n.Layout)
		}
		names[n.Layout] = append(names[n.Layout], n.Name)
	}
	var s strings.Builder
	for _, l := range layouts {
		who := strings.Join(names[l], ", ")
		for line := range strings.SplitSeq(l.Arrays, "\n") {
			fmt.Fprintf(&s, "  %-32s %s\n", who, line)
			who = ""
		}
	}
	return s.String()
}

// criteriaHelp explains the numbers by which weights may be chosen.
func criteriaHelp() string {
	var b strings.Builder
	b.WriteString("Beside SURE, these numbers need no sigma2 (df is the divergence, RSS the residual):\n\n")
	for r := range risk.Rules() {
		if !r.Sigma2 {
			writeTerm(&b, string(r.Name), r.Help)
		}
	}
	writeTerm(&b, "sigma2_df", "RSS / (d - df): an estimate of sigma2, too large by the squared bias of the fit")
	b.WriteString("\nWithout sigma2 everything else is computed, and SURE and its error are left out.")
	return b.String()
}

func writeTerm(b *strings.Builder, name, text string) {
	for line := range strings.Lines(text) {
		fmt.Fprintf(b, "  %-10s %s\n", name, strings.TrimSuffix(line, "\n"))
		name = ""
	}
}

// tableHelp describes tables, and the scale of lambda.
var tableHelp = `Tables. With --response, --data is a table with a header line, as R, pandas and spreadsheets
write it: cells between commas, semicolons, tabs or spaces, quoted or not, decimal points, or
decimal commas where the separator is no comma. A first column without a name has the names of
the rows. Empty cells and ` + strings.Join(dataio.MissingMarks, " ") + ` are missing: see
--missing, and --na for other texts. A mark in quotes is a text, unless its column is one of
numbers; quoted numbers are texts where another cell of their column is one. A column of texts
has a column of zeros and ones in X for each of its levels, named column=level; of two levels
beside an intercept, and for ols, the first has none. group-lasso penalizes the columns of X
that come from one column of the table as a group. matrix-completion takes the observed entries
from a table with two columns besides the response (--only names them), of which the first names
the row of the matrix and the second its column, by numbers or texts. Texts that are equal
numbers, such as 1 and 1.0, are one name, where all names are numbers. Tables of regressions have
an intercept and standardized columns, if --intercept=false or --standardize=false do not say
otherwise.

Of a table of a sequence (tv1d, trend1d, whittaker) --response is the column of its values, in the
order of the rows, and the first other column its index, if it holds dates such as 2020-01-31,
2020-01 or 2020Q1, with or without a time, or numbers in order; --index names another. --out, a
.csv file, has it too. Whittaker's differences are divided by the distances of the index, in days
or what part of one is needed; months and quarters count as equal where all are there. The others
take its steps for equal, with a warning where they differ. With --missing drop, values may be
missing: they are estimated from the others.

With --standardize the penalty is on b_j s_j, where s_j = sqrt(sum_i (x_ij - mean_j)^2 / d) is
the standard deviation of column j; mean and deviation go by the weights of the observations where
there are some. The loss is 1/2 ||y - X b||^2, a sum and not a mean. So glmnet(X, y, lambda = l) has
the same LASSO as lambda = d l here, and its elastic net (alpha = a) is lambda = d l a, lambda2 =
d l (1 - a) / s_y, with s_y the standard deviation of y. The alpha of scikit-learn's Lasso is
lambda / d.

`

// effectsHelp describes effects, weights and matrices with missing entries.
const effectsHelp = `Completions. The fit of an entry is

  mu_ij = c + r_i + s_j + B_ij

where only B has a penalty, so that users who like everything and items that everybody likes do
not take up its rank; --effects none leaves c, r and s out. Weighted entries, the array weights
(d) or the column of --weights, count w_i times in the loss. The degrees of freedom of the effects
(the rows and columns with entries, less one for each connected part of the table) are part of the
divergence, gcv and alo. An observation that determines an effect alone, such as the only rating
of a user, cannot be left out: alo is the mean over the others, and alo_not_left_out their number.
A matrix with NaN, or empty cells, in the place of missing entries does in place of y, indices and
shape: the array y (m x n) of an archive, a .npy file, or a .csv file, whose header line and first
column without a name, if any, name the columns and the rows.

`

const storageHelp = `A matrix X that is larger than memory is read where it lies, with --storage mapped, by the
solver active-set: it holds the columns that matter in memory, up to the bytes of --memory for
each sample or chain of weights in flight, solves for several weights of a path on them, and
takes one pass over the file to verify these solutions for all columns. The result says how many
passes it took (storage in the JSON, and --explain). Files in C order are read row by row, those
in Fortran order column by column. Means, standard deviations, products with y and the hash of
the data come from a first pass. Other solvers work too, by a pass for every product with X; a
loss other than the squared one takes some passes for each of its Newton steps, and --verify
hundreds of passes.

A sparse X, as scipy.sparse.save_npz writes it with compressed=False, in the formats csr and csc,
is read in the same way, and the columns that matter are held in memory as a sparse matrix. The
places of the rows or columns in the file (indptr) are in memory, 8 bytes each. Indices increase
in each row or column (scipy's sum_duplicates).

X of a .bed file (PLINK 1, with its .bim and .fam beside it) are the numbers of copies of the
first allele; missing genotypes are the mean of the column. --standardize and --intercept need no
other file. y comes from --y, in the order of the .fam.

With --storage float32, or a file of float32, the values of X are rounded to 24 bits, a relative
error of 6e-8 each; all sums are in float64. The estimates are exact for the rounded X. In
measurements on 300 x 2000 columns with correlations of 0 to 0.99999 between neighbours mu_hat
moved by 1e-8 to 2e-8 ||y||, and SURE by less than 1e-7 of its error bar.

`

func lossesHelp() string {
	var b strings.Builder
	b.WriteString("The losses are\n\n")
	for _, k := range loss.Kinds() {
		writeTerm(&b, k.Name, cmp.Or(k.Help, "1/2 ||A b - y||^2"))
	}
	return b.String() + "\n" + lossHelp
}

// lossHelp explains losses other than the squared one.
const lossHelp = `With --loss other than squared mu_hat is the linear predictor A b, and the output has

  loss_name      the loss (the key "loss" is ||mu_hat - mu||^2)
  loss_value     the loss at mu_hat, for logistic, multinomial and poisson minus the logarithm
                 of the likelihood without terms of y alone; deviance is twice its excess over
                 the least that any mu_hat could reach
  divergence     the degrees of freedom df: the trace of the derivative of the weighted
                 least squares problem that this one is at its solution
  alo            leave-one-out, always on: the mean loss of an observation that is left
                 out, by one Newton step towards the fit to all others; with cox the change
                 of the partial likelihood, by steps that are repeated until they settle
  aic, bic       minus twice the logarithm of the likelihood, with its terms of y alone, + 2 df
                 or log(d) df; not for huber, whose scale is not known

With multinomial intercepts takes the place of intercept, a number for each class, coefficients
are named class:coefficient, and b in the file of --out has a column for each class.

--out also holds fitted, the estimate of the mean of y: probabilities of classes. mu of the data
is not used with logistic, multinomial and poisson, where mu_hat is no estimate of it. SURE, gcv
and sigma2_df are for the squared loss alone. 0.1max refers to the weight at which only the
intercept is left.`

// execHelp describes --exec.
var execHelp = `--exec 'PROGRAM ARGUMENT...' takes the place of --problem: any program is the estimator, also one
that is not ours. It reads y as a numpy .npy array of float64, in its shape, from standard
input, and writes mu_hat, of the same shape, to standard output in the same format. {lambda},
{lambda2} and {gamma} in its arguments are replaced by the weights. It runs once for each value,
--parallel at a time, and must give the same answer each time. y comes from --data or --y, an
array of any shape; words are split at blanks, with quotes as in a shell, but there is no
shell: for pipes and variables, name one, sh -c '...'.

Its risk is estimated by --divergence:

` + methodsHelp() + `
--queries is the number of values, by default as many as --trace-error requires. For example,
hard thresholding as hard.py, and another program's denoising as tv.py:

  import io, sys, numpy as np
  y = np.load(io.BytesIO(sys.stdin.buffer.read()))
  np.save(sys.stdout.buffer, y * (abs(y) > float(sys.argv[1])))

  import io, sys, numpy as np
  from skimage.restoration import denoise_tv_chambolle
  y = np.load(io.BytesIO(sys.stdin.buffer.read()))
  np.save(sys.stdout.buffer, denoise_tv_chambolle(y, weight=float(sys.argv[1])))
`

func methodsHelp() string {
	var b strings.Builder
	for _, row := range pipeline.BlackBoxRows() {
		fmt.Fprintf(&b, "  %-18s %s\n", row.Name, strings.ReplaceAll(row.Help, "\n", "\n"+strings.Repeat(" ", 21)))
	}
	return b.String()
}

const execMonteCarloHelp = `--exec 'PROGRAM ARGUMENT...' takes the place of --problem (see above). At many samples they
are simulated around the array mu of --data, or of --mu, of any shape; or they are those of
--y, or of an array y with one more leading axis than mu. Each has probes, or draws, of its
own. They are done one after the other, each with up to --parallel calls at once.
`

// execExample are two programs that are not ours.
const execExample = `
  surepipe run --exec 'python3 hard.py {lambda}' --data signal.npy --sigma2 1 --lambda 2 \
      --divergence antithetic
  surepipe run --exec 'python3 tv.py {lambda}' --data noisy.png --sigma2 auto --lambda 0.1 \
      --out clean.png`
