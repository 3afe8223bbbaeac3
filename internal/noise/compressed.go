package noise

import "math"

const (
	// mostCompressed is about the number of blocks that are looked at, and leastMultiples that of the frequencies whose
	// coefficients are multiples of a number of steps, from leastQuantum to mostQuantum, from which blocks were
	// compressed.
	mostCompressed, leastMultiples = 1 << 10, 5
	leastQuantum, mostQuantum      = 3, 60
	// fewMultiples is the number of coefficients that are not rounded to 0 from which a frequency is looked at, and
	// fewOfKind that of single multiples and of larger ones: in a repeated picture all are the same.
	fewMultiples, fewOfKind = 40, 10
	// twoErrors is two standard deviations of the error of rounding pixels, sqrt(1/12), which 0.95 of the coefficients
	// are within, and of others up to 0.4.
	twoErrors, mostNear = 0.58, 0.75
)

// Compressed reports whether the pixels, in grey or three colours, are those of a JPEG: rounded to multiples of a step
// such that the coefficients of blocks of 8 x 8, of the brightness, are nearly multiples of larger numbers.
func (m *Image) Compressed(step float64) bool {
	y := m.Y
	switch {
	case m.seen != nil:
		return false
	case m.Channels == 3:
		y = make([]float64, len(m.Y)/3)
		for i := range y {
			y[i] = 0.299*m.Y[3*i] + 0.587*m.Y[3*i+1] + 0.114*m.Y[3*i+2]
		}
	case m.Channels != 1:
		return false
	}
	p := planeOf(y, m.Rows, m.Columns)
	var sizes [blockSide * blockSide][]float64
	var pixels [blockSide][]float64
	across := p.cols / blockSide
	blocks := across * (p.rows / blockSide)
	for b := 0; b < blocks; b += 1 + blocks/mostCompressed {
		if p.block(&pixels, b/across*blockSide, b%across*blockSide) {
			for i, row := range cosineTransform(&pixels) {
				for j, v := range row {
					sizes[i*blockSide+j] = append(sizes[i*blockSide+j], math.Abs(v)/step)
				}
			}
		}
	}
	multiples := 0
	for _, v := range sizes[1:] {
		if ofMultiples(v) {
			multiples++
		}
	}
	return multiples >= leastMultiples
}

// ofMultiples reports whether most coefficients that are not rounded to 0 are within the errors of rounding pixels of
// multiples of a number, of which noise that was added later leaves few.
func ofMultiples(sizes []float64) bool {
	for q := float64(leastQuantum); q <= mostQuantum; q++ {
		n, larger, near := 0, 0, 0
		for _, v := range sizes {
			if v < q/2 {
				continue
			}
			n++
			if v > 1.5*q {
				larger++
			}
			if math.Abs(v-q*math.Round(v/q)) < twoErrors {
				near++
			}
		}
		if n < fewMultiples || larger < fewOfKind {
			return false
		}
		if n-larger >= fewOfKind && float64(near) > mostNear*float64(n) {
			return true
		}
	}
	return false
}
