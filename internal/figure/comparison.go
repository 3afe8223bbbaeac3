package figure

import (
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"math"
	"slices"

	"gonum.org/v1/plot/vg"
)

// Comparison is rows of images with colour bars, and lines of text below them: what was measured, the
// estimate, the residual, the truth and the error. Images that share a [Scale] are beside each other in
// a row, and its bar stands to the right of the last of them.
type Comparison struct {
	Title string
	Rows  [][]Panel
	// Notes are lines of text below the images, wrapped where they are long.
	Notes []string
}

// Panel is an image of a [Comparison].
type Panel struct {
	Image
	// Scale are the colours of the values. Nil: colours of three channels, or gray levels, from 0 to 1.
	Scale *Scale
	// Stretched images fill a box of a width at most twice its height, whatever their pixels' shape: a
	// sinogram's axes have different units.
	Stretched bool
}

// Map is a kind of scale.
type Map int

const (
	// Gray is from black to white.
	Gray Map = iota
	// Diverging is blue below 0, white at 0 and red above. Low must be -High.
	Diverging
	// Sequential is from dark violet to yellow, for values that have no sign.
	Sequential
)

// Scale maps values to colours: values below Low and above High have the colours of the ends, and
// the bar has a pointed end there where Panel values of the figure are.
type Scale struct {
	Map       Map
	Low, High float64
}

// at is the colour of a value.
func (s *Scale) at(v float64) color.RGBA {
	u := max(0, min(1, (v-s.Low)/(s.High-s.Low)))
	switch s.Map {
	case Diverging:
		return divergingAt(2*u - 1)
	case Sequential:
		return paletteAt(u)
	}
	level := uint8(math.Round(255 * u))
	return color.RGBA{level, level, level, 0xFF}
}

// paint is the colour of a dot of a panel from the mean of its pixels' values.
func (p Panel) paint(v [3]float64) color.Color {
	if p.Scale != nil {
		return p.Scale.at(v[0])
	}
	return levels(v, p.values())
}

// levels is the colour of values in [0, 1] in one channel or three.
func levels(v [3]float64, channels int) color.Color {
	level := func(k int) uint8 { return uint8(math.Round(255 * max(0, min(1, v[k])))) }
	if channels == 1 {
		return color.Gray{level(0)}
	}
	return color.RGBA{level(0), level(1), level(2), 0xFF}
}

// The column of a colour bar: its distance from the image, its width and that of its labels.
const (
	scaleGap   vg.Length = 6
	scaleWidth vg.Length = 9
	scaleRoom  vg.Length = 50
	rowGap     vg.Length = 9
)

func (f Comparison) check() error {
	if len(f.Rows) == 0 {
		return fmt.Errorf("figure: Rows is empty, expected at least one")
	}
	for r, row := range f.Rows {
		images := Images{}
		for i, p := range row {
			images.Images = append(images.Images, p.Image)
			s := p.Scale
			if s == nil {
				continue
			}
			if p.values() > 1 {
				return fmt.Errorf("figure: Rows[%d][%d] has %d channels and a scale, expected one of them", r, i, p.Channels)
			}
			if checkValue(s.Low) != nil || checkValue(s.High) != nil || s.Low >= s.High || s.Map == Diverging && s.Low != -s.High {
				return fmt.Errorf("figure: the scale of Rows[%d][%d] is from %g to %g, expected an interval, around 0 if it is diverging", r, i, s.Low, s.High)
			}
		}
		if _, err := images.check(); err != nil {
			return fmt.Errorf("figure: Rows[%d]: %w", r, err)
		}
	}
	return nil
}

// bars is the number of colour bars of a row.
func bars(row []Panel) (n int) {
	for i := range row {
		if endsScale(row, i) {
			n++
		}
	}
	return n
}

// endsScale reports whether a bar stands to the right of image i of the row.
func endsScale(row []Panel, i int) bool {
	return row[i].Scale != nil && (i == len(row)-1 || row[i+1].Scale != row[i].Scale)
}

