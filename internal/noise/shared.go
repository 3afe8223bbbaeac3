package noise

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"surepipe/internal/lists"
)

// Image is y as the pixels of an image, row by row, with its channels side by side.
type Image struct {
	Y                       []float64
	Rows, Columns, Channels int
}

// mostColours is the largest last axis that are channels in any case.
const mostColours = 4

// Planes is an array of two axes or more as an image. The last of three axes or more are channels where they are few,
// or too few to have blocks and it is the shortest axis; the slices of any other volume lie below each other.
func Planes(y []float64, shape []int) Image {
	m := Image{Y: y, Channels: 1}
	if last := len(shape) - 1; last > 1 {
		if n := shape[last]; n <= mostColours || n < leastSide && n == slices.Min(shape) {
			m.Channels, shape = n, shape[:last]
		}
	}
	m.Columns = shape[len(shape)-1]
	m.Rows = len(y) / max(1, m.Columns*m.Channels)
	return m
}

func (m Image) channel(k int) []float64 {
	return lists.Make(m.Rows*m.Columns, func(i int) float64 { return m.Y[i*m.Channels+k] })
}

func (m Image) plane(channel int) plane { return planeOf(m.channel(channel), m.Rows, m.Columns) }

// Shared is the noise that pixels of an image, or its channels, seem to have in common.
type Shared struct {
	// High is the energy of a coefficient of the highest frequencies in the smoothest blocks, which texture only adds
	// to, and Middle that of the frequencies below them. They are sigma2 where the noise is white.
	High, Middle float64
	// Neighbours says that pixels share noise: Middle exceeds High, or High is below the sigma2 that was given.
	Neighbours bool
	// Channels is the correlation of the two channels, First and Second, that share most; 0 where that may be chance,
	// or where pixels share noise.
	Channels      float64
	First, Second int
}

const (
	// leastRatio is the ratio of the energies below and at the highest frequencies, and leastShort that of the latter
	// to sigma2, from which noise is taken for shared; leastShare is the least correlation of channels. All must be
	// shareErrors standard errors from white noise.
	leastRatio, leastShort, leastShare, shareErrors = 1.2, 0.95, 0.15, 4
	// Energies of texture grow from the smoothest blocks on, and those of noise do not. From a twentieth to a fifth of
	// the blocks those of noise grow by less than this, and by less than this part of what is to be explained by it.
	flatHigh, flatMiddle = 0.2, 0.2
	// aboveSigma2 is how far energies at the highest frequencies may exceed a known sigma2 and hold no texture.
	aboveSigma2 = 1.2
	fewShared   = 32 // blocks from which there is an answer
	// highest is the band of the highest frequencies, which shared noise reaches least.
	highest = len(highBands) - 1
)

// smoothest are the shares of the smoothest blocks over which energies are compared; the second is that of the answer.
var smoothest = [...]float64{0.05, 0.1, 0.2, 0.4, 1}

// spectrum holds what is compared of a block: energies of the middle frequencies in two halves, which are
// independent of each other in white noise, of those next to the highest in the same halves, and the coefficients
// of the highest, of all channels.
type spectrum struct {
	texture, next [2]float64
	bands         [compared]float64 // of the highest, and of the highest along each axis
	high          [][]float64
	at            [2]int // its row and column of blocks
	// across are coefficients of the highest frequencies across rows, and across columns, that are constant along them,
	// by channel, and inner is the energy of high frequencies in both directions.
	across [][2][lineFrequencies]float64
	inner  float64
}

const (
	// compared is the number of bands that are compared: those of the highest frequencies, and those of at least
	// highAlong along either axis, which noise that is shared along that axis reaches least.
	compared  = len(highBands) + 2
	highAlong = 6
)

// sizes are the numbers of coefficients of the bands that are compared.
var sizes = func() (n [compared]float64) {
	copy(n[:], bandSizes[:])
	n[compared-2], n[compared-1] = (blockSide-highAlong)*blockSide, (blockSide-highAlong)*blockSide
	return n
}()

// nextTexture is the least of the frequencies that are compared with the highest.
const nextTexture = 6

