package spec

import (
	"fmt"
	"math"
	"slices"
	"sync"

	"gonum.org/v1/gonum/mat"

	"surepipe/internal/dataio"
	"surepipe/internal/design"
	"surepipe/internal/stored"
	"surepipe/linops"
	"surepipe/linops/together"
	"surepipe/loss"
)

// Data is the data of a problem, from a file or from memory. The arrays are not modified, and must
// not be modified while a problem made of them is in use.
type Data struct {
	// X is the d x p design matrix of the regression problems: a *mat.Dense, a [Matrix], which may be
	// sparse or stay in its file, or any other matrix.
	X mat.Matrix
	// D is the q x p matrix behind which the penalty of generalized-lasso stands; likewise.
	D mat.Matrix
	// Y holds the observations, row-major where they form a matrix. YShape is their shape: (d)
	// for regression, completion and sequences, (m, n) for svt, robust PCA and sequences side
	// by side. A nil YShape stands for (len(Y)).
	Y      []float64
	YShape []int
	// Indices are the observed entries of matrix completion, as places in the row-major
	// matrix of shape Shape, or of a sequence with gaps of length Shape[0]. Y[i] is the value at
	// Indices[i].
	Indices []int
	Shape   []int
	// Groups labels each column of X with its group, where the penalty is one of groups.
	Groups []int
	// At are the places of the values of a sequence, increasing, where they are not evenly spaced; else nil.
	At []float64
	// Complex says that Y and Mu are complex numbers: the last axis of YShape is their real and
	// imaginary part. sigma2 is the variance of either part.
	Complex bool
	// Mu is the true mean, of the shape of Y, where it is known.
	Mu []float64
	// Sigma2, Lambda, Lambda2 and Gamma are the file's own settings, nil where it has none.
	Sigma2, Lambda, Lambda2, Gamma *float64
	// Weights are those of the observations in the loss, 1/2 sum_i w_i (mu_i - y_i)^2 for the squared one, one for
	// each value of Y, where the specification has none of its own; nil for ones. Of the named problems
	// regressions and matrix-completion have them.
	Weights []float64
	Beside
	// Frames is (f, h, w) where the f columns of Y are the frames of a video of h x w pixels; else
	// nil.
	Frames []int
	// or the squared one.
	Loss Loss
	// Intercept asks for an unpenalized intercept, in a regression or in a specification without a
	// synthesis. It is the only setting for the intercept.
	Intercept   bool
	Standardize bool
	// Effects asks for unpenalized effects of the rows and columns of a matrix of which entries are
	// observed.
	Effects Effects
	Variant
	Origin
	// Spec is the specification of the data, as set by [Spec.Load]; nil for the named problems.
	Spec *Spec
}

// Common is the operator of problems that differ in y alone, with its columns as the first of them has prepared them.
type Common struct {
	*together.Joint
	Operator linops.Operator
	// Problems is their number, and Memory the bytes that columns may take for all of them.
	Problems int
	Memory   int64
	// Columns are what the first problem knows of them.
	Columns any
	// Release frees what they hold, after the problems; it is nil before there is one.
	Release func()

	hashing, spreading sync.Once
	hash               []byte
	means, deviations  []float64
}

// Hash is the state of a hash after X, which compute finds once.
func (c *Common) Hash(compute func() []byte) []byte {
	c.hashing.Do(func() { c.hash = compute() })
	return c.hash
}

// Spread are means and deviations of X's columns, which compute finds once.
func (c *Common) Spread(compute func() (means, deviations []float64)) (means, deviations []float64) {
	c.spreading.Do(func() { c.means, c.deviations = compute() })
	return c.means, c.deviations
}

// Shared is the part of the problems of one y in what is common to several.
type Shared struct {
	*Common
	Member *together.Member
}

// Settings takes sigma2 and these weights from the arrays of a file, where the data do not have them.
func (d *Data) Settings(set *dataio.Set, weights ...string) error {
	to := ByWeight(&d.Lambda, &d.Lambda2, &d.Gamma)
	to["sigma2"] = &d.Sigma2
	for _, name := range append([]string{"sigma2"}, weights...) {
		if !set.Has(name) || *to[name] != nil {
			continue
		}
		v, err := set.Scalar(name)
		if err != nil {
			return err
		}
		*to[name] = &v
	}
	return nil
}

// Beside are numbers for each observation beside y.
type Beside struct {
	// Offset is what the linear predictor has besides A b, in a loss that is not squared; nil for nothing. With the
	// squared loss it has been subtracted from Y and Mu.
	Offset []float64
	loss.Times
}

// Variant is a variant of the penalty of some named problems.
type Variant struct {
	// Anisotropic takes the sum of |K b|_i in place of that of norms across planes, joint-l2: total
	// variation along each axis for itself. Vectorial takes the norms of joint-l2 across the channels of
	// an image too.
	Anisotropic, Vectorial bool
	// Order is that of a trend, or how often differences are taken, nil for its own.
	Order *int
	// Mix is alpha of an elastic net lambda (alpha ||b||_1 + (1 - alpha)/2 ||b||^2), from above 0 to 1; nil for one
	// with two weights.
	Mix *float64
	// Units are the standard deviations by which the columns of a matrix with missing entries were divided in Y and
	// Mu, one for each column of Shape; nil where they were not. Sigma2 and all estimates of risk are those of the
	// quotients.
	Units []float64
	Coordinates
}

