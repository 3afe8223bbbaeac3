package figure

import (
	"bytes"
	"encoding/xml"
	"flag"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/recorder"
)

// gallery has each figure with the numbers of a real use, and with ugly ones.
func gallery() map[string]Figure {
	rng := rand.New(rand.NewPCG(1, 2))
	sweep := func(n int, from, to, unit float64) Sweep {
		s := Sweep{Parameter: "λ", Label: "SURE"}
		for i := range n {
			t := 0.5
			if n > 1 {
				t = float64(i) / float64(n-1)
			}
			u := math.Log(0.15 + t*6)
			s.Lambda = append(s.Lambda, from*math.Pow(to/from, t))
			s.SURE = append(s.SURE, unit*(0.45+0.25*u*u+0.004*rng.NormFloat64()))
			s.Loss = append(s.Loss, unit*(0.47+0.24*u*u))
			s.StdErr = append(s.StdErr, unit*(0.06+0.01*u))
			s.Divergence = append(s.Divergence, 250*math.Exp(-3.5*t))
			s.Converged = append(s.Converged, t > 0.12)
		}
		return s
	}
	plainSweep := sweep(25, 0.5, 60, 1)
	plainSweep.Title, plainSweep.Label = "LASSO, d = 2500, p = 5000", "SURE / d (units of y²)"
	tiny := sweep(12, 1e-12, 1e-10, 1e9)
	tiny.Title = "huge values, tiny lambda, and a title so long that it cannot possibly fit on the page as it is " +
		"written here"
	one := sweep(1, 3, 3, 1e-12)
	one.Converged = nil
	two := sweep(2, 0.37, 0.41, 1)
	two.Parameter = "a hyperparameter with a name far longer than any sensible axis of a figure in a report could " +
		"ever carry, really"
	two.Label = "a measure of risk of which the name and the units are longer than the axis on which they are " +
		"to be written"
	many := sweep(200, 1e-3, 1e3, 100)
	wide := sweep(25, 20, 2000, 20000)
	for i := range wide.StdErr {
		wide.StdErr[i] = 87000
	}
	steep := sweep(30, 0.01, 10, 1)
	for i := range steep.SURE {
		steep.SURE[i] *= math.Exp(8 * float64(i) / 29)
		steep.Loss[i] *= math.Exp(8 * float64(i) / 29)
	}
	wild := sweep(25, 0.5, 60, 1)
	wild.Title = "one wild point, and some that have not converged"
	wild.SURE[20], wild.SURE[1], wild.Loss[20], wild.Divergence[0] = 90, 40, 80, 1e5
	offset := Sweep{Parameter: "λ", Label: "SURE", Lambda: []float64{1, 2, 3},
		SURE: []float64{1e5 + 1e-3, 1e5, 1e5 + 2e-3}}
	rule := sweep(25, 0.5, 60, 1)
	rule.Title, rule.Chosen, rule.ChosenName = "the largest weight within one standard error", rule.Lambda[9], "1se"
	for i := range rule.StdErr {
		rule.DifferenceErr = append(rule.DifferenceErr, 0.02*math.Abs(float64(i-5)))
	}
	apart := sweep(20, 0.5, 60, 1)
	apart.Title, apart.Label, apart.LossLabel = "Matrix completion by generalized cross-validation", "GCV", "true loss"
	allZero := Sweep{Parameter: "λ", Label: "SURE", Lambda: []float64{2}, SURE: []float64{0}, StdErr: []float64{1},
		Divergence: []float64{5}}

	grid := func(nx, ny int, unit float64) HeatMap {
		h := HeatMap{Title: "Robust PCA, 50 x 50", Label: "SURE / d", XName: "λ", YName: "γ"}
		for j := range nx {
			h.X = append(h.X, 0.5*math.Pow(1.35, float64(j)))
		}
		for i := range ny {
			h.Y = append(h.Y, 0.02*math.Pow(1.5, float64(i)))
			for j := range nx {
				u, v := float64(j)/float64(nx)-0.6, float64(i)/float64(ny)-0.4
				h.Values = append(h.Values, unit*(0.3+4*u*u+3*v*v+2*u*v))
				h.Converged = append(h.Converged, i+j > 2)
			}
		}
		return h
	}
	small := grid(8, 6, 1e-12)
	small.Converged = nil
	steepGrid := grid(12, 12, 1)
	for k := range steepGrid.Values {
		steepGrid.Values[k] *= math.Exp(0.5 * math.Abs(float64(k/12+k%12-10)))
	}
	bars := grid(14, 10, 1)
	bars.Err = slices.Repeat([]float64{0.12}, len(bars.Values))
	bars.Values[2*14+9], bars.Values[0] = 1e4, -1e4
	single := grid(1, 1, 7)
	negative := grid(40, 40, 1)
	for i := range negative.Values {
		negative.Values[i] -= 0.5
	}

	normals := func(n int, mean, sd float64) []float64 {
		v := make([]float64, n)
		for i := range v {
			v[i] = mean + sd*rng.NormFloat64()
		}
		return v
	}
	hist := Histogram{Title: "LASSO, d = 2500", Label: "SURE / d", Samples: normals(400, 0.51, 0.056),
		Loss: normals(400, 0.51, 0.02), Seeds: normals(200, 0.48, 0.004)}
	seeds := Histogram{Label: "SURE / d", Samples: normals(400, 0.51, 0.056), Loss: []float64{0.512},
		Seeds: normals(200, 0.48, 0.03)}

	coloured := Image{Caption: "red to the right, blue downwards", Rows: 5, Cols: 8, Channels: 3}
	for i := range 5 {
		for j := range 8 {
			coloured.Pixels = append(coloured.Pixels, float64(j)/7, 0.2, float64(i)/4)
		}
	}

	running := Running{Title: "SURE is unbiased", Label: "mean of SURE − loss", Values: normals(400, 0, 30),
		Zero: "unbiased: 0"}

	digit := func(noise float64) Image {
		m := Image{Rows: 28, Cols: 28}
		for i := range 28 {
			for j := range 28 {
				x, y := (float64(j)-13.5)/9, (float64(i)-13.5)/11
				v := math.Exp(-12 * math.Pow(math.Hypot(x, y)-0.75, 2))
				m.Pixels = append(m.Pixels, v+noise*rng.NormFloat64())
			}
		}
		return m
	}
	noisy, estimate, truth := digit(0.3), digit(0.06), digit(0)
	noisy.Caption, estimate.Caption, truth.Caption = "noisy y", "estimate, λ = 3.2", "truth"
	curve := plainSweep
	curve.Title, curve.Converged, curve.Divergence = "", nil, nil
	bare, short := tiny, one
	bare.Divergence, short.Divergence = nil, nil
	bare.Lambda = slices.Clone(tiny.Lambda)
	for i := range bare.Lambda {
		bare.Lambda[i] *= 1e10
	}
	tall, flat := Image{Caption: "tall", Rows: 300, Cols: 3, Pixels: normals(900, 0.5, 0.2)},
		Image{Caption: "a flat one with a caption that has to be wrapped and cut", Rows: 2, Cols: 200,
			Pixels: normals(400, 0.5, 0.2)}

	lines := Lines{Title: "One SURE value, 102 queries", XLabel: "number of pixels d", YLabel: "time (s)"}
	for k, name := range []string{"implicit", "unrolled", "exact trace"} {
		s := Series{Name: name}
		for i := range 6 {
			x := 250 * math.Pow(2, float64(i))
			s.X = append(s.X, x)
			s.Y = append(s.Y, 1e-6*math.Pow(3, float64(k))*math.Pow(x,
				1+0.5*float64(k))*math.Exp(0.1*rng.NormFloat64()))
		}
		lines.Series = append(lines.Series, s)
	}
	crowd := Lines{XLabel: "size", YLabel: "time (s)"}
	for range 9 {
		crowd.Series = append(crowd.Series, Series{Name: "series with a long name", X: []float64{1e-12, 1, 1e9},
			Y: []float64{rng.Float64(), 1e3 * rng.Float64(), 1e9 * rng.Float64()}})
	}

	row := func(images ...Image) (rows [][]Panel) {
		rows = make([][]Panel, 1)
		for _, m := range images {
			rows[0] = append(rows[0], Panel{Image: m})
		}
		return rows
	}
	figures := map[string]Figure{
		"sweep": plainSweep, "sweep-tiny": tiny, "sweep-one": one, "sweep-two": two, "sweep-many": many,
		"sweep-wide": wide, "sweep-steep": steep, "sweep-wild": wild,
		"sweep-offset": offset, "sweep-all-zero": allZero, "sweep-apart": apart, "sweep-rule": rule,
		"heat": grid(14, 11, 1), "heat-small": small, "heat-steep": steepGrid, "heat-errors": bars,
		"heat-single": single, "heat-negative": negative,
		"histogram": hist, "histogram-seeds": seeds,
		"sequence": Sequence{Title: "tv1d, nile.csv, 100", XLabel: "place", YLabel: "y", X: []float64{1, 2, 4},
			Y: []float64{1120, 1160, 963}, Fit: []float64{1140, 1140, 970}, Truth: []float64{1150, 1150, 960}},
		"sequence-flat": Sequence{X: []float64{1, 2}, Y: []float64{3, 3}, Fit: []float64{3, 3}},
		"histogram-one": Histogram{Label: "SURE / d", Samples: []float64{1e9}},
		"histogram-two": Histogram{Label: "SURE / d", Samples: []float64{1e-12, 2e-12}, Loss: []float64{5e-12}},
		"running":       running, "running-one": Running{Label: "mean of SURE − loss", Values: []float64{3}},
		"running-two":  Running{Label: "mean of SURE − loss", Values: []float64{3, 4e9}},
		"running-many": Running{Label: "mean of SURE − loss", Values: normals(20000, 1e-12, 1e-12)},
		"images":       Images{Title: "Handwritten digit", Rows: row(noisy, estimate, truth)},
		"images-curve": Images{Title: "Before, after and the curve", Rows: row(noisy, estimate, truth), Curve: &curve},
		"images-four":  Images{Rows: row(noisy, truth, truth, truth), Curve: &bare},
		"images-odd":   Images{Rows: row(tall, flat)}, "images-colour": Images{Rows: row(coloured, noisy),
			Curve: &curve}, "images-one": Images{Rows: row(noisy), Curve: &short},
		"lines": lines, "lines-crowd": crowd, "lines-one": Lines{XLabel: "size", YLabel: "time (s)",
			Series: []Series{{Name: "one", X: []float64{5}, Y: []float64{1e-12}}}},
	}
	for name, f := range comparisons() {
		figures[name] = f
	}
	return figures
}

