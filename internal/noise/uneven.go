package noise

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"

	"surepipe/internal/lists"
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
	ByWeight     = "weight"
	ByLeverage   = "leverage"
)

const (
	// unevenRatio is the least ratio of variances from which noise is uneven.
	unevenRatio = 1.35
	// A part is that share of its blocks which is smoothest, and at least as many as say something. Its noise is white,
	// and its texture does not matter, where energies at middle frequencies exceed those at high ones by less than
	// texturedFrom, or texturedErrors standard errors.
	smoothShare, texturedFrom, texturedErrors = 0.25, 0.1, 1.5
	// places is the number of places along a side, and fewPlaces that of an image of fewer than manyBlocks.
	places, fewPlaces, manyBlocks = 3, 2, 9 * 4 * fewInGroup
	// mostCells is about the most blocks that are looked at: more say no more.
	mostCells = 1 << 14
	// widest is the band of all high frequencies.
	widest = 0
)

// Uneven compares the variances of the noise in bright and dark parts of an image, in its places, and in its channels,
// each in the smoothest blocks of 8 x 8 pixels of the part, by the roots of their energies at high frequencies
// ([UnevenSpreads]): photons and clipped or rescaled values have noise that follows the brightness, combined coils and
// vignetting noise that follows the place. Blocks are ordered by their middle frequencies; where these have more energy
// than the high ones, there is texture, and the part says nothing. Images of fewer than 32 blocks are even.
func (m *Image) Uneven() Uneven {
	cells := m.cells()
	side := places
	if len(cells) < manyBlocks {
		side = fewPlaces
	}
	var bright Grouping
	bright.Fifths(ByBrightness, lists.Map(cells, func(c *spectrum) float64 { return m.plane(c.channel).beside(c.at) }))
	of := func(at func(c *spectrum) int) []int { return lists.Map(cells, at) }
	all := []Grouping{ByPlaces(ByChannel, of(func(c *spectrum) int { return c.channel }), m.Channels), bright,
		ByPlaces(ByPlace, of(func(c *spectrum) int {
			return c.at[0]*side/m.Rows*side + c.at[1]*side/m.Columns
		}), side*side)}
	for _, g := range all {
		groups := make([][]*spectrum, len(g.At))
		for i, k := range g.Of {
			groups[k] = append(groups[k], cells[i])
		}
		var spreads []float64
		g.Of = nil
		for k, group := range groups {
			for _, c := range smoothWhite(group, fewInGroup) {
				spreads, g.Of = append(spreads, math.Sqrt(c.bands[widest]/bandSizes[widest])), append(g.Of, k)
			}
		}
		u := UnevenSpreads(spreads, len(all), slices.Values([]Grouping{g}))
		if u.Sure() && u.Greatest > unevenRatio*u.Least {
			return u
		}
	}
	return Uneven{}
}

// smoothWhite are the smoothest blocks, and at least as many as said; none where they have texture.
func smoothWhite(cells []*spectrum, least int) []*spectrum {
	m := max(least, int(smoothShare*float64(len(cells))))
	if m > len(cells) {
		return nil
	}
	middle, high, n := 0.0, 0.0, 0.0
	for half := range 2 {
		for _, c := range leastOf(cells, m, func(c *spectrum) float64 { return c.texture[half] }) {
			high += c.bands[widest] / bandSizes[widest] / float64(2*m)
			middle += c.next[1-half]
			n += c.sizes[1-half]
		}
	}
	middle /= n
	err := math.Sqrt(2/(float64(m)*bandSizes[widest]) + 2/n)
	if !(high > 0) || middle/high-1 > max(texturedFrom, texturedErrors*err) {
		return nil
	}
	return leastOf(cells, m, func(c *spectrum) float64 { return c.middle() })
}

// leastOf are the m cells of which something is least.
func leastOf(cells []*spectrum, m int, of func(c *spectrum) float64) []*spectrum {
	most := lists.Smallest(lists.Map(cells, of), m-1)
	return slices.DeleteFunc(slices.Clone(cells), func(c *spectrum) bool { return of(c) > most })
}

// cells are the blocks that hold noise, of a large image some of them.
func (m *Image) cells() []*spectrum {
	return noisy(m.spectra(), 1+m.Rows*m.Columns*m.Channels/(blockSide*blockSide*mostCells))
}

// beside is the mean of the pixels to the left and right of a block, whose noise is not that of the block: where noise
// is skewed, a block's own mean says how much it has.
func (p plane) beside(at [2]int) (mean float64) {
	r, c, n := at[0], at[1], 0.0
	for i := r; i < r+blockSide; i++ {
		for j := max(0, c-blockSide); j < min(c+2*blockSide, p.cols); j++ {
			if (j < c || j >= c+blockSide) && (p.seen == nil || p.seen[i*p.cols+j]) {
				mean += p.y[i*p.cols+j]
				n++
			}
		}
	}
	return mean / max(n, 1)
}

// Range is that of the noise in the smoothest blocks of an image, of which there are 32 or more, where it is white
// there. Unlike [SmoothBlocks] it does not count fine texture for noise, which has more energy at middle frequencies
// than at high ones.
func (m *Image) Range() Range {
	energies := lists.Map(smoothWhite(m.cells(), fewShared), func(c *spectrum) float64 {
		return c.bands[widest] / bandSizes[widest]
	})
	if len(energies) == 0 {
		return Range{}
	}
	variance := stat.Mean(energies, nil)
	return Range{variance, variance, math.Sqrt(2 / (float64(len(energies)) * bandSizes[widest]))}
}
