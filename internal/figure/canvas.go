package figure

import (
	"image/color"
	"math"
	"strconv"
	"strings"
	"sync"
	"unicode"

	"codeberg.org/go-fonts/liberation/liberationsansregular"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/font/sfnt"
	"golang.org/x/image/math/fixed"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Sizes of text, in points.
const (
	titleSize  vg.Length = 11
	labelSize  vg.Length = 9.5
	legendSize vg.Length = 9
	tickSize   vg.Length = 8.5
)

// The colours of Okabe and Ito, and two grays.
var (
	blue       = color.RGBA{0x00, 0x72, 0xB2, 0xFF}
	vermillion = color.RGBA{0xD5, 0x5E, 0x00, 0xFF}
	green      = color.RGBA{0x00, 0x9E, 0x73, 0xFF}
	orange     = color.RGBA{0xE6, 0x9F, 0x00, 0xFF}
	purple     = color.RGBA{0xCC, 0x79, 0xA7, 0xFF}
	sky        = color.RGBA{0x56, 0xB4, 0xE9, 0xFF}
	black      = color.RGBA{0x00, 0x00, 0x00, 0xFF}
	ink        = color.RGBA{0x26, 0x26, 0x26, 0xFF}
	faint      = color.RGBA{0xE4, 0xE4, 0xE4, 0xFF}
	white      = color.RGBA{0xFF, 0xFF, 0xFF, 0xFF}
)

// tint mixes a colour with white. Tints are opaque: the three formats do not
// agree on what a translucent colour is.
func tint(c color.RGBA, share float64) color.RGBA {
	mix := func(v uint8) uint8 { return uint8(math.Round(255 + share*(float64(v)-255))) }
	return color.RGBA{mix(c.R), mix(c.G), mix(c.B), 0xFF}
}

// face is Liberation Sans, the one font of the figures.
var face = sync.OnceValue(func() *opentype.Font {
	f, err := opentype.Parse(liberationsansregular.TTF)
	if err != nil {
		panic("figure: the embedded font: " + err.Error())
	}
	return f
})

func fontFace(size vg.Length) font.Face {
	return font.Face{Font: font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}, Face: face()}
}

// run is a piece of text, raised where it is an exponent.
type run struct {
	s      string
	raised bool
}

// text is one line of runs.
type text []run

const raisedSize = 0.72

// missing is drawn for letters that the font does not have.
const missing = '□'

