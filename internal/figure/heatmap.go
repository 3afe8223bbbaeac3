package figure

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"surepipe/internal/lists"
)

// HeatMap is SURE on a grid of two hyperparameters, both on logarithmic axes, with a
// colour bar and the minimizer. The colours are those of the logarithm where all
// values are positive and the greatest is more than thirty times the least.
type HeatMap struct {
	Title        string
	XName, YName string
	// Label names the values; see [Sweep].
	Label string
	// X and Y have the values of the hyperparameters, positive and increasing by equal factors.
	X, Y []float64
	// Values has a row for each Y, one behind the other, with a value for each X.
	Values []float64
	// Converged is of the same shape: false marks a cell. Nil: all converged. OpenLabel says what the marks are. "":
	// not converged.
	Converged []bool
	OpenLabel string
	// Err has the standard errors of the values, or better of their differences to the minimum, of the
	// shape of Values: the values within one of the minimum are enclosed by a line. Nil: not known.
	Err []float64
	// HasMin says that MinX, MinY and MinValue are the minimum, found between the grid's points: it
	// is marked and named instead of the least of Values. It lies within the grid's cells.
	HasMin               bool
	MinX, MinY, MinValue float64
}

func (h HeatMap) check() error {
	n := len(h.X) * len(h.Y)
	err := cmp.Or(
		checkPositive("X", h.X, len(h.X)), checkPositive("Y", h.Y, len(h.Y)),
		check("Values", h.Values, n, false), check("Err", h.Err, n, true),
	)
	for _, values := range [][]float64{h.X, h.Y} {
		at := lists.Map(values, math.Log10)
		for i := 2; err == nil && i < len(at); i++ {
			if step := at[1] - at[0]; math.Abs(at[i]-at[0]-float64(i)*step) > 1e-6*float64(i)*step {
				err = fmt.Errorf("figure: the hyperparameters %g do not grow by equal factors", values)
			}
		}
	}
	return err
}

// cells are the places of a grid, as gonum's heat map takes them.
type cells struct{ x, y, z []float64 }

func (g cells) Dims() (columns, rows int) { return len(g.x), len(g.y) }
func (g cells) X(column int) float64      { return g.x[column] }
func (g cells) Y(row int) float64         { return g.y[row] }
func (g cells) Z(column, row int) float64 { return g.z[row*len(g.x)+column] }

func (h HeatMap) scale() *axis {
	shown := settled(h.Values, h.Converged, h.Values)
	a := &axis{label: h.Label, min: slices.Min(shown), max: slices.Max(shown)}
	switch {
	case a.min > 0 && a.max > 30*a.min:
		a.min, a.max, a.log = math.Log10(a.min), math.Log10(a.max), true
	case a.max-a.min <= rounding*max(math.Abs(a.min), math.Abs(a.max)):
		a = linearAxis(a.label, a.min, a.max)
	}
	return a
}

func (h HeatMap) draw(c *page) (end vg.Length, err error) {
	if err := h.check(); err != nil {
		return 0, err
	}
	best := Minimizer(h.Values, h.Converged)
	if !h.HasMin {
		h.MinX, h.MinY, h.MinValue = h.X[best%len(h.X)], h.Y[best/len(h.X)], h.Values[best]
	}
	scale, colours := h.scale(), mapColours()[Sequential]
	g := cells{lists.Map(h.X, math.Log10), lists.Map(h.Y, math.Log10), lists.Map(h.Values, scale.place)}
	heat := &plotter.HeatMap{GridXYZ: g, Palette: colours, Underflow: colours.at(0), Overflow: colours.at(1),
		Min: scale.min, Max: scale.max, Rasterized: true}
	x, y := &axis{label: h.XName, log: true}, &axis{label: h.YName, log: true}
	x.min, x.max, y.min, y.max = heat.DataRange()
	b := &block{title: h.Title, column: pageWidth}
	p := b.panel(x, y, 270)
	p.Add(unboxed{heat})
	h.near(p)
	h.marks(p, scale)
	name := "minimum " + number(h.MinValue, 3)
	if h.Err != nil {
		name += " ± " + number(h.Err[best], 2)
	}
	name += " at " + h.XName + " = " + short(h.MinX, 4) + ", " + h.YName + " = " + short(h.MinY, 4)
	b.label(name, p.marks(marker(star, 5, white, stroke(black, 1)), []float64{h.MinX}, []float64{h.MinY}))
	if slices.Contains(h.Converged, false) {
		b.label(openLabel(h.OpenLabel), &plotter.Scatter{GlyphStyle: marker(circle, 3, white, stroke(black, 0.8))})
	}
	if h.Err != nil {
		b.label("within one standard error of the minimum", &plotter.Line{LineStyle: stroke(black, 1)})
	}
	b.labelBeyond(scale, "colours", black, h.Values)
	b.bar(colours, scale, false, false)
	return b.draw(c, 0, -edge), nil
}

// marks marks the cells that have not converged, and those beyond the colours.
func (h HeatMap) marks(p *panel, scale *axis) {
	side := min((pageWidth-2*marginWidth)/vg.Length(len(h.X)), p.height/vg.Length(len(h.Y)))
	radius := min(3, side/4)
	edge := stroke(black, min(0.8, radius/3))
	mark := func(i int, shape []vg.Point) {
		column, row := i%len(h.X), i/len(h.X)
		p.marks(marker(shape, radius, white, edge), h.X[column:column+1], h.Y[row:row+1])
	}
	for i, v := range h.Values {
		if h.Converged != nil && !h.Converged[i] {
			mark(i, circle)
		}
		if place := scale.place(v); place > scale.max {
			mark(i, triangle)
		} else if place < scale.min {
			mark(i, downward)
		}
	}
}

// near encloses the cells that are within one standard error of the minimum.
func (h HeatMap) near(p *panel) {
	near := func(row, column int) bool {
		i := row*len(h.X) + column
		return h.Err != nil && row >= 0 && column >= 0 && row < len(h.Y) && column < len(h.X) &&
			math.Abs(h.Values[i]-h.MinValue) <= h.Err[i] && (h.Converged == nil || h.Converged[i])
	}
	corner := func(row, column int) plotter.XY {
		return plotter.XY{
			X: p.x.min + (p.x.max-p.x.min)*float64(column)/float64(len(h.X)),
			Y: p.y.min + (p.y.max-p.y.min)*float64(row)/float64(len(h.Y)),
		}
	}
	for _, s := range []draw.LineStyle{stroke(black, 2.6), stroke(white, 1.6)} {
		for i := range len(h.Y) + 1 {
			for j := range len(h.X) + 1 {
				if near(i, j) != near(i-1, j) {
					p.line(s, corner(i, j), corner(i, j+1))
				}
				if near(i, j) != near(i, j-1) {
					p.line(s, corner(i, j), corner(i+1, j))
				}
			}
		}
	}
}
