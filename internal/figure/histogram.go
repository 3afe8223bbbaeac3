package figure

import (
	"image/color"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/plot/vg"
)

// Histogram is the distribution of SURE over samples of y, beside the mean true
// loss that it estimates, and the spread of the estimator alone: SURE at one y
// over the seeds of its probes. The two distributions share a frame, as densities,
// where their heights allow; otherwise the second has a frame below the first, on
// the same axis, and both have counts.
//
// The bins are those of Freedman and Diaconis: 2 (interquartile range) n^(-1/3) wide.
type Histogram struct {
	Title string
	// Label names the values, "SURE / d" by default.
	Label string
	// Samples has one value for each sample of y.
	Samples []float64
	// SamplesName is what the legend calls them, "over samples of y" by default.
	SamplesName string
	// Seeds has values at one sample that differ only in the seed. Nil: none.
	Seeds []float64
	// SeedsName is what the legend calls them, "over seeds, one y" by default.
	SeedsName string
	// Loss has the true loss of each sample, or their mean alone, in the units of
	// Samples. Nil: not known.
	Loss []float64
}

// bins are of equal width; the first begins at from.
type bins struct {
	from, width float64
	counts      []int
}

const mostBins = 120

// freedmanDiaconis sorts the values into bins: from the least to the greatest, the width rounded
// down to a whole number of them. Where the quartiles coincide, Sturges' number of bins is used.
func freedmanDiaconis(values []float64) bins {
	sorted := slices.Sorted(slices.Values(values))
	low, high := sorted[0], sorted[len(sorted)-1]
	if high-low <= 1e-12*max(math.Abs(low), math.Abs(high)) {
		width := 0.02 * max(math.Abs(low), math.Abs(high))
		if width == 0 {
			width = 1
		}
		return bins{from: low - width/2, width: width, counts: []int{len(values)}}
	}
	n := float64(len(values))
	k := math.Ceil(math.Log2(n)) + 1
	iqr := stat.Quantile(0.75, stat.LinInterp, sorted, nil) - stat.Quantile(0.25, stat.LinInterp, sorted, nil)
	if iqr > 0 {
		k = math.Ceil((high - low) / (2 * iqr / math.Cbrt(n)))
	}
	k = max(1, min(mostBins, k))
	b := bins{from: low, width: (high - low) / k, counts: make([]int, int(k))}
	for _, v := range values {
		b.counts[min(int(k)-1, int((v-low)/b.width))]++
	}
	return b
}

// heights are counts, or with density shares of the total per unit of the axis.
func (b bins) heights(density bool) []float64 {
	total := 0
	for _, n := range b.counts {
		total += n
	}
	h := make([]float64, len(b.counts))
	for i, n := range b.counts {
		h[i] = float64(n)
		if density {
			h[i] /= float64(total) * b.width
		}
	}
	return h
}

func (b bins) to() float64 { return b.from + float64(len(b.counts))*b.width }

// draw fills the histogram, unless fill is nil, and draws its upper edge.
func (b bins) draw(c *canvas, p *panel, heights []float64, fill color.Color, s stroke) {
	points := []vg.Point{p.at(b.from, 0)}
	for i, h := range heights {
		points = append(points, p.at(b.from+float64(i)*b.width, h), p.at(b.from+float64(i+1)*b.width, h))
	}
	points = append(points, p.at(b.to(), 0))
	if fill != nil {
		c.polygon(points, fill)
		for i := 1; i < len(heights); i++ {
			x := b.from + float64(i)*b.width
			c.line(stroke{color: white, width: 0.5}, p.at(x, 0), p.at(x, min(heights[i-1], heights[i])))
		}
	}
	c.line(s, points...)
}

func (h Histogram) check() error {
	if err := checkSeries("Samples", h.Samples, -1); err != nil {
		return err
	}
	if h.Seeds != nil {
		if err := checkSeries("Seeds", h.Seeds, -1); err != nil {
			return err
		}
	}
	if h.Loss != nil {
		if err := checkSeries("Loss", h.Loss, -1); err != nil {
			return err
		}
	}
	return nil
}

