package figure

import (
	"cmp"
	"fmt"
	"image/color"
	"slices"
)

// Paths are the coefficients of a regression against a hyperparameter, on a logarithmic axis.
type Paths struct {
	Title          string
	XLabel, YLabel string
	// X are positive, and every series has these X. The first Named have a line of the legend; the others are grey.
	X      []float64
	Series []Series
	Named  int
}

// grey is the colour of paths without a name.
var grey = color.RGBA{170, 170, 170, 255}

func (l Paths) plan() (*drawing, error) {
	if err := checkSeries("X", l.X, -1, positive); err != nil {
		return nil, err
	}
	if len(l.X) == 0 || len(l.Series) == 0 {
		return nil, fmt.Errorf("figure: %d values of X and %d series, expected at least one of each", len(l.X),
			len(l.Series))
	}
	low, high := 0.0, 0.0
	for i, s := range l.Series {
		if err := checkSeries(fmt.Sprintf("Series[%d].Y", i), s.Y, len(l.X), 0); err != nil {
			return nil, err
		}
		low, high = min(low, slices.Min(s.Y)), max(high, slices.Max(s.Y))
	}
	if low == high {
		high = 1
	}
	b := &block{title: l.Title, column: pageWidth}
	p := b.panel(logAxis(l.XLabel, slices.Min(l.X), slices.Max(l.X)), linearAxis(l.YLabel, low, high), 300)
	p.grid()
	for i := len(l.Series) - 1; i >= 0; i-- {
		k := curve{x: l.X, y: l.Series[i].Y, line: stroke(grey, 0.8)}
		if i < l.Named {
			k.line = stroke(lineColors[i%len(lineColors)], 1.4)
		}
		k.draw(p)
	}
	for i, s := range l.Series[:min(l.Named, len(l.Series))] {
		k := curve{x: l.X, y: s.Y, line: stroke(lineColors[i%len(lineColors)], 1.4)}
		b.label(cmp.Or(s.Name, fmt.Sprint(i)), k.samples()...)
	}
	return b.alone(), nil
}
