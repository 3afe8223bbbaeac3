package main

import (
	"fmt"
	"io"
	"strings"

	"surepipe/problems"
	"surepipe/study"
)

const effectsFlag = "matrix-completion: unpenalized effects of the rows and columns of the matrix, rows, cols or " +
	"rows,cols, each with a constant, or mean for the constant alone (default: a specification's own)"

const weightsFlag = "matrix-completion: in a table, the `column` of positive weights of the entries in the loss " +
	"1/2 sum_i w_i (mu_i - y_i)^2 (an archive has them as the array weights)"

// effectsHelp describes effects, weights and matrices with missing entries.
const effectsHelp = `Completions. With --effects rows,cols the fit of an entry is

  mu_ij = c + r_i + s_j + B_ij

where only B has a penalty, so that users who like everything and items that everybody likes do
not take up its rank. Weighted entries, the array weights (d) or the column of --weights, count
w_i times in the loss. The degrees of freedom of the effects (the rows and columns with entries,
less one for each connected part of the table) are part of the divergence, gcv and alo. An
observation that determines an effect alone, such as the only rating of a user, cannot be left
out: alo is the mean over the others, and alo_not_left_out their number.
A matrix with NaN, or empty cells, in the place of missing entries does in place of y, indices and
shape: the array y (m x n) of an archive, a .npy file, or a .csv file, whose header line and first
column without a name, if any, name the columns and the rows.

`

// checkEffects rejects effects and weights where there are none, and reads the names.
func (f *estimatorFlags) checkEffects(changed func(flag string) bool, l problems.Layout) (err error) {
	if changed("effects") && len(f.effectNames) == 0 {
		return usagef("--effects is empty, expected some of %s, separated by commas",
			strings.Join(problems.EffectNames(), ", "))
	}
	if f.Effects, err = problems.ParseEffects(f.effectNames); err != nil {
		return usagef("--effects: %w", err)
	}
	switch {
	case f.Spec == "" && f.Effects.Some() && !l.Selection:
		return usagef("--effects is for matrix-completion and specifications, found --problem %s", f.Problem)
	case f.Effects.Some() && !f.Loss.Squared():
		return usagef("--effects is %s, which is for the squared loss, and the loss is %s",
			strings.Join(f.effectNames, ","), f.Loss.Name)
	case changed("weights") && f.Spec != "":
		return usagef("--weights is for --problem matrix-completion; a specification has the key weights")
	case changed("weights") && !l.Selection:
		return usagef("--weights is for matrix-completion, found --problem %s; a specification may weigh the "+
			"observations of other problems", f.Problem)
	case changed("weights") && f.Table.Response == "":
		return usagef("--weights is the name of a column of a table, but --response is missing, which names the " +
			"column that is y; in an archive the weights are the array weights")
	}
	return nil
}

// writeEffects prints them as a row of a table.
func writeEffects(r *study.EffectsResult, w io.Writer) {
	if r.Effects == nil {
		return
	}
	mean := ""
	if r.EffectsMean != nil {
		mean = fmt.Sprintf("%.6g", *r.EffectsMean)
	}
	fmt.Fprintf(w, "effects\t%s\tthe constant; unpenalized %s, %d degrees of freedom\n", mean,
		strings.Join(r.Effects, ","), r.EffectsDF)
}
