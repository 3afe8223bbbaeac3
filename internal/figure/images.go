package figure

import (
	"fmt"
	"image"
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Images is rows of images with captions and colour bars, and lines of text below them: what was measured, the
// estimate, the residual, the truth and the error. Images that share a [Scale] are beside each other in
// a row, and its bar stands to the right of the last of them.
type Images struct {
	Title string
	Rows  [][]Panel
	// Notes are lines of text below the images, wrapped where they are long.
	Notes []string
	// Curve is the SURE curve of a sweep to the right of the images, drawn without its panel of degrees of
	// freedom. Nil: none.
	Curve *Sweep
}

// Panel is an image of [Images].
type Panel struct {
	Image
	// Scale are the colours of the values. Nil: colours of three channels, or gray levels, from 0 to 1.
	Scale *Scale
	// Stretched images fill a box of a width at most twice its height, whatever their pixels' shape: a
	// sinogram's axes have different units.
	Stretched bool
}

// Image is a matrix, row by row, with its caption. With three channels each pixel has the numbers of
// red, green and blue; 0 stands for one channel.
type Image struct {
	Caption    string
	Rows, Cols int
	Channels   int
	Pixels     []float64
}

// channels is the number of values of a pixel.
func (m Image) channels() int { return max(m.Channels, 1) }

func (f Images) check() error {
	if len(f.Rows) == 0 {
		return fmt.Errorf("figure: Rows is empty, expected at least one")
	}
	for r, row := range f.Rows {
		if len(row) == 0 {
			return fmt.Errorf("figure: Rows[%d] is empty, expected at least one image", r)
		}
		for i, p := range row {
			if err := p.check(fmt.Sprintf("Rows[%d][%d]", r, i)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p Panel) check(name string) error {
	n, s := p.channels(), p.Scale
	switch {
	case p.Rows < 1 || p.Cols < 1:
		return fmt.Errorf("figure: %s is %d x %d, expected at least 1 x 1", name, p.Rows, p.Cols)
	case n != 1 && n != 3:
		return fmt.Errorf("figure: %s has %d channels, expected 1 or 3", name, n)
	// The product of rows and columns may be too large for an int.
	case len(p.Pixels)%p.Rows != 0 || len(p.Pixels)/p.Rows%n != 0 || len(p.Pixels)/p.Rows/n != p.Cols:
		return fmt.Errorf("figure: %s has %d values, expected %d x %d x %d", name, len(p.Pixels), p.Rows, p.Cols, n)
	case s != nil && n > 1:
		return fmt.Errorf("figure: %s has %d channels and a scale, expected one of them", name, n)
	case s != nil && (checkValue(s.Low) != nil || checkValue(s.High) != nil || s.Low >= s.High || s.Map == Diverging && s.Low != -s.High):
		return fmt.Errorf("figure: the scale of %s is from %g to %g, expected an interval, around 0 if it is diverging", name, s.Low, s.High)
	}
	return checkSeries(name+".Pixels", p.Pixels, len(p.Pixels), anySign)
}

// Sizes of the rows.
const (
	imageGap    vg.Length = 10
	rowGap      vg.Length = 9
	tallest     vg.Length = 240
	leastSide   vg.Length = 3
	captionRow  vg.Length = 12
	captionRows           = 2
	leastCurve  vg.Length = 110
	mostCurve   vg.Length = 200
	curveShare            = 0.44
	// The column of a colour bar: its distance from the image, its width and that of its labels.
	scaleGap   vg.Length = 6
	scaleWidth vg.Length = 9
	scaleRoom  vg.Length = 50
)

// size is that of the image in a box of the given width.
func (p Panel) size(box vg.Length) (w, h vg.Length) {
	shape := vg.Length(p.Rows) / vg.Length(p.Cols)
	if p.Stretched {
		return box, box * max(0.5, min(1, shape))
	}
	w, h = box, box*shape
	if h > tallest {
		w, h = w*tallest/h, tallest
	}
	return max(w, leastSide), max(h, leastSide)
}

// caption is the lines of the caption.
func (p Panel) caption(box vg.Length) []string {
	return wrap(p.Caption, legendSize, box+imageGap-3, captionRows)
}

// endsScale reports whether a bar stands to the right of image i of the row.
func endsScale(row []Panel, i int) bool {
	return row[i].Scale != nil && (i == len(row)-1 || row[i+1].Scale != row[i].Scale)
}

// boxWidth is the width of the boxes of the images, in rows that end at the given place.
func (f Images) boxWidth(end vg.Length) (vg.Length, error) {
	box := end
	for r, row := range f.Rows {
		room, n := end-2*edge+imageGap, vg.Length(len(row))
		for i := range row {
			if endsScale(row, i) {
				room -= scaleRoom
			}
		}
		if box = min(box, room/n-imageGap); box < 8 {
			return 0, fmt.Errorf("figure: Rows[%d] has %d images, expected at most %d", r, len(row), int(room/(8+imageGap)))
		}
	}
	return min(box, tallest), nil
}

func (f Images) plan() (*drawing, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	end := pageWidth
	if f.Curve != nil {
		end = pageWidth * (1 - curveShare)
	}
	box, err := f.boxWidth(end)
	if err != nil {
		return nil, err
	}
	top := edge
	if f.Title != "" {
		top += titleRow
	}
	tall, captions := make([]vg.Length, len(f.Rows)), make([]vg.Length, len(f.Rows))
	for r, row := range f.Rows {
		for _, p := range row {
			_, h := p.size(box)
			tall[r] = max(tall[r], h)
			captions[r] = max(captions[r], 4+captionRow*vg.Length(len(p.caption(box))))
		}
	}
	var curveHeight, above vg.Length
	drawCurve := func(*page, vg.Point) {}
	if f.Curve != nil {
		b, err := f.Curve.block(pageWidth-end, max(leastCurve, min(tall[0], mostCurve)), true)
		if err != nil {
			return nil, err
		}
		var middle vg.Length
		curveHeight, middle, drawCurve = b.layout(pageWidth - end)
		// The middle of the images is that of the curve's frame.
		above = max(0, middle-edge-tall[0]/2)
	}
	tops, y := make([]vg.Length, len(f.Rows)), top+above // below the top of the page
	for r := range f.Rows {
		tops[r] = y
		y += tall[r] + captions[r]
		if r < len(f.Rows)-1 || len(f.Notes) > 0 {
			y += rowGap
		}
	}
	var notes []string
	for _, note := range f.Notes {
		notes = append(notes, wrap(note, legendSize, pageWidth-2*edge, 4)...)
	}
	height := max(y+vg.Length(len(notes))*captionRow+edge, top+curveHeight-edge)
	return &drawing{height: height, draw: func(c *page) {
		on, style := draw.Canvas{Canvas: c}, sans(titleSize)
		style.XAlign = text.XCenter
		on.FillText(style, pt(pageWidth/2, height-edge-titleSize), fit(f.Title, titleSize, pageWidth-2*edge))
		for r, row := range f.Rows {
			x := edge
			for i := range row {
				drawPanel(c, rect(x, height-tops[r]-tall[r], x+box, height-tops[r]), row, i)
				if x += box + imageGap; endsScale(row, i) {
					x += scaleRoom
				}
			}
		}
		for i, line := range notes {
			on.FillText(sans(legendSize), pt(edge, height-y-vg.Length(i+1)*captionRow+3), line)
		}
		drawCurve(c, pt(end, height-top+edge))
	}}, nil
}

// drawPanel draws image i of a row in the middle of its box, its caption below, and the bar of its scale, if it
// is the last that has it.
func drawPanel(c *page, box vg.Rectangle, row []Panel, i int) {
	p := row[i]
	w, h := p.size(box.Size().X)
	middle := pt((box.Min.X+box.Max.X)/2, (box.Min.Y+box.Max.Y)/2)
	r := rect(middle.X-w/2, middle.Y-h/2, middle.X+w/2, middle.Y+h/2)
	fill(c, r, p.plotter(c, r))
	on, style := draw.Canvas{Canvas: c}, sans(legendSize)
	outlined(on, stroke(ink, 0.5), r.Path())
	style.XAlign = text.XCenter
	for k, line := range p.caption(box.Size().X) {
		on.FillText(style, pt(middle.X, box.Min.Y-4-vg.Length(k+1)*captionRow+3), line)
	}
	if !endsScale(row, i) {
		return
	}
	b := bar{colours: mapColours()[p.Scale.Map], axis: &axis{min: p.Scale.Low, max: p.Scale.High}, style: stroke(ink, 0.6)}
	for _, q := range row {
		if q.Scale == p.Scale {
			b.below = b.below || slices.Min(q.Pixels) < p.Scale.Low
			b.above = b.above || slices.Max(q.Pixels) > p.Scale.High
		}
	}
	b.draw(c, rect(box.Max.X+scaleGap, r.Min.Y, box.Max.X+scaleGap+scaleWidth, r.Max.Y))
}

// plotter draws the image in a rectangle: with no more pixels than the page has dots there, so that noise is
// averaged as numbers and not as colours.
func (p Panel) plotter(c *page, r vg.Rectangle) interface {
	plot.Plotter
	plot.DataRanger
} {
	w, h, _ := c.dots(r)
	low, high := 0.0, 1.0
	colours := mapColours()[Gray]
	if p.Scale != nil {
		low, high, colours = p.Scale.Low, p.Scale.High, mapColours()[p.Scale.Map]
	}
	var channels [3]lattice
	for k := range p.channels() {
		channels[k] = p.shrunk(k, w, h, low, high)
	}
	if p.channels() == 1 {
		heat := colours.heat(channels[0], low, high)
		heat.Rasterized = true
		return heat
	}
	cols, rows := channels[0].Dims()
	img := image.NewRGBA(image.Rect(0, 0, cols, rows))
	for y := range rows {
		for x := range cols {
			level := func(k int) uint8 { return uint8(math.Round(255 * channels[k].Z(x, rows-1-y))) }
			img.SetRGBA(x, y, color.RGBA{level(0), level(1), level(2), 0xFF})
		}
	}
	return plotter.NewImage(img, 0, 0, 1, 1)
}

// shrunk is a channel of the image, with values clipped to [low, high], of at most w x h pixels. Its first row
// is the lowest.
func (m Image) shrunk(channel, w, h int, low, high float64) lattice {
	columns, rows := weights(m.Cols, min(w, m.Cols)), weights(m.Rows, min(h, m.Rows))
	g := lattice{x: upTo(len(columns)), y: upTo(len(rows)), z: make([][]float64, len(rows))}
	for y, across := range rows {
		z := make([]float64, len(columns))
		for x, down := range columns {
			for _, i := range across {
				for _, j := range down {
					v := m.Pixels[(i.index*m.Cols+j.index)*m.channels()+channel]
					z[x] += i.weight * j.weight * max(low, min(high, v))
				}
			}
		}
		g.z[len(rows)-1-y] = z
	}
	return g
}

// weighted is a pixel and the share it has of a dot.
type weighted struct {
	index  int
	weight float64
}

// weights are the shares of n pixels in at most n dots, by which noise has about the same variance in all dots,
// where shares of areas would show a grid: a triangle as wide as two dots.
func weights(n, dots int) [][]weighted {
	under, size := make([][]weighted, dots), float64(n)/float64(dots)
	for k := range under {
		middle, sum := (float64(k)+0.5)*size, 0.0
		for i := max(0, int(middle-size-0.5)); i < n && float64(i)+0.5 < middle+size; i++ {
			if w := 1 - math.Abs(float64(i)+0.5-middle)/size; w > 0 {
				under[k] = append(under[k], weighted{i, w})
				sum += w
			}
		}
		for j := range under[k] {
			under[k][j].weight /= sum
		}
	}
	return under
}
