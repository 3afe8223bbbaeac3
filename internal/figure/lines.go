package figure

import (
	"cmp"
	"fmt"
	"image/color"
	"slices"
)

// Lines is positive numbers against others, on logarithmic axes.
type Lines struct {
	Title string
	// XLabel and YLabel name the axes with their units.
	XLabel, YLabel string
	Series         []Series
}

// Series is one line of [Lines], from point to point.
type Series struct {
	Name string
	X, Y []float64
}

var lineColors = []color.RGBA{blue, vermillion, green, purple, orange, sky, black}

func (l Lines) plan() (*drawing, error) {
	if len(l.Series) == 0 {
		return nil, fmt.Errorf("figure: Series is empty, expected at least one")
	}
	var xs, ys []float64
	for i, s := range l.Series {
		name := fmt.Sprintf("Series[%d]", i)
		if err := cmp.Or(checkSeries(name+".X", s.X, -1, positive),
			checkSeries(name+".Y", s.Y, len(s.X), positive)); err != nil {
			return nil, err
		}
		xs, ys = append(xs, s.X...), append(ys, s.Y...)
	}
	b := &block{title: l.Title, column: pageWidth}
	p := b.panel(logAxis(l.XLabel, slices.Min(xs), slices.Max(xs)), logAxis(l.YLabel, slices.Min(ys), slices.Max(ys)),
		260)
	p.grid()
	for i, s := range l.Series {
		k := curve{x: s.X, y: s.Y, line: stroke(lineColors[i%len(lineColors)], 1.4), shape: i % len(shapes),
			radius: 2.8}
		k.draw(p)
		b.label(s.Name, k.samples()...)
	}
	return b.alone(), nil
}
