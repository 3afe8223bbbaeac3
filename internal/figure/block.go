package figure

import (
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

const (
	titleRow   vg.Length = 17
	legendRow  vg.Length = 14
	legendGap  vg.Length = 14
	panelGap   vg.Length = 6
	tickLength vg.Length = 3.5
	// marginWidth is about that of the labels beside a frame.
	marginWidth vg.Length = 60
)

// frameLine is the line of frames and ticks.
var frameLine = stroke(ink, 0.8)

// panel is a plot with a frame of about a given height.
type panel struct {
	*plot.Plot
	x, y   *axis
	height vg.Length
}

// newPanel is an empty plot in a column of the given width.
func newPanel(x, y *axis, column, height vg.Length) *panel {
	p := &panel{plot.New(), x, y, height}
	p.BackgroundColor = nil
	set := func(s *text.Style, size vg.Length) {
		s.Font, s.Handler, s.Color = sans(size).Font, sans(size).Handler, ink
	}
	for _, on := range []struct {
		to   *plot.Axis
		from *axis
		r    ruler
	}{{&p.X, x, ruler{length: column - marginWidth}}, {&p.Y, y, ruler{height, true}}} {
		_, factor := on.from.factor()
		if factor != "" {
			factor = " (" + factor + ")"
		}
		on.to.Min, on.to.Max = on.from.min, on.from.max
		on.to.Padding, on.to.Width = 0, 0 // the frame is drawn over the curves
		on.to.Tick.Length, on.to.Tick.LineStyle, on.to.Tick.Marker = tickLength, frameLine, on.from.ticks(on.r)
		on.to.Label.Padding = 3
		on.to.Label.Text = fit(on.from.label, labelSize, on.r.length-width(factor, labelSize)) + factor
		set(&on.to.Tick.Label, tickSize)
		set(&on.to.Label.TextStyle, labelSize)
	}
	return p
}

// hideX removes the labels of x: the panel below has them.
func (p *panel) hideX() {
	marks := p.X.Tick.Marker.Ticks(p.X.Min, p.X.Max)
	for i := range marks {
		if !marks[i].IsMinor() {
			marks[i].Label = " "
		}
	}
	p.X.Tick.Label.Font.Size, p.X.Label.Text = 0, ""
}

// unboxed is a plotter without the boxes by which gonum would move its data away from the frame.
type unboxed struct{ plot.Plotter }

func (p *panel) add(plotters ...plot.Plotter) {
	for _, one := range plotters {
		p.Add(unboxed{one})
	}
}

func (p *panel) grid() {
	p.add(&plotter.Grid{Vertical: stroke(faint, 0.5), Horizontal: stroke(faint, 0.5)})
}

// xys are the places of points.
func (p *panel) xys(x, y []float64) plotter.XYs {
	points := make(plotter.XYs, len(x))
	for i := range x {
		points[i] = plotter.XY{X: p.x.place(x[i]), Y: p.y.place(y[i])}
	}
	return points
}

// line is a line through places.
func line(s draw.LineStyle, points ...plotter.XY) *plotter.Line {
	return &plotter.Line{XYs: points, LineStyle: s}
}

// vertical is a line across the frame.
func (p *panel) vertical(s draw.LineStyle, x float64) {
	p.add(line(s, plotter.XY{X: p.x.place(x), Y: p.y.min}, plotter.XY{X: p.x.place(x), Y: p.y.max}))
}

// horizontal is a line across the frame.
func (p *panel) horizontal(s draw.LineStyle, y float64) {
	p.add(line(s, plotter.XY{X: p.x.min, Y: p.y.place(y)}, plotter.XY{X: p.x.max, Y: p.y.place(y)}))
}

// marks are markers at points; those beyond the frame are at its edge.
func (p *panel) marks(g draw.GlyphStyle, x, y []float64) *plotter.Scatter {
	points := p.xys(x, y)
	for i := range points {
		points[i].Y = max(p.y.min, min(p.y.max, points[i].Y))
	}
	s := &plotter.Scatter{XYs: points, GlyphStyle: g}
	p.add(s)
	return s
}

// block is a title, a legend, and panels one above the other whose frames have the same width.
type block struct {
	title  string
	legend []entry
	panels []*panel
	// margin is kept free to the right of the frames, for what beside draws there.
	margin vg.Length
	beside func(c *page, frame vg.Rectangle)
}

// part is a legend of gonum, which is one column, with one entry.
type part struct {
	plot.Legend
	vg.Rectangle
}

// parts are the legend in rows from x0 to x1, below y, and the height of its end.
func (b *block) parts(x0, x1, y vg.Length) (all []part, bottom vg.Length) {
	x := vg.Length(math.Inf(1))
	for _, e := range b.legend {
		l := plot.NewLegend()
		l.TextStyle, l.Left, l.Top, l.ThumbnailWidth = sans(legendSize), true, true, 20
		if _, mark := e.samples[0].(*plotter.Scatter); mark {
			l.ThumbnailWidth = 14
		}
		label := fit(e.label, legendSize, x1-x0-l.ThumbnailWidth-6)
		if label == "" {
			continue
		}
		l.Add(" "+label, e.samples...)
		w := l.Rectangle(draw.Canvas{}).Size().X
		if x+w > x1 {
			x, y = x0, y-legendRow
		}
		all = append(all, part{l, rect(x, y, x+w, y+legendRow)})
		x += w + legendGap
	}
	return all, y - 3
}

// layout places the block in a column from x0 to x1 below the top. middle and bottom are the heights of the
// middle of its first frame and of its end.
func (b *block) layout(x0, x1, top vg.Length) (middle, bottom vg.Length, drawBlock func(*page)) {
	n := len(b.panels)
	plots := make([][]*plot.Plot, n)
	for i, p := range b.panels {
		if i < n-1 {
			p.hideX()
		}
		plots[i] = []*plot.Plot{p.Plot}
	}
	// Align gives the frames one width. It gives them one height too, which is not used.
	column := draw.Canvas{Rectangle: rect(x0, -2000, x1, 0)}
	tiles := plot.Align(plots, draw.Tiles{Rows: n, Cols: 1, PadLeft: edge, PadRight: edge + b.margin}, column)
	frame := b.panels[0].DataCanvas(tiles[0][0])
	y := top - edge
	if b.title != "" {
		y -= titleRow
	}
	legend, y := b.parts(frame.Min.X, frame.Max.X, y)
	canvases := make([]draw.Canvas, n)
	for i, p := range b.panels {
		t := tiles[i][0]
		end := y - p.height - (p.DataCanvas(t).Min.Y - t.Min.Y)
		canvases[i] = draw.Canvas{Rectangle: rect(t.Min.X, end, t.Max.X, y)}
		y = end - panelGap
	}
	frame = b.panels[0].DataCanvas(canvases[0])
	return frame.Center().Y, y + panelGap - edge, func(c *page) {
		on := draw.Canvas{Canvas: c}
		on.FillText(centered(titleSize), pt(frame.Center().X, top-edge-titleSize), fit(b.title, titleSize, frame.Size().X))
		for _, l := range legend {
			on.Rectangle = l.Rectangle
			l.Draw(on)
		}
		for i, p := range b.panels {
			on.Rectangle = canvases[i].Rectangle
			p.Draw(on)
			outlined(on, frameLine, p.DataCanvas(on).Path())
		}
		if b.beside != nil {
			b.beside(c, frame.Rectangle)
		}
	}
}

// alone is the drawing of one block on a page of its own.
func (b *block) alone() *drawing {
	_, bottom, drawBlock := b.layout(0, pageWidth, 0)
	return &drawing{-bottom, drawBlock}
}
