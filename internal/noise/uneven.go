package noise

import (
	"cmp"
	"math"
	"slices"
)

// Uneven is noise whose variance differs between parts of an image or a sequence.
type Uneven struct {
	// Least and Greatest are the variances of the noise in two parts.
	Least, Greatest float64
	// By says how the parts differ, [ByBrightness], [ByPlace] or [ByChannel]; "" where the noise is even, or that is
	// not known. LeastAt and GreatestAt are the mean brightness of the parts, or their channels, counted from 0.
	By                  string
	LeastAt, GreatestAt float64
	// Chance is the probability of such a difference where the noise is even, of residuals that are compared by groups.
	Chance float64
}

// Sure reports that the noise is uneven beyond chance.
func (u Uneven) Sure() bool { return u.By != "" && u.Chance < FalseAlarm }

// The ways in which parts differ.
const (
	ByBrightness = "brightness"
	ByPlace      = "place"
	ByChannel    = "channel"
	ByRow        = "row"
	ByColumn     = "column"
	ByFitted     = "fitted value"
)

const (
	// unevenRatio is the ratio of variances from which noise is uneven, which must be unevenErrors standard errors
	// from 1.
	unevenRatio, unevenErrors = 1.35, 5
	// A part is that share of its blocks which is smoothest, and at least fewSmooth of them. Its noise is white, and
	// its texture does not matter, where energies at middle frequencies exceed those at high ones by less than
	// texturedFrom.
	smoothShare, fewSmooth, texturedFrom = 0.25, 16, 0.1
	// brightnesses and places are the numbers of parts by brightness, and of places along a side.
	brightnesses, places = 5, 3
	// mostCells is about the most blocks that are looked at: more say no more.
	mostCells = 1 << 14
	// widest is the band of all high frequencies.
	widest = 0
)

// cell is a block of a channel.
type cell struct {
	spectrum
	mean           float64
	channel, place int
}

// Uneven compares the variances of the noise in bright and dark parts of an image, in its places, and in its channels,
// each in the smoothest blocks of 8 x 8 pixels of the part: photons and clipped or rescaled values have noise that
// follows the brightness, combined coils and vignetting noise that follows the place. Blocks are ordered by one half of
// their middle frequencies; where the other half has more energy than the high ones, there is texture, and the part
// says nothing. Images of fewer than some hundred blocks are even.
func (m Image) Uneven() (u Uneven) {
	cells := m.cells()
	slices.SortStableFunc(cells, func(a, b cell) int { return cmp.Compare(a.mean, b.mean) })
	n := len(cells)
	for _, by := range []struct {
		name string
		of   func(i int) int
	}{
		{ByChannel, func(i int) int { return cells[i].channel }},
		{ByBrightness, func(i int) int { return i * brightnesses / n }},
		{ByPlace, func(i int) int { return cells[i].place }},
	} {
		groups := make([][]cell, max(m.Channels, brightnesses, places*places))
		for i, c := range cells {
			k := by.of(i)
			groups[k] = append(groups[k], c)
		}
		var known []part
		for k, g := range groups {
			if p, ok := partOf(g); ok {
				p.number = k
				known = append(known, p)
			}
		}
		if len(known) < 2 {
			continue
		}
		low, high := extremes(known)
		if high.variance > low.variance*max(unevenRatio, 1+unevenErrors*math.Hypot(low.relative, high.relative)) {
			u = Uneven{low.variance, high.variance, by.name, low.mean, high.mean, 0}
			if by.name == ByChannel {
				u.LeastAt, u.GreatestAt = float64(low.number), float64(high.number)
			}
			return u
		}
	}
	return u
}

// part is what the smoothest blocks of a part say.
type part struct {
	number                   int
	variance, relative, mean float64
}

// partOf is the variance of the noise of a part; ok is false where it has texture, or few blocks.
func partOf(cells []cell) (p part, ok bool) {
	m := int(smoothShare * float64(len(cells)))
	if m < fewSmooth {
		return p, false
	}
	middle := 0.0
	for half := range 2 {
		slices.SortStableFunc(cells, func(a, b cell) int { return cmp.Compare(a.texture[half], b.texture[half]) })
		for _, c := range cells[:m] {
			p.variance += c.bands[widest] / bandSizes[widest] / float64(2*m)
			middle += c.next[1-half] / nextSizes[1-half] / float64(2*m)
			p.mean += c.mean / float64(2*m)
		}
	}
	p.relative = math.Sqrt(2 / (float64(m) * bandSizes[widest]))
	ratioErr := math.Hypot(p.relative, math.Sqrt(2/(float64(m)*(nextSizes[0]+nextSizes[1]))))
	return p, p.variance > 0 && middle/p.variance-1 < max(texturedFrom, 2*ratioErr)
}

// cells are the blocks that hold noise, of a large image some of them.
func (m Image) cells() (all []cell) {
	var pixels [blockSide][]float64
	step, at := 1+m.Rows*m.Columns*m.Channels/(blockSide*blockSide*mostCells), 0
	for k := range m.Channels {
		p := m.plane(k)
		for r := 0; r+blockSide <= m.Rows; r += blockSide {
			for c := 0; c+blockSide <= m.Columns; c += blockSide {
				if at++; at%step == 0 && p.block(&pixels, r, c) {
					x := cell{mean: p.beside(r, c), channel: k, place: r*places/m.Rows*places + c*places/m.Columns}
					x.add(cosineTransform(&pixels))
					all = append(all, x)
				}
			}
		}
	}
	return all
}

// beside is the mean of the pixels to the left and right of a block, whose noise is not that of the block: where noise
// is skewed, a block's own mean says how much it has.
func (p plane) beside(r, c int) (mean float64) {
	n := 0.0
	for i := r; i < r+blockSide; i++ {
		for j := max(0, c-blockSide); j < min(c+2*blockSide, p.cols); j++ {
			if j < c || j >= c+blockSide {
				mean += p.y[i*p.cols+j]
				n++
			}
		}
	}
	return mean / max(n, 1)
}
