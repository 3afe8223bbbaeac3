package figure

import (
	"image/color"
	"math"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"surepipe/internal/lists"
)

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

// tint mixes a colour with white. Tints are opaque: the three formats do not agree on what a translucent colour is.
func tint(c color.RGBA, share float64) color.RGBA {
	mix := func(v uint8) uint8 { return uint8(math.Round(255 + share*(float64(v)-255))) }
	return color.RGBA{mix(c.R), mix(c.G), mix(c.B), 0xFF}
}

func stroke(c color.Color, width vg.Length, dashes ...vg.Length) draw.LineStyle {
	return draw.LineStyle{Color: c, Width: width, Dashes: dashes}
}

// outline is a glyph: a filled polygon with an edge. The glyphs of gonum have one colour, and no star.
type outline struct {
	corners []vg.Point // for a radius of 1
	edge    draw.LineStyle
	lift    vg.Length // its middle above the point that it marks
}

func (o outline) DrawGlyph(c *draw.Canvas, sty draw.GlyphStyle, at vg.Point) {
	path := polygon(lists.Map(o.corners, func(k vg.Point) vg.Point {
		return k.Scale(sty.Radius).Add(at).Add(pt(0, o.lift))
	}))
	c.SetColor(sty.Color)
	c.Fill(path)
	outlined(*c, o.edge, path)
}

func polygon(points []vg.Point) (path vg.Path) {
	path.Move(points[0])
	for _, p := range append(points[1:], points[0]) {
		path.Line(p)
	}
	path.Close()
	return path
}

func outlined(c draw.Canvas, s draw.LineStyle, path vg.Path) {
	c.SetLineStyle(s)
	c.Stroke(path)
}

// corners are the corners of a polygon around 0, the first at an angle in degrees. Every second corner is nearer
// to 0 by a share of the radius.
func corners(n int, angle, radius, inward float64) []vg.Point {
	points := make([]vg.Point, n)
	for i := range points {
		sin, cos := math.Sincos((angle + 360*float64(i)/float64(n)) * math.Pi / 180)
		r := vg.Length(radius * (1 - inward*float64(i%2)))
		points[i] = pt(r*vg.Length(cos), r*vg.Length(sin))
	}
	return points
}

var (
	circle   = corners(16, 0, 1, 0)
	square   = corners(4, 45, 1.25, 0)
	diamond  = corners(4, 0, 1.3, 0)
	triangle = corners(3, 90, 1.3, 0)
	downward = corners(3, 270, 1.3, 0)
	star     = corners(10, 90, 1.5, 0.55)
	shapes   = [][]vg.Point{circle, square, diamond, triangle, downward, star}
)

func marker(shape []vg.Point, radius vg.Length, fill color.Color, edge draw.LineStyle) draw.GlyphStyle {
	return draw.GlyphStyle{Color: fill, Radius: radius, Shape: outline{corners: shape, edge: edge}}
}
