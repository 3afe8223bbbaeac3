package risk

import (
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat/distuv"
)

// Outlier is an observation that is far from what the others predict. Errors is its distance in standard deviations of
// the residuals of the others, and Next the greatest of these.
type Outlier struct {
	At                     int
	Residual, Errors, Next float64
}

const (
	// An outlier has a studentized residual of a probability below chanceOfOutlier for any of the observations where
	// noise is normal, and one many times that of the others: a residual of the same heavy tail, of index a, is so
	// with the probability apart^-a, whatever its size.
	chanceOfOutlier, apart = 1e-3, 5
	// At most mostOutliers are left out, but no more than one in leastRows beyond fewOutliers, one after the other, of
	// which the last must stand out: wrong values hide each other.
	mostOutliers, fewOutliers, leastRows = 10, 3, 10
)

// Outliers are the observations that no other has prepared for, by the residuals of regressions without them.
func (l *LeastSquares) Outliers(residual []float64) (all []Outlier) {
	n := len(residual)
	e, left := append([]float64(nil), residual...), make([]float64, n)
	for i, h := range l.Leverages {
		left[i] = 1 - h
	}
	free := float64(n) - math.Round(floats.Sum(l.Leverages))
	size := func(i int) float64 {
		if left[i] < leastFree {
			return 0
		}
		return math.Abs(e[i]) / math.Sqrt(left[i])
	}
	most := func() (at int) {
		for i := range e {
			if size(i) > size(at) {
				at = i
			}
		}
		return at
	}
	var without [][]float64
	told := 0
	for range min(mostOutliers, max(fewOutliers, n/leastRows)) {
		i := most()
		r := size(i)
		if free--; free < 2 || r == 0 {
			break
		}
		of := Outlier{At: i, Residual: e[i] / left[i]}
		without = l.leave(i, without, e, left)
		deviation := math.Sqrt(floats.Dot(e, e) / free)
		of.Errors, of.Next = r/deviation, size(most())/deviation
		t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: free}
		if all = append(all, of); of.Errors > apart*of.Next && 2*float64(n)*t.Survival(of.Errors) < chanceOfOutlier {
			told = len(all)
		}
	}
	return all[:told]
}

// leave takes an observation out of residuals and what leverages leave, after others that were left out, each with its
// row of the hat matrix over the root of what that leaves.
func (l *LeastSquares) leave(i int, without [][]float64, e, left []float64) [][]float64 {
	c := make([]float64, len(l.columns))
	for k, j := range l.columns {
		c[k] = l.x.At(i, j) / l.norms[k]
	}
	l.solve(c)
	row := l.images(c)
	floats.AddConst(l.ofConstant, row)
	for _, other := range without {
		floats.AddScaled(row, other[i], other)
	}
	floats.Scale(1/math.Sqrt(left[i]), row)
	rest := e[i] / math.Sqrt(left[i])
	for k, h := range row {
		e[k] += h * rest
		left[k] -= h * h
	}
	e[i], left[i] = 0, 0
	return append(without, row)
}
