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
	tickLength vg.Length = 3.5
	// marginWidth is about that of the labels beside a frame.
	marginWidth vg.Length = 60
)

// frameLine is the line of frames and ticks.
var frameLine = stroke(ink, 0.8)

// panel is a plot with a frame of a given height.
type panel struct {
	*plot.Plot
	x, y    *axis
	height  vg.Length
	factors [2]string // of the labels of x and y
}

// newPanel is an empty plot in a column of the given width.
func newPanel(x, y *axis, column, height vg.Length) *panel {
	p := &panel{Plot: plot.New(), x: x, y: y, height: height}
	p.BackgroundColor = nil
	set := func(s *text.Style, size vg.Length) {
		s.Font, s.Handler, s.Color = sans(size).Font, sans(size).Handler, ink
	}
	for i, on := range []struct {
		to   *plot.Axis
		from *axis
		r    ruler
	}{{&p.X, x, ruler{length: column - marginWidth}}, {&p.Y, y, ruler{height, true}}} {
		marks, factor := on.from.ticks(on.r)
		p.factors[i] = factor
		on.to.Min, on.to.Max = on.from.min, on.from.max
		on.to.Padding, on.to.Width = 0, 0 // the frame is drawn over the curves
		on.to.Tick.Length, on.to.Tick.LineStyle, on.to.Tick.Marker = tickLength, frameLine, plot.ConstantTicks(marks)
		on.to.Label.Padding = 3
		on.to.Label.Text = fit(on.from.label, labelSize, on.r.length-2*width(factor, tickSize))
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
	p.X.Tick.Label.Font.Size, p.X.Label.Text, p.factors[0] = 0, "", ""
}

// unboxed is a plotter without the boxes by which gonum would move its data away from the frame.
type unboxed struct{ plot.Plotter }

func (p *panel) add(plotters ...plot.Plotter) {
	for _, one := range plotters {
		p.Add(unboxed{one})
	}
}

func (p *panel) grid() {
	thin := stroke(faint, 0.5)
	p.add(&plotter.Grid{Vertical: thin, Horizontal: thin})
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

// vertical and horizontal are lines across the frame.
func (p *panel) vertical(s draw.LineStyle, x float64) *plotter.Line {
	return line(s, plotter.XY{X: p.x.place(x), Y: p.y.min}, plotter.XY{X: p.x.place(x), Y: p.y.max})
}

func (p *panel) horizontal(s draw.LineStyle, y float64) *plotter.Line {
	return line(s, plotter.XY{X: p.x.min, Y: p.y.place(y)}, plotter.XY{X: p.x.max, Y: p.y.place(y)})
}

// marks are markers at points; those beyond the frame are at its edge.
func (p *panel) marks(g draw.GlyphStyle, x, y []float64) *plotter.Scatter {
	points := p.xys(x, y)
	for i := range points {
		points[i].Y = max(p.y.min, min(p.y.max, points[i].Y))
	}
	return &plotter.Scatter{XYs: points, GlyphStyle: g}
}

// border draws the frame, over the data, and the factors of the labels.
func (p *panel) border(c draw.Canvas) {
	outlined(c, frameLine, c.Path())
	style := sans(tickSize)
	c.FillText(style, pt(c.Min.X-tickLength-width(p.factors[1], tickSize)/2, c.Max.Y+0.45*tickSize), p.factors[1])
	style.XAlign = text.XRight
	descent := style.FontExtents().Descent
	c.FillText(style, pt(c.Max.X, c.Min.Y-p.X.Tick.Length-p.X.Tick.Label.Height("0")-p.X.Label.TextStyle.Height("0")+descent), p.factors[0])
}

// block is a title, a legend, and panels one above the other whose frames have the same width.
type block struct {
	title  string
	legend []entry
	panels []*panel
	// margin is kept free to the right of the frames, for a colour bar.
	margin vg.Length
	bar    func(*page, vg.Rectangle) // draws it beside a frame
}

// rows lays the legend out in rows of the given width: a legend of gonum is one column. Each entry is a legend.
func (b *block) rows(room vg.Length) (rows [][]plot.Legend, widths [][]vg.Length) {
	used := vg.Length(math.Inf(1))
	for _, e := range b.legend {
		if plain(e.label) == "" {
			continue
		}
		l := plot.NewLegend()
		l.TextStyle, l.Left, l.Top, l.ThumbnailWidth = sans(legendSize), true, true, 20
		if _, mark := e.samples[0].(*plotter.Scatter); mark {
			l.ThumbnailWidth = 14
		}
		l.Add(" "+fit(e.label, legendSize, room-l.ThumbnailWidth-6), e.samples...)
		w := l.Rectangle(draw.Canvas{}).Size().X
		if used+legendGap+w > room {
			rows, widths, used = append(rows, nil), append(widths, nil), -legendGap
		}
		last := len(rows) - 1
		rows[last], widths[last] = append(rows[last], l), append(widths[last], w)
		used += legendGap + w
	}
	return rows, widths
}

// layout places the panels in a column. middle is the distance from the top of the block to the middle of its
// first frame. draw draws it from the given left and upper corner.
func (b *block) layout(column vg.Length) (height, middle vg.Length, drawBlock func(*page, vg.Point)) {
	n := len(b.panels)
	plots := make([][]*plot.Plot, n)
	for i, p := range b.panels {
		if i < n-1 {
			p.hideX()
		}
		plots[i] = []*plot.Plot{p.Plot}
	}
	// Align gives the frames one width, and one height: that is not used.
	tiles := plot.Align(plots, draw.Tiles{Rows: n, Cols: 1, PadLeft: edge, PadRight: edge + b.margin}, draw.NewCanvas(nil, column, 1000*vg.Length(n)))
	frame := b.panels[0].DataCanvas(tiles[0][0])
	rows, widths := b.rows(frame.Size().X)
	top := edge
	if b.title != "" {
		top += titleRow
	}
	legend := top
	if len(rows) > 0 {
		top += vg.Length(len(rows))*legendRow + 3
	}
	height = top
	canvases, frames := make([]draw.Canvas, n), make([]draw.Canvas, n) // below the top of the block
	for i, p := range b.panels {
		if p.factors[1] != "" {
			height += 1.5 * tickSize
		}
		tile := tiles[i][0]
		labels := p.DataCanvas(tile).Min.Y - tile.Min.Y
		canvases[i] = draw.Canvas{Rectangle: rect(tile.Min.X, -height-p.height-labels, tile.Max.X, -height)}
		frames[i] = p.DataCanvas(canvases[i])
		if height += p.height + labels; i < n-1 {
			height += 6
		}
	}
	middle = -(frames[0].Min.Y + frames[0].Max.Y) / 2
	return height + edge, middle, func(c *page, at vg.Point) {
		style := sans(titleSize)
		style.XAlign = text.XCenter
		title := fit(b.title, titleSize, frame.Size().X)
		on := draw.Canvas{Canvas: c}
		on.FillText(style, at.Add(pt((frame.Min.X+frame.Max.X)/2, -edge-titleSize)), title)
		for i, row := range rows {
			x, y := at.X+frame.Min.X, at.Y-legend-vg.Length(i)*legendRow
			for k := range row {
				row[k].Draw(draw.Canvas{Canvas: c, Rectangle: rect(x, y-legendRow, x+widths[i][k], y)})
				x += widths[i][k] + legendGap
			}
		}
		for i, p := range b.panels {
			p.Draw(draw.Canvas{Canvas: c, Rectangle: canvases[i].Add(at)})
			p.border(draw.Canvas{Canvas: c, Rectangle: frames[i].Add(at)})
		}
		if b.bar != nil {
			b.bar(c, frames[0].Add(at))
		}
	}
}

// alone is the drawing of one block on a page of its own.
func (b *block) alone() *drawing {
	height, _, drawBlock := b.layout(pageWidth)
	return &drawing{height: height, draw: func(c *page) { drawBlock(c, pt(0, height)) }}
}
