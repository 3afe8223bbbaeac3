package figure

import (
	"cmp"
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg/draw"
)

// curve is a line through points with markers. Where there are many points only open markers are drawn, and
// those at the edge of the frame.
type curve struct {
	x, y   []float64
	closed []bool // nil: all markers are filled
	line   draw.LineStyle
	shape  int // of shapes
}

const manyPoints = 60

func (k curve) mark() draw.GlyphStyle {
	return marker(shapes[k.shape], 2.2, k.line.Color, stroke(k.line.Color, 0.5))
}

func (k curve) open() draw.GlyphStyle {
	return marker(shapes[k.shape], 2.7, white, stroke(k.line.Color, 1.2))
}

func (k curve) entry(label string) entry {
	e := lineEntry(label, k.line)
	if len(k.x) <= manyPoints {
		e.samples = append(e.samples, &plotter.Scatter{GlyphStyle: k.mark()})
	}
	return e
}

func (k curve) on(p *panel) {
	marks := p.marks(k.mark(), k.x, k.y)
	marks.GlyphStyleFunc = func(i int) draw.GlyphStyle {
		style := k.mark()
		if k.closed != nil && !k.closed[i] {
			style = k.open()
		}
		shape := style.Shape.(outline)
		switch v := k.y[i]; {
		case p.y.holds(v):
			if len(k.x) > manyPoints && style.Color != white {
				style.Shape = nil
			}
			return style
		case p.y.place(v) < p.y.min:
			shape.corners, shape.lift = downward, 3
		default:
			shape.corners, shape.lift = triangle, -3
		}
		style.Radius, style.Shape = 3, shape
		return style
	}
	p.add(line(k.line, p.xys(k.x, k.y)...), marks)
}

// bandTint is the share of a curve's colour in its band.
const bandTint = 0.22

// band fills the range from low to high. At a point that stands alone it is as wide as a marker.
func (p *panel) band(fill color.Color, x, low, high []float64) {
	ring := append(p.xys(x, low), reversed(p.xys(x, high))...)
	if len(x) == 1 {
		half := 0.008 * (p.x.max - p.x.min)
		ring = append(ring, ring[1], ring[0])
		for i, by := range []float64{-half, -half, half, half} {
			ring[i].X += by
		}
	}
	p.add(&plotter.Polygon{XYs: []plotter.XYs{ring}, Color: fill})
}

func reversed(points plotter.XYs) plotter.XYs {
	slices.Reverse(points)
	return points
}

// bandAxis is a linear axis for curves and a band around them. The curves keep at least a quarter of the axis;
// a wider band is cut off.
func bandAxis(label string, band []float64, curves ...[]float64) (a *axis, cut bool) {
	low, high, span := math.Inf(1), math.Inf(-1), 0.0
	for _, k := range curves {
		if len(k) > 0 {
			least, greatest := slices.Min(k), slices.Max(k)
			low, high, span = min(low, least), max(high, greatest), max(span, greatest-least)
		}
	}
	bandLow, bandHigh := min(low, slices.Min(band)), max(high, slices.Max(band))
	if span > 0 && bandHigh-bandLow > 4*(high-low) {
		room := 1.5 * (high - low)
		low, high = max(bandLow, low-room), min(bandHigh, high+room)
		return linearAxis(label, low, high), true
	}
	return linearAxis(label, bandLow, bandHigh), false
}

// wildGap is how many times the range of all others a value lies apart from them to be wild.
const wildGap = 2

// settled are the values that set the scale of an axis: those that converged (closed nil: all), or all
// if fewer than two did, without the wild ones, and those that have not converged if they lie no
// further from the others' range than its length. A wild value is the least or the greatest and
// further from the next one than wildGap times the range of the others, in logarithms where all are
// positive; at most a tenth of the values, and one of five, are.
func settled(values []float64, closed []bool) []bool {
	var order []int
	for i := range values {
		if closed == nil || closed[i] {
			order = append(order, i)
		}
	}
	if len(order) < 2 {
		order = ascending(values)
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(values[i], values[j]) })
	least := values[order[0]]
	apart := func(i, j int) float64 { // values[i] <= values[j]
		if least > 0 {
			return math.Log(values[j]) - math.Log(values[i])
		}
		return values[j] - values[i]
	}
	for most := max(len(order)/10, 1); most > 0 && len(order) >= 5; most-- {
		n := len(order)
		first, second, before, last := order[0], order[1], order[n-2], order[n-1]
		switch {
		case apart(before, last) > wildGap*apart(first, before) && apart(first, before) > 0:
			order = order[:n-1]
		case apart(first, second) > wildGap*apart(second, last) && apart(second, last) > 0:
			order = order[1:]
		default:
			most = 0
		}
	}
	keep := make([]bool, len(values))
	low, high := values[order[0]], values[order[len(order)-1]]
	for i, v := range values {
		keep[i] = closed != nil && !closed[i] && v >= low-(high-low) && v <= high+(high-low)
	}
	for _, i := range order {
		keep[i] = true
	}
	return keep
}

// kept are the values that keep says.
func kept(values []float64, keep []bool) (k []float64) {
	for i, v := range values {
		if keep[i] {
			k = append(k, v)
		}
	}
	return k
}

// beyondEntry is the legend of the values that the axis does not hold; of is what they are beyond.
func beyondEntry(y *axis, of string, c color.Color, values ...[]float64) (entries []entry) {
	outside := slices.DeleteFunc(slices.Concat(values...), y.holds)
	if len(outside) == 0 {
		return nil
	}
	low, high := slices.Min(outside), slices.Max(outside)
	shape, label := triangle, "beyond the "+of+", up to "+number(high, 3)
	if y.place(high) <= y.max {
		shape, label = downward, "beyond the "+of+", down to "+number(low, 3)
	} else if y.place(low) < y.min {
		label = "beyond the " + of + ", from " + number(low, 3) + " to " + number(high, 3)
	}
	return []entry{markEntry(label, marker(shape, 3, c, stroke(c, 0.5)))}
}

// minimumEntry is the legend of a minimum.
func minimumEntry(value, stdErr float64, at string, g draw.GlyphStyle) entry {
	label := "minimum " + number(value, 3)
	if stdErr != 0 {
		label += " ± " + number(stdErr, 2)
	}
	return entry{label + " at " + at, []plot.Thumbnailer{&plotter.Scatter{GlyphStyle: g}}}
}
