package problems

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"surepipe/internal/lists"
	"surepipe/internal/parallel"
	"surepipe/linops"
	"surepipe/linops/additive"
	"surepipe/linops/outofcore"
	"surepipe/problems/spec"
)

// prepare makes the problem's operator that of the remaining problem for an intercept and
// standardized columns:
//
//	with an intercept    A - 1 m*, with m the means of A's columns, so that a constant in mu_hat
//	                     belongs to the intercept alone
//	standardized         the same, or A, times diag(1/s), with s_j the standard deviation of column
//	                     j, sqrt(sum_i w_i (a_ij - m_j)^2 / sum_i w_i), with or without an intercept, where m_j is
//	                     the mean with the weights w of the observations, nil for ones
//
// A dense or small sparse matrix is centered and scaled in one copy, which keeps closed forms and the
// accuracy of nearly constant columns; the matrix itself, from, is released. Another sparse matrix is
// scaled in a copy of its entries, and centered in each product. from is nil where the operator was
// not made of an array.
func (p *Problem) prepare(from *spec.Source, intercept, standardize bool, w []float64) error {
	if from != nil && from.Stored != nil {
		if standardize && w != nil {
			return fmt.Errorf("standardized columns and weights of the observations are asked for, which a matrix " +
				"that stays in its file cannot have at once: expected --storage memory")
		}
		p.prepareStored(from.Stored, intercept, standardize)
		return nil
	}
	if matrix := matrixOf(p.Operator, smallSparse); matrix != nil && intercept {
		c, means, constant := additive.CenterColumns(matrix())
		if standardize {
			p.scales = deviations(c, w)
			divideColumns(c, p.scales)
		}
		op := linops.NewDense(p.dev, c)
		if from != nil {
			from.Operator.Release()
		}
		p.parts.Own(op.Release)
		p.Operator, p.means, p.NearlyConstant = op, means, constant
		return nil
	}
	// The means are those of the columns before they are scaled.
	c := additive.NewCentered(p.dev, p.Operator)
	means := c.Means()
	if standardize {
		if err := p.scale(c, w); err != nil {
			c.Release()
			return err
		}
		p.divide(p.Operator)
		c.Release()
		if intercept {
			c = additive.NewCentered(p.dev, p.Operator)
		}
	}
	if intercept {
		p.parts.Own(c.Release)
		p.Operator, p.means = c, means
	}
	return nil
}

// divide makes the operator that of a with its columns divided by the scales.
func (p *Problem) divide(a linops.Operator) {
	op := linops.ScaleColumns(p.dev, a, lists.Map(p.scales, func(s float64) float64 { return 1 / s }))
	p.parts.Own(op.Release)
	p.Operator = op
}

func (p *Problem) scale(c *additive.Centered, w []float64) error {
	norms2 := linops.StructureOf(c).ColumnNorms2
	if norms2 == nil {
		return fmt.Errorf("standardized columns are asked for, but the norms of the operator's columns are " +
			"not known: expected a matrix")
	}
	if w != nil {
		x := matrixOf(p.Operator, p.D*p.P)
		rows, ok := linops.RowsOf(p.Operator)
		switch {
		case ok:
			p.scales = weightedDeviations(p.P, w, func(i int, each func(j int, v float64)) {
				for u := rows.Indptr[i]; u < rows.Indptr[i+1]; u++ {
					each(rows.Indices[u], rows.Values[u])
				}
			})
		case x != nil:
			p.scales = deviations(x(), w)
		default:
			return fmt.Errorf("standardized columns and weights of the observations are asked for, but the " +
				"entries of the operator are not known: expected a matrix in memory")
		}
		return nil
	}
	p.scales = oneForZero(lists.Map(norms2(), func(v float64) float64 { return math.Sqrt(v / float64(p.D)) }))
	return nil
}

