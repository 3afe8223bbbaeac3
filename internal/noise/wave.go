package noise

import (
	"cmp"
	"math"
	"math/cmplx"
	"slices"

	"gonum.org/v1/gonum/dsp/fourier"
	"gonum.org/v1/gonum/floats"

	"surepipe/internal/lists"
)

const (
	// A wave has a frequency of at least leastWave cycles along a side and a period of at most longestWave pixels, and
	// stands out from its neighbours in the spectrum, which are nearest to farthest bins away. In the four quarters of
	// the image it has about the same phase and amplitude: their sum has alikeQuarters of the energy that it would have
	// if they were equal, and none has less than weakQuarter of the greatest amplitude.
	leastWave, longestWave     = 6, 24
	nearest, farthest          = 3, 5
	alikeQuarters, weakQuarter = 0.9, 0.5
	// repeated is how many times the mean around it the power at a multiple of the frequency is in what repeats in a
	// picture. Of noise it is as much by chance in about one of a thousand waves.
	repeated = 10
	// mostAslant is the slope up to which a wave is along the rows or columns.
	mostAslant = 0.2
	// widestWave is the longest side that a spectrum is taken of, a multiple of evenSide, and fewSides the least.
	widestWave, evenSide, fewSides = 512, 16, 3
)

// wave is the part of a plane that a spectrum is taken of, less its mean, and the window along either axis.
type wave struct {
	rows, cols int
	y          []float64
	window     [2][]float64
}

// wave looks for a sinusoid over the image, as of interference: an ordinate of the periodogram that stands out from the
// mean of those around it, and whose phase and amplitude are the same in the quarters of the image, as those of texture
// are not. Of n ordinates of white noise the ratio to the mean of m others exceeds x by chance with the probability
//
//	P(ratio > x) = (1 + x/m)^-m
func (m *Image) wave() (p Pattern) {
	known := m.known()
	for k := range m.Channels {
		w, variance := m.waveOf(k), m.plane(k).variance()
		if w == nil || !(variance > 0) {
			continue
		}
		power := w.periodogram()
		for _, at := range w.peaks(power) {
			f := w.refine(at)
			amplitude, ok := w.alike(f)
			amplitude *= float64(len(m.Y)) / float64(known) // gaps are filled by what hardly has it
			if share := amplitude * amplitude / 2 / variance; ok && share > max(p.Share, LeastBias(known)) &&
				!w.repeats(power, f) {
				p = Pattern{Of: ByWave, Share: share, Period: 1 / math.Hypot(f[0], f[1])}
			}
		}
	}
	return p
}

func (m *Image) waveOf(channel int) *wave {
	even := func(n int) int { return min(n, widestWave) / evenSide * evenSide }
	w := &wave{rows: even(m.Rows), cols: even(m.Columns)}
	if min(w.rows, w.cols) < fewSides*evenSide {
		return nil
	}
	w.y = make([]float64, w.rows*w.cols)
	top, left := (m.Rows-w.rows)/2, (m.Columns-w.cols)/2
	for i := range w.rows {
		for j := range w.cols {
			w.y[i*w.cols+j] = m.Y[((top+i)*m.Columns+left+j)*m.Channels+channel]
		}
	}
	floats.AddConst(-floats.Sum(w.y)/float64(len(w.y)), w.y)
	for axis, n := range []int{w.rows, w.cols} {
		w.window[axis] = hann(n)
	}
	return w
}

func hann(n int) []float64 {
	h := make([]float64, n)
	for i := range h {
		s := math.Sin(math.Pi * (float64(i) + 0.5) / float64(n))
		h[i] = s * s
	}
	return h
}

// periodogram is the power at all frequencies, row by row, negative ones after the positive ones.
func (w *wave) periodogram() []float64 {
	along, across := fourier.NewCmplxFFT(w.cols), fourier.NewCmplxFFT(w.rows)
	z := make([]complex128, len(w.y))
	for i, v := range w.y {
		z[i] = complex(v*w.window[0][i/w.cols]*w.window[1][i%w.cols], 0)
	}
	for i := range w.rows {
		along.Coefficients(z[i*w.cols:][:w.cols], z[i*w.cols:][:w.cols])
	}
	power, column := make([]float64, len(z)), make([]complex128, w.rows)
	for j := range w.cols {
		for i := range column {
			column[i] = z[i*w.cols+j]
		}
		across.Coefficients(column, column)
		for i, v := range column {
			power[i*w.cols+j] = real(v)*real(v) + imag(v)*imag(v)
		}
	}
	return power
}

// mostPeaks is how many of the greatest peaks are looked at.
const mostPeaks = 4

