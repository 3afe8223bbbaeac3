package figure

import (
	"fmt"
	"image"
	"image/color"
	"math"
	"slices"

	xdraw "golang.org/x/image/draw"
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
	n, s := max(p.Channels, 1), p.Scale
	switch {
	case p.Rows < 1 || p.Cols < 1:
		return fmt.Errorf("figure: %s is %d x %d, expected at least 1 x 1", name, p.Rows, p.Cols)
	case n != 1 && n != 3:
		return fmt.Errorf("figure: %s has %d channels, expected 1 or 3", name, n)
	// The product of rows and columns may be too large for an int.
	case len(p.Pixels)%(n*p.Cols) != 0 || len(p.Pixels)/n/p.Cols != p.Rows:
		return fmt.Errorf("figure: %s has %d values, expected %d x %d x %d", name, len(p.Pixels), p.Rows, p.Cols, n)
	case s != nil && n > 1:
		return fmt.Errorf("figure: %s has %d channels and a scale, expected one of them", name, n)
	case s != nil && (!(s.Low < s.High) || math.IsInf(s.High-s.Low, 0) || s.Map == Diverging && s.Low != -s.High):
		return fmt.Errorf("figure: the scale of %s is from %g to %g, expected an interval, around 0 if it "+
			"is diverging", name, s.Low, s.High)
	}
	return checkSeries(name+".Pixels", p.Pixels, len(p.Pixels), anySign)
}

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

func (p Panel) size(box vg.Length) (w, h vg.Length) {
	shape := vg.Length(p.Rows) / vg.Length(p.Cols)
	if p.Stretched {
		return box, box * max(0.5, min(1, shape))
	}
	shrink := min(1, tallest/(box*shape))
	return max(leastSide, shrink*box), max(leastSide, shrink*box*shape)
}

func (p Panel) caption(box vg.Length) []string {
	return wrap(p.Caption, legendSize, box+imageGap-3, captionRows)
}

// endsScale reports whether a bar stands to the right of image i of the row.
func endsScale(row []Panel, i int) bool {
	return row[i].Scale != nil && (i == len(row)-1 || row[i+1].Scale != row[i].Scale)
}

func (f Images) boxWidth(end vg.Length) (box vg.Length, err error) {
	if box = tallest; f.Curve != nil {
		box = end
	}
	for r, row := range f.Rows {
		room := end - 2*edge + imageGap
		for i := range row {
			if endsScale(row, i) {
				room -= scaleRoom
			}
		}
		if box = min(box, room/vg.Length(len(row))-imageGap); box < 8 {
			return 0, fmt.Errorf("figure: Rows[%d] has %d images, expected at most %d", r, len(row),
				int(room/(8+imageGap)))
		}
	}
	return box, nil
}

func (f Images) plan() (*drawing, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	end := pageWidth
	if f.Curve != nil {
		end *= 1 - curveShare
	}
	box, err := f.boxWidth(end)
	if err != nil {
		return nil, err
	}
	y := -edge
	if f.Title != "" {
		y -= titleRow
	}
	tall, below := make([]vg.Length, len(f.Rows)), make([]vg.Length, len(f.Rows)) // the images, and their captions
	for r, row := range f.Rows {
		for _, p := range row {
			_, h := p.size(box)
			tall[r], below[r] = max(tall[r], h), max(below[r], rowGap+4+captionRow*vg.Length(len(p.caption(box))))
		}
	}
	bottom, drawCurve := y, func(*page) {}
	if f.Curve != nil {
		b, err := f.Curve.block(pageWidth-end, max(leastCurve, min(tall[0], mostCurve)))
		if err != nil {
			return nil, err
		}
		var middle vg.Length
		middle, bottom, drawCurve = b.layout(end, y+edge)
		y = min(y, middle+tall[0]/2) // the middle of the images is that of the curve's frame
	}
	var draws []func(*page)
	for r, row := range f.Rows {
		x := edge
		for i := range row {
			at := rect(x, y-tall[r], x+box, y)
			draws = append(draws, func(c *page) { drawPanel(c, at, row, i) })
			if x += box + imageGap; endsScale(row, i) {
				x += scaleRoom
			}
		}
		y -= tall[r] + below[r]
	}
	if f.Notes == nil {
		y += rowGap
	}
	for _, note := range f.Notes {
		for _, line := range wrap(note, legendSize, pageWidth-2*edge, 4) {
			y -= captionRow
			at := pt(edge, y+3)
			draws = append(draws, func(c *page) { sans(legendSize).Handler.Draw(c, line, sans(legendSize), at) })
		}
	}
	return &drawing{-min(y-edge, bottom), func(c *page) {
		on := draw.Canvas{Canvas: c}
		on.FillText(centered(titleSize), pt(pageWidth/2, -edge-titleSize), fit(f.Title, titleSize, pageWidth-2*edge))
		for _, one := range draws {
			one(c)
		}
		drawCurve(c)
	}}, nil
}

