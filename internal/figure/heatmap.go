package figure

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/plot/vg"
)

// HeatMap is SURE on a grid of two hyperparameters, both on logarithmic axes, with a
// colour bar and the minimizer. The colours are those of the logarithm where all
// values are positive and the greatest is more than thirty times the least.
type HeatMap struct {
	Title string
	// XName and YName name the hyperparameters, "λ" and "γ" by default.
	XName, YName string
	// Label names the values, "SURE" by default; see [Sweep].
	Label string
	// X and Y have the values of the hyperparameters, in any order, positive or
	// zero, none twice.
	X, Y []float64
	// Values has a row for each Y with a value for each X.
	Values [][]float64
	// Converged is of the same shape: false marks a cell. Nil: all converged.
	Converged [][]bool
	// Err has the standard errors of the values, or better of their differences to the minimum, of the
	// shape of Values: the values within one of the minimum are enclosed by a line. MinErr is that of
	// the minimum itself. Nil and 0: not known.
	Err    [][]float64
	MinErr float64
	// HasMin says that MinX, MinY and MinValue are the minimum, found between the grid's points: it
	// is marked and named instead of the least of Values. It lies within the grid's cells.
	HasMin               bool
	MinX, MinY, MinValue float64
}

// ascending is the order of the values, which may not repeat.
func ascending(name string, values []float64) ([]int, error) {
	if err := checkSeries(name, values, -1); err != nil {
		return nil, err
	}
	if err := checkSign(name, values, false); err != nil {
		return nil, err
	}
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(values[i], values[j]) })
	for k := 1; k < len(order); k++ {
		if i, j := order[k-1], order[k]; values[i] == values[j] {
			return nil, fmt.Errorf("figure: %s[%d] and %s[%d] are both %g, expected each value once", name, i, name, j, values[i])
		}
	}
	return order, nil
}

func (h HeatMap) check() (HeatMap, error) {
	xs, err := ascending("X", h.X)
	if err != nil {
		return h, err
	}
	ys, err := ascending("Y", h.Y)
	if err != nil {
		return h, err
	}
	if len(h.Values) != len(h.Y) {
		return h, fmt.Errorf("figure: Values has %d rows, expected %d, one for each Y", len(h.Values), len(h.Y))
	}
	for i, row := range h.Values {
		if err := checkSeries(fmt.Sprintf("Values[%d]", i), row, len(h.X)); err != nil {
			return h, err
		}
	}
	if h.Converged != nil && len(h.Converged) != len(h.Y) {
		return h, fmt.Errorf("figure: Converged has %d rows, expected %d, one for each Y", len(h.Converged), len(h.Y))
	}
	for i, row := range h.Converged {
		if len(row) != len(h.X) {
			return h, fmt.Errorf("figure: Converged[%d] has %d values, expected %d", i, len(row), len(h.X))
		}
	}
	h.X, h.Y = pick(h.X, xs), pick(h.Y, ys)
	if h.Err != nil && len(h.Err) != len(h.Y) {
		return h, fmt.Errorf("figure: Err has %d rows, expected %d, one for each Y", len(h.Err), len(h.Y))
	}
	for i, row := range h.Err {
		if err := checkSeries(fmt.Sprintf("Err[%d]", i), row, len(h.X)); err != nil {
			return h, err
		}
	}
	h.Err = pick(h.Err, ys)
	for i := range h.Err {
		h.Err[i] = pick(h.Err[i], xs)
	}
	h.Values, h.Converged = pick(h.Values, ys), pick(h.Converged, ys)
	for i := range h.Values {
		h.Values[i] = pick(h.Values[i], xs)
	}
	for i := range h.Converged {
		h.Converged[i] = pick(h.Converged[i], xs)
	}
	return h, nil
}

// least is the minimum that is marked.
func (h HeatMap) least() (x, y, value float64) {
	if h.HasMin {
		return h.MinX, h.MinY, h.MinValue
	}
	flat := slices.Concat(h.Values...)
	best := Minimizer(flat, slices.Concat(h.Converged...))
	return h.X[best%len(h.X)], h.Y[best/len(h.X)], flat[best]
}

// checkMin rejects a given minimum that is outside the axes.
func (h HeatMap) checkMin(x, y *axis) error {
	if !h.HasMin {
		return nil
	}
	for _, c := range []struct {
		name  string
		value float64
		on    *axis
	}{{"MinX", h.MinX, x}, {"MinY", h.MinY, y}, {"MinValue", h.MinValue, nil}} {
		if err := checkValue(c.value); err != nil {
			return fmt.Errorf("figure: %s %w", c.name, err)
		}
		switch {
		case c.on == nil, c.value == 0 && c.on.zero, c.value > 0 && !c.on.zeroOnly && c.on.min <= c.value && c.value <= c.on.max:
		case c.on.zeroOnly:
			return fmt.Errorf("figure: %s is %g, expected 0, the grid's only value", c.name, c.value)
		default:
			return fmt.Errorf("figure: %s is %g, expected a value within the grid's cells, from %.4g to %.4g", c.name, c.value, c.on.min, c.on.max)
		}
	}
	return nil
}