// weightedDeviations are the standard deviations of p columns of which the entries of a row other than 0 are given, for
// weights of the rows.
func weightedDeviations(p int, w []float64, row func(i int, each func(j int, v float64))) []float64 {
	total := floats.Sum(w)
	means, left, squares := make([]float64, p), slices.Repeat([]float64{total}, p), make([]float64, p)
	for i, v := range w {
		row(i, func(j int, x float64) {
			means[j] += v / total * x
			left[j] -= v
		})
	}
	for i, v := range w {
		row(i, func(j int, x float64) { squares[j] += v * (x - means[j]) * (x - means[j]) })
	}
	for j, m := range means {
		squares[j] += max(left[j], 0) * m * m
		if squares[j] = math.Sqrt(squares[j] / total); squares[j] <= constantShare*math.Abs(m) {
			squares[j] = 1
		}
	}
	return squares
}

// oneForZero are standard deviations, in their place, with 1 for those of constant columns, which stay as they are.
func oneForZero(s []float64) []float64 {
	for j, v := range s {
		if v == 0 {
			s[j] = 1
		}
	}
	return s
}

// deviations are those of centered columns, without overflow, or of any columns for weights of the rows.
func deviations(c *mat.Dense, w []float64) []float64 {
	d, p := c.Dims()
	if w != nil {
		return weightedDeviations(p, w, func(i int, each func(j int, v float64)) {
			for j, v := range c.RawRowView(i) {
				each(j, v)
			}
		})
	}
	s := make([]float64, p)
	for i := range d {
		for j, v := range c.RawRowView(i) {
			s[j] = math.Hypot(s[j], v)
		}
	}
	return oneForZero(lists.Map(s, func(v float64) float64 { return v / math.Sqrt(float64(d)) }))
}

func divideColumns(c *mat.Dense, s []float64) {
	d, _ := c.Dims()
	for i := range d {
		for j, row := 0, c.RawRowView(i); j < len(row); j++ {
			row[j] /= s[j]
		}
	}
}

// Coefficients are those of the original columns, where b is the solution for standardized ones:
// b_j / s_j, with s_j = sqrt(sum_i (x_ij - mean_j)^2 / d), the standard deviation of column j, or 1
// for a constant column. Without Data.Standardize it is b itself; in either case without the coordinate
// of a column of ones that the intercept of a loss other than the squared one has added.
//
// The penalty is on b. With lambda_g the weight of glmnet, whose loss is 1/(2d) ||y - X b||^2 and
// whose columns are scaled in the same way by default, lambda = d lambda_g is the same LASSO.
func (p *Problem) Coefficients(b []float64) []float64 {
	c := slices.Clone(b[:min(p.P, len(b))])
	if (p.scales != nil || p.outcomes > 0) && len(c) != p.P {
		panic(fmt.Sprintf("problems: b has %d values, expected %d", len(b), p.P))
	}
	p.shiftOutcomes(c)
	for j := range c {
		if c[j] += 0; p.scales != nil { // 0 in the place of -0, of shrunk groups
			c[j] /= p.scales[j/p.each()]
		}
	}
	return c
}

// Scales are the standard deviations of the columns, by which they are divided; nil without
// Data.Standardize. They must not be modified.
func (p *Problem) Scales() []float64 { return p.scales }

// Standardized says whether the columns of A, or those of a matrix with missing entries, were divided by their standard
// deviations.
func (p *Problem) Standardized() bool { return p.scales != nil || p.Units != nil }

// Means are the means of the original columns, with an intercept; else nil. They must not be
// modified.
func (p *Problem) Means() []float64 { return p.means }