// Shared compares the spectrum of the noise in the smoothest blocks of 8 x 8 pixels of an image with that of white
// noise, which is independent over channels. Blocks are ordered by one half of their middle frequencies and compared
// by the other, so that the order does not bias what is compared. sigma2 is the
// variance of the noise, 0 where it is not known but from y: texture that is everywhere then looks like noise. An
// image without noise, or too small, shares none.
func (m Image) Shared(sigma2 float64) (s Shared) {
	channels := m.Channels
	if (m.Rows/blockSide)*(m.Columns/blockSide) < fewShared {
		return s
	}
	blocks := m.spectra()
	if len(blocks) < fewShared {
		return s
	}
	var middle [len(smoothest)]float64
	var high [len(smoothest)][compared]float64
	for half := range 2 {
		slices.SortStableFunc(blocks, func(a, b spectrum) int { return cmp.Compare(a.texture[half], b.texture[half]) })
		for i := range smoothest {
			for _, b := range blocks[:most(blocks, i)] {
				n := float64(2 * most(blocks, i) * channels)
				middle[i] += b.next[1-half] / n / nextSizes[1-half]
				for band, energy := range b.bands {
					high[i][band] += energy / n / sizes[band]
				}
			}
		}
	}
	err := func(share int, coefficients float64) float64 {
		return math.Sqrt(2 / (float64(most(blocks, share)*channels) * coefficients))
	}
	s.High, s.Middle = high[1][highest], middle[1]
	if !(s.High > 0) {
		return Shared{}
	}
	noise := high[2][0]/high[0][0]-1 < flatHigh
	if sigma2 > 0 {
		// Texture only adds, so that any share of the blocks may show that sigma2 is not reached.
		for i, h := range high {
			for band, h := range h {
				if h*(1+shareErrors*err(i, sizes[band])) < leastShort*sigma2 {
					s.Neighbours, s.High = true, min(s.High, h)
				}
			}
		}
		noise = high[1][0] < aboveSigma2*sigma2
	} else {
		ratio, ratioErr := s.Middle/s.High, math.Hypot(err(1, bandSizes[highest]), err(1, nextSizes[0]+nextSizes[1]))
		s.Neighbours = ratio > max(leastRatio, 1+shareErrors*ratioErr) && middle[2]/middle[0]-1 < flatMiddle*(ratio-1)
	}
	if noise && !s.Neighbours {
		s.channels(blocks[:most(blocks, 1)], channels)
	}
	return s
}

// channels sets the correlation of the channels at the highest frequencies of the blocks.
func (s *Shared) channels(blocks []spectrum, channels int) {
	product := func(j, k int) (sum float64) {
		for _, b := range blocks {
			sum += floats.Dot(b.high[j], b.high[k])
		}
		return sum
	}
	least := max(leastShare, shareErrors/math.Sqrt(float64(len(blocks))*bandSizes[0]))
	for k := range channels {
		for j := range k {
			r := product(j, k) / math.Sqrt(product(j, j)*product(k, k))
			if math.Abs(r) > max(least, math.Abs(s.Channels)) {
				s.Channels, s.First, s.Second = r, j, k
			}
		}
	}
}

func most(blocks []spectrum, share int) int {
	return max(leastBlocks, int(smoothest[share]*float64(len(blocks))))
}

// halfOf says to which half of the frequencies below the highest coefficient (i, j) belongs.
func halfOf(i, j int) int { return (i - j + blockSide) / 2 % 2 }

// nextSizes are the numbers of coefficients next to the highest, of either half.
var nextSizes = func() (n [2]float64) {
	for i := range blockSide {
		for j := range blockSide {
			if f := i + j; f >= nextTexture && f < highBands[0] {
				n[halfOf(i, j)]++
			}
		}
	}
	return n
}()

// spectra are those of the blocks that hold noise in all channels.
func (m Image) spectra() (all []spectrum) {
	planes := lists.Make(m.Channels, m.plane)
	var pixels [blockSide][]float64
	for r := 0; r+blockSide <= m.Rows; r += blockSide {
		for c := 0; c+blockSide <= m.Columns; c += blockSide {
			s := spectrum{high: make([][]float64, 0, m.Channels), at: [2]int{r / blockSide, c / blockSide}}
			for _, p := range planes {
				if !p.block(&pixels, r, c) {
					break
				}
				s.add(cosineTransform(&pixels))
			}
			if len(s.high) == m.Channels {
				all = append(all, s)
			}
		}
	}
	return all
}

func (s *spectrum) add(d [blockSide][blockSide]float64) {
	high := make([]float64, 0, int(bandSizes[0]))
	var across [2][lineFrequencies]float64
	for f := range lineFrequencies {
		across[0][f], across[1][f] = d[blockSide-1-f][0], d[0][blockSide-1-f]
	}
	s.across = append(s.across, across)
	for i := range d {
		for j, v := range d[i] {
			f, half := i+j, halfOf(i, j)
			if i >= highAlong {
				s.bands[compared-2] += v * v
			}
			if j >= highAlong {
				s.bands[compared-1] += v * v
			}
			switch {
			case f >= highBands[0]:
				high = append(high, v)
				s.inner += v * v
				for b, least := range highBands {
					if f >= least {
						s.bands[b] += v * v
					}
				}
			case f >= leastTexture:
				s.texture[half] += v * v
				if f >= nextTexture {
					s.next[half] += v * v
				}
			}
		}
	}
	s.high = append(s.high, high)
}
