// Package fit keeps the results of an estimate in a file from which new observations can be
// predicted, and predicts them.
//
// The file is a numpy archive:
//
//	b           the estimate: p coefficients in the units of the columns, or an m x n matrix;
//	            of a completion where it has at most 2^24 entries
//	U, S, V     of a completion: the matrix is U diag(S) V*, with U m x r, S of r singular values,
//	            V n x r
//	rows, cols  where they are not all: the m rows and n columns of the matrix for which U, V and the effects
//	            are, those with an observed entry; the others are 0. shape is then that of the matrix
//	mu_hat      the fitted mean, or linear predictor
//	fitted      the fitted mean, where the loss is not squared
//	intercept   where there is one
//	            (of a response of several classes, or of K responses, b is p x K, and intercept has K values)
//	signal      of a specification with a synthesis
//	names       the names of the coefficients, where the data are a table
//	center      the means of the columns, with an intercept
//	scale       the standard deviations of the columns, where they were standardized: mu_hat is in the units of the
//	            columns, and b, U, S, V and the effects of a completion are those of quotients by scale
//	indices     the observed places in the row-major matrix, of a completion
//	effects_mean, effects_rows, effects_cols  of a completion with unpenalized effects
//	row_names, column_names  of the matrix or sequence, where it is from a table
//	fit         a text, a JSON object: see [Info]
//
// The predictions are
//
//	rows        b0 + x b for a new row x of the columns of X
//	entries     b_ij, plus the effects, times scale_j, for an entry of a completed matrix
//
// or, for a loss other than the squared one, the expectation of y at that linear predictor.
package fit

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"surepipe/internal/dataio"
	"surepipe/internal/dataio/ndarray"
	"surepipe/internal/design"
	"surepipe/internal/sublist"
)

// Format is the version of the file's format.
const Format = 1

const (
	Rows    = "rows"
	Entries = "entries"
)

// Info is what the file says about the fit.
type Info struct {
	Format int `json:"surepipe_fit"`
	// Predicts is Rows, Entries, or "" where there is nothing to predict.
	Predicts string `json:"predicts,omitempty"`
	Problem  string `json:"problem"`
	D        int    `json:"d"`
	P        int    `json:"p"`
	Numbers
	// Loss is the loss where it is not the squared one, and LossParameter its parameter. B is then that of
	// the linear predictor.
	Loss          string  `json:"loss_name,omitempty"`
	LossParameter float64 `json:"loss_parameter,omitempty"`
	// Classes name the columns of y where it has several: b has then a column for each.
	Classes []string `json:"classes,omitempty"`
	// Responses are the names of several, for each of which b has a column, and Fits what is known of each.
	Responses []string `json:"responses,omitempty"`
	Fits      []Part   `json:"fits,omitempty"`
	// Intercept and Standardize are the settings.
	Intercept   bool `json:"intercept"`
	Standardize bool `json:"standardize"`
	// EffectNames are the unpenalized effects of a completion: rows, cols or mean.
	EffectNames []string `json:"effects,omitempty"`
	// Design is the coding of the table's columns; nil where the data are arrays.
	Design *design.Design `json:"design,omitempty"`
	// RowsBy and ColumnsBy are the columns of a table of entries that name the rows and the columns
	// of the matrix; empty where the entries come from arrays.
	RowsBy    string `json:"rows_by,omitempty"`
	ColumnsBy string `json:"columns_by,omitempty"`
	// ValueBy is the column of the entries' values, empty where the table is the matrix itself.
	ValueBy string `json:"value_by,omitempty"`
	// NA are the texts that stood for a missing value in the table of the fit, where these were given.
	NA []string `json:"na,omitempty"`
	// Data identifies the data, Version the program, and Command is what made the file, "" where that was no command.
	Command string `json:"command,omitempty"`
	Data    string `json:"data_sha256"`
	Version string `json:"version"`
}

