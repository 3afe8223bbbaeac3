package noise

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"surepipe/internal/lists"
)

// Pattern is noise that rows or columns of an image have in common, or a wave over all of it.
type Pattern struct {
	// Of says what the noise belongs to, [ByRow], [ByColumn] or [ByWave], "" where there is none.
	Of string
	// Share is its variance over that of the noise of single pixels, and Period that of a wave, in pixels.
	Share, Period float64
}

// ByWave is a wave over the image.
const ByWave = "wave"

const (
	// lineFrequencies is the number of the highest frequencies across lines by which these are compared.
	lineFrequencies = 3
	// fewInLine is the number of blocks from which a line of them is looked at, and mostOfLine the number of standard
	// deviations that each counts at most, so that a few lines with edges along them do not decide.
	fewInLine, mostOfLine = 4, 2
	// Blocks are smooth up to smoothErrors standard deviations above the energy that a quarter of them have less than,
	// and rough ones have texture along the lines where they share moreInRough times as much.
	smoothErrors, moreInRough = 2.5, 2
)

// Pattern looks for noise that pixels have in common over all of an image: offsets of rows or columns, as of a sensor
// that is read line by line, and waves.
func (m *Image) Pattern() Pattern {
	if blocks := m.joint(); len(blocks) >= fewShared {
		if p := m.lines(blocks); p.Of != "" {
			return p
		}
	}
	return m.wave()
}

// lines compares the blocks of each row of blocks, or each column of them: offsets of rows are the same in all blocks
// beside each other, and neither noise nor most texture is. Of n coefficients u of one frequency across the rows
//
//	(sum u)^2 - sum u^2
//
// has the mean 0 and the variance 2 (sum u^2)^2 - 2 sum u^4 where all signs are equally likely, and the mean n (n - 1)
// times a variance that they share. They are those of smooth blocks; where rough ones share far more, it is texture.
func (m *Image) lines(blocks []joint) (p Pattern) {
	inner := lists.Map(blocks, func(b joint) float64 { return b.inner })
	slices.Sort(inner)
	spread := math.Sqrt(2 / (bandSizes[widest] * float64(m.Channels)))
	length := stat.Mean(lists.Map(blocks, func(b joint) float64 { return b.of[0].pixels }), nil) / blockSide
	smooth := inner[len(inner)/4] * (1 + smoothErrors*spread)
	for axis, of := range []string{ByRow, ByColumn} {
		var both [2]common // of smooth and of rough blocks
		score, lines := 0.0, 0.0
		at := make([][2][]*joint, [2]int{m.Rows, m.Columns}[axis]/blockSide)
		for i := range blocks {
			b, rough := &blocks[i], 0
			if b.inner > smooth {
				rough = 1
			}
			line := &at[b.of[0].at[axis]/blockSide]
			line[rough] = append(line[rough], b)
		}
		for _, line := range at {
			var alone common
			for k := range m.Channels {
				for f := range lineFrequencies {
					alone.add(line[0], k, axis, f)
					both[1].add(line[1], k, axis, f)
				}
			}
			if both[0].join(alone); alone.variance > 0 {
				score += min(alone.products/math.Sqrt(alone.variance), mostOfLine)
				lines++
			}
		}
		if !(lines > 0) || distuv.UnitNormal.Survival(score/math.Sqrt(lines)) > FalseAlarm/2 {
			continue
		}
		shared := both[0].products / both[0].pairs
		if r := both[1]; r.pairs > 0 && r.products > moreInRough*shared*r.pairs+math.Sqrt(r.variance) {
			continue
		}
		alone := both[0].squares/both[0].n - shared
		if share := shared / alone / length; share > max(p.Share, LeastBias(m.known())) {
			p = Pattern{Of: of, Share: share}
		}
	}
	return p
}

// common is what coefficients have in common.
type common struct{ products, variance, pairs, squares, n float64 }

func (c *common) join(other common) {
	c.products += other.products
	c.variance += other.variance
	c.pairs += other.pairs
	c.squares += other.squares
	c.n += other.n
}

func (c *common) add(blocks []*joint, channel, axis, frequency int) {
	if len(blocks) < fewInLine {
		return
	}
	sum, squares, fourth := 0.0, 0.0, 0.0
	for _, b := range blocks {
		u := b.of[channel].across[axis][frequency]
		sum, squares, fourth = sum+u, squares+u*u, fourth+u*u*u*u
	}
	n := float64(len(blocks))
	c.join(common{sum*sum - squares, 2*squares*squares - 2*fourth, n * (n - 1), squares, n})
}
