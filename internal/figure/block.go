package figure

import (
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
	marginWidth vg.Length = 50
)

// frameLine is the line of frames and ticks.
var frameLine = stroke(ink, 0.8)

// block is a title, a legend, and panels one above the other whose frames have the same width.
type block struct {
	title  string
	column vg.Length     // the width of all
	legend []plot.Legend // a legend of gonum is one column: each of these has one entry
	panels []*panel
}

// label adds an entry to the legend, with samples of what it names.
func (b *block) label(name string, samples ...plot.Thumbnailer) {
	l := plot.NewLegend()
	l.TextStyle, l.Left, l.Top, l.ThumbnailWidth = sans(legendSize), true, true, 20
	if _, mark := samples[0].(*plotter.Scatter); mark {
		l.ThumbnailWidth = 14
	}
	if name = fit(name, legendSize, b.column-marginWidth-legendGap-l.ThumbnailWidth); name != "" {
		l.Add(" "+name, samples...)
		b.legend = append(b.legend, l)
	}
}

// panel is a plot with a frame of a given height.
type panel struct {
	*plot.Plot
	x, y   *axis
	height vg.Length
	bare   bool // without an axis to the left and a line around the frame
}

// panel adds a panel. y nil is an axis from 0 to 1, of a bare panel.
func (b *block) panel(x, y *axis, height vg.Length) *panel {
	p := &panel{Plot: plot.New(), x: x, y: y, height: height, bare: y == nil}
	b.panels = append(b.panels, p)
	x.length = b.column - marginWidth
	if p.bare {
		x.length, y = b.column-2*edge, &axis{max: 1}
	}
	y.length, y.upright = height, true
	p.BackgroundColor = nil
	set := func(s *text.Style, size vg.Length) {
		s.Font, s.Handler, s.Color = sans(size).Font, sans(size).Handler, ink
	}
	for to, from := range map[*plot.Axis]*axis{&p.X: x, &p.Y: y} {
		_, _, factor := from.factor()
		if factor != "" {
			factor = " (" + factor + ")"
		}
		to.Min, to.Max = from.min, from.max
		to.Padding, to.Width = 0, 0 // the frame is drawn over the curves
		to.Tick.Length, to.Tick.LineStyle, to.Tick.Marker = tickLength, frameLine, from.ticks()
		to.Label.Padding = 3
		to.Label.Text = fit(from.label, labelSize, from.length-width(factor, labelSize)) + factor
		set(&to.Tick.Label, tickSize)
		set(&to.Label.TextStyle, labelSize)
	}
	if p.bare {
		p.HideY()
	}
	return p
}

// unboxed is a plotter without the boxes by which gonum would move its data away from the frame.
type unboxed struct{ plot.Plotter }

func (p *panel) grid() {
	p.Add(unboxed{&plotter.Grid{Vertical: stroke(faint, 0.5), Horizontal: stroke(faint, 0.5)}})
}

func (p *panel) xys(x, y []float64) plotter.XYs {
	points := make(plotter.XYs, len(x))
	for i := range x {
		points[i] = plotter.XY{X: p.x.place(x[i]), Y: p.y.place(y[i])}
	}
	return points
}

func (p *panel) line(s draw.LineStyle, points ...plotter.XY) *plotter.Line {
	l := &plotter.Line{XYs: points, LineStyle: s}
	p.Add(unboxed{l})
	return l
}

func (p *panel) vertical(s draw.LineStyle, x float64) {
	p.line(s, plotter.XY{X: p.x.place(x), Y: p.y.min}, plotter.XY{X: p.x.place(x), Y: p.y.max})
}

func (p *panel) horizontal(s draw.LineStyle, y float64) *plotter.Line {
	return p.line(s, plotter.XY{X: p.x.min, Y: p.y.place(y)}, plotter.XY{X: p.x.max, Y: p.y.place(y)})
}

func (p *panel) marks(g draw.GlyphStyle, x, y []float64) *plotter.Scatter {
	points := p.xys(x, y)
	for i := range points {
		points[i].Y = max(p.y.min, min(p.y.max, points[i].Y))
	}
	s := &plotter.Scatter{XYs: points, GlyphStyle: g}
	p.Add(unboxed{s})
	return s
}

// draw draws the block with its left side at x and its upper side at y, and returns where it ends.
func (b *block) draw(c *page, x, y vg.Length) (end vg.Length) {
	n := len(b.panels)
	plots := make([][]*plot.Plot, n)
	for i, p := range b.panels {
		if i < n-1 && p.x == b.panels[i+1].x {
			p.X.Tick.Label.Font.Size, p.X.Label.Text = 0, "" // the panel below has them
		}
		plots[i] = []*plot.Plot{p.Plot}
	}
	// Align gives the frames one width. It gives them one height too, which is not used.
	on := draw.Canvas{Canvas: c, Rectangle: rect(x, -2000, x+b.column, 0)}
	tiles := plot.Align(plots, draw.Tiles{Rows: n, Cols: 1, PadLeft: edge, PadRight: edge}, on)
	frame := b.panels[0].DataCanvas(tiles[0][0])
	if b.title != "" {
		on.FillText(centered(titleSize), pt(frame.Center().X, y-titleSize), fit(b.title, titleSize, frame.Size().X))
		y -= titleRow
	}
	x = frame.Max.X
	for _, l := range b.legend {
		w := l.Rectangle(draw.Canvas{}).Size().X
		if x+w > frame.Max.X {
			x, y = frame.Min.X, y-legendRow
		}
		on.Rectangle = rect(x, y, x+w, y+legendRow)
		l.Draw(on)
		x += w + legendGap
	}
	y -= 3
	for i, p := range b.panels {
		t := tiles[i][0]
		end = y - p.height - (p.DataCanvas(t).Min.Y - t.Min.Y)
		on.Rectangle = rect(t.Min.X, end, t.Max.X, y)
		p.Draw(on)
		if !p.bare {
			outlined(on, frameLine, p.DataCanvas(on).Path())
		}
		y = end - panelGap
	}
	return end
}