// Numbers are the weights and what was found at them.
type Numbers struct {
	Lambda  any      `json:"lambda,omitempty"`
	Lambda2 any      `json:"lambda2,omitempty"`
	Gamma   any      `json:"gamma,omitempty"`
	Sigma2  *float64 `json:"sigma2,omitempty"`
	// The estimates of risk at the data of the fit, where they are defined.
	SURE       *float64 `json:"sure,omitempty"`
	SUREStdErr *float64 `json:"sure_stderr,omitempty"`
	GCV        *float64 `json:"gcv,omitempty"`
	GCVStdErr  *float64 `json:"gcv_stderr,omitempty"`
	ALO        *float64 `json:"alo,omitempty"`
	ALOStdErr  *float64 `json:"alo_stderr,omitempty"`
	Sigma2DF   *float64 `json:"sigma2_df,omitempty"`
	Divergence float64  `json:"divergence"`
	Converged  bool     `json:"converged"`
}

// Part is what is known of the fit of one of several responses.
type Part struct {
	Response string `json:"response"`
	Numbers
	Data string `json:"data_sha256"`
	// Levels are those of a response of labels.
	Levels []string `json:"levels,omitempty"`
}

// Fit is the content of a file.
type Fit struct {
	Info
	// B is the estimate of shape BShape, nil where the estimator has none or factors stand for it. MuHat is the
	// fitted mean, or linear predictor, of shape MuShape.
	B, MuHat        []float64
	BShape, MuShape []int
	// U, S and V are the factors of a matrix of low rank, B = U diag(S) V* of shape BShape: U is m x r, S
	// holds the r singular values, and V is n x r, row-major. S is not nil where there are factors.
	U, S, V []float64
	// RowsAt and ColumnsAt are the lines of the matrix that U, V and Effects are for, in increasing order, nil for
	// all. The matrix and the effects are 0 in the others.
	RowsAt, ColumnsAt []int
	// B0 is the intercept, nil without one; where y has several columns one for each.
	B0    []float64
	Names []string
	// Center and Scale are nil where the columns were not centered, or not scaled.
	Center, Scale []float64
	// Observed are the observed places of a completion, in any order.
	Observed []int
	// RowNames and ColumnNames name the rows and columns of the matrix, nil where they have no names.
	RowNames, ColumnNames []string
	// Effects are the unpenalized effects of a completion, nil where there are none.
	Effects *Effects
	// More are further arrays of the file, which Load leaves out.
	More []dataio.Array

	// Mean sets dst to the expectations of y at linear predictors, which Load does not set; nil where these are the
	// predictors themselves.
	Mean func(dst, z []float64)

	rowAt, columnAt map[string]int // the places of RowNames and ColumnNames
}

// Effects are unpenalized effects of rows and columns, nil where there are none of these: the
// prediction of entry (i, j) is Mean + Rows_i + Columns_j + b_ij.
type Effects struct {
	Mean          float64
	Rows, Columns []float64
}

func (f *Fit) effects(row, column int) float64 {
	e := f.Effects
	if e == nil {
		return 0
	}
	return e.Mean + sublist.Value(e.Rows, f.RowsAt, row) + sublist.Value(e.Columns, f.ColumnsAt, column)
}

// extent is how many rows and columns U, V and the effects have values for.
func (f *Fit) extent() [2]int {
	n := [2]int(f.BShape)
	for k, list := range [][]int{f.RowsAt, f.ColumnsAt} {
		if list != nil {
			n[k] = len(list)
		}
	}
	return n
}

// Write writes the file.
func (f *Fit) Write(w io.Writer) error {
	arrays, err := f.arrays()
	if err != nil {
		return err
	}
	return dataio.EncodeNPZ(w, arrays...)
}

