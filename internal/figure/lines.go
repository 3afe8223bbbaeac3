package figure

import (
	"cmp"
	"fmt"
	"image/color"
	"slices"

	"gonum.org/v1/plot/vg"
)

// Lines is numbers against positive others on a logarithmic axis: positive ones on another, each with its own markers,
// or Paths, such as the coefficients of a regression, on a linear axis.
type Lines struct {
	Title          string
	XLabel, YLabel string
	Series         []Series
	Paths          bool
	// Named, unless it is 0, is the number of series that have a colour and a line of the legend; the others are
	// grey and below them.
	Named int
}

// Series is one line of [Lines], from point to point.
type Series struct {
	Name string
	X, Y []float64
}

var lineColors = []color.RGBA{blue, vermillion, green, purple, orange, sky, black}

// grey is the colour of series without a name.
var grey = color.RGBA{170, 170, 170, 255}

func (l Lines) draw(c *page) (end vg.Length, err error) {
	if len(l.Series) == 0 {
		return 0, fmt.Errorf("figure: Series is empty, expected at least one")
	}
	height, vertical, ys := 260, logAxis, []float64(nil)
	if l.Paths {
		height, vertical, ys = 300, linearAxis, []float64{0}
	}
	var xs []float64
	for i, s := range l.Series {
		name := fmt.Sprintf("Series[%d]", i)
		err := cmp.Or(checkPositive(name+".X", s.X, len(s.X)), check(name+".Y", s.Y, len(s.X), false))
		if !l.Paths {
			err = cmp.Or(err, checkPositive(name+".Y", s.Y, len(s.X)))
		}
		if err != nil {
			return 0, err
		}
		xs, ys = append(xs, s.X...), append(ys, s.Y...)
	}
	b := &block{title: l.Title, column: pageWidth}
	p := b.panel(logAxis(l.XLabel, slices.Min(xs), slices.Max(xs)), vertical(l.YLabel, slices.Min(ys), slices.Max(ys)),
		vg.Length(height))
	p.grid()
	named := len(l.Series)
	if l.Named > 0 {
		named = min(l.Named, named)
	}
	curves := make([]curve, len(l.Series))
	for i, s := range l.Series {
		curves[i] = curve{x: s.X, y: s.Y, line: stroke(grey, 0.8)}
		if !l.Paths {
			curves[i].shape, curves[i].radius = i%len(shapes), 2.8
		}
		if i < named {
			curves[i].line = stroke(lineColors[i%len(lineColors)], 1.4)
			b.label(cmp.Or(s.Name, fmt.Sprint(i)), curves[i].samples()...)
		}
	}
	for _, k := range slices.Backward(curves) {
		k.draw(p)
	}
	return b.draw(c, 0, -edge), nil
}
