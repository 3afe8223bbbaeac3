package figure

import (
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// curve is a line through points with markers. Where there are many points only open markers are drawn, and
// those at the edge of the frame.
type curve struct {
	x, y   []float64
	closed []bool // nil: all markers are filled
	line   draw.LineStyle
	shape  int       // of shapes
	radius vg.Length // of markers, 2.2 where it is less
}

const manyPoints = 60

func (k curve) mark() draw.GlyphStyle {
	return marker(shapes[k.shape], max(k.radius, 2.2), k.line.Color, stroke(k.line.Color, 0.5))
}

func (k curve) open() draw.GlyphStyle {
	return marker(shapes[k.shape], 2.7, white, stroke(k.line.Color, 1.2))
}

func (k curve) samples() []plot.Thumbnailer {
	l := &plotter.Line{LineStyle: k.line}
	if len(k.x) > manyPoints {
		return []plot.Thumbnailer{l}
	}
	return []plot.Thumbnailer{l, &plotter.Scatter{GlyphStyle: k.mark()}}
}

func (k curve) draw(p *panel) {
	p.line(k.line, p.xys(k.x, k.y)...)
	p.marks(draw.GlyphStyle{}, k.x, k.y).GlyphStyleFunc = func(i int) draw.GlyphStyle {
		style := k.mark()
		if k.closed != nil && !k.closed[i] {
			style = k.open()
		} else if len(k.x) > manyPoints && p.y.holds(k.y[i]) {
			style.Shape = nil
		}
		return p.y.beyond(k.y[i], style)
	}
}

// beyond is the style of a marker at v: where the axis does not hold v, a triangle at the edge of the frame.
func (a *axis) beyond(v float64, style draw.GlyphStyle) draw.GlyphStyle {
	if a.holds(v) {
		return style
	}
	shape := style.Shape.(outline)
	shape.corners, shape.lift = triangle, -3
	if a.place(v) < a.min {
		shape.corners, shape.lift = downward, 3
	}
	return draw.GlyphStyle{Color: style.Color, Radius: 3, Shape: shape}
}

// labelBeyond adds the values that the axis does not hold, if there are any, to the legend; of is what they are
// beyond.
func (b *block) labelBeyond(y *axis, of string, c color.Color, values ...[]float64) {
	outside := slices.DeleteFunc(slices.Concat(values...), y.holds)
	if len(outside) == 0 {
		return
	}
	low, high := slices.Min(outside), slices.Max(outside)
	shape, label := triangle, "up to "+number(high, 3)
	if y.place(high) <= y.max {
		shape, label = downward, "down to "+number(low, 3)
	} else if y.place(low) < y.min {
		label = "from " + number(low, 3) + " to " + number(high, 3)
	}
	b.label("beyond the "+of+", "+label, &plotter.Scatter{GlyphStyle: marker(shape, 3, c, stroke(c, 0.5))})
}

// band fills the range from low to high in the last panel. At a point that stands alone it is as wide as a
// marker. cut says that the frame cuts it off.
func (b *block) band(name string, cut bool, c color.RGBA, x, low, high []float64) {
	p := b.panels[len(b.panels)-1]
	ring, back := p.xys(x, low), p.xys(x, high)
	if len(x) == 1 {
		half := 0.008 * (p.x.max - p.x.min)
		ring, back = append(ring, ring[0]), append(back, back[0])
		ring[0].X, ring[1].X, back[0].X, back[1].X = ring[0].X-half, ring[1].X+half, back[0].X-half, back[1].X+half
	}
	slices.Reverse(back)
	area := &plotter.Polygon{XYs: []plotter.XYs{append(ring, back...)}, Color: tint(c, 0.22)}
	p.Add(unboxed{area})
	if cut {
		name += " (cut off at the frame)"
	}
	b.label(name, area)
}

// bandAxis is a linear axis for curves and a band around them. The curves keep at least a quarter of the axis; a
// wider band is cut off, unless all are flat.
func bandAxis(label string, band []float64, curves ...[]float64) (a *axis, cut bool) {
	all := slices.Concat(curves...)
	low, high := slices.Min(all), slices.Max(all)
	bandLow, bandHigh := min(low, slices.Min(band)), max(high, slices.Max(band))
	flat := !slices.ContainsFunc(curves, func(k []float64) bool { return len(k) > 0 && slices.Min(k) < slices.Max(k) })
	if flat || bandHigh-bandLow <= 4*(high-low) {
		return linearAxis(label, bandLow, bandHigh), false
	}
	room := 1.5 * (high - low)
	return linearAxis(label, max(bandLow, low-room), min(bandHigh, high+room)), true
}

// wildGap is how many times the range of all others a value lies apart from them to be wild.
const wildGap = 2

// settled returns the entries of all, numbers beside the values, that set the scale of an axis. They stand beside
// the values that converged (closed nil: all), or beside all values if fewer than two converged, without the wild
// values; and beside values that have not converged and lie no further from the range of the others than its length.
// A wild value is the least or the greatest and further from the next one than wildGap times the range of the
// others, in logarithms where all are positive. At most a tenth of the values are wild, and one of five.
func settled(values []float64, closed []bool, all ...[]float64) (kept []float64) {
	var sorted []float64
	for i, v := range values {
		if closed == nil || closed[i] {
			sorted = append(sorted, v)
		}
	}
	if len(sorted) < 2 {
		sorted = slices.Clone(values)
	}
	slices.Sort(sorted)
	apart := func(i, j int) float64 {
		if sorted[0] > 0 {
			return math.Log(sorted[j]) - math.Log(sorted[i])
		}
		return sorted[j] - sorted[i]
	}
	for most := max(len(sorted)/10, 1); most > 0 && len(sorted) >= 5; most-- {
		last := len(sorted) - 1
		switch lower, upper := apart(0, last-1), apart(1, last); {
		case lower > 0 && apart(last-1, last) > wildGap*lower:
			sorted = sorted[:last]
		case upper > 0 && apart(0, 1) > wildGap*upper:
			sorted = sorted[1:]
		default:
			most = 0
		}
	}
	low, high := sorted[0], sorted[len(sorted)-1]
	for _, of := range all {
		for i, v := range values {
			reach := 0.0
			if closed != nil && !closed[i] {
				reach = high - low
			}
			if v >= low-reach && v <= high+reach {
				kept = append(kept, of[i])
			}
		}
	}
	return kept
}
