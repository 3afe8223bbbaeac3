package noise

import (
	"math"
	"math/rand/v2"
	"slices"

	"surepipe/internal/lists"
)

// LeastBias is the share of n values, or of their noise, from which it is said that it is not as that of the others: a
// share s biases SURE by up to s n sigma2, and two of SURE's standard deviations are sqrt(8 n) sigma2.
func LeastBias(n int) float64 { return math.Sqrt(8 / float64(n)) }

// outlying is how many standard deviations of the noise a value stands out from its neighbours, in the units of its
// difference from their mean.
const outlying = 5

// Outliers are the places of the values of a sequence that stand out from both neighbours by more than 5 standard
// deviations, while these are alike, and the sum of their squares over n sigma2, with sigma by the MAD of second
// differences, which does not see them. Of a share below [LeastBias] there are none. Jumps are no outliers, but peaks
// of a single value are. Missing values are NaN, and n is the number of those with both neighbours, and two: of few
// nothing is said.
func Outliers(y []float64) (at []int, share float64) {
	sizes := lists.Make(max(len(y)-2, 0), func(i int) float64 { return math.Abs(y[i]-2*y[i+1]+y[i+2]) / math.Sqrt(6) })
	sizes = slices.DeleteFunc(sizes, math.IsNaN)
	n := len(sizes) + 2
	if n == 2 || n < min(leastSerial, len(y)) {
		return nil, 0
	}
	sigma2 := squaredMAD(sizes)
	if !(sigma2 > 0) {
		return nil, 0
	}
	for i := 1; i+1 < len(y); i++ {
		r, apart := math.Abs(y[i]-(y[i-1]+y[i+1])/2), math.Abs(y[i+1]-y[i-1])
		if r > outlying*math.Sqrt(1.5*sigma2) && apart < r/2 {
			at = append(at, i)
			share += r * r / (float64(n) * sigma2)
		}
	}
	if share < LeastBias(n) {
		return nil, 0
	}
	return at, share
}

const (
	// outlyingPixel is how many standard deviations of the noise a pixel stands out, of millions.
	outlyingPixel = 6
	// mostDeviations is how many pixels' deviations the standard deviation is from.
	mostDeviations = 1 << 16
)

// Outliers are the places in Y of the pixels of an image that stand out from the mean of their four neighbours by more
// than 6 standard deviations, while all eight neighbours differ by less than half of that, as hot pixels and bits that
// were lost do, and the sum of their squares over n sigma2, with sigma by the MAD. Lines, edges and peaks that are
// wider than a pixel are none. Of a share below [LeastBias] there are none, either.
func (m *Image) Outliers() (at []int, share float64) {
	known := 0
	for k := range m.Channels {
		p := m.plane(k)
		sigma2 := p.variance()
		if !(sigma2 > 0) {
			continue
		}
		for i := 1; i+1 < p.rows; i++ {
			for j := 1; j+1 < p.cols; j++ {
				r, ok := p.apart(i, j)
				if ok = ok && p.surrounded(i, j); !ok {
					continue
				}
				known++
				if r = math.Abs(r); r > outlyingPixel*math.Sqrt(1.25*sigma2) && p.around(i, j) < r/2 {
					at = append(at, (i*p.cols+j)*m.Channels+k)
					share += r * r / sigma2
				}
			}
		}
	}
	if m.seen == nil {
		known = len(m.Y)
	}
	if share /= float64(known); !(share >= LeastBias(known)) {
		return nil, 0
	}
	slices.Sort(at)
	return at, share
}

const (
	// The ratio of a squared MAD to a mean square of n differences of pixels from their neighbours in white normal
	// noise has the standard deviation ratioSpread / sqrt(n). Tails are heavy where it is below heavyTails, and
	// tailErrors standard deviations below 1.
	ratioSpread, tailErrors, heavyTails = 1.9, 3.5, 0.87
)

// HeavyTails is the ratio of a squared MAD to the mean square of what pixels differ from their neighbours by, in the
// smoothest blocks, where that is far below 1, as of Laplace's distribution, 0.75; 0 where noise may be normal, or that
// is not known.
func (m *Image) HeavyTails() (ratio float64) {
	var sizes []float64
	sum := 0.0
	for _, c := range smoothWhite(m.cells(), fewShared) {
		p := m.plane(c.channel)
		for i := c.at[0] + 1; i+1 < c.at[0]+blockSide; i++ {
			for j := c.at[1] + 1; j+1 < c.at[1]+blockSide; j++ {
				if v, ok := p.apart(i, j); ok {
					sizes, sum = append(sizes, math.Abs(v)), sum+v*v
				}
			}
		}
	}
	n := float64(len(sizes))
	if n == 0 {
		return 0
	}
	if ratio = squaredMAD(sizes) / (sum / n); !(ratio < min(heavyTails, 1-tailErrors*ratioSpread/math.Sqrt(n))) {
		return 0
	}
	return ratio
}

