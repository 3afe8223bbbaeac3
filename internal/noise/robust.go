package noise

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"surepipe/internal/numerics"
)

const (
	// cutOff is the number of standard deviations beyond which an entry counts as one of the sparse
	// part, and nearCut a smaller one: by what the scale of the entries within that is less, outliers
	// that are not much larger than the noise are within the other.
	cutOff  = 3
	nearCut = 1.5
	// mostRounds bounds the rounds, of which the last must change the variance by less than settled.
	mostRounds = 60
	settled    = 1e-3
	// mostLong is the number of rows, or columns, of the longer side that are looked at.
	mostLong  = 2000
	mostApart = 0.3
	// cautious is the error of the estimate over the error that independent entries would give (simulation).
	cautious = 1.5
)

// RobustLowRank estimates the variance of white noise in a matrix of rows x cols, row by row, that is
// the sum of a matrix of low rank, one of a few entries of any size, and the noise. It goes in rounds:
//
//   - the singular values that stand out ([MedianSingularValue]) are the low rank's, L, of rank r;
//   - entries of the rest, y - L, beyond 3 sigma count as outliers and are replaced by those of L,
//     where sigma is the standard deviation of the other entries, divided by that of a standard
//     normal variable within 3 (a truncated scale, which outliers of any size leave alone).
//
// sigma2 is that of the m entries that are kept, for m - r (rows + cols - r) degrees of freedom. Outliers of
// less than 5 sigma count as noise in part.
//
// The relative standard error is 1.5 sqrt(2/(m - r (rows + cols - r))), and the difference to the
// estimate from entries within 1.5 sigma, which sees more of small outliers.
//
// Of long sides 2000 rows, or columns, are taken, evenly spaced. It rejects matrices with fewer than 20
// rows or columns, NaN, Inf, and matrices in which the rounds do not settle, or the two estimates differ
// by more than 0.3: where outliers and low rank are too many to be told apart.
func RobustLowRank(y []float64, rows, cols int) (Estimate, error) {
	if _, err := finiteMatrix(MethodRobustLowRank, y, rows, cols, ", with no entry missing"); err != nil {
		return Estimate{}, err
	}
	if k := min(rows, cols); k < 2*leastSingularValues {
		return refuse(MethodRobustLowRank, "a matrix of %d x %d has %d singular values, expected at least %d", rows,
			cols, k, 2*leastSingularValues)
	}
	s := newSeparation(y, rows, cols)
	before := 0.0
	for range mostRounds {
		if reason := s.round(); reason != "" {
			return refuse(MethodRobustLowRank, "%s", reason)
		}
		if math.Abs(s.sigma2-before) <= settled*s.sigma2 && s.changed == 0 {
			near := s.variance(nearCut, math.Sqrt(s.sigma2))
			if math.Abs(near/s.sigma2-1) > mostApart {
				return refuse(MethodRobustLowRank,
					"after a low rank of %d and %.3g%% of the entries as outliers the rest is not normal noise: "+
						"by entries within %g standard deviations its variance is %.3g, and by those within %g %.3g",
					s.rank, 100*s.outliers(), nearCut, near, float64(cutOff), s.sigma2)
			}
			return estimate(MethodRobustLowRank, s.sigma2, math.Hypot(cautious*math.Sqrt(2/s.freedom),
				(s.sigma2-near)/s.sigma2))
		}
		before = s.sigma2
	}
	return refuse(MethodRobustLowRank, "after %d rounds, with a rank of %d and %.3g%% of the entries as outliers, "+
		"the low rank and the sparse part are still not told apart", mostRounds, s.rank, 100*s.outliers())
}

// separation is the state of RobustLowRank, of a matrix whose rows are the shorter side.
type separation struct {
	y, filled, rest *mat.Dense // y, y with outliers replaced, and y - L
	k, n            int
	rank, changed   int     // changed is by how much the rank has, in the last round
	sigma2          float64 // of the kept entries
	freedom         float64
	kept            int
	sorted          []float64 // |rest|, increasing
}

