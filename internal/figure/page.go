package figure

import (
	"image"
	"math"

	"golang.org/x/image/draw"
	"golang.org/x/image/font/sfnt"
	"golang.org/x/image/math/fixed"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
)

// page is a canvas that does what the canvases of gonum do not: images are drawn with sharp pixels, whose sides lie
// between its dots; in a PDF they are upright, and text, of which the canvas knows only the 256 letters of
// Windows-1252, is drawn as shapes.
type page struct {
	vg.Canvas
	dpi    vg.Length    // dots an inch of its images, and of itself where it is one
	widths map[int]bool // of the images in a PDF, in dots; nil in other formats
}

func pt(x, y vg.Length) vg.Point { return vg.Point{X: x, Y: y} }

func rect(x0, y0, x1, y1 vg.Length) vg.Rectangle {
	return vg.Rectangle{Min: pt(x0, y0), Max: pt(x1, y1)}
}

// dots are the sides of a rectangle in dots, and the rectangle moved to them.
func (p *page) dots(r vg.Rectangle) (w, h int, moved vg.Rectangle) {
	round := func(l vg.Length) int { return int(math.Round(float64(l * p.dpi / 72))) }
	at := func(n int) vg.Length { return vg.Length(n) * 72 / p.dpi }
	x, y := round(r.Min.X), round(r.Min.Y)
	w, h = max(1, round(r.Max.X)-x), max(1, round(r.Max.Y)-y)
	return w, h, rect(at(x), at(y), at(x+w), at(y+h))
}

// DrawImage draws an image of squares: each dot has the colour of the pixel at its middle.
func (p *page) DrawImage(r vg.Rectangle, img image.Image) {
	w, h, r := p.dots(r)
	wide := w
	if p.widths != nil {
		// A PDF has images of one width in a random order, so that each has its own: white space to the right.
		for ; p.widths[wide]; wide++ {
			r.Max.X += 72 / p.dpi
		}
		p.widths[wide] = true
		// The canvas of a PDF draws images upside down.
		p.Push()
		defer p.Pop()
		p.Translate(pt(0, r.Min.Y+r.Max.Y))
		p.Scale(1, -1)
	}
	from, to := image.NewRGBA(img.Bounds()), image.NewRGBA(image.Rect(0, 0, wide, h))
	draw.Draw(from, from.Rect, img, img.Bounds().Min, draw.Src)
	draw.Draw(to, to.Rect, image.White, image.Point{}, draw.Src)
	draw.NearestNeighbor.Scale(to, image.Rect(0, 0, w, h), from, from.Rect, draw.Src, nil)
	p.Canvas.DrawImage(r, to)
}

// FillString draws text from a point on its baseline.
func (p *page) FillString(f font.Face, at vg.Point, s string) {
	if p.widths == nil {
		p.Canvas.FillString(f, at, s)
		return
	}
	// The advances and kerning are those of [font.Face.Width].
	ppem := fixed.Int26_6(f.Face.UnitsPerEm())
	scale := f.Font.Size / vg.Length(ppem)
	var buf sfnt.Buffer
	var path vg.Path
	var pen fixed.Int26_6
	place := func(p fixed.Point26_6) vg.Point {
		return pt(at.X+scale*vg.Length(pen+p.X), at.Y-scale*vg.Length(p.Y))
	}
	var previous sfnt.GlyphIndex
	for i, r := range s {
		glyph, err := f.Face.GlyphIndex(&buf, r)
		if err != nil {
			continue
		}
		if kern, err := f.Face.Kern(&buf, previous, glyph, ppem, 0); err == nil && i > 0 {
			pen += kern
		}
		previous = glyph
		outline, _ := f.Face.LoadGlyph(&buf, glyph, ppem, nil)
		for _, g := range outline {
			switch g.Op {
			case sfnt.SegmentOpMoveTo: // the filling closes the shape before
				path.Move(place(g.Args[0]))
			case sfnt.SegmentOpLineTo:
				path.Line(place(g.Args[0]))
			case sfnt.SegmentOpQuadTo:
				path.QuadTo(place(g.Args[0]), place(g.Args[1]))
			case sfnt.SegmentOpCubeTo:
				path.CubeTo(place(g.Args[0]), place(g.Args[1]), place(g.Args[2]))
			}
		}
		if advance, err := f.Face.GlyphAdvance(&buf, glyph, ppem, 0); err == nil {
			pen += advance
		}
	}
	p.Canvas.Fill(path)
}
