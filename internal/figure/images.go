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
// a row, and its bar lies below them.
type Images struct {
	Title string
	Rows  [][]Panel
	// Notes are lines of text below the images, wrapped where they are long.
	Notes []string
	// Curve is the SURE curve of a sweep below the images. Nil: none.
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
	for r, row := range f.Rows {
		for i, p := range row {
			name := fmt.Sprintf("Rows[%d][%d].Pixels", r, i)
			if err := check(name, p.Pixels, p.Rows*p.Cols*max(p.Channels, 1), false); err != nil {
				return err
			}
		}
	}
	return nil
}

const (
	imageGap    vg.Length = 10
	rowGap      vg.Length = 9
	tallest     vg.Length = 240
	leastSide   vg.Length = 3
	captionGap  vg.Length = 4
	captionRow  vg.Length = 12
	captionRows           = 2
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

func (f Images) draw(c *page) (end vg.Length, err error) {
	if err := f.check(); err != nil {
		return 0, err
	}
	y, box, on := -edge, tallest, draw.Canvas{Canvas: c}
	if f.Title != "" {
		title := fit(f.Title, titleSize, pageWidth-2*edge)
		on.FillText(centered(titleSize), pt(pageWidth/2, y-titleSize), title)
		y -= titleRow
	}
	for _, row := range f.Rows {
		box = min(box, (pageWidth-2*edge+imageGap)/vg.Length(len(row))-imageGap)
	}
	for _, row := range f.Rows {
		y = drawRow(c, row, box, y) - rowGap
	}
	if f.Curve != nil {
		b, err := f.Curve.block()
		if err != nil {
			return 0, err
		}
		y = b.draw(c, 0, y)
	}
	for _, note := range f.Notes {
		for _, line := range wrap(note, legendSize, pageWidth-2*edge, 4) {
			y -= captionRow
			on.FillText(sans(legendSize), pt(edge, y+3), line)
		}
	}
	return y, nil
}

// drawRow draws images in boxes below y, their captions and the bars of their scales below them, and returns where
// the row ends.
func drawRow(c *page, row []Panel, box, y vg.Length) (end vg.Length) {
	var tall, captions vg.Length
	for _, p := range row {
		_, h := p.size(box)
		tall, captions = max(tall, h), max(captions, captionGap+captionRow*vg.Length(len(p.caption(box))))
	}
	below := y - tall - captions
	end = below
	for i, p := range row {
		x := edge + vg.Length(i)*(box+imageGap)
		p.draw(c, rect(x, y-tall, x+box, y))
		if p.Scale == nil || i > 0 && row[i-1].Scale == p.Scale {
			continue
		}
		same := 1
		for i+same < len(row) && row[i+same].Scale == p.Scale {
			same++
		}
		bar := barOf(row[i:i+same], vg.Length(same)*(box+imageGap)-imageGap)
		end = min(end, bar.draw(c, x-edge, below))
	}
	return end
}

// barOf is the bar of the scale that images share.
func barOf(images []Panel, width vg.Length) *block {
	s, below, above := images[0].Scale, false, false
	for _, p := range images {
		below = below || slices.Min(p.Pixels) < s.Low
		above = above || slices.Max(p.Pixels) > s.High
	}
	b := &block{column: width + 2*edge}
	b.bar(mapColours()[s.Map], &axis{min: s.Low, max: s.High}, below, above)
	return b
}

// draw draws an image in the middle of its box, and its caption below.
func (p Panel) draw(c *page, box vg.Rectangle) {
	on := draw.Canvas{Canvas: c, Rectangle: box}
	w, h := p.size(box.Size().X)
	middle := on.Center()
	r := rect(middle.X-w/2, middle.Y-h/2, middle.X+w/2, middle.Y+h/2)
	dotsW, dotsH, _ := c.dots(r)
	c.DrawImage(r, p.picture(dotsW, dotsH))
	outlined(on, stroke(ink, 0.5), r.Path())
	for k, line := range p.caption(box.Size().X) {
		on.FillText(centered(legendSize), pt(middle.X, box.Min.Y-captionGap-vg.Length(k+1)*captionRow+3), line)
	}
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
