package figure

import (
	"cmp"
	"fmt"
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
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
	h := &plotter.Histogram{Bins: make([]plotter.HistogramBin, int(k)), Width: (high - low) / k}
	for i := range h.Bins {
		h.Bins[i].Min, h.Bins[i].Max = low+float64(i)*h.Width, low+float64(i+1)*h.Width
	}
	for _, v := range values {
		h.Bins[min(int(k)-1, int((v-low)/h.Width))].Weight++
	}
	return h
}

// bins draws a histogram with its upper edge, or with fill nil the edge alone, and returns a sample.
func (p *panel) bins(h *plotter.Histogram, fill color.Color, edge draw.LineStyle) plot.Thumbnailer {
	if fill != nil {
		h.FillColor, h.LineStyle = fill, stroke(white, 0.5)
		p.Add(unboxed{h})
	}
	upper := plotter.XYs{{X: h.Bins[0].Min}}
	for _, b := range h.Bins {
		upper = append(upper, plotter.XY{X: b.Min, Y: b.Weight}, plotter.XY{X: b.Max, Y: b.Weight})
	}
	l := p.line(edge, append(upper, plotter.XY{X: upper[len(upper)-1].X})...)
	if fill != nil {
		return &plotter.Polygon{Color: fill}
	}
	return l
}

func (h Histogram) plan() (*drawing, error) {
	if err := cmp.Or(
		check("Samples", h.Samples, len(h.Samples), false), check("Seeds", h.Seeds, len(h.Seeds), true),
		check("Loss", h.Loss, len(h.Loss), true),
	); err != nil {
		return nil, err
	}
	mean := stat.Mean(h.Samples, nil)
	ends := []float64{mean}
	if h.Loss != nil {
		ends = append(ends, stat.Mean(h.Loss, nil))
	}
	var all [2]*plotter.Histogram
	var counts, densities [2]float64 // the greatest
	for i, values := range [][]float64{h.Samples, h.Seeds} {
		if values != nil {
			all[i] = freedmanDiaconis(values)
			low, high, _, most := all[i].DataRange()
			ends = append(ends, low, high)
			counts[i], densities[i] = most, most/all[i].Width/float64(len(values))
		}
	}
	const apart = 4 // at most, for two densities in one frame
	overlay := h.Seeds != nil && max(densities[0], densities[1]) < apart*min(densities[0], densities[1])
	b := &block{title: h.Title, column: pageWidth}
	x := linearAxis(h.Label, slices.Min(ends), slices.Max(ends))
	// The axis begins at 0, so that heights can be compared.
	frame := func(name string, most float64, height vg.Length) *panel {
		p := b.panel(x, &axis{label: name, max: 1.08 * most, whole: !overlay}, height)
		p.grid()
		return p
	}
	fill, seedsFill, line, seedsLine := tint(blue, 0.3), tint(vermillion, 0.3), stroke(blue, 1.3),
		stroke(vermillion, 1.5)
	name := fmt.Sprintf("%s, n = %d", cmp.Or(h.SamplesName, "over samples of y"), len(h.Samples))
	seedsName := fmt.Sprintf("%s, n = %d", cmp.Or(h.SeedsName, "over seeds, one y"), len(h.Seeds))
	switch {
	case overlay:
		all[0].Normalize(1)
		all[1].Normalize(1)
		p := frame("density", max(densities[0], densities[1]), 210)
		b.label(name, p.bins(all[0], fill, line))
		b.label(seedsName, p.bins(all[1], nil, seedsLine))
	case h.Seeds != nil:
		b.label(name, frame("samples per bin", counts[0], 150).bins(all[0], fill, line))
		b.label(seedsName, frame("seeds per bin", counts[1], 110).bins(all[1], seedsFill, seedsLine))
	default:
		b.label(name, frame("samples per bin", counts[0], 210).bins(all[0], fill, line))
	}
	name = "mean over samples " + number(mean, 4)
	if n := len(h.Samples); n > 1 {
		name += " ± " + number(stat.StdDev(h.Samples, nil)/math.Sqrt(float64(n)), 2)
	}
	b.everywhere(name, stroke(blue, 1.2, 4, 2), mean)
	if h.Loss != nil {
		b.everywhere("mean true loss "+number(ends[1], 4), stroke(black, 1.5), ends[1])
	}
	return b.alone(), nil
}

func (b *block) everywhere(name string, s draw.LineStyle, x float64) {
	for _, p := range b.panels {
		p.vertical(s, x)
	}
	b.label(name, &plotter.Line{LineStyle: s})
}
