package figure

import (
	"cmp"
	"fmt"
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Histogram is the distribution of SURE over samples of y, beside the mean true
// loss that it estimates, and the spread of the estimator alone: SURE at one y
// over the seeds of its probes, in a frame below the first, on the same axis.
//
// The bins are those of Freedman and Diaconis: 2 (interquartile range) n^(-1/3) wide.
type Histogram struct {
	Title string
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

const mostBins = 120

// freedmanDiaconis sorts the values into bins: from the least to the greatest, the width rounded
// down to a whole number of them. Where the quartiles coincide, Sturges' number of bins is used.
// [plotter.NewHist] panics where rounding puts a value into the bin after the last.
func freedmanDiaconis(values []float64) *plotter.Histogram {
	sorted := slices.Sorted(slices.Values(values))
	low, high := sorted[0], sorted[len(sorted)-1]
	n := float64(len(values))
	k := math.Ceil(math.Log2(n)) + 1
	if size := max(math.Abs(low), math.Abs(high)); high-low <= 1e-12*size {
		half := 0.01 * size
		if size == 0 {
			half = 0.5
		}
		low, high, k = low-half, high+half, 1
	} else if iqr := stat.Quantile(0.75, stat.LinInterp, sorted, nil) - stat.Quantile(0.25, stat.LinInterp, sorted,
		nil); iqr > 0 {
		k = math.Ceil((high - low) / (2 * iqr / math.Cbrt(n)))
	}
	k = max(1, min(mostBins, k))
	edges := floats.Span(make([]float64, int(k)+1), low, high)
	edges[int(k)] = math.Nextafter(high, math.Inf(1)) // the greatest value is in the last bin
	h := &plotter.Histogram{Width: (high - low) / k}
	for i, count := range stat.Histogram(nil, edges, sorted, nil) {
		h.Bins = append(h.Bins, plotter.HistogramBin{Min: edges[i], Max: edges[i+1], Weight: count})
	}
	return h
}

// bins draws a histogram with its upper edge.
func (p *panel) bins(h *plotter.Histogram, c color.RGBA) {
	h.FillColor, h.LineStyle = tint(c, 0.3), stroke(white, 0.5)
	p.Add(unboxed{h})
	upper := plotter.XYs{{X: h.Bins[0].Min}}
	for _, b := range h.Bins {
		upper = append(upper, plotter.XY{X: b.Min, Y: b.Weight}, plotter.XY{X: b.Max, Y: b.Weight})
	}
	p.line(stroke(c, 1.4), append(upper, plotter.XY{X: upper[len(upper)-1].X})...)
}

func (h Histogram) draw(c *page) (end vg.Length, err error) {
	if err := cmp.Or(
		check("Samples", h.Samples, len(h.Samples), false), check("Seeds", h.Seeds, len(h.Seeds), true),
		check("Loss", h.Loss, len(h.Loss), true),
	); err != nil {
		return 0, err
	}
	type part struct {
		name, label string
		values      []float64
		height      vg.Length
		color       color.RGBA
	}
	parts := []part{{cmp.Or(h.SamplesName, "over samples of y"), "samples per bin", h.Samples, 210, blue}}
	if h.Seeds != nil {
		parts[0].height = 150
		parts = append(parts, part{cmp.Or(h.SeedsName, "over seeds, one y"), "seeds per bin", h.Seeds, 110, vermillion})
	}
	mean := stat.Mean(h.Samples, nil)
	ends := []float64{mean}
	if h.Loss != nil {
		ends = append(ends, stat.Mean(h.Loss, nil))
	}
	for _, one := range parts {
		ends = append(ends, slices.Min(one.values), slices.Max(one.values))
	}
	b := &block{title: h.Title, column: pageWidth}
	x := linearAxis(h.Label, slices.Min(ends), slices.Max(ends))
	for _, one := range parts {
		bins := freedmanDiaconis(one.values)
		_, _, _, most := bins.DataRange()
		p := b.panel(x, &axis{label: one.label, max: 1.08 * most, whole: true}, one.height)
		p.grid()
		p.bins(bins, one.color)
		b.label(fmt.Sprintf("%s, n = %d", one.name, len(one.values)), &plotter.Polygon{Color: bins.FillColor})
	}
	name := "mean over samples " + number(mean, 4)
	if n := len(h.Samples); n > 1 {
		name += " ± " + number(stat.StdDev(h.Samples, nil)/math.Sqrt(float64(n)), 2)
	}
	b.everywhere(name, stroke(blue, 1.2, 4, 2), mean)
	if h.Loss != nil {
		b.everywhere("mean true loss "+number(ends[1], 4), stroke(black, 1.5), ends[1])
	}
	return b.draw(c, 0, -edge), nil
}

func (b *block) everywhere(name string, s draw.LineStyle, x float64) {
	for _, p := range b.panels {
		p.vertical(s, x)
	}
	b.label(name, &plotter.Line{LineStyle: s})
}