// drawPanel draws image i of a row in the middle of its box, its caption below, and the bar of its scale, if it
// is the last that has it.
func drawPanel(c *page, box vg.Rectangle, row []Panel, i int) {
	p, on := row[i], draw.Canvas{Canvas: c, Rectangle: box}
	w, h := p.size(box.Size().X)
	middle := on.Center()
	r := rect(middle.X-w/2, middle.Y-h/2, middle.X+w/2, middle.Y+h/2)
	dotsW, dotsH, _ := c.dots(r)
	c.DrawImage(r, p.picture(dotsW, dotsH))
	outlined(on, stroke(ink, 0.5), r.Path())
	for k, line := range p.caption(box.Size().X) {
		on.FillText(centered(legendSize), pt(middle.X, box.Min.Y-4-vg.Length(k+1)*captionRow+3), line)
	}
	if !endsScale(row, i) {
		return
	}
	b := bar{colours: mapColours()[p.Scale.Map], axis: &axis{min: p.Scale.Low, max: p.Scale.High},
		line: stroke(ink, 0.6)}
	for _, q := range row {
		if q.Scale == p.Scale {
			b.below = b.below || slices.Min(q.Pixels) < p.Scale.Low
			b.above = b.above || slices.Max(q.Pixels) > p.Scale.High
		}
	}
	b.draw(c, rect(box.Max.X+scaleGap, r.Min.Y, box.Max.X+scaleGap+scaleWidth, r.Max.Y))
}

// picture is the image in colours, of at most w x h pixels. Of a larger one averages are drawn, over a triangle as
// wide as two pixels: noise then has about the same variance everywhere. Averages are taken of the values, not of the
// colours: the mean of blue and red would not be white.
func (p Panel) picture(w, h int) image.Image {
	n, s := max(p.Channels, 1), Scale{High: 1}
	if p.Scale != nil {
		s = *p.Scale
	}
	all, drawn := image.NewRGBA64(image.Rect(0, 0, p.Cols, p.Rows)),
		image.NewRGBA64(image.Rect(0, 0, min(w, p.Cols), min(h, p.Rows)))
	for i := range p.Rows * p.Cols {
		level := func(k int) uint16 {
			share := (p.Pixels[n*i+k%n] - s.Low) / (s.High - s.Low)
			return uint16(math.Round(math.MaxUint16 * max(0, min(1, share))))
		}
		all.SetRGBA64(i%p.Cols, i/p.Cols, color.RGBA64{level(0), level(1), level(2), math.MaxUint16})
	}
	xdraw.BiLinear.Scale(drawn, drawn.Rect, all, all.Rect, xdraw.Src, nil)
	for i := 0; n == 1 && i < drawn.Rect.Dx()*drawn.Rect.Dy(); i++ {
		x, y := i%drawn.Rect.Dx(), i/drawn.Rect.Dx()
		drawn.Set(x, y, mapColours()[s.Map].at(float64(drawn.RGBA64At(x, y).R)/math.MaxUint16))
	}
	return drawn
}
