package figure

import (
	"bytes"
	"fmt"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
)

func TestErrorsNameWhatWasFound(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	three := []float64{1, 2, 3}
	grid := []float64{1, 2, 3, 4, 5, 6}
	pixel := Image{Rows: 1, Cols: 1, Pixels: []float64{0.5}}
	one := func(images ...Image) (f Images) {
		f.Rows = make([][]Panel, 1)
		for _, m := range images {
			f.Rows[0] = append(f.Rows[0], Panel{Image: m})
		}
		return f
	}
	for _, c := range []struct {
		f    Figure
		want string
	}{
		{nil, "no figure given"},
		{Sweep{}, "Lambda has 0 values, expected 1"},
		{Sweep{Lambda: []float64{1, -2, 3}, SURE: three},
			"Lambda[1] is -2, expected a positive number: its axis is logarithmic"},
		{Sweep{Lambda: []float64{0, 2, 3}, SURE: three},
			"Lambda[0] is 0, expected a positive number: its axis is logarithmic"},
		{Sweep{Lambda: []float64{1, nan, 3}, SURE: three}, "Lambda[1] is NaN, expected 0 or a magnitude from 1e-140 to 1e+140"},
		{Sweep{Lambda: three, SURE: []float64{1, 2}}, "SURE has 2 values, expected 3"},
		{Sweep{Lambda: three, SURE: []float64{1, 2, nan}}, "SURE[2] is NaN, expected 0 or a magnitude from 1e-140 to 1e+140"},
		{Sweep{Lambda: three, SURE: []float64{1, 2, 1e300}},
			"SURE[2] is 1e+300, expected 0 or a magnitude from 1e-140 to 1e+140"},
		{Sweep{Lambda: three, SURE: three, StdErr: []float64{}}, "StdErr has 0 values, expected 3"},
		{Sweep{Lambda: three, SURE: three, Loss: []float64{1, -inf, 1}}, "Loss[1] is -Inf, expected 0 or a magnitude from 1e-140 to 1e+140"},
		{Sweep{Lambda: three, SURE: three, Divergence: three[:1]}, "Divergence has 1 values, expected 3"},
		{HeatMap{Y: three}, "X has 0 values, expected 1"},
		{HeatMap{X: three, Y: []float64{-1, 1}, Values: grid}, "Y[0] is -1, expected a positive number"},
		{HeatMap{X: three, Y: three[:2], Values: grid}, "the hyperparameters [1 2 3] do not grow by equal factors"},
		{HeatMap{X: three, Y: three, Values: grid}, "Values has 6 values, expected 9"},
		{HeatMap{X: three, Y: three[:2], Values: []float64{1, 2, 3, 1, nan, 3}},
			"Values[4] is NaN, expected 0 or a magnitude from 1e-140 to 1e+140"},
		{HeatMap{X: three, Y: three[:2], Values: grid, Err: three}, "Err has 3 values, expected 6"},
		{Sequence{}, "X has 0 values, expected 1"},
		{Sequence{X: three, Y: three, Fit: three, Truth: []float64{1, 2}}, "Truth has 2 values, expected 3"},
		{Sequence{X: three, Y: three, Fit: []float64{1, nan, 3}}, "Fit[1] is NaN, expected 0 or a magnitude from 1e-140 to 1e+140"},
		{Histogram{}, "Samples has 0 values, expected 1"},
		{Histogram{Samples: three, Seeds: []float64{}}, "Seeds has 0 values, expected 1"},
		{Histogram{Samples: three, Loss: []float64{1, nan}}, "Loss[1] is NaN, expected 0 or a magnitude from 1e-140 to 1e+140"},
		{Running{}, "Values has 0 values, expected 1"},
		{one(Image{Rows: 2, Cols: 2, Pixels: three}), "Rows[0][0].Pixels has 3 values, expected 4"},
		{one(pixel, Image{Rows: 1, Cols: 1, Pixels: []float64{inf}}),
			"Rows[0][1].Pixels[0] is +Inf, expected 0 or a magnitude from 1e-140 to 1e+140"},
		{Images{Rows: one(pixel).Rows, Curve: &Sweep{}}, "Lambda has 0 values, expected 1"},
		{Lines{}, "Series is empty, expected at least one"},
		{Lines{Series: []Series{{X: three, Y: three}, {}}}, "Series[1].X has 0 values, expected 1"},
		{Lines{Series: []Series{{X: three, Y: three[:2]}}}, "Series[0].Y has 2 values, expected 3"},
		{Lines{Series: []Series{{X: []float64{0}, Y: []float64{1}}}},
			"Series[0].X[0] is 0, expected a positive number: its axis is logarithmic"},
	} {
		var b bytes.Buffer
		err := Write(&b, "svg", c.f)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "figure: ") {
			t.Errorf("%T: error %v, want %q", c.f, err, c.want)
		}
		if b.Len() > 0 {
			t.Errorf("%T: %d bytes written beside the error", c.f, b.Len())
		}
	}
}

