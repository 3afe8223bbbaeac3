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

// Images is a row of grayscale or colour images with captions, such as the noisy one, the
// estimate and the truth, and to their right, if wanted, the SURE curve of a sweep.
type Images struct {
	Title  string
	Images []Image
	// Black and White are the values drawn as black and white, the same for all images; values
	// beyond are clipped. Both zero: 0 and 1.
	Black, White float64
	// Curve is drawn without its panel of degrees of freedom. Nil: none.
	Curve *Sweep
}

// Image is a matrix, row by row, with its caption. With three channels each pixel has the numbers of
// red, green and blue; 0 stands for one channel.
type Image struct {
	Caption    string
	Rows, Cols int
	Channels   int
	Pixels     []float64
}

// values is the number of values of a pixel.
func (m Image) values() int { return max(m.Channels, 1) }

func (f Images) check() (Images, error) {
	if len(f.Images) == 0 {
		return f, fmt.Errorf("figure: Images is empty, expected at least one")
	}
	for i, m := range f.Images {
		if m.Rows < 1 || m.Cols < 1 {
			return f, fmt.Errorf("figure: Images[%d] is %d x %d, expected at least 1 x 1", i, m.Rows, m.Cols)
		}
		if m.Channels != 0 && m.Channels != 1 && m.Channels != 3 {
			return f, fmt.Errorf("figure: Images[%d] has %d channels, expected 1 or 3", i, m.Channels)
		}
		if n := m.values(); n > 1 && (len(m.Pixels)/m.Rows != n*m.Cols || len(m.Pixels)%m.Rows != 0) {
			return f, fmt.Errorf("figure: Images[%d] has %d values, expected %d x %d x %d", i, len(m.Pixels), m.Rows, m.Cols, n)
		} else if n == 1 && (len(m.Pixels)/m.Rows != m.Cols || len(m.Pixels)%m.Rows != 0) {
			return f, fmt.Errorf("figure: Images[%d] has %d pixels, expected %d x %d", i, len(m.Pixels), m.Rows, m.Cols)
		}
		if err := checkSeries(fmt.Sprintf("Images[%d].Pixels", i), m.Pixels, len(m.Pixels)); err != nil {
			return f, err
		}
	}
	if err := checkValue(f.Black); err != nil {
		return f, fmt.Errorf("figure: Black %w", err)
	}
	if err := checkValue(f.White); err != nil {
		return f, fmt.Errorf("figure: White %w", err)
	}
	if f.Black == 0 && f.White == 0 {
		f.White = 1
	}
	if f.Black >= f.White {
		return f, fmt.Errorf("figure: Black is %g and White %g, expected White to be greater", f.Black, f.White)
	}
	return f, nil
}

// Sizes of the row.
const (
	imageGap    vg.Length = 10
	tallest     vg.Length = 240
	leastCurve  vg.Length = 110
	mostCurve   vg.Length = 200
	curveShare            = 0.44
	captionRow  vg.Length = 12
	captionRows           = 2
	leastSide   vg.Length = 3
)

// size is that of the image in a box of the given width.
func (m Image) size(width vg.Length) (w, h vg.Length) {
	w, h = width, width*vg.Length(m.Rows)/vg.Length(m.Cols)
	if h > tallest {
		w, h = w*tallest/h, tallest
	}
	return max(w, leastSide), max(h, leastSide)
}

func (f Images) plan() (*drawing, error) {
	f, err := f.check()
	if err != nil {
		return nil, err
	}
	end := pageWidth
	var curve *block
	if f.Curve != nil {
		end = pageWidth * (1 - curveShare)
		if curve, err = f.Curve.block(1, true); err != nil {
			return nil, err
		}
	}
	n := vg.Length(len(f.Images))
	box := (end - 2*edge - (n-1)*imageGap) / n
	if box < 8 {
		return nil, fmt.Errorf("figure: Images has %d images, expected at most %d in a row", len(f.Images), int((end-2*edge+imageGap)/(8+imageGap)))
	}
	var tall vg.Length
	var captions [][]text
	lines := 0
	for _, m := range f.Images {
		_, h := m.size(box)
		tall = max(tall, h)
		captions = append(captions, wrap(m.Caption, legendSize, box+imageGap-3, captionRows))
		lines = max(lines, len(captions[len(captions)-1]))
	}
	row := tall + 4 + vg.Length(lines)*captionRow
	title := edge
	if f.Title != "" {
		title += titleRow
	}
	above := vg.Length(0) // the height of the curve's legend above the row
	height := title + row + edge
	if curve != nil {
		curve.panels[0].height = max(leastCurve, min(tall, mostCurve))
		below := -curve.layout(end, pageWidth, 0)
		// The middle of the images is that of the curve's frame.
		frame := curve.panels[0].frame
		above = max(0, -(frame.Min.Y+frame.Max.Y)/2-edge-tall/2)
		height = title + max(above+row+edge, below-edge)
	}
	return &drawing{height: height, draw: func(c *canvas) {
		if f.Title != "" {
			c.text(plain(f.Title).fit(titleSize, pageWidth-2*edge), titleSize, pt(pageWidth/2, height-edge-titleSize), center)
		}
		top := height - title - above
		f.draw(c, box, tall, end, top)
		for i, lines := range captions {
			x := edge + vg.Length(i)*(box+imageGap) + box/2
			for k, line := range lines {
				c.text(line, legendSize, pt(x, top-tall-4-vg.Length(k+1)*captionRow+3), center)
			}
		}
		if curve != nil {
			curve.layout(end, pageWidth, height-title+edge)
			curve.draw(c, height-title+edge)
		}
	}}, nil
}