// peaks are the places of the ordinates that stand out, from the one that does most on.
func (w *wave) peaks(power []float64) [][2]int {
	// Neighbours under a window are correlated: about half of them count.
	const half = ((2*farthest+1)*(2*farthest+1) - (2*nearest-1)*(2*nearest-1)) / 2.
	least := half * (math.Pow(2*FalseAlarm/float64(len(power)), -1/half) - 1)
	found, ratios := [][2]int{}, map[[2]int]float64{}
	for i := 0; i <= w.rows/2; i++ {
		for j := range w.cols {
			turns := min(j, w.cols-j)
			period := 1 / math.Hypot(float64(i)/float64(w.rows), float64(turns)/float64(w.cols))
			if max(i, turns) < leastWave || period > longestWave {
				continue
			}
			if ratio := w.standsOut(power, i, j); ratio > least {
				found = append(found, [2]int{i, j})
				ratios[[2]int{i, j}] = ratio
			}
		}
	}
	slices.SortStableFunc(found, func(a, b [2]int) int { return cmp.Compare(ratios[b], ratios[a]) })
	return found[:min(mostPeaks, len(found))]
}

// standsOut is the ratio of an ordinate to the mean of those around it, 0 where a neighbour is greater.
func (w *wave) standsOut(power []float64, i, j int) float64 {
	p, sum, n := power[i*w.cols+j], 0.0, 0.0
	for a := -farthest; a <= farthest; a++ {
		row := (i + a + w.rows) % w.rows * w.cols
		for b := -farthest; b <= farthest; b++ {
			q := power[row+(j+b+w.cols)%w.cols]
			if max(a, -a, b, -b) >= nearest {
				sum, n = sum+q, n+1
			} else if q > p {
				return 0
			}
		}
	}
	return p / (sum / n)
}

// repeats reports whether a wave has others of half, twice or three times its frequency beside it and is along the rows
// or columns, as what repeats in a picture is, such as rows of print or bricks. Interference by the mains, which is
// aslant, has others beside it too.
func (w *wave) repeats(power []float64, f [2]float64) bool {
	if a, b := math.Abs(f[0]), math.Abs(f[1]); min(a, b) > mostAslant*max(a, b) {
		return false
	}
	for _, times := range []float64{0.5, 2, 3} {
		i, j := int(math.Round(times*f[0]*float64(w.rows))), int(math.Round(times*f[1]*float64(w.cols)))
		for k := range 9 {
			a, b := (i+k/3-1)%w.rows, (j+k%3-1)%w.cols
			if w.standsOut(power, (a+w.rows)%w.rows, (b+w.cols)%w.cols) > repeated {
				return true
			}
		}
	}
	return false
}

// refine is the frequency of most power near a bin, in cycles a pixel along the columns and the rows.
func (w *wave) refine(at [2]int) (f [2]float64) {
	n := [2]float64{float64(w.rows), float64(w.cols)}
	f = [2]float64{float64(at[0]) / n[0], float64(at[1]) / n[1]}
	if f[1] > 0.5 {
		f[1]--
	}
	for step := 0.5; step > 0.02; step /= 2 {
		best, start := -1.0, f
		for a := -1.0; a <= 1; a++ {
			for b := -1.0; b <= 1; b++ {
				g := [2]float64{start[0] + a*step/n[0], start[1] + b*step/n[1]}
				if v := cmplx.Abs(w.at(g, [2]int{}, [2]int{w.rows, w.cols}, w.window)); v > best {
					best, f = v, g
				}
			}
		}
	}
	return f
}

// at is the Fourier transform at a frequency of a part of the image under a window.
func (w *wave) at(f [2]float64, from, size [2]int, window [2][]float64) (sum complex128) {
	turns := lists.Make(size[1], func(j int) complex128 {
		return cmplx.Rect(window[1][j], -2*math.Pi*f[1]*float64(from[1]+j))
	})
	for i := range size[0] {
		row, along := w.y[(from[0]+i)*w.cols+from[1]:][:size[1]], complex(0, 0)
		for j, v := range row {
			along += complex(v, 0) * turns[j]
		}
		sum += along * cmplx.Rect(window[0][i], -2*math.Pi*f[0]*float64(from[0]+i))
	}
	return sum
}

// alike reports whether a wave is the same in the quarters, and its amplitude.
func (w *wave) alike(f [2]float64) (amplitude float64, ok bool) {
	size := [2]int{w.rows / 2, w.cols / 2}
	window := [2][]float64{hann(size[0]), hann(size[1])}
	var sum complex128
	squares, least, most := 0.0, math.Inf(1), 0.0
	for _, from := range [][2]int{{0, 0}, {0, size[1]}, {size[0], 0}, size} {
		z := w.at(f, from, size, window)
		a := cmplx.Abs(z)
		sum, squares = sum+z, squares+a*a
		least, most = min(least, a), max(most, a)
	}
	alike := cmplx.Abs(sum) * cmplx.Abs(sum) / (4 * squares)
	amplitude = cmplx.Abs(sum) / 2 / (floats.Sum(window[0]) * floats.Sum(window[1]))
	return amplitude, alike > alikeQuarters && least > weakQuarter*most
}
