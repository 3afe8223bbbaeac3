package noise

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
)

// Shared is the noise that pixels of an image, or its channels, seem to have in common.
type Shared struct {
	// High is the energy of a coefficient of the highest frequencies in the smoothest blocks, which texture only adds
	// to, and Middle that of the frequencies below them. They are sigma2 where the noise is white.
	High, Middle float64
	// Neighbours says that pixels share noise: Middle exceeds High, or High is below the sigma2 that was given.
	Neighbours bool
	// Low is the energy at low frequencies over High's, all of them, where it is below 1, which texture does not make
	// it: noise of neighbours is of opposite sign, as after sharpening. It is 0 where that may be chance.
	Low float64
	// Channels is the correlation of the two channels, First and Second, that share most; 0 where that may be chance,
	// or where pixels share noise.
	Channels      float64
	First, Second int
}

const (
	// leastRatio is the ratio of the energies below and at the highest frequencies, and leastShort that of the latter
	// to sigma2, or of low ones to high ones, from which noise is taken for shared; leastShare is the least correlation
	// of channels. All must be shareErrors standard errors from white noise.
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

// Shared compares the spectrum of the noise in the smoothest blocks of 8 x 8 pixels of an image with that of white
// noise, which is independent over channels. Blocks are ordered by one half of their middle frequencies and compared
// by the other, so that the order does not bias what is compared. sigma2 is the
// variance of the noise, 0 where it is not known but from y: texture that is everywhere then looks like noise. An
// image without noise, or too small, shares none.
func (m *Image) Shared(sigma2 float64) (s Shared) {
	channels, blocks := m.Channels, m.joint()
	if sigma2 == 0 {
		blocks = slices.DeleteFunc(blocks, func(b joint) bool { return b.of[0].pixels < nextFrom+fewNext+mostHigh })
	}
	if len(blocks) < fewShared {
		return s
	}
	var middle, next, low, lows [len(smoothest)]float64
	var high [len(smoothest)][compared]float64
	for half := range 2 {
		slices.SortStableFunc(blocks, func(a, b joint) int { return cmp.Compare(a.texture[half], b.texture[half]) })
		for i := range smoothest {
			for _, b := range blocks[:most(blocks, i)] {
				n := float64(2 * most(blocks, i) * channels)
				middle[i] += b.next[1-half]
				next[i] += b.sizes[1-half]
				low[i] += b.low[1-half]
				lows[i] += b.lows[1-half]
				for band, energy := range b.bands {
					high[i][band] += energy / n / sizes[band]
				}
			}
		}
	}
	for i := range middle {
		middle[i] /= next[i]
	}
	err := func(share int, coefficients float64) float64 {
		return math.Sqrt(2 / (float64(most(blocks, share)*channels) * coefficients))
	}
	s.High, s.Middle = high[1][highest], middle[1]
	if !(s.High > 0) {
		return Shared{}
	}
	for i, h := range high {
		ratio, ratioErr := low[i]/lows[i]/h[0], math.Hypot(err(i, bandSizes[0]), math.Sqrt(2/lows[i]))
		if ratio < leastShort && ratio*(1+shareErrors*ratioErr) < 1 && (s.Low == 0 || ratio < s.Low) {
			s.Low = ratio
		}
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
		ratio, ratioErr := s.Middle/s.High, math.Hypot(err(1, bandSizes[highest]), math.Sqrt(2/next[1]))
		s.Neighbours = ratio > max(leastRatio, 1+shareErrors*ratioErr) && middle[2]/middle[0]-1 < flatMiddle*(ratio-1)
	}
	if noise && !s.Neighbours {
		s.channels(blocks[:most(blocks, 1)], channels)
	}
	return s
}

// channels sets the correlation of the channels at the highest frequencies of the blocks.
func (s *Shared) channels(blocks []joint, channels int) {
	product := func(j, k int) (sum float64) {
		for _, b := range blocks {
			sum += floats.Dot(b.of[j].high[:], b.of[k].high[:])
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

func most(blocks []joint, share int) int {
	return max(leastBlocks, int(smoothest[share]*float64(len(blocks))))
}
