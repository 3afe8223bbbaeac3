package figure

import (
	"cmp"
	"fmt"
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot/vg"
)

// Sweep is SURE against a hyperparameter on a logarithmic axis: the curve with a
// band of one standard error, of the values or of their differences to the minimum, the
// minimizer with its value, and, where they are given, the true loss, and the divergence
// (degrees of freedom) in a panel below. The axis of SURE is logarithmic too where all values are
// positive and the greatest is more than thirty times the least: on a linear one the minimum is flat.
// Points that did not converge, and single ones far from all others, do not set the scale: they are
// marked at the edge of the frame, and the legend says how far they are.
type Sweep struct {
	Title string
	// Parameter names the hyperparameter, "λ" by default.
	Parameter string
	// Label names the values of SURE, "SURE" by default. SURE has the units of y^2: say so here, or
	// "SURE / d" for values per coordinate.
	Label string
	// Lambda has the values of the hyperparameter, in any order, positive or zero. Zero
	// is drawn at the left, before a break of the axis.
	Lambda []float64
	// SURE has one value for each lambda.
	SURE []float64
	// StdErr is SURE's standard error. Nil: no band.
	StdErr []float64
	// DifferenceErr is the standard error of each value's difference to the minimum. It takes the
	// place of StdErr as the band, and a line marks the minimum's height: where the band reaches
	// below it a value cannot be told from the minimum. Nil: not known.
	DifferenceErr []float64
	// Chosen is the hyperparameter of a point that was chosen by the rule ChosenName and is not the
	// minimizer. 0: none.
	Chosen     float64
	ChosenName string
	// Loss is ||mu_hat - mu||^2 in SURE's units. Nil: not known.
	Loss []float64
	// LossLabel, unless it is "", says that the values named SURE are those of another criterion, with
	// other units than the loss: that is drawn in a panel of its own, with this label.
	LossLabel string
	// Divergence is the trace of the Jacobian. Nil: no second panel.
	Divergence []float64
	// Converged says where the solver converged. Other points have open markers, and the minimizer
	// is not one of them unless all are. Nil: everywhere.
	Converged []bool
}

// check rejects values that cannot be drawn, and returns a copy in the order of lambda.
func (s Sweep) check() (Sweep, error) {
	if err := checkSeries("Lambda", s.Lambda, -1); err != nil {
		return s, err
	}
	if err := checkSign("Lambda", s.Lambda, false); err != nil {
		return s, err
	}
	n := len(s.Lambda)
	if err := checkSeries("SURE", s.SURE, n); err != nil {
		return s, err
	}
	for _, optional := range []struct {
		name   string
		values []float64
	}{{"StdErr", s.StdErr}, {"DifferenceErr", s.DifferenceErr}, {"Loss", s.Loss}, {"Divergence", s.Divergence}} {
		if optional.values != nil {
			if err := checkSeries(optional.name, optional.values, n); err != nil {
				return s, err
			}
		}
	}
	if err := checkSign("StdErr", s.StdErr, false); err != nil {
		return s, err
	}
	if err := checkSign("DifferenceErr", s.DifferenceErr, false); err != nil {
		return s, err
	}
	if s.Chosen != 0 && !slices.Contains(s.Lambda, s.Chosen) {
		return s, fmt.Errorf("figure: Chosen is %g, expected a value of Lambda", s.Chosen)
	}
	if s.Converged != nil && len(s.Converged) != n {
		return s, fmt.Errorf("figure: Converged has %d values, expected %d", len(s.Converged), n)
	}
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(s.Lambda[i], s.Lambda[j]) })
	s.Lambda, s.SURE, s.StdErr = pick(s.Lambda, order), pick(s.SURE, order), pick(s.StdErr, order)
	s.DifferenceErr = pick(s.DifferenceErr, order)
	s.Loss, s.Divergence, s.Converged = pick(s.Loss, order), pick(s.Divergence, order), pick(s.Converged, order)
	return s, nil
}

// pick is the values in the given order, nil if there are none.
func pick[T any](values []T, order []int) []T {
	if values == nil {
		return nil
	}
	picked := make([]T, len(order))
	for i, j := range order {
		picked[i] = values[j]
	}
	return picked
}

func (s Sweep) plan() (*drawing, error) {
	b, err := s.block(205, false)
	if err != nil {
		return nil, err
	}
	return b.alone(), nil
}

// Minimizer is the index of the least value among those that converged, or of all
// values if none did (converged nil: all did); -1 if there are none.
func Minimizer(values []float64, converged []bool) int {
	best := -1
	for _, need := range []bool{true, false} {
		for i, v := range values {
			if need && converged != nil && !converged[i] {
				continue
			}
			if best < 0 || v < values[best] {
				best = i
			}
		}
		if best >= 0 {
			break
		}
	}
	return best
}

// Colours of curves and their bands.
const bandTint = 0.22

