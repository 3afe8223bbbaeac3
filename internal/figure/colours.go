package figure

import (
	"image"
	"image/color"
	"math"
	"slices"
	"sync"

	"gonum.org/v1/plot/palette/moreland"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"surepipe/internal/lists"
)

// Map is a kind of scale.
type Map int

const (
	// Gray is from black to white.
	Gray Map = iota
	// Diverging is blue below 0, white at 0 and red above. Low must be -High.
	Diverging
	// Sequential is from dark violet to yellow, for values that have no sign. Its lightness rises evenly.
	Sequential
)

// Scale maps values to colours: values below Low and above High have the colours of the ends, and
// the bar has a pointed end there where Panel values of the figure are.
type Scale struct {
	Map       Map
	Low, High float64
}

// colours are the colours of a map from low to high, an odd number, so that one is in the middle.
type colours []color.Color

func (c colours) Colors() []color.Color { return c }

func (c colours) at(share float64) color.Color {
	return c[int(math.Round(max(0, min(1, share))*float64(len(c)-1)))]
}

const numColours = 255

// mapColours are the colours of each map.
var mapColours = sync.OnceValue(func() (all [3]colours) {
	for i := range numColours {
		all[Gray] = append(all[Gray], color.Gray{uint8(math.Round(float64(i) * 255 / (numColours - 1)))})
	}
	all[Sequential] = luminance(numColours, 0x2D0D54, 0x352A6E, 0x394582, 0x36618F, 0x327C94, 0x35958E, 0x47AC84,
		0x6DC274, 0x98D562, 0xCAE75B, 0xFBF660)
	below := luminance(numColours/2+1, 0x0044A9, 0x3871D1, 0x729FEB, 0xB3CDF8, 0xFAFAFA)
	above := luminance(numColours/2+1, 0x970008, 0xC3433C, 0xE37E74, 0xF5BBB4, 0xFAFAFA)
	slices.Reverse(above)
	all[Diverging] = append(below, above[1:]...)
	return all
})

// luminance is n colours through the given ones, whose lightness rises evenly.
func luminance(n int, through ...uint32) colours {
	m, err := moreland.NewLuminance(lists.Map(through, func(rgb uint32) color.Color {
		return color.RGBA{uint8(rgb >> 16), uint8(rgb >> 8), uint8(rgb), 0xFF}
	}))
	if err != nil {
		panic("figure: " + err.Error())
	}
	return lists.Map(m.Palette(n).Colors(), color.RGBAModel.Convert)
}

// bar is the bar of a scale of colours, with an axis to its right: gonum's are to the left.
type bar struct {
	colours      colours
	axis         *axis
	below, above bool // it has a pointed end: there are values beyond
	line         draw.LineStyle
}

const point vg.Length = 7

func (b bar) margin(height vg.Length) (room vg.Length) {
	b.axis.length, b.axis.upright = height, true
	_, _, factor := b.axis.factor()
	room = width(factor, tickSize)
	for _, m := range b.axis.ticks() {
		room = max(room, width(m.Label, tickSize))
	}
	if b.axis.label != "" {
		room += 1.6 * labelSize
	}
	return tickLength + 3 + room
}

func (b bar) draw(c *page, r vg.Rectangle) {
	on, middle := draw.Canvas{Canvas: c}, (r.Min.X+r.Max.X)/2
	label := centered(labelSize)
	label.Rotation = math.Pi / 2
	at := pt(r.Max.X+b.margin(r.Size().Y)-0.25*labelSize, (r.Min.Y+r.Max.Y)/2)
	on.FillText(label, at, fit(b.axis.label, labelSize, r.Size().Y))
	// end is the path of one end, pointed or not. Its colour reaches a little under the bar.
	end := func(pointed bool, from, to vg.Point, c color.Color, up vg.Length) []vg.Point {
		if !pointed {
			return []vg.Point{from, to}
		}
		inner, tip := pt(0, -up*(point+1)), pt(middle, from.Y)
		on.FillPolygon(c, []vg.Point{from.Add(inner), tip, to.Add(inner)})
		return []vg.Point{from.Sub(pt(0, up*point)), tip, to.Sub(pt(0, up*point))}
	}
	bottom := end(b.below, r.Min, pt(r.Max.X, r.Min.Y), b.colours.at(0), -1)
	top := end(b.above, r.Max, pt(r.Min.X, r.Max.Y), b.colours.at(1), 1)
	r.Min.Y, r.Max.Y = bottom[0].Y, top[0].Y
	all := image.NewRGBA(image.Rect(0, 0, 1, len(b.colours)))
	for i, one := range b.colours {
		all.Set(0, len(b.colours)-1-i, one)
	}
	c.DrawImage(r, all)
	outlined(on, b.line, polygon(append(bottom, top...)))
	b.axis.length = r.Size().Y
	x := r.Max.X + tickLength + 3
	for _, m := range b.axis.ticks() {
		y, l := r.Min.Y+r.Size().Y*vg.Length((m.Value-b.axis.min)/(b.axis.max-b.axis.min)), tickLength
		if m.IsMinor() {
			l *= 0.5
		}
		on.StrokeLine2(b.line, r.Max.X, y, r.Max.X+l, y)
		on.FillText(sans(tickSize), pt(x, y-0.35*tickSize), m.Label)
	}
	_, _, factor := b.axis.factor()
	on.FillText(sans(tickSize), pt(x, r.Max.Y+0.75*tickSize), factor)
}
