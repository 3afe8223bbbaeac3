package problems

import (
	"fmt"
	"math"
	"slices"
)

const (
	// The rows' degrees fall like 1/(i + c m) and those of the columns like 1/(j + c n)^1.5, c being
	// ratingsOffset: the largest are 22 and 55 times the mean, the least a fifth and a twentieth of it.
	// In MovieLens-20M the largest are 64 and 91 times the mean (Harper and Konstan, ACM TiiS 5, 2015).
	ratingsOffset = 0.01
	columnsFall   = 1.5
	// mostShare is the largest share of a row's entries that is observed, and densest that of the matrix.
	mostShare, densest = 0.5, 0.25
	// ratingsSignal is the variance of an entry of the signal: 80% of E y^2, with sigma2 = 2.
	ratingsSignal = 4 * paperSigma2
	// ratingsRank is the rank of the signal where none is given.
	ratingsRank   = 10
	ratingsWeight = 0.6
)

// GenerateRatings draws a matrix completion like a table of ratings: the given number of entries of an
// m x n matrix of the given rank, at places whose numbers in rows and columns follow power laws, in
// increasing order of the places. The degrees of the rows are fixed by the law; the columns of a row's
// entries are drawn without replacement with probabilities proportional to the columns' weights; rows and columns
// are in random order. The signal is mu_ij = <u_i, v_j> with independent normal factors and variance 8,
// sigma2 = 2, and
//
//	lambda = 0.6 sigma (sqrt(largest degree of a row) + sqrt(largest degree of a column)),
//
// about 0.6 times the norm of the noise, at which the solution has a rank of some tens. No vector of m n
// numbers is formed: the memory is three numbers for each entry.
func GenerateRatings(m, n, entries, rank int, seed uint64) (Data, error) {
	switch {
	case m < 1 || n < 1:
		return Data{}, fmt.Errorf("a matrix of %d x %d, expected positive dimensions", m, n)
	case rank < 1 || rank > min(m, n):
		return Data{}, fmt.Errorf("a matrix of %d x %d of rank %d, expected 1 to %d", m, n, rank, min(m, n))
	case entries < 1 || float64(entries) > densest*float64(m)*float64(n):
		return Data{}, fmt.Errorf("%d entries of a matrix of %d x %d, expected 1 to %g, a quarter of all", entries, m,
			n, math.Floor(densest*float64(m)*float64(n)))
	}
	u, v := ratingFactors(m, n, rank, seed)
	degrees := rowDegrees(m, n, entries, seed)
	columns := newRatedColumns(n, seed)
	rng := stream(seed, streamPlaces)
	data := Data{Shape: []int{m, n}, YShape: []int{entries}, Indices: make([]int, 0, entries),
		Mu: make([]float64, 0, entries), Y: make([]float64, 0, entries)}
	noise, sigma2 := stream(seed, streamNoise), float64(paperSigma2)
	inColumn, mostRow := make([]int, n), 0
	taken := make([]int, n) // the last row that took a column, from 1
	var row []int
	for i, degree := range degrees {
		row = row[:0]
		for len(row) < degree {
			j := columns.draw(rng.Float64())
			if taken[j] != i+1 {
				taken[j] = i + 1
				row = append(row, j)
			}
		}
		slices.Sort(row)
		mostRow = max(mostRow, degree)
		for _, j := range row {
			mu := 0.0
			for k, a := range u[i*rank:][:rank] {
				mu += a * v[j*rank+k]
			}
			inColumn[j]++
			data.Indices, data.Mu = append(data.Indices, i*n+j), append(data.Mu, mu)
			data.Y = append(data.Y, mu+math.Sqrt(sigma2)*noise.NormFloat64())
		}
	}
	lambda := ratingsWeight * math.Sqrt(sigma2) *
		(math.Sqrt(float64(mostRow)) + math.Sqrt(float64(slices.Max(inColumn))))
	data.Sigma2, data.Lambda = &sigma2, &lambda
	return data, nil
}

func ratingFactors(m, n, rank int, seed uint64) (u, v []float64) {
	rng := stream(seed, streamFactors)
	u, v = make([]float64, m*rank), make([]float64, n*rank)
	scale := math.Sqrt(ratingsSignal / float64(rank))
	for i := range u {
		u[i] = scale * rng.NormFloat64()
	}
	for i := range v {
		v[i] = rng.NormFloat64()
	}
	return u, v
}

// rowDegrees are positive while there are enough entries, at most half of n but for rounding, and add up
// to the number of entries, in random order.
func rowDegrees(m, n, entries int, seed uint64) []int {
	most := max(int(mostShare*float64(n)), 1)
	weight, sum := make([]float64, m), 0.0
	for i := range weight {
		weight[i] = 1 / (float64(i) + ratingsOffset*float64(m) + 1)
		sum += weight[i]
	}
	degrees, left := make([]int, m), entries
	for i, w := range weight {
		degrees[i] = min(int(float64(entries)*w/sum), most)
		left -= degrees[i]
	}
	// What rounding and the bound leave over goes to the rows with the fewest.
	for i := m - 1; left > 0; i-- {
		if i < 0 {
			i = m - 1
		}
		if degrees[i] < most {
			degrees[i]++
			left--
		}
	}
	rng := stream(seed, streamValues)
	rng.Shuffle(m, func(i, j int) { degrees[i], degrees[j] = degrees[j], degrees[i] })
	return degrees
}

// ratedColumns draws columns in proportion to their weights, by a table of aliases (Walker, Electronics
// Letters 10, 1974; Vose, IEEE Trans. Software Eng. 17, 1991).
type ratedColumns struct {
	share []float64
	alias []int
}

func newRatedColumns(n int, seed uint64) *ratedColumns {
	weight, sum := make([]float64, n), 0.0
	for j := range weight {
		weight[j] = math.Pow(float64(j)+ratingsOffset*float64(n)+1, -columnsFall)
		sum += weight[j]
	}
	rng := stream(seed, streamDesign)
	rng.Shuffle(n, func(i, j int) { weight[i], weight[j] = weight[j], weight[i] })
	c := &ratedColumns{make([]float64, n), make([]int, n)}
	var small, large []int
	for j, w := range weight {
		c.share[j] = w / sum * float64(n)
		if c.share[j] < 1 {
			small = append(small, j)
		} else {
			large = append(large, j)
		}
	}
	for len(small) > 0 && len(large) > 0 {
		s, l := small[len(small)-1], large[len(large)-1]
		small = small[:len(small)-1]
		c.alias[s] = l
		if c.share[l] -= 1 - c.share[s]; c.share[l] < 1 {
			large = large[:len(large)-1]
			small = append(small, l)
		}
	}
	for _, j := range append(small, large...) { // 1 but for rounding
		c.share[j] = 1
	}
	return c
}

// draw is the column of a number that is uniform in [0, 1).
func (c *ratedColumns) draw(at float64) int {
	at *= float64(len(c.share))
	j := min(int(at), len(c.share)-1)
	if at-float64(j) < c.share[j] {
		return j
	}
	return c.alias[j]
}