// Spread are the means of the columns of the data's design matrix and their standard deviations, 0 up to rounding
// errors for constant ones; nil where there is no matrix.
func Spread(d Data) (means, deviations []float64) {
	x := spec.MatrixOf(d.X)
	rows, cols := x.Dims()
	if m := x.Stored; m != nil {
		return m.Means, deviationsOf(slices.Clone(m.Centered2), m.Means, rows)
	}
	if cols == 0 {
		return nil, nil
	}
	means, squares := make([]float64, cols), make([]float64, cols)
	if x.Sparse == nil {
		parallel.Ranges(cols, columnsAtOnce, func(lo, hi int) {
			mean, square := means[lo:hi:hi], squares[lo:hi:hi]
			for i := range rows {
				floats.Add(mean, x.Dense.RawRowView(i)[lo:hi])
			}
			for j := range mean {
				mean[j] /= float64(rows)
			}
			for i := range rows {
				for j, v := range x.Dense.RawRowView(i)[lo:hi][:len(mean)] {
					off := v - mean[j]
					square[j] += off * off
				}
			}
		})
		return means, deviationsOf(squares, means, rows)
	}
	zeros := slices.Repeat([]int{rows}, cols)
	for u, j := range x.Sparse.Indices {
		means[j] += x.Sparse.Values[u] / float64(rows)
		zeros[j]--
	}
	for u, j := range x.Sparse.Indices {
		squares[j] += (x.Sparse.Values[u] - means[j]) * (x.Sparse.Values[u] - means[j])
	}
	for j, n := range zeros {
		squares[j] += float64(n) * means[j] * means[j]
	}
	return means, deviationsOf(squares, means, rows)
}

// columnsAtOnce is the number of columns of a dense matrix whose sums are computed together: those of some thousand
// rows stay in the cache of a core.
const columnsAtOnce = 256

// constantShare is the standard deviation over the mean up to which a column is constant but for rounding errors.
const constantShare = 1e-14

// deviationsOf are the standard deviations of columns of d entries, of which the sums of the squares without the mean
// are given, in their place.
func deviationsOf(squares, mean []float64, d int) []float64 {
	for j, v := range squares {
		squares[j] = math.Sqrt(v / float64(d))
		if squares[j] <= constantShare*math.Abs(mean[j]) {
			squares[j] = 0
		}
	}
	return squares
}

// redundant lists the columns that depend on the others and, with an intercept, on a column of
// ones, by the way in which they are coded.
func redundant(d Data) []int {
	if d.Table == nil {
		return nil
	}
	r := d.Table.Design.Redundant()
	if !d.Intercept && len(r) > 0 {
		// The indicators of one column take the place of the ones.
		return r[1:]
	}
	return r
}

// levels lists the columns of categorical columns of a table that have one for each level.
func levels(d Data) []int {
	if d.Table == nil {
		return nil
	}
	var all []int
	at := 0
	for _, v := range d.Table.Design.Variables {
		for range v.Width() {
			if v.Levels != nil && !v.Reference {
				all = append(all, at)
			}
			at++
		}
	}
	return all
}

func withoutColumns(x *mat.Dense, columns []int) *mat.Dense {
	if len(columns) == 0 || len(columns) == x.RawMatrix().Cols {
		return x
	}
	d, p := x.Dims()
	rest := mat.NewDense(d, p-len(columns), nil)
	at := 0
	for j := range p {
		if !slices.Contains(columns, j) {
			rest.SetCol(at, mat.Col(nil, j, x))
			at++
		}
	}
	return rest
}

// prepareStored is prepare for a matrix that is not in memory: its columns are centered and scaled
// in each product, by the statistics of the first pass.
func (p *Problem) prepareStored(a *outofcore.OutOfCore, intercept, standardize bool) {
	means, centered2 := a.Statistics()
	if intercept {
		a = a.Centered()
		p.Operator, p.means = a, means
	}
	if !standardize {
		return
	}
	p.scales = oneForZero(deviationsOf(centered2, means, p.D))
	p.divide(a)
}

// matrixOf returns the function that forms the matrix of an operator on the host. It is nil where
// the operator has no matrix, or is not stored dense and has more than largest entries.
func matrixOf(a linops.Operator, largest int) func() *mat.Dense {
	d, p := a.Dims()
	known := linops.StructureOf(a)
	if known.Entries == linops.Known(float64(d*p)) || d*p <= largest {
		return known.Dense
	}
	return nil
}
