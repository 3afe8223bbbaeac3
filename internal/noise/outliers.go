package noise

import (
	"math"
	"slices"

	"surepipe/internal/lists"
)

// outlying is how many standard deviations of the noise a value stands out from its neighbours, in the units of its
// difference from their mean.
const outlying = 5

// Outliers are the places of the values of a sequence that stand out from both neighbours by more than 5 standard
// deviations, while these are alike, and the sum of their squares over n sigma2, with sigma by the MAD of second
// differences, which does not see them. A share s biases SURE by s d sigma2; from sqrt(8/n) on it is said, else there
// are none. Jumps are no outliers, but peaks of a single value are.
func Outliers(y []float64) (at []int, share float64) {
	n := len(y)
	if n < 3 {
		return nil, 0
	}
	sizes := lists.Make(n-2, func(i int) float64 { return math.Abs(y[i]-2*y[i+1]+y[i+2]) / math.Sqrt(6) })
	sigma2 := squaredMAD(sizes)
	if !(sigma2 > 0) {
		return nil, 0
	}
	for i := 1; i+1 < n; i++ {
		r, apart := math.Abs(y[i]-(y[i-1]+y[i+1])/2), math.Abs(y[i+1]-y[i-1])
		if r > outlying*math.Sqrt(1.5*sigma2) && apart < r/2 {
			at = append(at, i)
			share += r * r / (float64(n) * sigma2)
		}
	}
	if share < math.Sqrt(8/float64(n)) {
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
// wider than a pixel are none. There are none, either, where the share biases SURE by less than two of its errors.
func (m Image) Outliers() (at []int, share float64) {
	n := len(m.Y)
	for k := range m.Channels {
		p := m.plane(k)
		sigma2 := p.deviation()
		if !(sigma2 > 0) {
			continue
		}
		for i := 1; i+1 < p.rows; i++ {
			for j := 1; j+1 < p.cols; j++ {
				r := math.Abs(p.apart(i, j))
				if r > outlyingPixel*math.Sqrt(1.25*sigma2) && p.around(i, j) < r/2 {
					at = append(at, (i*p.cols+j)*m.Channels+k)
					share += r * r / (float64(n) * sigma2)
				}
			}
		}
	}
	if share < math.Sqrt(8/float64(n)) {
		return nil, 0
	}
	slices.Sort(at)
	return at, share
}

// apart is what a pixel differs from the mean of its four neighbours by.
func (p plane) apart(i, j int) float64 {
	at := i*p.cols + j
	return p.y[at] - (p.y[at-1]+p.y[at+1]+p.y[at-p.cols]+p.y[at+p.cols])/4
}

// around is the range of the eight neighbours of a pixel.
func (p plane) around(i, j int) float64 {
	least, most := math.Inf(1), math.Inf(-1)
	for a := -1; a <= 1; a++ {
		for b := -1; b <= 1; b++ {
			if v := p.y[(i+a)*p.cols+j+b]; a != 0 || b != 0 {
				least, most = min(least, v), max(most, v)
			}
		}
	}
	return most - least
}

// deviation is the variance of the noise by the MAD of what pixels differ from their neighbours by.
func (p plane) deviation() float64 {
	step := max(1, p.rows*p.cols/mostDeviations)
	var sizes []float64
	for at := p.cols; at < (p.rows-1)*p.cols; at += step {
		if j := at % p.cols; j > 0 && j+1 < p.cols {
			sizes = append(sizes, math.Abs(p.apart(at/p.cols, j)))
		}
	}
	if len(sizes) == 0 {
		return 0
	}
	return squaredMAD(sizes) / 1.25
}