func (f *Fit) arrays() ([]dataio.Array, error) {
	if f.Format != Format {
		f.Format = Format
	}
	text, err := json.Marshal(f.Info)
	if err != nil {
		return nil, err
	}
	u, sv, v := f.U, f.S, f.V
	var sides [2]int
	if f.S != nil {
		if sides = f.extent(); len(sv) == 0 { // a file has no empty arrays
			u, sv, v = make([]float64, sides[0]), make([]float64, 1), make([]float64, sides[1])
		}
	}
	arrays := []dataio.Array{numbers("mu_hat", f.MuHat, f.MuShape...), numbers("b", f.B, f.BShape...),
		numbers("U", u, sides[0], len(sv)), numbers("S", sv, len(sv)), numbers("V", v, sides[1], len(sv))}
	if f.RowsAt != nil || f.ColumnsAt != nil {
		arrays = append(arrays, integers("shape", f.BShape))
	}
	switch {
	case f.several() != nil && f.B0 != nil:
		arrays = append(arrays, numbers("intercept", f.B0, len(f.B0)))
	case f.B0 != nil:
		arrays = append(arrays, numbers("intercept", f.B0))
	}
	arrays = append(arrays, f.More...)
	if e := f.Effects; e != nil {
		arrays = append(arrays, numbers("effects_mean", []float64{e.Mean}),
			numbers("effects_rows", e.Rows, len(e.Rows)), numbers("effects_cols", e.Columns, len(e.Columns)))
	}
	arrays = append(arrays, numbers("center", f.Center, len(f.Center)), numbers("scale", f.Scale, len(f.Scale)),
		texts("names", f.Names), texts("row_names", f.RowNames), texts("column_names", f.ColumnNames),
		integers("indices", f.Observed), integers("rows", f.RowsAt), integers("cols", f.ColumnsAt),
		dataio.Array{Name: "fit", Shape: []int{}, Texts: []string{string(text)}})
	return slices.DeleteFunc(arrays, func(a dataio.Array) bool {
		return a.Data == nil && a.Ints == nil && a.Texts == nil
	}), nil
}

func numbers(name string, values []float64, shape ...int) dataio.Array {
	return dataio.Array{Name: name, Shape: append([]int{}, shape...), Data: values}
}

func texts(name string, list []string) dataio.Array {
	return dataio.Array{Name: name, Shape: []int{len(list)}, Texts: list}
}

func integers(name string, list []int) dataio.Array {
	a := dataio.Array{Name: name, Shape: []int{len(list)}}
	for _, v := range list {
		a.Ints = append(a.Ints, int64(v))
	}
	return a
}

// Read reads the size bytes of a file.
func Read(r io.ReaderAt, size int64) (*Fit, error) {
	set, err := dataio.NewNPZ(r, size)
	if err != nil {
		return nil, err
	}
	return load(set)
}

func load(set *dataio.Set) (*Fit, error) {
	if !set.Has("fit") {
		return nil, errors.New("holds no fit: expected a file that run --out or sweep --out wrote, with the " +
			"array \"fit\"")
	}
	text, err := set.Texts("fit")
	if err != nil {
		return nil, err
	}
	f := &Fit{}
	if len(text.Texts) != 1 {
		return nil, fmt.Errorf("array \"fit\" has shape %s, expected a single text", ndarray.ShapeString(text.Shape))
	}
	if err := json.Unmarshal([]byte(text.Texts[0]), &f.Info); err != nil {
		return nil, fmt.Errorf("array \"fit\" is not the JSON of a fit (%w)", err)
	}
	switch {
	case f.Format != Format:
		return nil, fmt.Errorf("is a fit of version %d, expected %d: it was written by surepipe %s", f.Format, Format,
			f.Version)
	case f.Predicts == "":
		return nil, fmt.Errorf("is a fit of %s, which has nothing to predict: expected one of a regression or of "+
			"a matrix completion", f.Problem)
	}
	if err := f.loadEstimate(set); err != nil {
		return nil, err
	}
	if set.Has("intercept") {
		v, err := finite(set, "intercept")
		if err != nil {
			return nil, err
		}
		if len(v.Data) != f.each() {
			return nil, fmt.Errorf("array \"intercept\" has shape %s, expected %d numbers",
				ndarray.ShapeString(v.Shape), f.each())
		}
		f.B0 = v.Data
	}
	if f.Predicts == Entries {
		return f, f.loadEntries(set)
	}
	if set.Has("mu_hat") {
		v, err := finite(set, "mu_hat")
		if err != nil {
			return nil, err
		}
		f.MuHat, f.MuShape = v.Data, v.Shape
	}
	switch {
	case f.several() == nil && len(f.BShape) != 1:
		return nil, fmt.Errorf("array \"b\" has shape %s, expected (p,), the coefficients of a regression",
			ndarray.ShapeString(f.BShape))
	case f.several() != nil && (len(f.BShape) != 2 || f.BShape[1] != f.each()):
		return nil, fmt.Errorf("array \"b\" has shape %s, expected (p, %d), the coefficients of each class or response",
			ndarray.ShapeString(f.BShape), f.each())
	case f.Design != nil && len(f.Design.Columns()) != f.BShape[0]:
		return nil, fmt.Errorf("array \"b\" has %d rows, expected %d, as many as the fit has columns", f.BShape[0],
			len(f.Design.Columns()))
	case f.Intercept != (f.B0 != nil):
		return nil, errors.New("the array \"intercept\" and the setting of the fit disagree")
	}
	return f, nil
}

