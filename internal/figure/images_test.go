package figure

import (
	"bytes"
	"compress/zlib"
	"image"
	"image/color"
	"image/png"
	"io"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gonum.org/v1/plot/vg"
)

// comparisons has figures with the numbers of a real use, and with ugly ones.
func comparisons() map[string]Images {
	rng := rand.New(rand.NewPCG(5, 6))
	blob := func(rows, cols int, unit, noise float64) (m Image) {
		m.Rows, m.Cols = rows, cols
		for i := range rows {
			for j := range cols {
				x, y := float64(j)/float64(cols)-0.5, float64(i)/float64(rows)-0.5
				m.Pixels = append(m.Pixels, unit*(math.Exp(-12*math.Abs(x*x+y*y-0.1))+noise*rng.NormFloat64()))
			}
		}
		return m
	}
	minus := func(a, b Image) Image {
		d := Image{Rows: a.Rows, Cols: a.Cols}
		for i, v := range a.Pixels {
			d.Pixels = append(d.Pixels, v-b.Pixels[i])
		}
		return d
	}
	named := func(m Image, caption string) Image {
		m.Caption = caption
		return m
	}
	whole := func(unit float64) Images {
		y, estimate, truth := blob(28, 36, unit, 0.2), blob(28, 36, unit, 0.02), blob(28, 36, unit, 0)
		gray, off := &Scale{Low: 0, High: unit}, &Scale{Map: Diverging, Low: -0.3 * unit, High: 0.3 * unit}
		return Images{
			Title: "tv2d, noisy.tif, 28 x 36, σ² = 0.04",
			Rows: [][]Panel{
				{{Image: named(y, "data y"), Scale: gray}, {Image: named(estimate, "estimate"), Scale: gray},
					{Image: named(truth, "truth"), Scale: gray}},
				{{Image: named(minus(y, estimate), "residual, data − estimate"), Scale: off},
					{Image: named(minus(estimate, truth), "error, estimate − truth"), Scale: off}},
			},
			Notes: []string{"λ = 0.08: SURE 12.3 ± 4.5, 0.000123 ± 0.000045 a pixel",
				strings.Repeat("a long line that has to be wrapped ", 8)},
		}
	}
	y, estimate := blob(300, 9, 1, 0.2), blob(300, 9, 1, 0)
	gray, off, size := &Scale{High: 1}, &Scale{Map: Diverging, Low: -0.1, High: 0.1}, &Scale{Map: Sequential, High: 2}
	colours := Image{Caption: "colours", Rows: 2, Cols: 3, Channels: 3, Pixels: make([]float64, 18)}
	return map[string]Images{
		"comparison": whole(1), "comparison-large": whole(48213), "comparison-tiny": whole(3e-9),
		"comparison-narrow": {Rows: [][]Panel{{{Image: y, Scale: gray},
			{Image: named(estimate, "a narrow image with a long caption, which takes two lines"), Scale: gray},
			{Image: minus(y, estimate), Scale: off}}}},
		"comparison-scanner": {Rows: [][]Panel{{{Image: blob(9, 90, 1, 0.1), Scale: gray, Stretched: true},
			{Image: blob(9, 90, 1, 0), Scale: gray, Stretched: true}}, {{Image: blob(20, 20, 1, 0), Scale: size}}}},
		"comparison-colour": {Rows: [][]Panel{{{Image: colours}, {Image: colours},
			{Image: blob(2, 3, 1, 0), Scale: off}}}},
		"comparison-one": {Rows: [][]Panel{{{Image: Image{Rows: 1, Cols: 9, Pixels: make([]float64, 9)}},
			{Image: Image{Rows: 1, Cols: 9, Pixels: make([]float64, 9)}, Scale: off}}}},
	}
}

// The colours at the middle of pixels, read back by means of the scale, are those of their values: 0
// of a diverging scale is white, and either sign has its own hue.
func TestImagesShowValues(t *testing.T) {
	m := Image{Rows: 1, Cols: 5, Pixels: []float64{-3, -0.8, 0, 0.8, 5}}
	for kind, want := range map[Map][5]float64{Gray: {-2, -0.8, 0, 0.8, 2}, Diverging: {-2, -0.8, 0, 0.8, 2},
		Sequential: {-2, -0.8, 0, 0.8, 2}} {
		s := &Scale{Map: kind, Low: -2, High: 2}
		f := Images{Rows: [][]Panel{{{Image: m, Scale: s}}}}
		var b bytes.Buffer
		if err := Write(&b, "png", f); err != nil {
			t.Fatal(err)
		}
		picture, err := png.Decode(&b)
		if err != nil {
			t.Fatal(err)
		}
		box := float64(min(pageWidth-2*edge, tallest))
		for j, v := range want {
			x, y := float64(edge)+box*(float64(j)+0.5)/5, float64(edge)+box/10
			got := picture.At(int(x*pageDPI/72), int(y*pageDPI/72))
			want := mapColours()[kind][int(math.Round((v+2)/4*(numColours-1)))]
			if color.RGBAModel.Convert(got) != color.RGBAModel.Convert(want) {
				t.Errorf("map %d: the pixel of %g is %v, expected %v", kind, m.Pixels[j], got, want)
			}
		}
	}
	white, red, blueEnd := mapColours()[Diverging][numColours/2].(color.RGBA),
		mapColours()[Diverging][numColours-1].(color.RGBA), mapColours()[Diverging][0].(color.RGBA)
	if min(white.R, white.G, white.B) < 240 || red.R < red.B+60 || blueEnd.B < blueEnd.R+60 {
		t.Errorf("0 is %v, 1 %v and -1 %v", white, red, blueEnd)
	}
}