func TestFormat(t *testing.T) {
	for path, want := range map[string]string{"a.png": "png", "b/c.d.SVG": "svg", "x.Pdf": "pdf"} {
		if got, err := Format(path); got != want || err != nil {
			t.Errorf("Format(%q) = %q, %v, want %q", path, got, err, want)
		}
	}
	for path, want := range map[string]string{
		"plot":         `figure "plot" has no extension, expected one of .png, .svg, .pdf`,
		"a.png/plot":   `figure "a.png/plot" has no extension, expected one of .png, .svg, .pdf`,
		"sweep.jpeg":   `figure "sweep.jpeg" ends in ".jpeg", expected one of .png, .svg, .pdf`,
		"sweep.png.gz": `figure "sweep.png.gz" ends in ".gz", expected one of .png, .svg, .pdf`,
	} {
		if _, err := Format(path); err == nil || err.Error() != want {
			t.Errorf("Format(%q): error %v, want %s", path, err, want)
		}
		if err := Save(filepath.Join(t.TempDir(), "x"), Running{Values: []float64{1}}); err == nil {
			t.Error("a file without extension was saved")
		}
	}
	if err := Write(new(bytes.Buffer), "gif", Running{Values: []float64{1}}); err == nil ||
		err.Error() != `figure: format "gif", expected one of png, svg, pdf` {
		t.Errorf("format gif: error %v", err)
	}
}

