package figure

import (
	"image/color"

	"gonum.org/v1/plot/vg"
)

// panel is a frame with two axes and its contents.
type panel struct {
	x, y   *axis
	height vg.Length // of the frame
	hideX  bool      // the ticks of x have no labels: the panel below has them
	noGrid bool
	// behind is drawn before the grid, front after it.
	behind, front []func(*canvas, *panel)

	frame vg.Rectangle // set by the layout
}

// at is the position of a point of the data.
func (p *panel) at(x, y float64) vg.Point {
	size := p.frame.Size()
	return pt(p.frame.Min.X+vg.Length(p.x.norm(x))*size.X, p.frame.Min.Y+vg.Length(p.y.norm(y))*size.Y)
}

// inside reports whether a marker at the point lies in the frame.
func (p *panel) inside(at vg.Point) bool {
	const slack = 0.01
	return at.X >= p.frame.Min.X-slack && at.X <= p.frame.Max.X+slack && at.Y >= p.frame.Min.Y-slack && at.Y <= p.frame.Max.Y+slack
}

// entry is a line of the legend with its sample.
type entry struct {
	label  text
	band   color.Color
	line   *stroke
	marker *marker
}

const (
	sampleWidth vg.Length = 20
	markerWidth vg.Length = 14
	legendRow   vg.Length = 14
	legendGap   vg.Length = 14
	titleRow    vg.Length = 17
	tickLength  vg.Length = 3.5
	edge        vg.Length = 6 // white space around everything
)

// block is a title, a legend, and panels one above the other whose frames have the same width.
type block struct {
	title  string
	legend []entry
	panels []*panel
	// margin is kept free to the right of the frames, for a colour bar.
	margin vg.Length
	gap    vg.Length // between panels
}

// sample is the width of the sample before the label.
func (e entry) sample() vg.Length {
	if e.band == nil && e.line == nil {
		return markerWidth
	}
	return sampleWidth
}

// rows lays the legend out in rows of the given width.
func (b *block) rows(width vg.Length) [][]entry {
	var rows [][]entry
	used := vg.Length(0)
	for _, e := range b.legend {
		if len(e.label) == 0 {
			continue
		}
		e.label = e.label.fit(legendSize, width-e.sample()-5)
		w := e.sample() + 5 + e.label.width(legendSize)
		if len(rows) == 0 || used+legendGap+w > width {
			rows, used = append(rows, nil), -legendGap
		}
		rows[len(rows)-1] = append(rows[len(rows)-1], e)
		used += legendGap + w
	}
	return rows
}

// layout places the frames in the width from x0 to x1 and below the top, and
// returns the lowest point that is drawn.
func (b *block) layout(x0, x1, top vg.Length) (bottom vg.Length) {
	x0, x1 = x0+edge, x1-edge-b.margin
	var leftMargin, rightMargin vg.Length
	for _, p := range b.panels {
		marks, _ := p.y.ticks(p.height, heightRoom)
		m := tickLength + 3 + widest(marks)
		if p.y.label != "" {
			m += 1.6 * labelSize
		}
		leftMargin = max(leftMargin, m)
	}
	// Half of the last label of x may be beyond the frame.
	for _, p := range b.panels {
		if !p.hideX {
			marks, _ := p.x.ticks(x1-x0-leftMargin, widthRoom)
			for _, m := range marks {
				half := m.label.width(tickSize) / 2
				rightMargin = max(rightMargin, half-vg.Length(1-m.at)*(x1-x0-leftMargin))
				leftMargin = max(leftMargin, half-vg.Length(m.at)*(x1-x0-leftMargin))
			}
		}
	}
	x0, x1 = x0+leftMargin, x1-rightMargin
	y := top - b.head(x0, x1)
	for i, p := range b.panels {
		if _, factor := p.y.ticks(p.height, heightRoom); factor != nil {
			y -= 1.5 * tickSize
		}
		p.frame = rect(x0, y-p.height, x1, y)
		y -= p.height
		if i < len(b.panels)-1 {
			y -= b.gap
		}
		if !p.hideX {
			y -= tickLength + 3 + tickSize
			if p.x.label != "" {
				y -= 1.5 * labelSize
			}
			if _, factor := p.x.ticks(x1-x0, widthRoom); factor != nil && p.x.label == "" {
				y -= 1.5 * tickSize
			}
		}
	}
	return y - edge
}

// head is the height of title and legend.
func (b *block) head(x0, x1 vg.Length) vg.Length {
	h := edge
	if b.title != "" {
		h += titleRow
	}
	if n := len(b.rows(x1 - x0)); n > 0 {
		h += vg.Length(n)*legendRow + 3
	}
	return h
}

func widest(marks []tick) (w vg.Length) {
	for _, m := range marks {
		w = max(w, m.label.width(tickSize))
	}
	return w
}

// draw draws the block as [block.layout] placed it.
func (b *block) draw(c *canvas, top vg.Length) {
	x0, x1 := b.panels[0].frame.Min.X, b.panels[0].frame.Max.X
	y := top - edge
	if b.title != "" {
		c.text(plain(b.title).fit(titleSize, x1-x0), titleSize, pt((x0+x1)/2, y-titleSize), center)
		y -= titleRow
	}
	for _, row := range b.rows(x1 - x0) {
		x := x0
		for _, e := range row {
			e.draw(c, rect(x, y-legendRow, x+e.sample(), y))
			c.text(e.label, legendSize, pt(x+e.sample()+5, y-legendRow/2-middle(legendSize)), left)
			x += e.sample() + 5 + e.label.width(legendSize) + legendGap
		}
		y -= legendRow
	}
	for _, p := range b.panels {
		p.draw(c)
	}
}