// loadEstimate reads b, or its factors where it was not written down.
func (f *Fit) loadEstimate(set *dataio.Set) error {
	if !set.Has("b") && set.Has("S") {
		return f.loadFactors(set)
	}
	b, err := finite(set, "b")
	f.B, f.BShape = b.Data, b.Shape
	return err
}

// Named is the entry of a row and a column that are given by their names.
func (f *Fit) Named(row, column string) (Entry, error) {
	i, knownRow := f.rowAt[row]
	j, knownColumn := f.columnAt[column]
	switch {
	case !knownRow:
		return Entry{}, fmt.Errorf("%s %.40q is not in the fit", f.RowsBy, row)
	case !knownColumn:
		return Entry{}, fmt.Errorf("%s %.40q is not in the fit", f.ColumnsBy, column)
	}
	return f.At(i, j)
}

// PredictRows returns the linear predictors b0 + X b, in the order of the rows of x.
func (f *Fit) PredictRows(x *mat.Dense) ([]float64, error) {
	n, p := x.Dims()
	if p != f.BShape[0] {
		return nil, fmt.Errorf("X has %d columns, expected %d as in the fit", p, f.BShape[0])
	}
	k := f.each()
	mu := make([]float64, n*k)
	for i := range n {
		for j, v := range x.RawRowView(i) {
			floats.AddScaled(mu[i*k:(i+1)*k], v, f.B[j*k:(j+1)*k])
		}
	}
	return f.shifted(mu)
}

func (f *Fit) each() int { return max(len(f.several()), 1) }

// several are the names of the columns of b where it has several, nil elsewhere.
func (f *Fit) several() []string {
	if f.Responses != nil {
		return f.Responses
	}
	return f.Classes
}

// PredictSparse is PredictRows of a sparse matrix.
func (f *Fit) PredictSparse(x *dataio.Sparse) ([]float64, error) {
	if x.Cols != f.BShape[0] {
		return nil, fmt.Errorf("X has %d columns, expected %d as in the fit", x.Cols, f.BShape[0])
	}
	k := f.each()
	mu := make([]float64, x.Rows*k)
	for i := range x.Rows {
		for u := x.IndPtr[i]; u < x.IndPtr[i+1]; u++ {
			j := x.Indices[u]
			floats.AddScaled(mu[i*k:(i+1)*k], x.Values[u], f.B[j*k:(j+1)*k])
		}
	}
	return f.shifted(mu)
}

func (f *Fit) shifted(mu []float64) ([]float64, error) {
	for i := range mu {
		if f.B0 != nil {
			mu[i] += f.B0[i%len(f.B0)]
		}
		if math.IsNaN(mu[i]) || math.IsInf(mu[i], 0) {
			return nil, fmt.Errorf("the prediction of row %d is %g: X is not finite, or too large", i/f.each(), mu[i])
		}
	}
	return mu, nil
}
