package figure

import (
	"cmp"
	"image/color"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/gonum/stat"
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
	} else if iqr := stat.Quantile(0.75, stat.LinInterp, sorted, nil) - stat.Quantile(0.25, stat.LinInterp, sorted, nil); iqr > 0 {
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

// addHistogram draws the bins with their upper edge; fill nil: that alone.
func (p *panel) addHistogram(h *plotter.Histogram, fill color.Color, s draw.LineStyle) {
	if fill != nil {
		h.FillColor, h.LineStyle = fill, stroke(white, 0.5)
		p.add(h)
	}
	upper := []plotter.XY{{X: h.Bins[0].Min}}
	for _, b := range h.Bins {
		upper = append(upper, plotter.XY{X: b.Min, Y: b.Weight}, plotter.XY{X: b.Max, Y: b.Weight})
	}
	p.add(line(s, append(upper, plotter.XY{X: h.Bins[len(h.Bins)-1].Max})...))
}

func (h Histogram) plan() (*drawing, error) {
	err := cmp.Or(checkSeries("Samples", h.Samples, -1, anySign), checkSome("Seeds", h.Seeds), checkSome("Loss", h.Loss))
	if err != nil {
		return nil, err
	}
	samples := freedmanDiaconis(h.Samples)
	low, high, _, most := samples.DataRange()
	ends := []float64{low, high}
	seeds, overlay := samples, false
	if h.Seeds != nil {
		seeds = freedmanDiaconis(h.Seeds)
		low, high, _, mostSeeds := seeds.DataRange()
		ends = append(ends, low, high)
		const apart = 4 // of the heights of two densities in one frame
		ratio := mostSeeds / (float64(len(h.Seeds)) * seeds.Width) / (most / (float64(len(h.Samples)) * samples.Width))
		overlay = ratio < apart && ratio > 1.0/apart
	}
	if h.Loss != nil {
		ends = append(ends, stat.Mean(h.Loss, nil))
	}
	x := linearAxis(cmp.Or(h.Label, "SURE / d"), slices.Min(ends), slices.Max(ends))
	b := &block{title: h.Title}
	// The axis begins at 0, so that heights can be compared.
	frame := func(name string, height vg.Length, all ...*plotter.Histogram) *panel {
		most := 0.0
		for _, one := range all {
			if overlay {
				one.Normalize(1)
			}
			_, _, _, top := one.DataRange()
			most = max(most, top)
		}
		p := newPanel(x, &axis{label: name, max: 1.08 * most, whole: !overlay}, pageWidth, height)
		p.grid()
		b.panels = append(b.panels, p)
		return p
	}
	count := func(name string, n int) string { return name + ", n = " + strconv.Itoa(n) }
	blueFill, redFill := tint(blue, 0.3), tint(vermillion, 0.3)
	blueLine, redLine := stroke(blue, 1.3), stroke(vermillion, 1.5)
	b.legend = append(b.legend, bandEntry(count(cmp.Or(h.SamplesName, "over samples of y"), len(h.Samples)), blueFill))
	seedsName := count(cmp.Or(h.SeedsName, "over seeds, one y"), len(h.Seeds))
	switch {
	case h.Seeds == nil:
		frame("samples per bin", 210, samples).addHistogram(samples, blueFill, blueLine)
	case overlay:
		p := frame("density", 210, samples, seeds)
		p.addHistogram(samples, blueFill, blueLine)
		p.addHistogram(seeds, nil, redLine)
		b.legend = append(b.legend, lineEntry(seedsName, redLine))
	default:
		frame("samples per bin", 150, samples).addHistogram(samples, blueFill, blueLine)
		frame("seeds per bin", 110, seeds).addHistogram(seeds, redFill, redLine)
		b.legend = append(b.legend, bandEntry(seedsName, redFill))
	}
	h.means(b)
	return b.alone(), nil
}

// checkSome is checkSeries for values of any number but 0, or nil.
func checkSome(name string, values []float64) error { return checkOptional(name, values, -1, anySign) }

// means draws lines at the mean of the samples and, where it is known, the mean loss.
func (h Histogram) means(b *block) {
	vertical := func(at float64, s draw.LineStyle, label string) {
		for _, p := range b.panels {
			p.add(p.vertical(s, at))
		}
		b.legend = append(b.legend, lineEntry(label, s))
	}
	mean := stat.Mean(h.Samples, nil)
	name := "mean over samples " + number(mean, 4)
	if n := len(h.Samples); n > 1 {
		name += " ± " + number(stat.StdDev(h.Samples, nil)/math.Sqrt(float64(n)), 2)
	}
	vertical(mean, stroke(blue, 1.2, 4, 2), name)
	if h.Loss != nil {
		loss := stat.Mean(h.Loss, nil)
		vertical(loss, stroke(black, 1.5), "mean true loss "+number(loss, 4))
	}
}