func TestSaveReplacesAFileWholeOrNotAtAll(t *testing.T) {
	good, bad := Running{Values: []float64{1, 2}}, Running{}
	dir := t.TempDir()
	path := filepath.Join(dir, "a.svg")
	if err := os.WriteFile(path, []byte("before"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := Save(path, bad); err == nil {
		t.Error("no error for a figure without values")
	}
	if data, _ := os.ReadFile(path); string(data) != "before" {
		t.Errorf("the file was changed to %q", data)
	}
	link := filepath.Join(dir, "link.svg")
	if err := os.Symlink(path, link); err != nil {
		t.Skip(err)
	}
	if err := Save(link, good); err != nil {
		t.Fatal(err)
	}
	if data, _ := os.ReadFile(path); !bytes.HasPrefix(data, []byte("<?xml")) {
		t.Errorf("the file behind the link holds %q...", data[:min(10, len(data))])
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link was replaced (%v)", err)
	}
	folder := filepath.Join(dir, "folder.png")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := Save(folder, good); err == nil || !strings.Contains(err.Error(), "it is a directory") {
		t.Errorf("saved over a directory: error %v", err)
	}
	if err := Save(filepath.Join(dir, "none", "a.png"), good); err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("saved into a directory that does not exist: error %v", err)
	}
	left, _ := filepath.Glob(filepath.Join(dir, ".*"))
	if len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// svg is the figure as text; the runs of a line stand one behind the other.
func svg(t *testing.T, f Figure) string {
	t.Helper()
	p, _ := record(t, f)
	var words []string
	for _, text := range p.texts {
		words = append(words, text.s)
	}
	return strings.Join(words, "|")
}

func TestLegendsSayWhatIsDrawn(t *testing.T) {
	sweep := Sweep{
		Parameter: "λ", Lambda: []float64{0.5, 1, 2, 4, 8}, SURE: []float64{9, 3, 1, 2, 5},
		StdErr: []float64{0.5, 0.5, 0.5, 0.5, 0.5},
		Loss:   []float64{9, 3, 1, 2, 5}, Divergence: []float64{5, 4, 3, 2, 1}, Label: "SURE / d",
		Title: "a <title> & \"more\"",
	}
	unsure := sweep
	unsure.Converged = []bool{true, true, false, true, true}
	unsure.StdErr = []float64{0.5, 0.5, 0.5, 100, 0.5}
	greek := sweep
	greek.Parameter = "λ\u0000\n  日 / λmax"
	for _, c := range []struct {
		name string
		f    Figure
		want []string
		not  []string
	}{
		{"sweep", sweep, []string{"SURE / d", "± standard error", "true loss", "minimum 1.00 ± 0.50 at λ = 2",
			"degrees of freedom", `a <title> & "more"`}, []string{"not converged", "cut off"}},
		{"not converged", unsure, []string{"minimum 2.00 ± 100 at λ = 4", "not converged",
			"± standard error (cut off at the frame)"}, []string{"λ = 2"}},
		{"letters", greek, []string{"λ 日 / λmax"}, []string{"\u0000", "\n"}},
		{"heat map", HeatMap{Label: "SURE", XName: "λ", YName: "γ", X: []float64{1, 10}, Y: []float64{0.5, 5},
			Values: []float64{-1.25, 2, 3, 4}, Converged: []bool{true, false, true, true}},
			[]string{"minimum −1.25 at λ = 1, γ = 0.5", "not converged", "SURE"}, nil},
		{"refined map", HeatMap{XName: "λ", YName: "γ", X: []float64{1, 10}, Y: []float64{0.5, 5},
			Values: []float64{1, 2, 3, 4}, HasMin: true, MinX: 2.5, MinY: 0.75, MinValue: -2},
			[]string{"minimum −2.00 at λ = 2.5, γ = 0.75"}, []string{"λ = 1,"}},
		{"histogram", Histogram{Label: "SURE / d", Samples: []float64{1, 2, 3, 4}, Loss: []float64{2, 2.2}},
			[]string{"over samples of y, n = 4", "samples per bin", "mean over samples 2.500 ± 0.65",
				"mean true loss 2.100", "SURE / d"}, nil},
		{"two frames", Histogram{Samples: []float64{1, 2, 3, 4}, Seeds: []float64{2, 2.01, 2.02}},
			[]string{"samples per bin", "seeds per bin", "over seeds, one y, n = 3"}, nil},
		{"running", Running{Values: []float64{1, 2, 3, 4}, Zero: "unbiased"},
			[]string{"last 2.50", "± standard error, last 0.65", "unbiased", "number of samples n"}, nil},
		{"lines", Lines{XLabel: "λ", YLabel: "error",
			Series: []Series{{Name: "first", X: []float64{1, 2}, Y: []float64{2, 16}},
				{Name: "second", X: []float64{1, 10}, Y: []float64{1, 0.1}}}},
			[]string{"first", "second", "error", "λ"}, nil},
		{"images", Images{Rows: [][]Panel{{{Image: Image{Caption: "the truth", Rows: 1, Cols: 2,
			Pixels: []float64{0, 1}}}}}, Curve: &sweep}, []string{"the truth", "minimum 1.00 ± 0.50 at λ = 2"}, nil},
	} {
		got := svg(t, c.f)
		for _, w := range c.want {
			if !strings.Contains(got, w) {
				t.Errorf("%s: no %q in %s", c.name, w, got)
			}
		}
		for _, w := range c.not {
			if strings.Contains(got, w) {
				t.Errorf("%s: %q in %s", c.name, w, got)
			}
		}
		checkLayout(t, c.f)
	}
	var b bytes.Buffer
	if err := Write(&b, "svg", sweep); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"a &lt;title&gt; &amp; &#34;more&#34;<", ">minimum 1.00 ± 0.50 at λ = 2<",
		">degrees of freedom<", "Arial"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in the SVG", want)
		}
	}
}

