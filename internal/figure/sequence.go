package figure

import (
	"cmp"
	"slices"

	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"surepipe/internal/lists"
)

// Sequence is a sequence of numbers with its estimate, and below them what the estimate leaves.
type Sequence struct {
	Title          string
	XLabel, YLabel string
	// X are the places of the values Y, in order, and Fit is the estimate there.
	X, Y, Fit []float64
	// Truth is the mean of Y; nil: not known.
	Truth []float64
	// FitName is what the legend calls the estimate, "estimate" by default.
	FitName string
}

func (f Sequence) draw(c *page) (end vg.Length, err error) {
	n := len(f.X)
	if err := cmp.Or(check("X", f.X, n, false), check("Y", f.Y, n, false), check("Fit", f.Fit, n, false),
		check("Truth", f.Truth, n, true)); err != nil {
		return 0, err
	}
	left := lists.Make(n, func(i int) float64 { return f.Y[i] - f.Fit[i] })
	b := &block{title: f.Title, column: pageWidth}
	all := slices.Concat(f.Y, f.Fit, f.Truth)
	x := linearAxis(f.XLabel, f.X[0], f.X[n-1])
	panel := func(label string, low, high float64, height vg.Length) *panel {
		p := b.panel(x, linearAxis(label, low, high), height)
		p.grid()
		return p
	}
	p := panel(f.YLabel, slices.Min(all), slices.Max(all), 220)
	radius := vg.Length(1.8)
	if n > 500 {
		radius = 0.9
	}
	dot := marker(shapes[0], radius, grey, stroke(grey, 0.3))
	p.marks(dot, f.X, f.Y)
	if f.Truth != nil {
		b.label("truth", p.line(stroke(vermillion, 1.2), p.xys(f.X, f.Truth)...))
	}
	b.label(cmp.Or(f.FitName, "estimate"), p.line(stroke(blue, 1.4), p.xys(f.X, f.Fit)...))
	b.label("y", &plotter.Scatter{GlyphStyle: dot})
	p = panel("y - estimate", min(0, slices.Min(left)), max(0, slices.Max(left)), 90)
	p.horizontal(stroke(ink, 0.5), 0)
	p.marks(dot, f.X, left)
	return b.draw(c, 0, -edge), nil
}