func (e entry) draw(c *canvas, r vg.Rectangle) {
	mid := (r.Min.Y + r.Max.Y) / 2
	if e.band != nil {
		c.rect(rect(r.Min.X, mid-4, r.Max.X, mid+4), e.band)
	}
	if e.line != nil {
		c.line(*e.line, pt(r.Min.X, mid), pt(r.Max.X, mid))
	}
	if e.marker != nil {
		c.marker(*e.marker, pt((r.Min.X+r.Max.X)/2, mid))
	}
}

func (p *panel) draw(c *canvas) {
	size := p.frame.Size()
	xs, xFactor := p.x.ticks(size.X, widthRoom)
	ys, yFactor := p.y.ticks(size.Y, heightRoom)
	for _, f := range p.behind {
		f(c, p)
	}
	if !p.noGrid {
		grid := stroke{color: faint, width: 0.5}
		for _, m := range xs {
			if x := p.frame.Min.X + vg.Length(m.at)*size.X; !m.minor {
				c.line(grid, pt(x, p.frame.Min.Y), pt(x, p.frame.Max.Y))
			}
		}
		for _, m := range ys {
			if y := p.frame.Min.Y + vg.Length(m.at)*size.Y; !m.minor {
				c.line(grid, pt(p.frame.Min.X, y), pt(p.frame.Max.X, y))
			}
		}
	}
	for _, f := range p.front {
		f(c, p)
	}
	p.border(c)
	mark := stroke{color: ink, width: 0.8}
	for _, m := range xs {
		x, l := p.frame.Min.X+vg.Length(m.at)*size.X, tickLength
		if m.minor {
			l *= 0.55
		}
		c.line(mark, pt(x, p.frame.Min.Y), pt(x, p.frame.Min.Y-l))
		if !p.hideX {
			c.text(m.label, tickSize, pt(x, p.frame.Min.Y-tickLength-2-tickSize), center)
		}
	}
	for _, m := range ys {
		y, l := p.frame.Min.Y+vg.Length(m.at)*size.Y, tickLength
		if m.minor {
			l *= 0.55
		}
		c.line(mark, pt(p.frame.Min.X, y), pt(p.frame.Min.X-l, y))
		c.text(m.label, tickSize, pt(p.frame.Min.X-tickLength-3, y-middle(tickSize)), right)
	}
	if yFactor != nil {
		// Above the labels that it belongs to.
		c.text(yFactor, tickSize, pt(p.frame.Min.X-tickLength-3-widest(ys), p.frame.Max.Y+0.45*tickSize), left)
	}
	if !p.hideX {
		y := p.frame.Min.Y - tickLength - 2 - tickSize
		if p.x.label != "" || xFactor != nil {
			y -= 1.45 * labelSize
		}
		free := size.X
		if xFactor != nil {
			c.text(xFactor, tickSize, pt(p.frame.Max.X, y), right)
			free -= 2 * (xFactor.width(tickSize) + 6)
		}
		c.text(plain(p.x.label).fit(labelSize, free), labelSize, pt((p.frame.Min.X+p.frame.Max.X)/2, y), center)
	}
	if p.y.label != "" {
		x := p.frame.Min.X - tickLength - 3 - widest(ys) - 0.65*labelSize
		t := plain(p.y.label).fit(labelSize, size.Y+10)
		c.upright(t, labelSize, pt(x, (p.frame.Min.Y+p.frame.Max.Y)/2))
	}
}

// border draws the frame, with a break after zero in the two sides along an axis that shows it.
func (p *panel) border(c *canvas) {
	f := p.frame
	corners := []vg.Point{f.Min, pt(f.Max.X, f.Min.Y), f.Max, pt(f.Min.X, f.Max.Y)}
	across := []struct {
		a        *axis
		from, to vg.Point
	}{{p.x, corners[0], corners[1]}, {p.x, corners[3], corners[2]}, {p.y, corners[0], corners[3]}, {p.y, corners[1], corners[2]}}
	s := stroke{color: ink, width: 0.8}
	for _, side := range across {
		if !side.a.zero || side.a.zeroOnly {
			c.line(s, side.from, side.to)
			continue
		}
		along := pt(1, 0)
		if side.from.X == side.to.X {
			along = pt(0, 1)
		}
		gap := side.from.Add(side.to.Sub(side.from).Scale(breakAt))
		before, after := gap.Sub(along.Scale(2)), gap.Add(along.Scale(2))
		c.line(s, side.from, before)
		c.line(s, after, side.to)
		slash := pt(1.5+2*along.Y, 1.5+2*along.X)
		for _, at := range []vg.Point{before, after} {
			c.line(s, at.Sub(slash), at.Add(slash))
		}
	}
	// The corners, where lines with blunt ends leave gaps.
	for _, at := range corners {
		c.rect(rect(at.X-s.width/2, at.Y-s.width/2, at.X+s.width/2, at.Y+s.width/2), s.color)
	}
}

// alone is the drawing of one block on a page of its own.
func (b *block) alone() *drawing {
	height := -b.layout(0, pageWidth, 0)
	return &drawing{height: height, draw: func(c *canvas) {
		b.layout(0, pageWidth, height)
		b.draw(c, height)
	}}
}