func TestTheInputIsNotChanged(t *testing.T) {
	s := Sweep{Lambda: []float64{1, 2, 3}, SURE: []float64{1, 2, 3}}
	h := HeatMap{X: []float64{1, 2}, Y: []float64{1, 3}, Values: []float64{1, 2, 3, 4}}
	hist := Histogram{Label: "SURE / d", Samples: []float64{3, 1, 2}}
	before := fmt.Sprint(s, h, hist)
	for _, f := range []Figure{s, h, hist} {
		if err := Write(new(bytes.Buffer), "svg", f); err != nil {
			t.Fatal(err)
		}
	}
	if after := fmt.Sprint(s, h, hist); after != before {
		t.Errorf("before %s, after %s", before, after)
	}
}

func TestMinimizer(t *testing.T) {
	for _, c := range []struct {
		values    []float64
		converged []bool
		want      int
	}{
		{nil, nil, -1},
		{[]float64{3, 1, 2}, nil, 1},
		{[]float64{3, 1, 2}, []bool{true, false, true}, 2},
		{[]float64{3, 1, 2}, []bool{false, false, false}, 1},
		{[]float64{1, 1}, nil, 0},
	} {
		if got := Minimizer(c.values, c.converged); got != c.want {
			t.Errorf("Minimizer(%v, %v) = %d, want %d", c.values, c.converged, got, c.want)
		}
	}
}

// labels are those of the marks, in order.
func labels(marks plot.ConstantTicks) string {
	var s []string
	for _, m := range marks {
		if !m.IsMinor() {
			s = append(s, m.Label)
		}
	}
	return strings.Join(s, " ")
}

func TestTicks(t *testing.T) {
	logs := func(low, high float64) *axis {
		return &axis{log: true, min: math.Log10(low), max: math.Log10(high)}
	}
	whole := logs(1, 3)
	whole.whole = true
	for _, c := range []struct {
		a      *axis
		want   string
		factor string
	}{
		{logs(1, 100), "1 2 5 10 20 50 100", ""},
		{logs(0.5, 60), "0.5 1 2 5 10 20 50", ""},
		{logs(1e-12, 1e-10), "10⁻¹² 2×10⁻¹² 5×10⁻¹² 10⁻¹¹ 2×10⁻¹¹ 5×10⁻¹¹ 10⁻¹⁰", ""},
		{logs(1e-3, 1e9), "10⁻³ 10⁻² 10⁻¹ 10⁰ 10¹ 10² 10³ 10⁴ 10⁵ 10⁶ 10⁷ 10⁸ 10⁹", ""},
		{logs(1e-139, 1e139), "10⁻¹²⁰ 10⁻⁹⁰ 10⁻⁶⁰ 10⁻³⁰ 10⁰ 10³⁰ 10⁶⁰ 10⁹⁰ 10¹²⁰", ""},
		{logs(3, 4), "3.0 3.2 3.4 3.6 3.8 4.0", ""},
		{logs(9.5, 10.4), "9.6 9.8 10.0 10.2 10.4", ""},
		{whole, "1 2 3", ""},
		{linearAxis("", 0, 1), "0 0.2 0.4 0.6 0.8 1.0", ""},
		{linearAxis("", -1.2, 3), "−1 0 1 2 3", ""},
		{linearAxis("", 0, 3e9), "0 0.5 1.0 1.5 2.0 2.5 3.0", "×10⁹"},
		{linearAxis("", 2e-12, 3e-12), "2.0 2.2 2.4 2.6 2.8 3.0", "×10⁻¹²"},
		{linearAxis("", 0, 0), "−1.0 −0.5 0 0.5 1.0", ""},
		{linearAxis("", 1e6, 1e6+0.01), "0 0.002 0.004 0.006 0.008 0.010", "+ 1×10⁶"},
	} {
		c.a.length = 420
		_, _, factor := c.a.factor()
		if got := labels(c.a.ticks()); got != c.want {
			t.Errorf("[%g, %g], log %t: ticks %s, want %s", c.a.min, c.a.max, c.a.log, got, c.want)
		}
		if factor != c.factor {
			t.Errorf("[%g, %g]: factor %q, want %q", c.a.min, c.a.max, factor, c.factor)
		}
	}
}