// span is the place of a cell on an axis.
type span struct{ from, to float64 }

// cells is an axis for the values, and the positions of their cells on it, which meet half way. The
// cell of zero lies before the break.
func cells(label string, values []float64) (a *axis, spans []span) {
	positive := values
	if values[0] == 0 {
		positive = values[1:]
	}
	a = logAxis(label, values, false)
	if a.zeroOnly {
		return a, []span{{0, 1}}
	}
	if a.zero {
		spans = append(spans, span{0, 2 * a.norm(0)})
	}
	n := len(positive)
	if n > 1 {
		a.min = positive[0] * math.Sqrt(positive[0]/positive[1])
		a.max = positive[n-1] * math.Sqrt(positive[n-1]/positive[n-2])
	}
	from := a.norm(a.min)
	for i, v := range positive {
		to := 1.0
		if i < n-1 {
			to = (a.norm(v) + a.norm(positive[i+1])) / 2
		}
		spans = append(spans, span{from, to})
		from = to
	}
	return a, spans
}

func (h HeatMap) plan() (*drawing, error) {
	h, err := h.check()
	if err != nil {
		return nil, err
	}
	xName, yName, label := orDefault(h.XName, "λ"), orDefault(h.YName, "γ"), orDefault(h.Label, "SURE")
	x, xSpans := cells(xName, h.X)
	y, ySpans := cells(yName, h.Y)

	if err := h.checkMin(x, y); err != nil {
		return nil, err
	}
	minX, minY, minValue := h.least()

	flat := slices.Concat(h.Values...)
	shown := kept(flat, settled(flat, slices.Concat(h.Converged...)))
	low, high := slices.Min(shown), slices.Max(shown)
	scale := &axis{label: label, min: low, max: high}
	switch {
	case low > 0 && high > 30*low:
		scale.log = true
	case high-low <= 1e-9*max(math.Abs(low), math.Abs(high)):
		scale = linearAxis(label, low, high)
	}

	const height vg.Length = 270
	marks, factor := scale.ticks(height, heightRoom)
	main := &panel{x: x, y: y, height: height, noGrid: true}
	b := &block{
		title: h.Title, panels: []*panel{main},
		margin: barGap + barWidth + tickLength + 3 + max(widest(marks)+1.6*labelSize, factor.width(tickSize)-barWidth),
	}
	main.front = append(main.front, func(c *canvas, p *panel) { h.drawCells(c, p, scale, xSpans, ySpans) })
	b.legend = append(b.legend, entry{marker: &bestCell, label: join(
		text{{s: "minimum "}}, number(minValue, 3), h.minErr(), text{{s: " at "}},
		plain(xName), text{{s: " = "}}, number(minX, 4).trim(), text{{s: ", "}},
		plain(yName), text{{s: " = "}}, number(minY, 4).trim())})
	if slices.Contains(slices.Concat(h.Converged...), false) {
		open := openCell(3)
		b.legend = append(b.legend, entry{label: plain("not converged"), marker: &open})
	}

	if h.Err != nil {
		b.legend = append(b.legend, entry{label: plain("within one standard error of the minimum"), line: &stroke{color: black, width: 1}})
	}
	if e, some := beyondEntry(scale, "colours", black, flat); some {
		b.legend = append(b.legend, e)
	}

	d := b.alone()
	drawMap := d.draw
	d.draw = func(c *canvas) {
		drawMap(c)
		drawBar(c, main.frame, marks, factor, plain(label).fit(labelSize, height))
	}
	return d, nil
}

// The colour bar's distance from the frame, and its width.
const barGap, barWidth vg.Length = 16, 14

