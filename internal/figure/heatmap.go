package figure

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// HeatMap is SURE on a grid of two hyperparameters, both on logarithmic axes, with a
// colour bar and the minimizer. The colours are those of the logarithm where all
// values are positive and the greatest is more than thirty times the least.
type HeatMap struct {
	Title string
	// XName and YName name the hyperparameters.
	XName, YName string
	// Label names the values, "SURE" by default; see [Sweep].
	Label string
	// X and Y have the values of the hyperparameters, positive and increasing.
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

// checkGrid rejects the values of a hyperparameter that are not a grid's.
func checkGrid(name string, values []float64) error {
	if err := checkSeries(name, values, -1, positive); err != nil {
		return err
	}
	for i := 1; i < len(values); i++ {
		if values[i] <= values[i-1] {
			return fmt.Errorf("figure: %s[%d] is %g after %g, expected increasing values", name, i, values[i], values[i-1])
		}
	}
	return nil
}

// checkTable rejects a table that has not the shape of the grid.
func checkTable[T any](name string, rows [][]T, h HeatMap, row func(name string, row []T) error) error {
	if len(rows) != len(h.Y) {
		return fmt.Errorf("figure: %s has %d rows, expected %d, one for each Y", name, len(rows), len(h.Y))
	}
	for i := range rows {
		name := fmt.Sprintf("%s[%d]", name, i)
		if len(rows[i]) != len(h.X) {
			return fmt.Errorf("figure: %s has %d values, expected %d", name, len(rows[i]), len(h.X))
		}
		if err := row(name, rows[i]); err != nil {
			return err
		}
	}
	return nil
}

func (h HeatMap) check() error {
	numbers := func(name string, row []float64) error { return checkSeries(name, row, len(row), anySign) }
	err := cmp.Or(checkGrid("X", h.X), checkGrid("Y", h.Y), checkTable("Values", h.Values, h, numbers))
	if err == nil && h.Converged != nil {
		err = checkTable("Converged", h.Converged, h, func(string, []bool) error { return nil })
	}
	if err == nil && h.Err != nil {
		err = checkTable("Err", h.Err, h, numbers)
	}
	return err
}

// checkMin rejects a minimum that is outside the axes.
func (h HeatMap) checkMin(x, y *axis) error {
	for _, c := range []struct {
		name  string
		value float64
		on    *axis
	}{{"MinX", h.MinX, x}, {"MinY", h.MinY, y}, {"MinValue", h.MinValue, nil}} {
		if err := checkValue(c.value); err != nil {
			return fmt.Errorf("figure: %s %w", c.name, err)
		}
		if c.on != nil && !c.on.holds(c.value) {
			return fmt.Errorf("figure: %s is %g, expected a value within the grid's cells, from %.4g to %.4g", c.name, c.value, math.Pow(10, c.on.min), math.Pow(10, c.on.max))
		}
	}
	return nil
}

// scale is the axis of the colours.
func (h HeatMap) scale(values []float64) *axis {
	shown := kept(values, settled(values, slices.Concat(h.Converged...)))
	a := &axis{label: cmp.Or(h.Label, "SURE"), min: slices.Min(shown), max: slices.Max(shown)}
	switch {
	case a.min > 0 && a.max > 30*a.min:
		a.min, a.max, a.log = math.Log10(a.min), math.Log10(a.max), true
	case a.max-a.min <= 1e-9*max(math.Abs(a.min), math.Abs(a.max)):
		a = linearAxis(a.label, a.min, a.max)
	}
	return a
}

// The colour bar's distance from the frame, and its width.
const barGap, barWidth vg.Length = 16, 14

func (h HeatMap) plan() (*drawing, error) {
	if err := h.check(); err != nil {
		return nil, err
	}
	flat, converged := slices.Concat(h.Values...), slices.Concat(h.Converged...)
	if !h.HasMin {
		best := Minimizer(flat, converged)
		h.MinX, h.MinY, h.MinValue = h.X[best%len(h.X)], h.Y[best/len(h.X)], flat[best]
	}
	scale := h.scale(flat)
	x, y := &axis{label: h.XName, log: true, min: -300, max: 300}, &axis{label: h.YName, log: true, min: -300, max: 300}
	grid := lattice{x: x.places(h.X), y: y.places(h.Y)}
	for _, row := range h.Values {
		grid.z = append(grid.z, scale.places(row))
	}
	cells := mapColours()[Sequential].heat(grid, scale.min, scale.max)
	x.min, x.max, y.min, y.max = cells.DataRange()
	if err := h.checkMin(x, y); err != nil {
		return nil, err
	}
	const height vg.Length = 270
	colours := bar{colours: mapColours()[Sequential], axis: scale, style: frameLine}
	margin := barGap + barWidth + colours.margin(height)
	p := newPanel(x, y, pageWidth-margin, height)
	p.add(cells)
	b := &block{title: h.Title, panels: []*panel{p}, margin: margin, bar: func(c *page, f vg.Rectangle) {
		colours.draw(c, rect(f.Max.X+barGap, f.Min.Y, f.Max.X+barGap+barWidth, f.Max.Y))
	}}
	h.near(p, grid)
	side := min((pageWidth-margin-marginWidth)/vg.Length(len(h.X)), height/vg.Length(len(h.Y)))
	radius := min(3, side/4)
	edge := stroke(black, min(0.8, radius/3))
	open, above, below := marker(circle, radius, white, edge), marker(triangle, radius, white, edge), marker(downward, radius, white, edge)
	for i, v := range flat {
		at, height := h.X[i%len(h.X):i%len(h.X)+1], h.Y[i/len(h.X):i/len(h.X)+1]
		if converged != nil && !converged[i] {
			p.add(p.marks(open, at, height))
		}
		if place := scale.place(v); place > scale.max {
			p.add(p.marks(above, at, height))
		} else if place < scale.min {
			p.add(p.marks(below, at, height))
		}
	}
	best := marker(star, 5, white, stroke(black, 1))
	p.add(p.marks(best, []float64{h.MinX}, []float64{h.MinY}))
	b.legend = append(b.legend, minimumEntry(h.MinValue, h.MinErr, h.XName+" = "+short(h.MinX, 4)+", "+h.YName+" = "+short(h.MinY, 4), best))
	if slices.Contains(converged, false) {
		b.legend = append(b.legend, markEntry("not converged", marker(circle, 3, white, stroke(black, 0.8))))
	}
	if h.Err != nil {
		b.legend = append(b.legend, lineEntry("within one standard error of the minimum", stroke(black, 1)))
	}
	b.legend = append(b.legend, beyondEntry(scale, "colours", black, flat)...)
	return b.alone(), nil
}

// near encloses the cells that are within one standard error of the minimum.
func (h HeatMap) near(p *panel, grid lattice) {
	near := func(i, j int) bool {
		return i >= 0 && j >= 0 && i < len(h.Err) && j < len(h.X) && math.Abs(h.Values[i][j]-h.MinValue) <= h.Err[i][j] && (h.Converged == nil || h.Converged[i][j])
	}
	// sides are the borders of cells, half way between their places.
	sides := func(places []float64, a *axis) []float64 {
		s := []float64{a.min}
		for i := 1; i < len(places); i++ {
			s = append(s, (places[i-1]+places[i])/2)
		}
		return append(s, a.max)
	}
	xs, ys := sides(grid.x, p.x), sides(grid.y, p.y)
	for _, s := range []draw.LineStyle{stroke(black, 2.6), stroke(white, 1.6)} {
		for i := range ys {
			for j := range xs {
				at := plotter.XY{X: xs[j], Y: ys[i]}
				if near(i, j) != near(i-1, j) {
					p.add(line(s, at, plotter.XY{X: xs[j+1], Y: ys[i]}))
				}
				if near(i, j) != near(i, j-1) {
					p.add(line(s, at, plotter.XY{X: xs[j], Y: ys[i+1]}))
				}
			}
		}
	}
}