// Every axis has labels, all of them on it, each where its number is, and none
// over another, for ranges of any size and place.
func TestTicksOfAnyRange(t *testing.T) {
	for _, scale := range []float64{1e-140, 1e-12, 1e-3, 1, 7, 1e5, 1e9, 1e139} {
		for _, ratio := range []float64{1 + 1e-7, 1.001, 1.3, 1.9, 2, 4, 9, 30, 1e3, 1e8} {
			for _, length := range []vg.Length{60, 110, 205, 460} {
				for _, upright := range []bool{false, true} {
					for _, a := range []*axis{logAxis("", scale, scale*ratio), linearAxis("", scale, scale*ratio),
						linearAxis("", -scale, scale*ratio)} {
						a.length, a.upright = length, upright
						marks := a.ticks()
						for _, m := range marks {
							if at := (m.Value - a.min) / (a.max - a.min); at < -1e-6 || at > 1+1e-6 {
								t.Errorf("[%g, %g]: a tick at %g", a.min, a.max, at)
							}
						}
						marks = slices.DeleteFunc(marks, plot.Tick.IsMinor)
						if len(marks) == 0 || !a.fit(marks) {
							t.Errorf("[%g, %g], log %t, on %g points: labels %q", a.min, a.max, a.log, length,
								labels(marks))
						}
					}
				}
			}
		}
	}
}

// Also the bar of two neighbouring numbers has a label, and none over another.
func TestTicksOfNeighbours(t *testing.T) {
	for _, v := range []float64{1, -0.3, 1e100, 1e-100} {
		a := &axis{min: v, max: math.Nextafter(v, math.Inf(1)), length: 100, upright: true}
		if marks := a.ticks(); len(marks) == 0 || !a.fit(marks) {
			t.Errorf("%g: labels %q", v, labels(marks))
		}
	}
}

func TestFreedmanDiaconis(t *testing.T) {
	var values []float64
	for i := range 1000 {
		values = append(values, float64(i))
	}
	b := freedmanDiaconis(values)
	// 2 IQR n^(-1/3) = 2 500 / 10 = 100, so 10 bins of about 100.
	if low, high, _, _ := b.DataRange(); len(b.Bins) != 10 || low != 0 || math.Abs(high-999) > 1e-9 {
		t.Errorf("bins %+v, want 10 from 0 to 999", b)
	}
	for i, one := range b.Bins {
		if one.Weight != 100 {
			t.Errorf("bin %d has %g values, want 100", i, one.Weight)
		}
	}
	area := 0.0
	b.Normalize(1)
	for _, one := range b.Bins {
		area += one.Weight * (one.Max - one.Min)
	}
	if math.Abs(area-1) > 1e-12 {
		t.Errorf("the density has area %g, want 1", area)
	}
	for _, values := range [][]float64{{5}, {0, 0}, {1, 1, 1, 1, 9}, {1e-12, -1e9},
		append(slices.Clone(values), 1e12)} {
		b := freedmanDiaconis(values)
		total := 0.0
		for _, one := range b.Bins {
			total += one.Weight
		}
		if total != float64(len(values)) || b.Width <= 0 || len(b.Bins) > mostBins {
			t.Errorf("%d values in %d bins of width %g with %g values", len(values), len(b.Bins), b.Width, total)
		}
	}
}