// draw draws all images as one raster, at the resolution of the output.
func (f Images) draw(c *canvas, box, tall, end, top vg.Length) {
	dots := func(l vg.Length) int { return int(math.Round(float64(l) * float64(c.dpi) / 72)) }
	length := func(n int) vg.Length { return vg.Length(n) * 72 / vg.Length(c.dpi) }
	x0, y1 := dots(edge), dots(top)
	bounds := image.Rect(0, 0, dots(end-edge)-x0, dots(tall))
	var picture draw.Image = image.NewGray(bounds)
	if slices.ContainsFunc(f.Images, func(m Image) bool { return m.values() > 1 }) {
		picture = image.NewRGBA(bounds)
	}
	draw.Draw(picture, bounds, image.White, image.Point{}, draw.Src)
	for i, m := range f.Images {
		w, h := m.size(box)
		x := dots(edge+vg.Length(i)*(box+imageGap)+(box-w)/2) - x0
		y := dots((tall - h) / 2)
		m.resample(picture, image.Rect(x, y, x+max(1, dots(w)), y+max(1, dots(h))), f.Black, f.White, func(v [3]float64) color.Color {
			for k := range v {
				v[k] = (v[k] - f.Black) / (f.White - f.Black)
			}
			return levels(v, m.values())
		})
	}
	size := picture.Bounds().Size()
	c.DrawImage(rect(length(x0), length(y1-size.Y), length(x0+size.X), length(y1)), picture)
	for i, m := range f.Images {
		w, h := m.size(box)
		x, y := edge+vg.Length(i)*(box+imageGap)+(box-w)/2, top-(tall-h)/2
		c.line(stroke{color: ink, width: 0.5}, pt(x, y), pt(x+w, y), pt(x+w, y-h), pt(x, y-h), pt(x, y), pt(x+w, y))
	}
}

// resample fills the rectangle with the image: each dot has the mean of the pixels under it, clipped
// to [low, high], so that small images keep their squares and large ones do not alias. paint is the
// colour of such means, one a channel.
func (m Image) resample(to draw.Image, r image.Rectangle, low, high float64, paint func([3]float64) color.Color) {
	m.fill(to, r, weights(m.Cols, r.Dx()), weights(m.Rows, r.Dy()), low, high, paint)
}

// fill is resample for given shares of the pixels in the dots.
func (m Image) fill(to draw.Image, r image.Rectangle, columns, rows [][]weighted, low, high float64, paint func([3]float64) color.Color) {
	n := m.values()
	for y, across := range rows {
		for x, down := range columns {
			var sums [3]float64
			for _, i := range across {
				for _, j := range down {
					for k := range n {
						sums[k] += i.weight * j.weight * max(low, min(high, m.Pixels[(i.index*m.Cols+j.index)*n+k]))
					}
				}
			}
			to.Set(r.Min.X+x, r.Min.Y+y, paint(sums))
		}
	}
}

// weighted is a pixel and the share it has of a dot.
type weighted struct {
	index  int
	weight float64
}

// weights are the pixels, of n, under each of the dots.
func weights(n, dots int) [][]weighted {
	under := make([][]weighted, dots)
	for k := range under {
		begin, end := float64(k*n)/float64(dots), float64((k+1)*n)/float64(dots)
		for i := int(begin); i < n && float64(i) < end; i++ {
			if w := min(end, float64(i+1)) - max(begin, float64(i)); w > 0 {
				under[k] = append(under[k], weighted{i, w / (end - begin)})
			}
		}
	}
	return under
}

// evenWeights are shares by which noise has about the same variance in all dots, where those of
// [weights] would show a grid: the pixel in the middle of a dot, or where there are more pixels than
// dots a triangle as wide as two dots.
func evenWeights(n, dots int) [][]weighted {
	under, size := make([][]weighted, dots), float64(n)/float64(dots)
	for k := range under {
		middle := (float64(k) + 0.5) * size
		if size <= 1 {
			under[k] = []weighted{{min(int(middle), n-1), 1}}
			continue
		}
		sum := 0.0
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