// block lays the sweep out, or with narrow its upper panel for a narrow column.
func (s Sweep) block(height vg.Length, narrow bool) (*block, error) {
	s, err := s.check()
	if err != nil {
		return nil, err
	}
	parameter, label := orDefault(s.Parameter, "λ"), orDefault(s.Label, "SURE")
	x := logAxis(parameter, s.Lambda, true)

	bars, errorName := s.StdErr, "± standard error"
	if s.DifferenceErr != nil {
		bars, errorName = s.DifferenceErr, "± standard error of the difference to the minimum"
	}
	low, high := slices.Clone(s.SURE), slices.Clone(s.SURE)
	for i := range bars {
		low[i] -= bars[i]
		high[i] += bars[i]
	}
	beside := s.Loss
	if s.LossLabel != "" {
		beside = nil
	}
	y, cut := s.values(label, low, high, beside)

	sure := curve{x: s.Lambda, y: s.SURE, closed: s.Converged, line: stroke{color: blue, width: 1.6}, marker: circle}
	top := &panel{x: x, y: y, height: height}
	b := &block{title: s.Title, panels: []*panel{top}, gap: 8}
	name := label
	if narrow {
		// The axis has the label already.
		name, errorName = "SURE", "± s.e."
	}
	b.legend = append(b.legend, sure.entry(plain(name)))
	if bars != nil {
		tinted := tint(blue, bandTint)
		top.behind = append(top.behind, func(c *canvas, p *panel) { p.band(c, s.Lambda, low, high, tinted) })
		if cut {
			errorName += " (cut off at the frame)"
		}
		b.legend = append(b.legend, entry{label: plain(errorName), band: tinted})
	}
	if beside != nil {
		loss := curve{x: s.Lambda, y: s.Loss, closed: s.Converged, line: stroke{color: vermillion, width: 1.4, dashes: []vg.Length{5, 2.5}}, marker: square}
		top.front = append(top.front, loss.draw)
		b.legend = append(b.legend, loss.entry(plain("true loss")))
	}
	top.front = append(top.front, sure.draw)

	vertical := s.minimum(b, parameter, narrow)
	if slices.Contains(s.Converged, false) {
		open := sure.open()
		b.legend = append(b.legend, entry{label: plain("not converged"), line: &stroke{color: blue, width: 1.6}, marker: &open})
	}

	if e, some := beyondEntry(y, "frame", blue, s.SURE, beside); some {
		b.legend = append(b.legend, e)
	}
	if !narrow {
		s.below(b, x, vertical)
	}
	return b, nil
}

// minimum marks the minimizer and the chosen point in the first panel of b, and returns what draws
// the line through the minimizer.
func (s Sweep) minimum(b *block, parameter string, narrow bool) (vertical func(*canvas, *panel)) {
	top, best := b.panels[0], Minimizer(s.SURE, s.Converged)
	dotted := stroke{color: ink, width: 0.8, dashes: []vg.Length{1.5, 2}}
	vertical = func(c *canvas, p *panel) {
		at := p.at(s.Lambda[best], p.y.min)
		c.line(dotted, at, pt(at.X, p.frame.Max.Y))
	}
	point := func(m marker, i int) {
		top.front = append(top.front, func(c *canvas, p *panel) { c.marker(m, p.within(p.at(s.Lambda[i], s.SURE[i]))) })
	}
	top.behind = append(top.behind, vertical)
	if s.DifferenceErr != nil {
		top.behind = append(top.behind, func(c *canvas, p *panel) {
			at := p.at(s.Lambda[best], s.SURE[best])
			c.line(dotted, pt(p.frame.Min.X, at.Y), pt(p.frame.Max.X, at.Y))
		})
	}
	mark := marker{shape: star, radius: 4, fill: orange, edge: black, width: 0.8}
	point(mark, best)
	value := join(text{{s: "minimum "}}, number(s.SURE[best], 3))
	if s.StdErr != nil && !narrow {
		value = join(value, text{{s: " ± "}}, number(s.StdErr[best], 2))
	}
	value = join(value, text{{s: " at "}}, plain(parameter), text{{s: " = "}}, number(s.Lambda[best], 4).trim())
	b.legend = append(b.legend, entry{label: value, marker: &mark})
	if s.Chosen != 0 {
		chosen := marker{shape: square, radius: 4, fill: orange, edge: black, width: 0.8}
		point(chosen, slices.Index(s.Lambda, s.Chosen))
		b.legend = append(b.legend, entry{label: join(text{{s: "chosen by " + s.ChosenName + ", "}}, plain(parameter), text{{s: " = "}}, number(s.Chosen, 4).trim()), marker: &chosen})
	}
	return vertical
}

