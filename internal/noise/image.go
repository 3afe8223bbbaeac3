package noise

import (
	"slices"

	"gonum.org/v1/gonum/stat"

	"surepipe/internal/lists"
)

// Image is y as the pixels of an image, row by row, with its channels side by side. All that is looked for in it is
// read off the same blocks, which are those of Y when the first is looked for. Shape is that of the array.
type Image struct {
	Y                       []float64
	Rows, Columns, Channels int
	Shape                   []int
	seen                    []bool // nil where all pixels are
	planes                  []plane
	blocks                  []spectrum // all of one channel, then those of the next
}

func NewImage(y []float64, rows, cols, channels int) *Image {
	return &Image{Y: y, Rows: rows, Columns: cols, Channels: channels}
}

// mostColours is the largest last axis that are channels in any case.
const mostColours = 4

// Planes is an array of two axes or more as an image. The last of three axes or more are channels where they are few,
// or too few to have blocks and it is the shortest axis; the slices of any other volume lie below each other.
func Planes(y []float64, shape []int) *Image {
	whole, channels := shape, 1
	if last := len(shape) - 1; last > 1 {
		if n := shape[last]; n <= mostColours || n < leastSide && n == slices.Min(shape) {
			channels, shape = n, shape[:last]
		}
	}
	cols := shape[len(shape)-1]
	m := NewImage(y, len(y)/max(1, cols*channels), cols, channels)
	m.Shape = whole
	return m
}

// Gapped is the image of a shape of which y are the values at some places. In a block of which n of the 64 pixels are
// there, at least half, the coefficients are those in an orthonormal basis of R^n that Gram and Schmidt make, of
// polynomials at these pixels in the order of their degrees. They are white where the noise is; the last 21 stand
// for the highest frequencies, and the first 6, to which slopes and curvature add alone, for the lowest.
func Gapped(y []float64, places, shape []int) *Image {
	pixels := lists.Product(shape)
	whole, seen := slices.Repeat([]float64{stat.Mean(y, nil)}, pixels), make([]bool, pixels)
	for k, at := range places {
		whole[at], seen[at] = y[k], true
	}
	m := Planes(whole, shape)
	m.seen = seen
	m.fill()
	return m
}

// nearby is half the side of the squares by whose means gaps are filled.
const nearby = 2

// fill puts in the place of each missing pixel the mean of those in a square around it, a larger one where there are
// none.
func (m *Image) fill() {
	for k := range m.Channels {
		sums := make([][2]float64, (m.Rows+1)*(m.Columns+1)) // of the pixels above and to the left, and their number
		for i := range m.Rows {
			for j := range m.Columns {
				at, place := (i+1)*(m.Columns+1)+j+1, (i*m.Columns+j)*m.Channels+k
				above, left, both := sums[at-m.Columns-1], sums[at-1], sums[at-m.Columns-2]
				for s := range 2 {
					sums[at][s] = above[s] + left[s] - both[s]
				}
				if m.seen[place] {
					sums[at][0], sums[at][1] = sums[at][0]+m.Y[place], sums[at][1]+1
				}
			}
		}
		for i := range m.Rows {
			for j := range m.Columns {
				place := (i*m.Columns+j)*m.Channels + k
				for side := nearby; !m.seen[place] && side < 2*max(m.Rows, m.Columns); side *= 2 {
					top, below := max(0, i-side)*(m.Columns+1), min(m.Rows, i+side+1)*(m.Columns+1)
					left, right := max(0, j-side), min(m.Columns, j+side+1)
					n := sums[below+right][1] - sums[top+right][1] - sums[below+left][1] + sums[top+left][1]
					if n > 0 {
						m.Y[place] = (sums[below+right][0] - sums[top+right][0] - sums[below+left][0] +
							sums[top+left][0]) / n
						break
					}
				}
			}
		}
	}
}

// each is the list of the values of one channel.
func each[T any](all []T, k, channels int) []T {
	return lists.Make(len(all)/channels, func(i int) T { return all[i*channels+k] })
}

func (m *Image) channel(k int) []float64 { return each(m.Y, k, m.Channels) }

func (m *Image) plane(k int) plane {
	if m.planes == nil {
		m.planes = lists.Make(m.Channels, func(k int) plane {
			p := planeOf(m.channel(k), m.Rows, m.Columns)
			if m.seen != nil {
				p.seen = each(m.seen, k, m.Channels)
			}
			return p
		})
	}
	return m.planes[k]
}

// known is the number of the values that are there.
func (m *Image) known() int {
	return len(lists.Places(len(m.Y), func(i int) bool { return m.seen == nil || m.seen[i] }))
}

// energies are sums of squares of the coefficients of a block: at middle frequencies in two halves, which are
// independent of each other in white noise, at the low ones of these, but for those along an axis, which slopes of
// brightness have, and at those next to the highest in the same halves, at the highest and along each axis, and at high
// ones in both directions.
type energies struct {
	texture, low, next [2]float64
	lows, sizes        [2]float64 // the numbers of coefficients of low and of next
	bands              [compared]float64
	inner              float64
}

