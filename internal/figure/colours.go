package figure

import (
	"image"
	"image/color"
	"math"
	"slices"
	"sync"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/palette/moreland"
	"gonum.org/v1/plot/plotter"

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
// the bar has a pointed end there where values of the figure are.
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

// barHeight is that of a bar of colours, and pointShare the length of a pointed end as a share of the scale.
const barHeight, pointShare = 9, 0.02

// bar adds a panel with the colours of a scale. It has a pointed end where there are values beyond.
func (b *block) bar(of colours, scale *axis, below, above bool) {
	p := b.panel(scale, nil, barHeight)
	low, high, middle := scale.min, scale.max, (scale.min+scale.max)/2
	tip := pointShare * (high - low)
	if below {
		p.X.Min -= tip
	}
	if above {
		p.X.Max += tip
	}
	around := plotter.XYs{{X: middle}, {X: low}, {X: p.X.Min, Y: 0.5}, {X: low, Y: 1}, {X: middle, Y: 1},
		{X: high, Y: 1}, {X: p.X.Max, Y: 0.5}, {X: high}, {X: middle}}
	all := image.NewRGBA(image.Rect(0, 0, len(of), 1))
	for i, one := range of {
		all.Set(i, 0, one)
	}
	for _, part := range []plot.Plotter{
		&plotter.Polygon{XYs: []plotter.XYs{around[:5]}, Color: of.at(0)},
		&plotter.Polygon{XYs: []plotter.XYs{around[4:]}, Color: of.at(1)},
		plotter.NewImage(all, low, 0, high, 1),
		&plotter.Polygon{XYs: []plotter.XYs{around}, LineStyle: frameLine},
	} {
		p.Add(unboxed{part})
	}
}
