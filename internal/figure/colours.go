package figure

import (
	"image/color"
	"math"
	"slices"
	"sync"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/palette/moreland"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
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

// colours are those of a map, from low to high: an odd number, of which one is in the middle.
type colours []color.Color

// Colors are the colours.
func (c colours) Colors() []color.Color { return c }

const numColours = 255

// mapColours are those of each map.
var mapColours = sync.OnceValue(func() (all [3]colours) {
	for i := range numColours {
		all[Gray] = append(all[Gray], color.Gray{uint8(math.Round(float64(i) * 255 / (numColours - 1)))})
	}
	all[Sequential] = luminance(numColours, 0x2D0D54, 0x352A6E, 0x394582, 0x36618F, 0x327C94, 0x35958E, 0x47AC84, 0x6DC274, 0x98D562, 0xCAE75B, 0xFBF660)
	below, above := luminance(numColours/2+1, 0x0044A9, 0x3871D1, 0x729FEB, 0xB3CDF8, 0xFAFAFA), luminance(numColours/2+1, 0x970008, 0xC3433C, 0xE37E74, 0xF5BBB4, 0xFAFAFA)
	slices.Reverse(above)
	all[Diverging] = append(below, above[1:]...)
	return all
})

// luminance is n colours through the given ones, whose lightness rises evenly.
func luminance(n int, through ...uint32) (c colours) {
	var knots []color.Color
	for _, rgb := range through {
		knots = append(knots, color.RGBA{uint8(rgb >> 16), uint8(rgb >> 8), uint8(rgb), 0xFF})
	}
	m, err := moreland.NewLuminance(knots)
	if err != nil {
		panic("figure: " + err.Error())
	}
	for _, one := range m.Palette(n).Colors() {
		c = append(c, color.RGBAModel.Convert(one))
	}
	return c
}

// lattice is a grid of values for gonum's heat map: z[row][column] at y[row] and x[column].
type lattice struct {
	x, y []float64
	z    [][]float64
}

// Dims is the number of columns and of rows.
func (g lattice) Dims() (columns, rows int) { return len(g.x), len(g.y) }

// Z is a value.
func (g lattice) Z(column, row int) float64 { return g.z[row][column] }

// X is the place of a column.
func (g lattice) X(column int) float64 { return g.x[column] }

// Y is the place of a row.
func (g lattice) Y(row int) float64 { return g.y[row] }

// upTo are the numbers from 0 to n-1.
func upTo(n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = float64(i)
	}
	return x
}

// heat is a heat map of the lattice with the colours from low to high.
func (c colours) heat(g lattice, low, high float64) *plotter.HeatMap {
	return &plotter.HeatMap{GridXYZ: g, Palette: c, Underflow: c[0], Overflow: c[len(c)-1], Min: low, Max: high}
}

// fill draws one plotter in all of a rectangle.
func fill(c *page, r vg.Rectangle, one interface {
	plot.Plotter
	plot.DataRanger
}) {
	p := plot.New()
	p.HideAxes()
	p.X.Padding, p.Y.Padding, p.BackgroundColor = 0, 0, nil
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = one.DataRange()
	p.Add(unboxed{one})
	p.Draw(draw.Canvas{Canvas: c, Rectangle: r})
}

// bar is the bar of a scale of colours, with an axis to its right: gonum's are to the left.
type bar struct {
	colours      colours
	axis         *axis
	below, above bool // it has a pointed end: there are values beyond
	style        draw.LineStyle
}

// point is the length of a pointed end.
const point vg.Length = 7

// ticks are those of a bar of the given height.
func (b bar) ticks(height vg.Length) ([]plot.Tick, string) {
	return b.axis.ticks(ruler{height, true})
}

// margin is the room to the right of a bar of the given height.
func (b bar) margin(height vg.Length) (labels vg.Length) {
	marks, factor := b.ticks(height)
	for _, m := range marks {
		labels = max(labels, width(m.Label, tickSize))
	}
	if b.axis.label != "" {
		labels += 1.6 * labelSize
	}
	return tickLength + 3 + max(labels, width(factor, tickSize))
}

// draw draws the bar.
func (b bar) draw(c *page, r vg.Rectangle) {
	middle := (r.Min.X + r.Max.X) / 2
	bottom, top := []vg.Point{r.Min, pt(r.Max.X, r.Min.Y)}, []vg.Point{r.Max, pt(r.Min.X, r.Max.Y)}
	on := draw.Canvas{Canvas: c}
	if b.below {
		r.Min.Y += point
		bottom = []vg.Point{r.Min, pt(middle, r.Min.Y-point), pt(r.Max.X, r.Min.Y)}
		on.FillPolygon(b.colours[0], bottom)
	}
	if b.above {
		r.Max.Y -= point
		top = []vg.Point{r.Max, pt(middle, r.Max.Y+point), pt(r.Min.X, r.Max.Y)}
		on.FillPolygon(b.colours[numColours-1], top)
	}
	z := make([][]float64, numColours)
	for i := range z {
		z[i] = []float64{float64(i)}
	}
	all := b.colours.heat(lattice{[]float64{0}, upTo(numColours), z}, 0, numColours-1)
	all.Rasterized = true
	fill(c, r, all)
	outlined(on, b.style, polygon(append(bottom, top...)))
	style := sans(tickSize)
	marks, factor := b.ticks(r.Size().Y)
	for _, m := range marks {
		y, l := r.Min.Y+r.Size().Y*vg.Length((m.Value-b.axis.min)/(b.axis.max-b.axis.min)), tickLength
		if m.IsMinor() {
			l *= 0.5
		}
		on.StrokeLine2(b.style, r.Max.X, y, r.Max.X+l, y)
		on.FillText(style, pt(r.Max.X+tickLength+3, y-0.35*tickSize), m.Label)
	}
	on.FillText(style, pt(r.Max.X+tickLength+3, r.Max.Y+0.75*tickSize), factor)
	label := sans(labelSize)
	label.XAlign, label.Rotation = text.XCenter, math.Pi/2
	x := r.Max.X + b.margin(r.Size().Y) - 0.25*labelSize
	on.FillText(label, pt(x, (r.Min.Y+r.Max.Y)/2), fit(b.axis.label, labelSize, r.Size().Y))
}