// keep is where the figures are left to be looked at:
//
//	go test ./internal/figure -run Valid -gallery $PWD/figures
var keep = flag.String("gallery", "", "keep the figures in this directory")

func TestFiguresAreValid(t *testing.T) {
	for name, f := range gallery() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := *keep
			if dir == "" {
				dir = t.TempDir()
			}
			for _, format := range Formats() {
				if strings.HasPrefix(name, "comparison-") && format != "png" && *keep == "" {
					continue // images of a high resolution
				}
				path := filepath.Join(dir, name+"."+format)
				if err := Save(path, f); err != nil {
					t.Fatal(err)
				}
				data, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				map[string]func(*testing.T, []byte){"png": checkPNG, "svg": checkSVG, "pdf": checkPDF}[format](t, data)
				// One of each kind is enough to tell.
				if strings.Contains(name, "-") {
					continue
				}
				var again bytes.Buffer
				if err := Write(&again, format, f); err != nil || !bytes.Equal(again.Bytes(), data) {
					t.Errorf("%s: written twice, the bytes differ (%v)", format, err)
				}
			}
			checkLayout(t, f)
		})
	}
}

// checkPNG wants 900 pixels across, something drawn, and a white edge: nothing is
// cut off by the page.
func checkPNG(t *testing.T, data []byte) {
	decoded, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	b := decoded.Bounds()
	m := image.NewRGBA(b)
	draw.Draw(m, b, decoded, b.Min, draw.Src)
	if b.Dx() != 900 || b.Dy() < 70 || b.Dy() > 900 {
		t.Errorf("the picture has %d x %d pixels, want 900 x 70 to 900", b.Dx(), b.Dy())
	}
	drawn := 0
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			if p := m.Pix[m.PixOffset(x, y):]; p[0]&p[1]&p[2] != 0xFF {
				drawn++
				if x == b.Min.X || y == b.Min.Y || x == b.Max.X-1 || y == b.Max.Y-1 {
					t.Fatalf("pixel %d, %d at the edge of the page is drawn on", x, y)
				}
			}
		}
	}
	if drawn < b.Dx()*b.Dy()/100 {
		t.Errorf("%d pixels of %d are drawn on, want more than 1%%", drawn, b.Dx()*b.Dy())
	}
}