// values is the axis of SURE, its band from low to high and the curve beside it, of the values that
// set its scale.
func (s Sweep) values(label string, low, high, beside []float64) (y *axis, cut bool) {
	keep := settled(s.SURE, s.Converged)
	shown, besideShown := kept(s.SURE, keep), beside
	if beside != nil {
		besideShown = kept(beside, settled(beside, s.Converged))
	}
	band := slices.Concat(kept(low, keep), kept(high, keep))
	y, cut = valueAxis(label, band, shown, besideShown)
	values := slices.Concat(shown, besideShown)
	if least, greatest := slices.Min(values), slices.Max(values); least > 0 && greatest > 30*least {
		bandLow, bandHigh := slices.Min(band), slices.Max(band)
		shownLow, shownHigh := max(min(bandLow, least), least/10), min(max(bandHigh, greatest), 10*greatest)
		y, cut = logAxis(label, []float64{shownLow, shownHigh}, true), bandLow < shownLow || bandHigh > shownHigh
	}
	return y, cut
}

// below adds the panels below the first of b, each half as high: the loss, where its units are its
// own, and the degrees of freedom. x is the axis of all, and vertical the line through the minimizer.
func (s Sweep) below(b *block, x *axis, vertical func(*canvas, *panel)) {
	height := 0.5 * b.panels[0].height
	if s.Loss != nil && s.LossLabel != "" {
		loss := curve{x: s.Lambda, y: s.Loss, closed: s.Converged, line: stroke{color: vermillion, width: 1.4}, marker: square}
		shown := kept(s.Loss, settled(s.Loss, s.Converged))
		b.panels = append(b.panels, &panel{
			x: x, y: linearAxis(s.LossLabel, slices.Min(shown), slices.Max(shown)), height: height,
			behind: []func(*canvas, *panel){vertical}, front: []func(*canvas, *panel){loss.draw},
		})
	}
	if s.Divergence != nil {
		shown := kept(s.Divergence, settled(s.Divergence, s.Converged))
		low, high := slices.Min(shown), slices.Max(shown)
		if low > 0 && low < 0.5*high {
			low = 0
		}
		df := curve{x: s.Lambda, y: s.Divergence, closed: s.Converged, line: stroke{color: green, width: 1.6}, marker: circle}
		b.panels = append(b.panels, &panel{
			x: x, y: linearAxis("degrees of freedom", low, high), height: height,
			behind: []func(*canvas, *panel){vertical}, front: []func(*canvas, *panel){df.draw},
		})
	}
	for _, p := range b.panels[:len(b.panels)-1] {
		p.hideX = true
	}
}

// valueAxis is a linear axis for curves and a band around them. The curves keep at least a quarter
// of the axis; a wider band is cut off.
func valueAxis(label string, band []float64, curves ...[]float64) (a *axis, cut bool) {
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

// runs calls f with the bounds of each range of x that is drawn connected: zero on a logarithmic
// axis is drawn separately.
func (p *panel) runs(x []float64, f func(begin, end int)) {
	zeros := 0
	if p.x.log {
		for zeros < len(x) && x[zeros] == 0 {
			zeros++
		}
	}
	for i := range zeros {
		f(i, i+1)
	}
	if zeros < len(x) {
		f(zeros, len(x))
	}
}

// band fills the range from low to high; at a point that stands alone it is as
// wide as a marker.
func (p *panel) band(c *canvas, x, low, high []float64, fill color.Color) {
	p.runs(x, func(begin, end int) {
		var points []vg.Point
		for i := begin; i < end; i++ {
			points = append(points, p.at(x[i], high[i]))
		}
		for i := end - 1; i >= begin; i-- {
			points = append(points, p.at(x[i], low[i]))
		}
		if end-begin == 1 {
			up, down := points[0], points[1]
			points = []vg.Point{pt(up.X-4, up.Y), pt(up.X+4, up.Y), pt(down.X+4, down.Y), pt(down.X-4, down.Y)}
		}
		c.clippedPolygon(p.frame, points, fill)
	})
}

// curve is a line through points with markers. Where there are many points only open markers are
// drawn.
type curve struct {
	x, y   []float64
	closed []bool
	line   stroke
	marker shape
}

const manyPoints = 60

func (k curve) mark() marker {
	return marker{shape: k.marker, radius: 2.2, fill: k.line.color, edge: k.line.color, width: 0.5}
}

func (k curve) open() marker {
	return marker{shape: k.marker, radius: 2.7, fill: white, edge: k.line.color, width: 1.2}
}

func (k curve) entry(label text) entry {
	e := entry{label: label, line: &k.line}
	if len(k.x) <= manyPoints {
		m := k.mark()
		e.marker = &m
	}
	return e
}

func (k curve) draw(c *canvas, p *panel) {
	p.runs(k.x, func(begin, end int) {
		var points []vg.Point
		for i := begin; i < end; i++ {
			points = append(points, p.at(k.x[i], k.y[i]))
		}
		c.clippedLine(p.frame, k.line, points...)
	})
	for i, x := range k.x {
		at := p.at(x, k.y[i])
		switch {
		case !p.inside(at):
			if m, edge, ok := k.beyond(p, i); ok {
				c.marker(m, edge)
			}
		case k.closed != nil && !k.closed[i]:
			c.marker(k.open(), at)
		case len(k.x) <= manyPoints || p.x.log && x == 0:
			c.marker(k.mark(), at)
		}
	}
}