// toOKLab converts from sRGB (Ottosson, "A perceptual color space for image processing", 2020).
func toOKLab(c color.Color) [3]float64 {
	rgb := color.RGBAModel.Convert(c).(color.RGBA)
	linear := func(v uint8) float64 {
		u := float64(v) / 255
		if u <= 0.04045 {
			return u / 12.92
		}
		return math.Pow((u+0.055)/1.055, 2.4)
	}
	lr, lg, lb := linear(rgb.R), linear(rgb.G), linear(rgb.B)
	l := math.Cbrt(0.4122214708*lr + 0.5363325363*lg + 0.0514459929*lb)
	m := math.Cbrt(0.2119034982*lr + 0.6806995451*lg + 0.1073969566*lb)
	s := math.Cbrt(0.0883024619*lr + 0.2817188376*lg + 0.6299787005*lb)
	return [3]float64{
		0.2104542553*l + 0.7936177850*m - 0.0040720468*s,
		1.9779984951*l - 2.4285922050*m + 0.4505937099*s,
		0.0259040371*l + 0.7827717662*m - 0.8086757660*s,
	}
}

// The lightness of the colours of a map rises in equal steps, and colours as far from each other in number are
// about as far from each other to the eye.
func TestSequentialColoursAreUniform(t *testing.T) {
	// Steps of sixteen colours: those of one are near the rounding to bytes.
	const stride = 16
	var steps, lighter []float64
	all := mapColours()[Sequential]
	last := toOKLab(all[0])
	for i := stride; i < len(all); i += stride {
		c := toOKLab(all[i])
		steps = append(steps, math.Hypot(c[0]-last[0], math.Hypot(c[1]-last[1], c[2]-last[2])))
		lighter = append(lighter, c[0]-last[0])
		last = c
	}
	if low, high := slices.Min(steps), slices.Max(steps); high > 1.4*low {
		t.Errorf("steps from %g to %g, want them equal: %.3f", low, high, steps)
	}
	if low, high := slices.Min(lighter), slices.Max(lighter); high > 1.4*low {
		t.Errorf("steps of lightness from %g to %g, want them equal: %.3f", low, high, lighter)
	}
}

// A minimum between the grid's points is marked where it lies, on logarithmic axes.
func TestHeatMapMarksTheGivenMinimum(t *testing.T) {
	h := HeatMap{XName: "λ", YName: "γ", X: []float64{1, 100}, Y: []float64{1, 100}, Values: []float64{1, 2, 3, 4},
		HasMin: true}
	star := func(x, y float64) vg.Point {
		h.MinX, h.MinY = x, y
		p, _ := record(t, h)
		lowest := vg.Point{Y: 1e9}
		for _, f := range p.fills {
			if len(f.path) < 10 || f.color != white {
				continue
			}
			var c vg.Point
			corners := 0
			for _, part := range f.path {
				if part.Type != vg.CloseComp {
					c.X, c.Y, corners = c.X+part.Pos.X, c.Y+part.Pos.Y, corners+1
				}
			}
			// The legend's star stands above the map.
			if c.X, c.Y = c.X/vg.Length(corners), c.Y/vg.Length(corners); c.Y < lowest.Y {
				lowest = c
			}
		}
		return lowest
	}
	low, between, high := star(1, 100), star(10, 10), star(100, 1)
	if high.X-low.X < 50 || low.Y-high.Y < 50 {
		t.Fatalf("stars at %v and %v", low, high)
	}
	if dx, dy := between.X-(low.X+high.X)/2, between.Y-(low.Y+high.Y)/2; math.Abs(float64(dx)) > 1 ||
		math.Abs(float64(dy)) > 1 {
		t.Errorf("star at %v, expected half way from %v to %v", between, low, high)
	}
}

func TestSweepIsLogarithmicWhereItsMinimumWouldBeFlat(t *testing.T) {
	for _, c := range []struct {
		sure, loss []float64
		want       bool
	}{
		{[]float64{31, 1, 2}, nil, true},
		{[]float64{29, 1, 2}, nil, false},
		{[]float64{3, 1, 2}, []float64{3, 0.09, 2}, true},
		{[]float64{31, -1, 2}, nil, false},
	} {
		b, err := Sweep{Lambda: []float64{1, 2, 3}, SURE: c.sure, Loss: c.loss}.block()
		if err != nil {
			t.Fatal(err)
		}
		if got := b.panels[0].y.log; got != c.want {
			t.Errorf("SURE %v, loss %v: logarithmic is %t, expected %t", c.sure, c.loss, got, c.want)
		}
	}
}