// spectrum is what is known of a block of a channel.
type spectrum struct {
	energies
	noisy   bool // it holds noise; all else is zero where it does not
	pixels  float64
	at      [2]int
	channel int
	high    [mostHigh]float64 // the coefficients of the highest frequencies
	// across are coefficients of the highest frequencies across rows, and across columns, that are constant along them.
	across [2][lineFrequencies]float64
}

// middle is the energy of all middle frequencies.
func (e energies) middle() float64 { return e.texture[0] + e.texture[1] }

// noisy are those of every so many blocks that hold noise.
func noisy(all []spectrum, every int) []*spectrum {
	some := make([]*spectrum, 0, len(all)/every)
	for i := every - 1; i < len(all); i += every {
		if all[i].noisy {
			some = append(some, &all[i])
		}
	}
	return some
}

// joint is the same block of all channels.
type joint struct {
	energies
	of []*spectrum
}

const (
	// compared is the number of bands that are compared: those of the highest frequencies, and those of at least
	// highAlong along either axis, which noise that is shared along that axis reaches least.
	compared  = len(highBands) + 2
	highAlong = 6
	// mostHigh is the number of coefficients of the widest band.
	mostHigh = 21
)

// sizes are the numbers of coefficients of the bands that are compared.
var sizes = func() (n [compared]float64) {
	copy(n[:], bandSizes[:])
	n[compared-2], n[compared-1] = (blockSide-highAlong)*blockSide, (blockSide-highAlong)*blockSide
	return n
}()

// nextTexture is the least of the frequencies that are compared with the highest.
const nextTexture = 6

// spectra are those of all blocks of all channels.
func (m *Image) spectra() []spectrum {
	if m.blocks == nil && min(m.Rows, m.Columns) >= blockSide {
		for k := range m.Channels {
			m.blocks = append(m.blocks, m.plane(k).spectra(k)...)
		}
	}
	return m.blocks
}

// spectra are those of the blocks of a plane, which is a channel.
func (p plane) spectra(channel int) []spectrum {
	all := make([]spectrum, 0, (p.rows/blockSide)*(p.cols/blockSide))
	var pixels [blockSide][]float64
	step, at := 1+cap(all)/mostGapped, 0
	for r := 0; r+blockSide <= p.rows; r += blockSide {
		for c := 0; c+blockSide <= p.cols; c += blockSide {
			s := spectrum{at: [2]int{r, c}, channel: channel}
			switch {
			case p.seen != nil:
				if at++; at%step == 0 {
					p.gapped(&s)
				}
			case p.block(&pixels, r, c):
				s.set(cosineTransform(&pixels))
			}
			all = append(all, s)
		}
	}
	return all
}

// joint are the blocks that hold noise in all channels.
func (m *Image) joint() (all []joint) {
	blocks := m.spectra()
	each := len(blocks) / max(m.Channels, 1)
	for b := range each {
		j := joint{of: make([]*spectrum, 0, m.Channels)}
		for k := 0; k < m.Channels && blocks[k*each+b].noisy; k++ {
			j.add(&blocks[k*each+b])
		}
		if len(j.of) == m.Channels {
			all = append(all, j)
		}
	}
	return all
}

func (j *joint) add(s *spectrum) {
	j.of = append(j.of, s)
	for half := range 2 {
		j.texture[half] += s.texture[half]
		j.low[half] += s.low[half]
		j.lows[half] += s.lows[half]
		j.next[half] += s.next[half]
		j.sizes[half] += s.sizes[half]
	}
	for b, v := range s.bands {
		j.bands[b] += v
	}
	j.inner += s.inner
}

func (s *spectrum) set(d [blockSide][blockSide]float64) {
	s.noisy, s.pixels, s.lows, s.sizes = true, blockSide*blockSide, lowSizes, nextSizes
	for f := range lineFrequencies {
		s.across[0][f], s.across[1][f] = d[blockSide-1-f][0], d[0][blockSide-1-f]
	}
	high := s.high[:0]
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
				} else if min(i, j) > 0 {
					s.low[half] += v * v
				}
			}
		}
	}
}

// halfOf says to which half of the frequencies below the highest coefficient (i, j) belongs.
func halfOf(i, j int) int { return (i - j + blockSide) / 2 % 2 }

// lowSizes and nextSizes are the numbers of low coefficients and of those next to the highest, of either half.
var lowSizes, nextSizes = sizesOf(leastTexture, nextTexture, 1), sizesOf(nextTexture, highBands[0], 0)

// sizesOf are the numbers of coefficients of the frequencies from one to below another, and from one along each axis,
// of either half.
func sizesOf(from, to, along int) (n [2]float64) {
	for i := along; i < blockSide; i++ {
		for j := along; j < blockSide; j++ {
			if f := i + j; f >= from && f < to {
				n[halfOf(i, j)]++
			}
		}
	}
	return n
}