// plain makes a line of s, with one space for each stretch of white space and
// control characters.
func plain(s string) text {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		if glyph, err := face().GlyphIndex(nil, r); err != nil || glyph == 0 {
			return missing
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	s = strings.Join(strings.Fields(s), " ")
	if s == "" {
		return nil
	}
	return text{{s: s}}
}

// join joins several lines into one.
func join(parts ...text) text {
	var t text
	for _, p := range parts {
		for _, r := range p {
			if n := len(t); n > 0 && t[n-1].raised == r.raised {
				t[n-1].s += r.s
			} else {
				t = append(t, r)
			}
		}
	}
	return t
}

func (r run) face(size vg.Length) font.Face {
	if r.raised {
		size *= raisedSize
	}
	return fontFace(size)
}

func (t text) width(size vg.Length) vg.Length {
	var w vg.Length
	for _, r := range t {
		f := r.face(size)
		w += f.Width(r.s)
	}
	return w
}

// fit shortens the line to at most the given width, with an ellipsis at its end.
func (t text) fit(size, width vg.Length) text {
	if t.width(size) <= width {
		return t
	}
	t = append(text(nil), t...)
	for len(t) > 0 {
		last := []rune(t[len(t)-1].s)
		if len(last) == 0 {
			t = t[:len(t)-1]
			continue
		}
		t[len(t)-1].s = string(last[:len(last)-1])
		short := join(t, text{{s: "…"}})
		if short.width(size) <= width {
			return short
		}
	}
	return nil
}

// wrap breaks the line at spaces into at most n lines, the last one shortened.
func wrap(s string, size, width vg.Length, n int) []text {
	words := strings.Fields(s)
	var lines []text
	for len(words) > 0 && len(lines) < n {
		take := 1
		for take < len(words) && plain(strings.Join(words[:take+1], " ")).width(size) <= width {
			take++
		}
		if len(lines) == n-1 {
			take = len(words)
		}
		lines = append(lines, plain(strings.Join(words[:take], " ")).fit(size, width))
		words = words[take:]
	}
	return lines
}

// power is 10^e.
func power(e int) text {
	return text{{s: "10"}, {s: minus(strconv.Itoa(e)), raised: true}}
}

// minus gives a number its proper sign.
func minus(s string) string { return strings.ReplaceAll(s, "-", "\u2212") }

// number writes v with the given significant digits, in powers of ten where
// it is very large or small.
func number(v float64, digits int) text {
	s := strconv.FormatFloat(v, 'e', digits-1, 64)
	mantissa, exponent, _ := strings.Cut(s, "e")
	e, _ := strconv.Atoi(exponent)
	if v == 0 {
		return text{{s: "0"}}
	}
	if e >= -3 && e < 6 {
		rounded, _ := strconv.ParseFloat(s, 64)
		return text{{s: minus(strconv.FormatFloat(rounded, 'f', max(0, digits-1-e), 64))}}
	}
	return join(text{{s: minus(mantissa) + "×"}}, power(e))
}

// trim drops the zeros at the end of the decimals, for a number that stands alone.
func (t text) trim() text {
	mantissa, rest, times := strings.Cut(t[0].s, "×")
	if strings.Contains(mantissa, ".") {
		mantissa = strings.TrimRight(strings.TrimRight(mantissa, "0"), ".")
	}
	if times {
		mantissa += "×" + rest
	}
	return join(text{{s: mantissa}}, t[1:])
}

// canvas has the few operations that the figures need.
type canvas struct {
	vg.Canvas
	// outlines draws text as filled shapes.
	outlines bool
	// dpi is the resolution of images.
	dpi int
}

func pt(x, y vg.Length) vg.Point { return vg.Point{X: x, Y: y} }

func rect(x0, y0, x1, y1 vg.Length) vg.Rectangle {
	return vg.Rectangle{Min: pt(x0, y0), Max: pt(x1, y1)}
}

func (c *canvas) rect(r vg.Rectangle, fill color.Color) {
	c.polygon([]vg.Point{r.Min, pt(r.Max.X, r.Min.Y), r.Max, pt(r.Min.X, r.Max.Y)}, fill)
}

func (c *canvas) polygon(points []vg.Point, fill color.Color) {
	if len(points) < 3 {
		return
	}
	var p vg.Path
	p.Move(points[0])
	for _, q := range points[1:] {
		p.Line(q)
	}
	p.Close()
	c.SetColor(fill)
	c.Fill(p)
}

// stroke is the style of a line.
type stroke struct {
	color  color.Color
	width  vg.Length
	dashes []vg.Length
}

func (c *canvas) line(s stroke, points ...vg.Point) {
	if len(points) < 2 {
		return
	}
	var p vg.Path
	p.Move(points[0])
	for _, q := range points[1:] {
		p.Line(q)
	}
	c.stroke(s, p)
}

func (c *canvas) stroke(s stroke, p vg.Path) {
	c.SetColor(s.color)
	c.SetLineWidth(s.width)
	c.SetLineDash(s.dashes, 0)
	c.Stroke(p)
}

// clippedLine and clippedPolygon draw the part inside the frame.
func (c *canvas) clippedLine(frame vg.Rectangle, s stroke, points ...vg.Point) {
	clip := draw.Canvas{Canvas: c.Canvas, Rectangle: frame}
	for _, piece := range clip.ClipLinesXY(points) {
		c.line(s, piece...)
	}
}

func (c *canvas) clippedPolygon(frame vg.Rectangle, points []vg.Point, fill color.Color) {
	clip := draw.Canvas{Canvas: c.Canvas, Rectangle: frame}
	c.polygon(clip.ClipPolygonXY(points), fill)
}

// shape is the outline of a marker.
type shape int

const (
	circle shape = iota
	square
	diamond
	triangle
	cross
	star
	shapes
)

// marker is the style of a point.
type marker struct {
	shape  shape
	radius vg.Length
	fill   color.Color
	edge   color.Color
	width  vg.Length
}

func (c *canvas) marker(m marker, at vg.Point) {
	corner := func(angle float64, r vg.Length) vg.Point {
		sin, cos := math.Sincos(angle * math.Pi / 180)
		return pt(at.X+r*vg.Length(cos), at.Y+r*vg.Length(sin))
	}
	var p vg.Path
	polygon := func(points ...vg.Point) {
		p.Move(points[0])
		for _, q := range points[1:] {
			p.Line(q)
		}
		p.Close()
	}
	r := m.radius
	switch m.shape {
	case circle:
		// Four cubic curves; arcs come out differently in the three formats.
		const k = 0.5522847498
		x, y := at.X, at.Y
		p.Move(pt(x+r, y))
		p.CubeTo(pt(x+r, y+k*r), pt(x+k*r, y+r), pt(x, y+r))
		p.CubeTo(pt(x-k*r, y+r), pt(x-r, y+k*r), pt(x-r, y))
		p.CubeTo(pt(x-r, y-k*r), pt(x-k*r, y-r), pt(x, y-r))
		p.CubeTo(pt(x+k*r, y-r), pt(x+r, y-k*r), pt(x+r, y))
		p.Close()
	case square:
		r *= 1.25
		polygon(corner(45, r), corner(135, r), corner(225, r), corner(315, r))
	case diamond:
		r *= 1.3
		polygon(corner(0, r), corner(90, r), corner(180, r), corner(270, r))
	case triangle:
		r *= 1.3
		polygon(corner(90, r), corner(210, r), corner(330, r))
	case downward:
		r *= 1.3
		polygon(corner(270, r), corner(30, r), corner(150, r))
	case cross:
		r *= 1.2
		arm := stroke{color: m.edge, width: max(m.width, 1.2)}
		c.line(arm, corner(45, r), corner(225, r))
		c.line(arm, corner(135, r), corner(315, r))
		return
	case star:
		r *= 1.5
		var points []vg.Point
		for i := range 10 {
			points = append(points, corner(90+36*float64(i), r*vg.Length(1-0.55*float64(i%2))))
		}
		polygon(points...)
	}
	if m.fill != nil {
		c.SetColor(m.fill)
		c.Fill(p)
	}
	if m.edge != nil {
		c.stroke(stroke{color: m.edge, width: m.width}, p)
	}
}

// Positions of a line of text relative to its anchor, as shares of its width.
const (
	left   = 0.0
	center = 0.5
	right  = 1.0
)

// text draws a line with its baseline at the point.
func (c *canvas) text(t text, size vg.Length, at vg.Point, align float64) {
	c.SetColor(ink)
	x := at.X - vg.Length(align)*t.width(size)
	for _, r := range t {
		f := r.face(size)
		y := at.Y
		if r.raised {
			y += 0.36 * size
		}
		// An SVG drops the space at either end of a text.
		word := strings.TrimLeft(r.s, " ")
		space := f.Width(r.s[:len(r.s)-len(word)])
		word = strings.TrimRight(word, " ")
		if c.outlines {
			c.fillOutlines(f, pt(x+space, y), word)
		} else {
			c.FillString(f, pt(x+space, y), word)
		}
		x += f.Width(r.s)
	}
}

// upright draws a line that reads upwards, centered on the point.
func (c *canvas) upright(t text, size vg.Length, at vg.Point) {
	c.Push()
	c.Translate(at)
	c.Rotate(math.Pi / 2)
	c.text(t, size, pt(0, 0), center)
	c.Pop()
}

// middle is how far below its middle a line of text has its baseline.
func middle(size vg.Length) vg.Length { return 0.35 * size }

// fillOutlines fills the shapes of the glyphs, with the advances and kerning of
// [font.Face.Width].
func (c *canvas) fillOutlines(f font.Face, at vg.Point, s string) {
	ppem := fixed.Int26_6(f.Face.UnitsPerEm())
	scale := f.Font.Size / vg.Length(ppem)
	var buf sfnt.Buffer
	var path vg.Path
	var pen fixed.Int26_6
	point := func(p fixed.Point26_6) vg.Point {
		return pt(at.X+scale*vg.Length(pen+p.X), at.Y-scale*vg.Length(p.Y))
	}
	previous, first := sfnt.GlyphIndex(0), true
	for _, r := range s {
		glyph, err := f.Face.GlyphIndex(&buf, r)
		if err != nil {
			continue
		}
		if !first {
			if kern, err := f.Face.Kern(&buf, previous, glyph, ppem, 0); err == nil {
				pen += kern
			}
		}
		previous, first = glyph, false
		segments, err := f.Face.LoadGlyph(&buf, glyph, ppem, nil)
		if err != nil {
			continue
		}
		open := false
		for _, g := range segments {
			switch g.Op {
			case sfnt.SegmentOpMoveTo:
				if open {
					path.Close()
				}
				open = true
				path.Move(point(g.Args[0]))
			case sfnt.SegmentOpLineTo:
				path.Line(point(g.Args[0]))
			case sfnt.SegmentOpQuadTo:
				path.QuadTo(point(g.Args[0]), point(g.Args[1]))
			case sfnt.SegmentOpCubeTo:
				path.CubeTo(point(g.Args[0]), point(g.Args[1]), point(g.Args[2]))
			}
		}
		if open {
			path.Close()
		}
		if advance, err := f.Face.GlyphAdvance(&buf, glyph, ppem, 0); err == nil {
			pen += advance
		}
	}
	if len(path) > 0 {
		c.Fill(path)
	}
}
