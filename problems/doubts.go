package problems

import (
	"errors"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"surepipe/internal/lists"
	"surepipe/internal/noise"
	"surepipe/internal/pivoted"
	"surepipe/linops"
	"surepipe/loss"
	"surepipe/risk"
)

// Comparable reports whether the full model is so small that nobody has to ask for it.
func (p *Problem) Comparable() bool {
	return float64(p.D)*float64(p.P)*float64(p.P) <= mostCompared
}

const (
	// mostCompared bounds the work that nobody has asked for, d p^2, and mostLooked the entries of a wide matrix.
	mostCompared, mostLooked = 4e8, 1 << 24
)

// Plain is least squares for the doubts about a fit b that has no full model: with weights of the observations, which
// it leaves out, of columns that depend on each other those that do not, and of columns that are not fewer than the
// rows those that b has, where these are at most half as many and at most half of y is one value: b is chosen so that
// it is met, and other values would seem noisier. It is nil where there is none, or it is not [Problem.Comparable].
func (p *Problem) Plain(y []float64, b func() []float64) *FullModel {
	known := linops.StructureOf(p.Operator)
	w := loss.Weighing(p.loss)
	if !p.rows || known.Dense == nil || p.outcomes > 0 || !loss.Quadratic(p.loss) || len(y) != p.D ||
		slices.Contains(w, 0) || p.D*p.P > mostLooked {
		return nil
	}
	x := known.Dense()
	kept := lists.Places(p.P, func(j int) bool { return p.counts(j, x.ColView(j)) })
	few := !p.identified(p.P - len(kept))
	if few {
		fit := b()
		kept = slices.DeleteFunc(kept, func(j int) bool { return j >= len(fit) || fit[j] == 0 })
	}
	n := len(kept)
	if n == 0 || few && (2*n > p.D || mostAlike(y)) || float64(p.D)*float64(n)*float64(n) > mostCompared {
		return nil
	}
	constant := p.ofConstant()
	of, err := risk.NewLeastSquares(x, kept, constant)
	if errors.Is(err, risk.ErrNotIdentified) {
		kept = independent(x, kept)
		of, err = risk.NewLeastSquares(x, kept, constant)
	}
	if err != nil {
		return nil
	}
	return &FullModel{p, y, kept, x, of}
}

// mostAlike reports whether more than half of the values are the same.
func mostAlike(y []float64) bool {
	median, equal := slices.Sorted(slices.Values(y))[len(y)/2], 0
	for _, v := range y {
		if v == median {
			equal++
		}
	}
	return 2*equal > len(y)
}

// leastApart is the part of a column that the others leave from which it does not depend on them.
const leastApart = 1e-10

// independent are those of some columns of x that do not depend on each other.
func independent(x *mat.Dense, columns []int) []int {
	d, _ := x.Dims()
	units := mat.NewDense(d, len(columns), nil)
	for k, j := range columns {
		column := mat.Col(nil, j, x)
		floats.Scale(1/floats.Norm(column, 2), column)
		units.SetCol(k, column)
	}
	of := pivoted.Factorize(units, nil, 1, leastApart)
	kept := lists.Pick(columns, of.Pivot[:of.Sure])
	slices.Sort(kept)
	return kept
}

// residuals are those of the model.
func (m *FullModel) residuals() []float64 {
	mean := 0.0
	if m.p.means != nil {
		mean = stat.Mean(m.y, nil)
	}
	return m.of.Residuals(lists.Make(len(m.y), func(i int) float64 { return m.y[i] - mean }))
}

// Doubts are what the residuals tell of the noise: whether it is uneven, and observations that are far from what the
// others predict.
type Doubts struct {
	Uneven noise.Uneven
	// Column is that by which the noise differs, or -1 where that is none.
	Column   int
	Outliers []risk.Outlier
	// Variance is that of the noise, where all columns are fewer than the rows and the squared loss has no weights.
	Variance noise.Range
}