func checkSVG(t *testing.T, data []byte) {
	data = regexp.MustCompile(`base64,[^"]*`).ReplaceAll(data, nil)
	d := xml.NewDecoder(bytes.NewReader(data))
	words := 0
	for {
		token, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == "text" {
			words++
		}
	}
	if words < 1 || bytes.Contains(data, []byte("NaN")) || bytes.Contains(data, []byte("Inf")) {
		t.Errorf("an SVG with %d texts, or with NaN or Inf in it", words)
	}
}

func checkPDF(t *testing.T, data []byte) {
	if !bytes.HasPrefix(data, []byte("%PDF-1.")) || !bytes.HasSuffix(bytes.TrimSpace(data), []byte("%%EOF")) {
		t.Errorf("%d bytes that are not a PDF: %q...", len(data), data[:min(20, len(data))])
	}
	if dates := bytes.Count(data, []byte("(D:")); dates != bytes.Count(data, []byte("(D:20000101000000)")) ||
		dates == 0 {
		t.Errorf("the PDF holds the time of its writing")
	}
	// The table of objects has to be where the end of the file says.
	m := regexp.MustCompile(`startxref\n([0-9]+)\n`).FindSubmatch(data)
	if m == nil {
		t.Fatal("the PDF has no startxref")
	}
	if at, _ := strconv.Atoi(string(m[1])); !bytes.HasPrefix(data[at:], []byte("xref")) {
		t.Errorf("no table of objects at %d", at)
	}
}