func (h Histogram) plan() (*drawing, error) {
	if err := h.check(); err != nil {
		return nil, err
	}
	label := orDefault(h.Label, "SURE / d")
	samples := freedmanDiaconis(h.Samples)
	low, high := samples.from, samples.to()
	mean := stat.Mean(h.Samples, nil)
	var seeds bins
	if h.Seeds != nil {
		seeds = freedmanDiaconis(h.Seeds)
		low, high = min(low, seeds.from), max(high, seeds.to())
	}
	var loss float64
	if h.Loss != nil {
		loss = stat.Mean(h.Loss, nil)
		low, high = min(low, loss), max(high, loss)
	}
	x := linearAxis(label, low, high)
	highest := func(b bins, density bool) float64 { return slices.Max(b.heights(density)) }
	const most = 4
	ratio := 1.0
	if h.Seeds != nil {
		ratio = highest(seeds, true) / highest(samples, true)
	}
	overlay := h.Seeds != nil && ratio < most && ratio > 1.0/most
	// The axis begins at 0, so that heights can be compared.
	countAxis := func(name string, highest float64) *axis {
		return &axis{label: name, max: 1.08 * highest, whole: !overlay}
	}

	b := &block{title: h.Title, gap: 10}
	over := func(name string, n int) text {
		return join(plain(name), text{{s: ", n = " + strconv.Itoa(n)}})
	}
	outline := stroke{color: blue, width: 1.3}
	fill := tint(blue, 0.3)
	top := &panel{x: x, height: 210}
	b.panels = []*panel{top}
	b.legend = append(b.legend, entry{label: over(orDefault(h.SamplesName, "over samples of y"), len(h.Samples)), band: fill})
	first := samples.heights(overlay)
	top.y = countAxis("samples per bin", slices.Max(first))
	top.front = append(top.front, func(c *canvas, p *panel) { samples.draw(c, p, first, fill, outline) })
	if h.Seeds != nil {
		seedOutline := stroke{color: vermillion, width: 1.5}
		second := seeds.heights(overlay)
		e := entry{label: over(orDefault(h.SeedsName, "over seeds, one y"), len(h.Seeds))}
		if overlay {
			top.y = countAxis("density", max(slices.Max(first), slices.Max(second)))
			top.front = append(top.front, func(c *canvas, p *panel) { seeds.draw(c, p, second, nil, seedOutline) })
			e.line = &seedOutline
		} else {
			top.hideX = true
			top.height = 150
			seedFill := tint(vermillion, 0.3)
			b.panels = append(b.panels, &panel{
				x: x, y: countAxis("seeds per bin", slices.Max(second)), height: 110,
				front: []func(*canvas, *panel){func(c *canvas, p *panel) { seeds.draw(c, p, second, seedFill, seedOutline) }},
			})
			e.band = seedFill
		}
		b.legend = append(b.legend, e)
	}
	h.drawMeans(b, mean, loss)
	return b.alone(), nil
}

// drawMeans draws lines at the mean of the samples and, where it is known, the mean loss.
func (h Histogram) drawMeans(b *block, mean, loss float64) {
	vertical := func(at float64, s stroke) {
		for _, p := range b.panels {
			p.front = append(p.front, func(c *canvas, p *panel) { c.line(s, p.at(at, 0), p.at(at, p.y.max)) })
		}
	}
	meanLine := stroke{color: blue, width: 1.2, dashes: []vg.Length{4, 2}}
	vertical(mean, meanLine)
	name := join(text{{s: "mean over samples "}}, number(mean, 4))
	if n := len(h.Samples); n > 1 {
		name = join(name, text{{s: " ± "}}, number(stat.StdDev(h.Samples, nil)/math.Sqrt(float64(n)), 2))
	}
	b.legend = append(b.legend, entry{label: name, line: &meanLine})
	if h.Loss != nil {
		lossLine := stroke{color: black, width: 1.5}
		vertical(loss, lossLine)
		b.legend = append(b.legend, entry{label: join(text{{s: "mean true loss "}}, number(loss, 4)), line: &lossLine})
	}
}