// Noise has about the same variance in all dots, so that no grid appears in a map of it: the squares of the
// weights of the pixels in a dot have about the same sum.
func TestNoiseIsEven(t *testing.T) {
	for _, c := range [][2]int{{282, 282}, {256, 254}, {512, 282}, {300, 100}, {7, 7}, {1000, 101}} {
		squares := make([]float64, c[1])
		sums := make([]float64, c[1])
		for i := range c[0] {
			m := Image{Rows: 1, Cols: c[0], Pixels: make([]float64, c[0])}
			m.Pixels[i] = 1
			dots := Panel{Image: m}.picture(c[1], 1)
			for k := range squares {
				level, _, _, _ := dots.At(k, 0).RGBA()
				weight := float64(level) / math.MaxUint16
				squares[k] += weight * weight
				sums[k] += weight
			}
		}
		if low, high := slices.Min(squares[1:c[1]-1]), slices.Max(squares[1:c[1]-1]); high > 2.1*low {
			t.Errorf("%v: variances from %g to %g", c, low, high)
		}
		if low, high := slices.Min(sums), slices.Max(sums); low < 0.95 || high > 1.05 {
			t.Errorf("%v: the weights have the sums %g to %g", c, low, high)
		}
	}
}

// Pixels keep their squares, are averaged where there are more than dots, and are clipped before that.
func TestPixelsOnDots(t *testing.T) {
	paint := func(w, h int, m Image) (seen []uint8) {
		p := recordedImage{dots: image.Pt(w, h)}
		c := &page{Canvas: &p, dpi: 72}
		r := rect(0, 0, vg.Length(w), vg.Length(h))
		c.DrawImage(r, Panel{Image: m, Scale: &Scale{High: 254}}.picture(w, h))
		for y := range h {
			for x := range w {
				seen = append(seen, color.GrayModel.Convert(p.got.At(x, y)).(color.Gray).Y)
			}
		}
		return seen
	}
	level := func(v float64) uint8 { return uint8(math.Round(math.Round(v) * 255 / 254)) }
	two := Image{Rows: 1, Cols: 2, Pixels: []float64{10, 200}}
	a, b := level(10), level(200)
	for _, c := range []struct {
		name string
		got  []uint8
		want []uint8
	}{
		{"as it is", paint(2, 1, two), []uint8{a, b}},
		{"larger", paint(4, 2, two), []uint8{a, a, b, b, a, a, b, b}},
		{"rows from the top", paint(1, 2, Image{Rows: 2, Cols: 1, Pixels: []float64{10, 200}}), []uint8{a, b}},
		{"smaller", paint(1, 1, two), []uint8{level(105)}},
		{"clipped", paint(2, 1, Image{Rows: 1, Cols: 2, Pixels: []float64{-50, 1e9}}), []uint8{0, 255}},
		{"clipped before the mean", paint(1, 1, Image{Rows: 1, Cols: 2, Pixels: []float64{-50, 1e9}}),
			[]uint8{level(127)}},
	} {
		if !slices.Equal(c.got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, c.got, c.want)
		}
	}
}

// recordedImage is a canvas that keeps the image drawn on it.
type recordedImage struct {
	traced
	dots image.Point
	got  image.Image
}

func (p *recordedImage) DrawImage(_ vg.Rectangle, img image.Image) {
	if img.Bounds().Size() != p.dots {
		panic(img.Bounds().String())
	}
	p.got = img
}

// The images of a PDF are upright: the matrix by which one is drawn does not mirror it.
func TestImagesOfAPDFAreUpright(t *testing.T) {
	m := Image{Rows: 2, Cols: 1, Pixels: []float64{0, 1}}
	var file bytes.Buffer
	if err := Write(&file, "pdf", Images{Rows: [][]Panel{{{Image: m},
		{Image: m, Scale: &Scale{High: 1}}}}}); err != nil {
		t.Fatal(err)
	}
	drawn := 0
	for _, s := range regexp.MustCompile("(?s)stream\n(.*?)\nendstream").FindAllSubmatch(file.Bytes(), -1) {
		r, err := zlib.NewReader(bytes.NewReader(s[1]))
		if err != nil {
			continue
		}
		content, err := io.ReadAll(r)
		if err != nil || !bytes.Contains(content, []byte(" Do")) {
			continue
		}
		matrix := [4]float64{1, 0, 0, 1} // without the translation
		var stack [][4]float64
		words := strings.Fields(string(content))
		for i, word := range words {
			switch word {
			case "q":
				stack = append(stack, matrix)
			case "Q":
				matrix, stack = stack[len(stack)-1], stack[:len(stack)-1]
			case "cm":
				var a [4]float64
				for k := range a {
					a[k], _ = strconv.ParseFloat(words[i-6+k], 64)
				}
				b := matrix
				matrix = [4]float64{a[0]*b[0] + a[1]*b[2], a[0]*b[1] + a[1]*b[3], a[2]*b[0] + a[3]*b[2],
					a[2]*b[1] + a[3]*b[3]}
			case "Do":
				drawn++
				if matrix[0] <= 0 || matrix[3] <= 0 {
					t.Errorf("image %d is drawn by the matrix %v", drawn, matrix)
				}
			}
		}
	}
	if drawn != 3 {
		t.Errorf("%d images, expected two and a bar", drawn)
	}
}