// size is that of the panel in a box of the given width.
func (p Panel) size(width vg.Length) (w, h vg.Length) {
	if p.Stretched {
		return width, width * max(0.5, min(1, vg.Length(p.Rows)/vg.Length(p.Cols)))
	}
	return p.Image.size(width)
}

func (f Comparison) plan() (*drawing, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	box := pageWidth
	for _, row := range f.Rows {
		n := vg.Length(len(row))
		box = min(box, (pageWidth-2*edge-(n-1)*imageGap-vg.Length(bars(row))*scaleRoom)/n)
	}
	box = min(box, tallest)
	if box < 8 {
		return nil, fmt.Errorf("figure: a row has too many images")
	}
	height := edge
	if f.Title != "" {
		height += titleRow
	}
	tall, captions := make([]vg.Length, len(f.Rows)), make([]int, len(f.Rows))
	for r, row := range f.Rows {
		for _, p := range row {
			_, h := p.size(box)
			tall[r] = max(tall[r], h)
			captions[r] = max(captions[r], len(wrap(p.Caption, legendSize, box+imageGap-3, captionRows)))
		}
		height += tall[r] + 4 + vg.Length(captions[r])*captionRow + rowGap
	}
	var notes []text
	for _, note := range f.Notes {
		notes = append(notes, wrap(note, legendSize, pageWidth-2*edge, 4)...)
	}
	height += vg.Length(len(notes))*captionRow + edge
	return &drawing{height: height, draw: func(c *canvas) {
		top := height - edge
		if f.Title != "" {
			c.text(plain(f.Title).fit(titleSize, pageWidth-2*edge), titleSize, pt(pageWidth/2, top-titleSize), center)
			top -= titleRow
		}
		tops := make([]vg.Length, len(f.Rows))
		for r := range f.Rows {
			tops[r] = top
			top -= tall[r] + 4 + vg.Length(captions[r])*captionRow + rowGap
		}
		places := f.places(box, tall, tops)
		f.raster(c, places)
		for r, row := range f.Rows {
			for i, p := range row {
				p.finish(c, places[r][i], box, tops[r]-tall[r], row, i)
			}
		}
		for _, line := range notes {
			top -= captionRow
			c.text(line, legendSize, pt(edge, top+3), left)
		}
	}}, nil
}

// places are the rectangles of the images, in boxes of one width, each in the middle of its box.
func (f Comparison) places(box vg.Length, tall, tops []vg.Length) [][]vg.Rectangle {
	all := make([][]vg.Rectangle, len(f.Rows))
	for r, row := range f.Rows {
		x := edge
		for i, p := range row {
			w, h := p.size(box)
			x0, y1 := x+(box-w)/2, tops[r]-(tall[r]-h)/2
			all[r] = append(all[r], rect(x0, y1-h, x0+w, y1))
			if x += box + imageGap; endsScale(row, i) {
				x += scaleRoom
			}
		}
	}
	return all
}

// raster draws all images as one raster, at the resolution of the output.
func (f Comparison) raster(c *canvas, places [][]vg.Rectangle) {
	dots := func(l vg.Length) int { return int(math.Round(float64(l) * float64(c.dpi) / 72)) }
	length := func(n int) vg.Length { return vg.Length(n) * 72 / vg.Length(c.dpi) }
	whole := places[0][0]
	colours := false
	for r, row := range places {
		for i, at := range row {
			whole = rect(min(whole.Min.X, at.Min.X), min(whole.Min.Y, at.Min.Y), max(whole.Max.X, at.Max.X), max(whole.Max.Y, at.Max.Y))
			p := f.Rows[r][i]
			colours = colours || p.values() > 1 || p.Scale != nil && p.Scale.Map != Gray
		}
	}
	x0, y1 := dots(whole.Min.X), dots(whole.Max.Y)
	bounds := image.Rect(0, 0, max(1, dots(whole.Max.X)-x0), max(1, y1-dots(whole.Min.Y)))
	var picture draw.Image = image.NewGray(bounds)
	if colours {
		picture = image.NewRGBA(bounds)
	}
	draw.Draw(picture, bounds, image.White, image.Point{}, draw.Src)
	for r, row := range places {
		for i, at := range row {
			p, low, high := f.Rows[r][i], 0.0, 1.0
			if p.Scale != nil {
				low, high = p.Scale.Low, p.Scale.High
			}
			x, y := dots(at.Min.X)-x0, y1-dots(at.Max.Y)
			w, h := max(1, dots(at.Size().X)), max(1, dots(at.Size().Y))
			p.fill(picture, image.Rect(x, y, x+w, y+h), evenWeights(p.Cols, w), evenWeights(p.Image.Rows, h), low, high, p.paint)
		}
	}
	size := bounds.Size()
	c.DrawImage(rect(length(x0), length(y1-size.Y), length(x0+size.X), length(y1)), picture)
}