// RangeOfEntries is that of the noise of some entries of a matrix, by the squared errors at entries that are left out
// of a fit to them, which are at least the noise in the mean.
func (p *Problem) RangeOfEntries(squares []float64) (r noise.Range) {
	if len(squares) == len(p.observed) && len(p.BShape) == 2 && p.loss == nil {
		r = noise.RangeOfSquares(squares, 1)
		r.Least = 0
	}
	return r
}

// UnevenEntries is [noise.UnevenEntries] of a fit to some entries of a matrix, by the squared errors at entries that
// are left out of it; nothing where the squared loss has weights, or these are no entries.
func (p *Problem) UnevenEntries(squares []float64, sigma2 float64) (u noise.Uneven, tails float64) {
	known := len(squares) == len(p.observed) && len(p.BShape) == 2
	if !known || !loss.Quadratic(p.loss) || loss.Weighing(p.loss) != nil {
		return u, 0
	}
	return noise.UnevenEntries(squares, p.observed, p.BShape[0], p.BShape[1], sigma2)
}

// leastResidual is the part of the greatest observation below which residuals are rounding errors.
const leastResidual = 1e-9

// keptBits are those of the greatest observation in which fitted values differ, by about leastResidual of it.
const keptBits = 30

// Doubts looks at the residuals.
func (m *FullModel) Doubts() (d Doubts) {
	residual := m.residuals()
	if !(floats.Norm(residual, math.Inf(1)) > leastResidual*floats.Norm(m.y, math.Inf(1))) {
		return Doubts{Column: -1}
	}
	d.Outliers = m.of.Outliers(residual)
	if m.p.identified(0) && m.p.loss == nil {
		squares := lists.Map(residual, func(v float64) float64 { return v * v })
		d.Variance = noise.RangeOfSquares(squares, 1-stat.Mean(m.of.Leverages, nil))
	}
	d.Uneven, d.Column = m.uneven(residual)
	return d
}

// uneven compares the variances of the residuals between fifths of the observations, by their weights, their leverages,
// the fitted value and each column ([noise.UnevenBy]). column is that by which they differ most, in whose units LeastAt
// and GreatestAt are, or -1 for another.
func (m *FullModel) uneven(residual []float64) (u noise.Uneven, column int) {
	p := m.p
	fitted := floats.SubTo(make([]float64, p.D), m.y, residual)
	// Rows of the same columns have the same fitted value but for rounding errors, larger where residuals are.
	_, exponent := math.Frexp(floats.Norm(m.y, math.Inf(1)))
	for i, v := range fitted {
		fitted[i] = math.Ldexp(math.Round(math.Ldexp(v, keptBits-exponent)), exponent-keptBits)
	}
	for i, h := range m.of.Leverages {
		residual[i] /= math.Sqrt(max(1-h, leastLeft))
	}
	n, w := 2+len(m.columns), loss.Weighing(p.loss)
	if w != nil {
		n++
	}
	u = noise.UnevenBy(residual, n, func(yield func(noise.Grouping) bool) {
		var g noise.Grouping
		if w != nil {
			if g.Fifths(noise.ByWeight, w); !yield(g) {
				return
			}
		}
		if g.Fifths(noise.ByLeverage, m.of.Leverages); !yield(g) {
			return
		}
		g.Fifths(noise.ByFitted, fitted)
		for k := 0; yield(g) && k < len(m.columns); k++ {
			g.Fifths(strconv.Itoa(m.columns[k]), mat.Col(fitted, m.columns[k], m.x))
		}
	})
	column, err := strconv.Atoi(u.By)
	if err != nil {
		return u, -1
	}
	for _, at := range []*float64{&u.LeastAt, &u.GreatestAt} {
		if p.scales != nil {
			*at *= p.scales[column]
		}
		if p.means != nil {
			mean := p.means[column]
			if *at += mean; math.Abs(*at) <= 0x1p-40*math.Abs(mean) {
				*at = 0 // but for rounding errors
			}
		}
	}
	u.By = noise.ByColumn
	return u, column
}