func newSeparation(y []float64, rows, cols int) *separation {
	all := mat.Matrix(mat.NewDense(rows, cols, y))
	if rows > cols {
		all = all.T()
	}
	k, n := all.Dims()
	long := min(n, max(mostLong, 2*k))
	s := &separation{y: mat.NewDense(k, long, nil), rest: mat.NewDense(k, long, nil), k: k, n: long}
	for i := range k {
		for j := range long {
			s.y.Set(i, j, all.At(i, int(int64(j)*int64(n)/int64(long))))
		}
	}
	// At first entries far from the median count as outliers.
	data := s.y.RawMatrix().Data
	sorted := slices.Clone(data)
	slices.Sort(sorted)
	middle := median(sorted)
	for i, v := range sorted {
		sorted[i] = math.Abs(v - middle)
	}
	slices.Sort(sorted)
	reach := cutOff * median(sorted) / madNormal
	s.filled = mat.DenseCopyOf(s.y)
	for i, v := range s.filled.RawMatrix().Data {
		s.filled.RawMatrix().Data[i] = max(middle-reach, min(v, middle+reach))
	}
	return s
}

func (s *separation) round() string {
	const nothing = "more than half of the entries, or of the singular values, are zero after the low rank: there " +
		"is no noise to be seen"
	var gram mat.SymDense
	gram.SymOuterK(1, s.filled)
	values, vectors, err := numerics.Eigen(&gram)
	if err != nil {
		return "the singular values of y did not converge"
	}
	most := values[s.k-1]
	for i, v := range values {
		values[i] = math.Sqrt(max(v, 0))
	}
	if !(median(values) > math.Sqrt(epsilon*float64(s.k)*most)) {
		return nothing
	}
	_, _, rank := bulk(values, s.n)
	s.changed, s.rank = rank-s.rank, rank
	s.rest.Copy(s.y)
	var low mat.Dense
	if rank > 0 {
		var part mat.Dense
		top := vectors.Slice(0, s.k, s.k-rank, s.k)
		part.Mul(top.T(), s.filled)
		low.Mul(top, &part)
		s.rest.Sub(s.rest, &low)
	}
	rest := s.rest.RawMatrix().Data
	s.sorted = append(s.sorted[:0], rest...)
	for i, v := range s.sorted {
		s.sorted[i] = math.Abs(v)
	}
	slices.Sort(s.sorted)
	middle := median(s.sorted)
	if !(middle > 0) {
		return nothing
	}
	sigma := math.Sqrt(s.variance(cutOff, middle/madNormal))
	s.kept, _ = slices.BinarySearch(s.sorted, cutOff*sigma)
	s.freedom = float64(s.kept) - float64(rank)*float64(s.k+s.n-rank)
	if !(s.freedom > float64(s.kept)/4) {
		return fmt.Sprintf("a rank of %d stands out, and leaves too few degrees of freedom: y has no low rank", rank)
	}
	s.sigma2 = sigma * sigma * float64(s.kept) / s.freedom
	for i, v := range rest {
		s.filled.RawMatrix().Data[i] = s.y.RawMatrix().Data[i]
		if math.Abs(v) > cutOff*sigma {
			s.filled.RawMatrix().Data[i] -= v
		}
	}
	return ""
}

func (s *separation) outliers() float64 { return 1 - float64(s.kept)/float64(s.k*s.n) }

// variance is the squared standard deviation of the entries of the rest within cut standard deviations,
// from a guess, as if they were those of a normal variable. With a cut that is not the one by which
// entries are kept it is scaled to the degrees of freedom.
func (s *separation) variance(cut, sigma float64) float64 {
	sigma = truncated(s.sorted, cut, sigma)
	if cut != cutOff {
		return sigma * sigma * float64(s.kept) / s.freedom
	}
	return sigma * sigma
}