// apart is what a pixel differs from the mean of its four neighbours by, of 1.25 times the variance of the noise.
// Where those to the left and right, or above and below, are missing, it is from the others, in units in which it has
// that variance too; where both are, or the pixel itself, it is not known.
func (p plane) apart(i, j int) (apart float64, known bool) {
	at := i*p.cols + j
	if p.seen == nil {
		return p.y[at] - (p.y[at-1]+p.y[at+1]+p.y[at-p.cols]+p.y[at+p.cols])/4, true
	}
	sum, n := 0.0, 0.0
	for _, step := range [2]int{1, p.cols} {
		if p.seen[at-step] && p.seen[at+step] {
			sum, n = sum+p.y[at-step]+p.y[at+step], n+2
		}
	}
	return math.Sqrt(1.25/(1+1/n)) * (p.y[at] - sum/n), p.seen[at] && n > 0
}

// surrounded reports whether seven of the eight neighbours of a pixel are there, so that each line through it has one.
func (p plane) surrounded(i, j int) bool {
	missing := 0
	for k := range 9 {
		if p.seen != nil && !p.seen[(i+k/3-1)*p.cols+j+k%3-1] {
			missing++
		}
	}
	return missing < 2
}

// around is the range of the eight neighbours of a pixel that are there.
func (p plane) around(i, j int) float64 {
	least, most := math.Inf(1), math.Inf(-1)
	for a := -1; a <= 1; a++ {
		for b := -1; b <= 1; b++ {
			at := (i+a)*p.cols + j + b
			if v := p.y[at]; (a != 0 || b != 0) && (p.seen == nil || p.seen[at]) {
				least, most = min(least, v), max(most, v)
			}
		}
	}
	return most - least
}

// variance is that of the noise by the MAD of what pixels differ from their neighbours by.
func (p plane) variance() float64 {
	step := max(1, p.rows*p.cols/mostDeviations)
	var sizes []float64
	for at := p.cols; at < (p.rows-1)*p.cols; at += step {
		if j := at % p.cols; j > 0 && j+1 < p.cols {
			if v, ok := p.apart(at/p.cols, j); ok {
				sizes = append(sizes, math.Abs(v))
			}
		}
	}
	if len(sizes) == 0 {
		return 0
	}
	return squaredMAD(sizes) / 1.25
}

const (
	// spike is the ratio of the numbers of values that are equal and that are the next ones from which the former are
	// no part of a distribution.
	spike = 3
	// mostSorted is how many values, drawn from more, say which one is common.
	mostSorted = 1 << 16
)

// Clipped is the share of the values that equal one value, and that one, where they are so many beside the next one, or
// inside the range the next two below and above, that values beyond were set to it, or that a part has no noise, as
// under a mask or where rows are dead; 0 where they are not, or fewer than [LeastBias].
func Clipped(y []float64) (share, at float64) {
	sorted := slices.Clone(y[:min(len(y), mostSorted)])
	if len(sorted) < len(y) {
		rng := rand.New(rand.NewPCG(1, 2))
		for i := range sorted {
			sorted[i] = y[rng.IntN(len(y))]
		}
	}
	slices.Sort(sorted)
	ends := lists.Places(len(sorted), func(i int) bool { return i+1 == len(sorted) || sorted[i] != sorted[i+1] })
	count := func(k int) float64 {
		switch {
		case k < 0 || k >= len(ends):
			return 0
		case k == 0:
			return float64(ends[0] + 1)
		}
		return float64(ends[k] - ends[k-1])
	}
	least := LeastBias(len(y)) * float64(len(sorted))
	most := least
	for k, end := range ends {
		next := max(count(k-1), count(k+1))
		if k > 0 && k+1 < len(ends) {
			beyond := max(count(k-2), count(k+2))
			if min(count(k-1), count(k+1)) > spike*beyond {
				continue // they fall off as well: noise of half a step of rounded values about one of them
			}
			next = max(next, beyond)
		}
		if n := count(k); n > max(most, spike*next) {
			most, at = n, sorted[end]
		}
	}
	if most == least {
		return 0, 0
	}
	for _, v := range y {
		if v == at {
			share++
		}
	}
	return share / float64(len(y)), at
}
