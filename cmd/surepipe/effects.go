package main

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"surepipe/internal/dataio"
	"surepipe/problems"
	"surepipe/study"
)

const effectsFlag = "matrix-completion: unpenalized effects of the rows and columns of the matrix, rows, cols or rows,cols, each with a constant, or mean for the constant alone (default: a specification's own)"

const weightsFlag = "matrix-completion: in a table, the `column` of positive weights of the entries in the loss 1/2 sum_i w_i (mu_i - y_i)^2 (an archive has them as the array weights)"

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
		return usagef("--effects is empty, expected some of %s, separated by commas", strings.Join(problems.EffectNames(), ", "))
	}
	if f.effects, err = problems.ParseEffects(f.effectNames); err != nil {
		return usagef("--effects: %w", err)
	}
	switch {
	case f.spec == "" && f.effects.Some() && !l.Selection:
		return usagef("--effects is for matrix-completion and specifications, found --problem %s", f.problem)
	case f.effects.Some() && !f.loss.Squared():
		return usagef("--effects is %s, which is for the squared loss, and the loss is %s", strings.Join(f.effectNames, ","), f.loss.Name)
	case changed("weights") && f.spec != "":
		return usagef("--weights is for --problem matrix-completion; a specification has the key weights")
	case changed("weights") && !l.Selection:
		return usagef("--weights is for matrix-completion, found --problem %s; a specification may weigh the observations of other problems", f.problem)
	case changed("weights") && f.table.response == "":
		return usagef("--weights is the name of a column of a table, but --response is missing, which names the column that is y; in an archive the weights are the array weights")
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
	fmt.Fprintf(w, "effects\t%s\tthe constant; unpenalized %s, %d degrees of freedom\n", mean, strings.Join(r.Effects, ","), r.EffectsDF)
}

// observedEntries are the entries of an array that are not NaN, and their places.
func observedEntries(a dataio.Array) (y []float64, places []int64) {
	for c, v := range a.Data {
		if !math.IsNaN(v) {
			y, places = append(y, v), append(places, int64(c))
		}
	}
	return y, places
}

// fromMatrix takes the observed entries from a matrix, or a sequence, in which the missing ones are NaN.
func fromMatrix(a dataio.Array, more map[string]dataio.Array) error {
	y, places := observedEntries(a)
	switch len(y) {
	case 0:
		return fmt.Errorf("array %q is NaN everywhere, expected some observed entries", a.Name)
	case len(a.Data):
		return fmt.Errorf("array %q has shape %s and no NaN, which stands for a missing entry: expected some, or y (d) with indices and shape; --problem svt denoises a whole matrix", a.Name, dataio.ShapeString(a.Shape))
	}
	more["y"] = dataio.Array{Name: "y", Shape: []int{len(y)}, Data: y}
	more["indices"] = dataio.Array{Name: "indices", Shape: []int{len(y)}, Ints: places}
	shape := make([]int64, len(a.Shape))
	for axis, n := range a.Shape {
		shape[axis] = int64(n)
	}
	more["shape"] = dataio.Array{Name: "shape", Shape: []int{len(shape)}, Ints: shape}
	return nil
}

// observed are the arrays with y, indices and shape in the place of a y of so many axes in which NaN stands
// for a missing entry: a matrix, which must have some, or a sequence. A mu like it becomes that of the
// observed entries.
func (a arrays) observed(stacks bool, axes int) (arrays, error) {
	if a.Has("indices") || !a.Has("y") {
		return a, nil
	}
	y, err := a.open("y", "(d,), or (m, n) with NaN for missing entries")
	if err != nil {
		return a, err
	}
	defer y.Close()
	if len(y.Shape()) != axes {
		return a, nil // indices are missing, or there are several sequences
	}
	v, err := y.Floats()
	if err != nil {
		return a, err
	}
	if (stacks || axes == 1) && !slices.ContainsFunc(v.Data, math.IsNaN) {
		return a, nil // samples of observed entries, or a sequence without gaps
	}
	with := a
	with.more = map[string]dataio.Array{}
	maps.Copy(with.more, a.more)
	if err := fromMatrix(v, with.more); err != nil || !a.Has("mu") {
		return with, err
	}
	mu, err := a.open("mu", dataio.ShapeString(v.Shape))
	if err != nil {
		return a, err
	}
	defer mu.Close()
	m, err := mu.Floats()
	if err != nil {
		return a, err
	}
	if slices.Equal(m.Shape, v.Shape) {
		picked := make([]float64, len(with.more["indices"].Ints))
		for i, c := range with.more["indices"].Ints {
			picked[i] = m.Data[c]
		}
		with.more["mu"] = dataio.Array{Name: "mu", Shape: []int{len(picked)}, Data: picked}
	}
	return with, nil
}

// weights are those of the observed entries, nil where there are none.
func (a arrays) weights() ([]float64, error) {
	if !a.Has("weights") {
		return nil, nil
	}
	return a.vector("weights", "(d,), a positive weight for each value of y")
}