// traced is a vg.Canvas that notes where texts and lines are, from the lower edge of the page.
type traced struct {
	up      vg.Length // the height of the origin
	x, y    vg.Length
	turned  bool
	stack   []traced
	color   color.Color
	texts   []placed
	strokes []stroked
	fills   []stroked
	images  []drawnImage
}

type drawnImage struct {
	vg.Rectangle
	image.Image
}

type placed struct {
	s   string
	box vg.Rectangle
}

// stroked is a path, also one that is filled.
type stroked struct {
	color color.Color
	path  vg.Path
}

func (p *traced) SetLineWidth(vg.Length)             {}
func (p *traced) SetLineDash([]vg.Length, vg.Length) {}
func (p *traced) SetColor(c color.Color)             { p.color = c }
func (p *traced) Scale(x, y float64)                 { panic("no figure scales") }
func (p *traced) DrawImage(r vg.Rectangle, img image.Image) {
	p.images = append(p.images, drawnImage{r.Add(pt(0, p.up)), img})
}
func (p *traced) Rotate(float64)        { p.turned = true }
func (p *traced) Translate(by vg.Point) { p.x, p.y = by.X, by.Y }
func (p *traced) Push()                 { p.stack = append(p.stack, traced{x: p.x, y: p.y, turned: p.turned}) }
func (p *traced) Fill(path vg.Path)     { p.fills = append(p.fills, p.lifted(path)) }
func (p *traced) Stroke(path vg.Path)   { p.strokes = append(p.strokes, p.lifted(path)) }
func (p *traced) lifted(path vg.Path) stroked {
	path = slices.Clone(path)
	for i := range path {
		path[i].Pos.Y += p.up
	}
	return stroked{p.color, path}
}
func (p *traced) Pop() {
	last := p.stack[len(p.stack)-1]
	p.stack = p.stack[:len(p.stack)-1]
	p.x, p.y, p.turned = last.x, last.y, last.turned
}

func (p *traced) FillString(f font.Face, at vg.Point, s string) {
	size := f.Font.Size
	box := rect(at.X, at.Y-0.15*size, at.X+f.Width(s), at.Y+0.65*size)
	if p.turned {
		box = rect(p.x-box.Max.Y, p.y+box.Min.X, p.x-box.Min.Y, p.y+box.Max.X)
	}
	p.texts = append(p.texts, placed{s, box.Add(pt(0, p.up))})
}

func record(t *testing.T, f Figure) (p *traced, height vg.Length) {
	t.Helper()
	var drawn recorder.Canvas
	end, err := f.draw(&page{Canvas: &drawn, dpi: pageDPI})
	if err != nil {
		t.Fatal(err)
	}
	height = edge - end
	p = &traced{up: height}
	if err := drawn.ReplayOn(p); err != nil {
		t.Fatal(err)
	}
	return p, height
}