// drawCells draws the cells, and marks those that have not converged and the minimum.
func (h HeatMap) drawCells(c *canvas, p *panel, scale *axis, xSpans, ySpans []span) {
	size := p.frame.Size()
	// Bounds are between dots, so that no dot mixes two cells.
	dot := 72 / vg.Length(c.dpi)
	snap := func(l vg.Length) vg.Length { return dot * vg.Length(math.Round(float64(l/dot))) }
	xAt := func(u float64) vg.Length { return snap(p.frame.Min.X + vg.Length(u)*size.X) }
	yAt := func(u float64) vg.Length { return snap(p.frame.Min.Y + vg.Length(u)*size.Y) }
	var cellSize vg.Length = 1e9
	for i, row := range h.Values {
		for j, v := range row {
			// Each cell extends under the next ones, to avoid seams in a viewer that blends edges.
			r := rect(xAt(xSpans[j].from), yAt(ySpans[i].from), xAt(xSpans[j].to), yAt(ySpans[i].to))
			if j+1 < len(row) && xSpans[j+1].from == xSpans[j].to {
				r.Max.X += dot / 2
			}
			if i+1 < len(ySpans) && ySpans[i+1].from == ySpans[i].to {
				r.Max.Y += dot / 2
			}
			c.rect(r, paletteAt(scale.norm(v)))
		}
		for j := range row {
			cellSize = min(cellSize, xAt(xSpans[j].to)-xAt(xSpans[j].from), yAt(ySpans[i].to)-yAt(ySpans[i].from))
		}
	}
	middleOf := func(i, j int) vg.Point {
		return pt(xAt((xSpans[j].from+xSpans[j].to)/2), yAt((ySpans[i].from+ySpans[i].to)/2))
	}
	for i, row := range h.Converged {
		for j, ok := range row {
			if !ok {
				c.marker(openCell(min(3, cellSize/4)), middleOf(i, j))
			}
		}
	}
	h.drawNear(c, func(j int) (from, to vg.Length) { return xAt(xSpans[j].from), xAt(xSpans[j].to) }, func(i int) (from, to vg.Length) { return yAt(ySpans[i].from), yAt(ySpans[i].to) })
	for i, row := range h.Values {
		for j, v := range row {
			if v > scale.max || v < scale.min {
				c.marker(beyondCell(v > scale.max, min(3, cellSize/4)), middleOf(i, j))
			}
		}
	}
	minX, minY, _ := h.least()
	at := pt(xAt(p.x.norm(minX)), yAt(p.y.norm(minY)))
	// A point of the grid has its mark in the middle of its cell.
	if i, j := slices.Index(h.Y, minY), slices.Index(h.X, minX); i >= 0 && j >= 0 {
		at = middleOf(i, j)
	}
	c.marker(bestCell, at)
}

// drawBar draws the colour bar beside the frame f, with its marks, their factor and its label.
func drawBar(c *canvas, f vg.Rectangle, marks []tick, factor, label text) {
	bar := rect(f.Max.X+barGap, f.Min.Y, f.Max.X+barGap+barWidth, f.Max.Y)
	for i := range paletteSteps {
		y := bar.Min.Y + bar.Size().Y*vg.Length(i)/paletteSteps
		c.rect(rect(bar.Min.X, y, bar.Max.X, bar.Max.Y), palette[i])
	}
	s := stroke{color: ink, width: 0.8}
	c.line(s, bar.Min, pt(bar.Max.X, bar.Min.Y), bar.Max, pt(bar.Min.X, bar.Max.Y), bar.Min)
	for _, m := range marks {
		y, l := bar.Min.Y+vg.Length(m.at)*bar.Size().Y, tickLength
		if m.minor {
			l *= 0.55
		}
		c.line(s, pt(bar.Max.X, y), pt(bar.Max.X+l, y))
		c.text(m.label, tickSize, pt(bar.Max.X+tickLength+3, y-middle(tickSize)), left)
	}
	c.text(factor, tickSize, pt(bar.Min.X, bar.Max.Y+0.45*tickSize), left)
	c.upright(label, labelSize, pt(bar.Max.X+tickLength+3+widest(marks)+1.45*labelSize, (bar.Min.Y+bar.Max.Y)/2))
}

// bestCell and openCell stand out on dark and light cells alike.
var bestCell = marker{shape: star, radius: 5, fill: white, edge: black, width: 1}

func openCell(radius vg.Length) marker {
	return marker{shape: circle, radius: radius, fill: white, edge: black, width: min(0.8, radius/3)}
}

// beyondCell marks a cell whose value is beyond the colours.
func beyondCell(above bool, radius vg.Length) marker {
	m := marker{shape: downward, radius: radius, fill: white, edge: black, width: min(0.8, radius/3)}
	if above {
		m.shape = triangle
	}
	return m
}

// minErr is the error of the minimum for the legend.
func (h HeatMap) minErr() text {
	if h.MinErr == 0 {
		return nil
	}
	return join(text{{s: " ± "}}, number(h.MinErr, 2))
}

// nearLine encloses the cells near the minimum.
var nearLine = stroke{color: white, width: 1.6}

// drawNear encloses the cells that are within one standard error of the minimum.
func (h HeatMap) drawNear(c *canvas, across, up func(i int) (from, to vg.Length)) {
	if h.Err == nil {
		return
	}
	_, _, least := h.least()
	near := func(i, j int) bool {
		return i >= 0 && j >= 0 && i < len(h.Y) && j < len(h.X) && math.Abs(h.Values[i][j]-least) <= h.Err[i][j] && (h.Converged == nil || h.Converged[i][j])
	}
	under := stroke{color: black, width: nearLine.width + 1}
	for _, s := range []stroke{under, nearLine} {
		for i := range h.Y {
			for j := range h.X {
				if !near(i, j) {
					continue
				}
				x0, x1 := across(j)
				y0, y1 := up(i)
				for _, side := range []struct {
					i, j     int
					from, to vg.Point
				}{{i - 1, j, pt(x0, y0), pt(x1, y0)}, {i + 1, j, pt(x0, y1), pt(x1, y1)}, {i, j - 1, pt(x0, y0), pt(x0, y1)}, {i, j + 1, pt(x1, y0), pt(x1, y1)}} {
					if !near(side.i, side.j) {
						c.line(s, side.from, side.to)
					}
				}
			}
		}
	}
}