// finish draws the frame of image i of a row, its caption below, and the bar of its scale, if it is
// the last that has it.
func (p Panel) finish(c *canvas, at vg.Rectangle, box, bottom vg.Length, row []Panel, i int) {
	c.line(stroke{color: ink, width: 0.5}, at.Min, pt(at.Max.X, at.Min.Y), at.Max, pt(at.Min.X, at.Max.Y), at.Min, pt(at.Max.X, at.Min.Y))
	middle := (at.Min.X + at.Max.X) / 2
	for k, line := range wrap(p.Caption, legendSize, box+imageGap-3, captionRows) {
		c.text(line, legendSize, pt(middle, bottom-4-vg.Length(k+1)*captionRow+3), center)
	}
	if endsScale(row, i) {
		x := middle + box/2 + scaleGap
		p.Scale.draw(c, rect(x, at.Min.Y, x+scaleWidth, at.Max.Y), row[:i+1])
	}
}

// draw draws the scale's bar. Its ends are pointed where values of the panels lie beyond.
func (s *Scale) draw(c *canvas, r vg.Rectangle, panels []Panel) {
	below, above := false, false
	for _, p := range panels {
		if p.Scale == s {
			below, above = below || slices.Min(p.Pixels) < s.Low, above || slices.Max(p.Pixels) > s.High
		}
	}
	const point vg.Length = 7
	outline := []vg.Point{r.Min, pt(r.Max.X, r.Min.Y)}
	middle := (r.Min.X + r.Max.X) / 2
	if below {
		r.Min.Y += point
		outline = []vg.Point{pt(r.Min.X, r.Min.Y), pt(middle, r.Min.Y-point), pt(r.Max.X, r.Min.Y)}
		c.polygon(outline, s.at(s.Low))
	}
	if above {
		r.Max.Y -= point
		end := []vg.Point{r.Max, pt(middle, r.Max.Y+point), pt(r.Min.X, r.Max.Y)}
		c.polygon(end, s.at(s.High))
		outline = append(outline, end...)
	} else {
		outline = append(outline, r.Max, pt(r.Min.X, r.Max.Y))
	}
	const steps = 128
	for i := range steps {
		y := r.Min.Y + r.Size().Y*vg.Length(i)/steps
		c.rect(rect(r.Min.X, y, r.Max.X, r.Max.Y), s.at(s.Low+(s.High-s.Low)*(float64(i)+0.5)/steps))
	}
	line := stroke{color: ink, width: 0.6}
	c.line(line, append(outline, outline[0], outline[1])...)
	a := &axis{min: s.Low, max: s.High}
	marks, factor := a.ticks(r.Size().Y, heightRoom)
	for _, m := range marks {
		y := r.Min.Y + vg.Length(m.at)*r.Size().Y
		c.line(line, pt(r.Max.X, y), pt(r.Max.X+2.5, y))
		c.text(m.label.fit(tickSize, scaleRoom-scaleGap-scaleWidth-4), tickSize, pt(r.Max.X+4.5, y-middleOfText), left)
	}
	if factor != nil {
		// Above the bar, or beside its pointed end.
		c.text(factor, tickSize*0.9, pt(r.Max.X+4.5, r.Max.Y+2), left)
	}
}

// middleOfText is half the height of a label's digits.
var middleOfText = middle(tickSize)