// checkLayout wants everything on the page and no two texts over each other.
func checkLayout(t *testing.T, f Figure) {
	p, height := record(t, f)
	const slack = 0.3
	for _, drawn := range slices.Concat(p.fills, p.strokes) {
		for _, c := range drawn.path {
			if c.Type != vg.CloseComp && (c.Pos.X < 0 || c.Pos.Y < 0 || c.Pos.X > pageWidth || c.Pos.Y > height) {
				t.Errorf("something is drawn at %v, off the page of %g x %g", c.Pos, pageWidth, height)
				break
			}
		}
	}
	for i, a := range p.texts {
		if a.box.Min.X < 0 || a.box.Min.Y < 0 || a.box.Max.X > pageWidth || a.box.Max.Y > height {
			t.Errorf("%q at %v is not on the page of %g x %g", a.s, a.box, pageWidth, height)
		}
		for _, b := range p.texts[:i] {
			if a.box.Min.X < b.box.Max.X-slack && b.box.Min.X < a.box.Max.X-slack && a.box.Min.Y < b.box.Max.Y &&
				b.box.Min.Y < a.box.Max.Y {
				t.Errorf("%q and %q overlap: %v, %v", a.s, b.s, a.box, b.box)
			}
		}
	}
}

// The curve that is drawn, read back by means of the labels of the ticks, is the
// curve that was given.
func TestSweepCanBeReadBack(t *testing.T) {
	s := Sweep{Lambda: []float64{0.7, 2.5, 9, 30}, SURE: []float64{0.52, 0.25, -0.075, 0.125}}
	p, _ := record(t, s)
	ticks := map[string]vg.Point{}
	for _, text := range p.texts {
		ticks[text.s] = pt((text.box.Min.X+text.box.Max.X)/2, text.box.Min.Y+0.5*tickSize)
	}
	one, ten := ticks["1"].X, ticks["10"].X
	low, high := ticks["0.2"].Y, ticks["0.4"].Y
	if one == 0 || ten == 0 || low == 0 || high == 0 {
		t.Fatalf("no ticks 1, 10 on the axis of lambda or 0.2, 0.4 on that of SURE: %v", ticks)
	}
	want := [][2]float64{{0.7, 0.52}, {2.5, 0.25}, {9, -0.075}, {30, 0.125}}
	for _, line := range p.strokes {
		if line.color != blue || len(line.path) != len(want) || line.path[1].Type != vg.LineComp ||
			line.path[0].Pos.X < one-60 {
			continue
		}
		for i, c := range line.path {
			x := math.Pow(10, float64((c.Pos.X-one)/(ten-one)))
			y := 0.2 + 0.2*float64((c.Pos.Y-low)/(high-low))
			if math.Abs(x/want[i][0]-1) > 1e-3 || math.Abs(y-want[i][1]) > 1e-3 {
				t.Errorf("point %d is drawn at %g, %g, want %v", i, x, y, want[i])
			}
		}
		return
	}
	t.Error("no curve found")
}

// The colour that lies at the place of two hyperparameters, as the ticks tell it, is
// that of their value.
func TestHeatMapCanBeReadBack(t *testing.T) {
	h := HeatMap{X: []float64{1, 10, 100}, Y: []float64{0.1, 1, 10, 100}, Values: []float64{1, 2, 3, 4, 5, 6, 7, 8, 9,
		10, 11, 12}}
	p, _ := record(t, h)
	xs, ys := map[string]vg.Length{}, map[string]vg.Length{}
	for _, text := range p.texts {
		switch {
		case text.box.Max.X < 60:
			ys[text.s] = text.box.Min.Y + 0.5*tickSize
		case text.box.Min.Y > 20: // above those of the bar
			xs[text.s] = (text.box.Min.X + text.box.Max.X) / 2
		}
	}
	for i, y := range h.Y {
		for j, x := range h.X {
			at := pt(xs[strconv.FormatFloat(x, 'f', -1, 64)], ys[strconv.FormatFloat(y, 'f', -1, 64)])
			if at.X == 0 || at.Y == 0 {
				t.Fatalf("no ticks %g and %g: %v, %v", x, y, xs, ys)
			}
			// Also a little to either side: the cell surrounds its point.
			for _, off := range []vg.Length{-6, 0, 6} {
				var seen color.Color
				for _, m := range p.images {
					x, y := (at.X+off-m.Min.X)/m.Size().X, (m.Max.Y-at.Y-off)/m.Size().Y
					if dots := m.Bounds().Size(); x > 0 && x < 1 && y > 0 && y < 1 {
						seen = m.At(int(x*vg.Length(dots.X)), int(y*vg.Length(dots.Y)))
					}
				}
				if want := mapColours()[Sequential][int(math.Round((h.Values[3*i+j]-1)/11*(numColours-1)))]; seen != want {
					t.Errorf("%g points from %g, %g the colour is %v, want %v of %g", off, x, y, seen, want,
						h.Values[3*i+j])
				}
			}
		}
	}
}