// Origin is what is known of the files that data come from.
type Origin struct {
	// Shared is what problems with other y on the same X hold together, nil for one alone.
	Shared *Shared
	// Table is the table that X and y come from; nil where they come from arrays.
	Table *design.Data
	// Entries are the entries that y, Indices and Shape come from, with the names of the rows and
	// columns of the matrix; nil where they come from arrays.
	Entries *design.Entries
	// Depth is that of the image that Y was read from.
	Depth dataio.Depth
	// Ignored are the arrays of the file of data that nothing uses.
	Ignored []string
	// Columns are the names of the columns of X where it is an array with names.
	Columns []string
	// Labels name the rows and columns of y, or of the whole sequence, as its file does.
	Labels dataio.Labels
	// Stack holds the samples where y has one more axis than the problem's y; it is nil where y is
	// a single sample. The samples share one array; Y is the first.
	Stack [][]float64
	// Simulated says that the file has no y, and that Y is Mu.
	Simulated bool
	// EffectsChoice says how Effects were chosen; nil where they were given.
	EffectsChoice *EffectsChoice
	// Observed are arrays with a number for each value of y, by the names of the options of a table that name them.
	Observed map[string][]float64
}

// Matrix is a matrix as it is stored: dense or sparse in memory, or in its file. One field is set; none
// is in the zero Matrix, of size 0. It is a mat.Matrix, of which single entries are slow to take.
type Matrix struct {
	Dense  *mat.Dense
	Sparse *dataio.Sparse
	// Stored must have been scanned.
	Stored *stored.Matrix
}

// MatrixOf is any matrix as one of these. A copy is made of what is neither a *mat.Dense nor a Matrix.
func MatrixOf(x mat.Matrix) Matrix {
	switch x := x.(type) {
	case nil:
		return Matrix{}
	case Matrix:
		return x
	case *mat.Dense:
		return Matrix{Dense: x}
	}
	return Matrix{Dense: mat.DenseCopyOf(x)}
}

// Empty reports whether the matrix has no entries.
func (m Matrix) Empty() bool {
	d, p := m.Dims()
	return d == 0 || p == 0
}

// Dims are the numbers of rows and columns.
func (m Matrix) Dims() (rows, cols int) {
	switch {
	case m.Sparse != nil:
		return m.Sparse.Rows, m.Sparse.Cols
	case m.Stored != nil:
		return m.Stored.Rows, m.Stored.Cols
	case m.Dense != nil:
		return m.Dense.Dims()
	}
	return 0, 0
}

// At is an entry.
func (m Matrix) At(i, j int) float64 {
	switch {
	case m.Sparse != nil:
		s := m.Sparse
		line := s.Indices[s.IndPtr[i]:s.IndPtr[i+1]]
		if at, found := slices.BinarySearch(line, j); found {
			return s.Values[s.IndPtr[i]+at]
		}
		return 0
	case m.Stored != nil:
		return m.Stored.At(i, j)
	}
	return m.Dense.At(i, j)
}

// T is the transpose.
func (m Matrix) T() mat.Matrix { return mat.Transpose{Matrix: m} }

// ToDense is the matrix in memory, dense; it must not be modified.
func (m Matrix) ToDense() *mat.Dense {
	s := m.Sparse
	switch {
	case m.Dense != nil:
		return m.Dense
	case s == nil:
		return mat.DenseCopyOf(m)
	}
	x := mat.NewDense(s.Rows, s.Cols, nil)
	for i := range s.Rows {
		for u := s.IndPtr[i]; u < s.IndPtr[i+1]; u++ {
			x.Set(i, s.Indices[u], s.Values[u])
		}
	}
	return x
}

// Coordinates are numbers for each coefficient of a regression, nil where none are given.
type Coordinates struct {
	// Factors multiply the penalty of each; one of 0 has none. Lower and Upper are bounds, which enclose 0, in the
	// units of the columns; they may be infinite.
	Factors, Lower, Upper []float64
}

// Check rejects factors and bounds that do not fit p coefficients.
func (c Coordinates) Check(p int) error {
	for i, list := range [][]float64{c.Factors, c.Lower, c.Upper} {
		name := []string{"factors", "lower", "upper"}[i]
		if list != nil && len(list) != p {
			return fmt.Errorf("array %q has %d values, expected %d, one for each coefficient", name, len(list), p)
		}
		if j, expected := WrongCoordinate(name, list); j >= 0 {
			return fmt.Errorf("array %q holds %g at [%d], expected %s", name, list[j], j, expected)
		}
	}
	return nil
}

// WrongCoordinate is the first of the factors, lower or upper bounds that is none, -1 if all are, and what is expected.
func WrongCoordinate(name string, list []float64) (at int, expected string) {
	bad := func(v float64) bool { return !(v >= 0) }
	switch name {
	case "factors":
		expected, bad = "finite numbers of at least 0", func(v float64) bool { return !(v >= 0) || math.IsInf(v, 0) }
	case "lower":
		expected, bad = "numbers of at most 0", func(v float64) bool { return !(v <= 0) }
	default:
		expected = "numbers of at least 0"
	}
	return slices.IndexFunc(list, bad), expected
}
