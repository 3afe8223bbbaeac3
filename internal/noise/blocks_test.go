package noise

import (
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/internal/dataio/images"
	"surepipe/internal/lists"
)

// textured is an image of white noise of variance sigma2 whose upper part, of so many rows, has
// random texture of about ten times that variance.
func textured(r *rand.Rand, rows, cols, upper int, sigma2 float64) []float64 {
	texture := normals(r, rows*cols, math.Sqrt(20*sigma2))
	y := normals(r, rows*cols, math.Sqrt(sigma2))
	for i := range y {
		row, col := i/cols, i%cols
		y[i] += 3*float64(row) + 40*math.Sin(float64(col)/15)
		if row > 0 && row < upper {
			// Neighbours are averaged: more energy at low frequencies than at high ones.
			y[i] += (texture[i] + texture[i-cols]) / 2
		}
	}
	return y
}

// Where part of the image is smooth the estimate is unbiased but for the choice of the data, and two
// of its error bars contain the truth as often as those of a normal distribution, or more.
func TestSmoothBlocksFindTheSmoothPart(t *testing.T) {
	const sigma2, draws = 2.25, 200
	r := rand.New(rand.NewPCG(17, 1))
	for _, upper := range []int{0, 48, 80} {
		mean, within, wide := 0.0, 0, 0.0
		for range draws {
			e := must(t)(SmoothBlocks(textured(r, 128, 96, upper, sigma2), 128, 96))
			mean += e.Sigma2 / sigma2 / draws
			wide += e.RelStdErr / draws
			if math.Abs(e.Sigma2/sigma2-1) < 2*e.RelStdErr*e.Sigma2/sigma2 {
				within++
			}
		}
		t.Logf("%d rows of texture: mean %.3f of the truth, %.1f%% within two bars of %.3f", upper, mean,
			100*float64(within)/draws, wide)
		if math.Abs(mean-1) > 0.015 || within < draws*93/100 || wide > 0.1 {
			t.Errorf("%d rows of texture: mean %.3f of the truth, %d of %d within two error bars, of %.3f", upper,
				mean, within, draws, wide)
		}
		if e := must(t)(MADImage(textured(r, 128, 96, upper, sigma2), 128, 96)); upper == 80 && e.Sigma2 < 1.5*sigma2 {
			t.Errorf("the median of the details is not fooled: %+v; the texture is too weak for this test", e)
		}
	}
}

// Each block's energies are those of the cosine transform by its definition.
func TestBlockEnergies(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	y := normals(r, 64, 1)
	got := planeOf(y, 8, 8).spectra(0)[0]
	c := mat.NewDense(8, 8, nil)
	for i := range 8 {
		copy(c.RawRowView(i), cosines[i][:])
	}
	var eye, d mat.Dense
	eye.Mul(c, c.T())
	d.Product(c, mat.NewDense(8, 8, y), c.T())
	texture, high := 0.0, [len(highBands)]float64{}
	for i := range 8 {
		for j := range 8 {
			if delta := map[bool]float64{true: 1}[i == j]; math.Abs(eye.At(i, j)-delta) > 1e-14 {
				t.Fatalf("the transform is not orthonormal: %v", mat.Formatted(&eye))
			}
			e := d.At(i, j) * d.At(i, j)
			switch f := i + j; {
			case f < 3:
			case f <= 8:
				texture += e
			default:
				for b := range min(f-8, 4) {
					high[b] += e
				}
			}
		}
	}
	if math.Abs(got.middle()-texture) > 1e-12 {
		t.Errorf("texture %g, want %g", got.middle(), texture)
	}
	for b, v := range high {
		if math.Abs(got.bands[b]-v) > 1e-12 {
			t.Errorf("band %d: %g, want %g", b, got.bands[b], v)
		}
	}
	if bandSizes != [4]float64{mostHigh, 15, 10, 6} {
		t.Errorf("sizes %v", bandSizes)
	}
}

// Areas without noise, where values are clipped or padded, do not count.
func TestSmoothBlocksLeaveOutWhatHoldsNoNoise(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 1))
	y := textured(r, 128, 96, 0, 1)
	clipped := slices.Clone(y)
	level := 150.
	for i, v := range y {
		clipped[i] = min(v, level)
		if i%96 < 20 && i/96 < 60 {
			clipped[i] = 7 // padding in the middle of the range
		}
	}
	dead := normals(r, 128*96, 1)
	for i := range dead {
		if i%8 < 4 && i/96 < 60 {
			dead[i] = 0.25
		}
	}
	for _, y := range [][]float64{clipped, dead} {
		e := must(t)(SmoothBlocks(y, 128, 96))
		if math.Abs(e.Sigma2-1) > 2*e.RelStdErr {
			t.Errorf("%+v, want 1", e)
		}
	}
}

func TestSmoothBlocksRefuse(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	y := normals(r, 64*64, 1)
	bad := slices.Clone(y)
	bad[65] = math.NaN()
	flat := slices.Repeat([]float64{0.3}, 64*64)
	linear := make([]float64, 64*64)
	for i := range linear {
		linear[i] = float64(i%64) / 3
	}
	for _, test := range []struct {
		want       string
		y          []float64
		rows, cols int
	}{
		{"y holds NaN at [1, 1], expected finite numbers", bad, 64, 64},
		{"an image of 7 x 500 pixels has 0 blocks of 8 x 8, expected at least 8", y[:3500], 7, 500},
		{"an image of 16 x 31 pixels has 6 blocks of 8 x 8, expected at least 8", y[:16*31], 16, 31},
		{"0 blocks of 8 x 8 pixels hold noise, expected at least 8: the others are constant, or more than half of " +
			"their pixels are missing, or have pixels at the least, the greatest or the commonest value, where y may " +
			"be clipped", flat, 64, 64},
		{"the smoothest parts of y are constant up to rounding errors: y holds no noise", linear, 64, 64},
	} {
		e, err := SmoothBlocks(test.y, test.rows, test.cols)
		var refusal *Refusal
		if !errors.As(err, &refusal) || refusal.Method != MethodSmoothBlocks ||
			!strings.Contains(refusal.Reason, test.want) || e != (Estimate{}) {
			t.Errorf("%+v, error\n%v\nwant\n%s", e, err, test.want)
		}
	}
	copyY := slices.Clone(y)
	one := must(t)(SmoothBlocks(y, 64, 64))
	if !slices.Equal(y, copyY) {
		t.Error("the image was written to")
	}
	for i := range copyY {
		copyY[i] *= -0x1p-20
	}
	if two := must(t)(SmoothBlocks(copyY, 64, 64)); two.Sigma2 != one.Sigma2*0x1p-40 || two.RelStdErr != one.RelStdErr {
		t.Errorf("scaled: %+v, of %+v", two, one)
	}
}

// The photograph's own noise counts as noise: it is estimated first, from the photograph itself.
func TestSmoothBlocksOfAPhotograph(t *testing.T) {
	f, err := os.Open("../../testdata/camera.png")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	clean, err := images.ReadPNG(f)
	if err != nil {
		t.Fatal(err)
	}
	rows, cols := clean.Shape[0], clean.Shape[1]
	r := rand.New(rand.NewPCG(5, 5))
	own := must(t)(SmoothBlocks(clean.Data, rows, cols)).Sigma2 * 255 * 255
	for _, sigma := range []float64{5, 10, 20} {
		noisy := slices.Clone(clean.Data)
		for i := range noisy {
			noisy[i] = 255*noisy[i] + sigma*r.NormFloat64()
		}
		e, old := must(t)(SmoothBlocks(noisy, rows, cols)), must(t)(MADImage(noisy, rows, cols))
		t.Logf("sigma %g: sigma2 %.3f ± %.3f of that added, %.3f by the median of details; its own %.3f", sigma,
			e.Sigma2/sigma/sigma, e.RelStdErr, old.Sigma2/sigma/sigma, own/sigma/sigma)
		if math.Abs(e.Sigma2-sigma*sigma) > 2*e.RelStdErr*e.Sigma2+own || e.RelStdErr > 0.15 {
			t.Errorf("sigma2 %g ± %.1f%%, added %g, its own %g", e.Sigma2, 100*e.RelStdErr, sigma*sigma, own)
		}
	}
}

// With gaps the estimate is as good, of as many blocks as are left; without any it is the same.
func TestSmoothBlocksWithGaps(t *testing.T) {
	const rows, cols, sigma2, draws = 128, 96, 2.25, 60
	r := rand.New(rand.NewPCG(23, 1))
	for name, seen := range map[string]func(i int) bool{
		"all":              func(int) bool { return true },
		"most":             func(int) bool { return r.Float64() < 0.7 },
		"half":             func(int) bool { return r.Float64() < 0.5 },
		"scratches":        func(i int) bool { return i/cols%20 > 3 && (i%cols+i/cols)%30 > 1 },
		"every second row": func(i int) bool { return i/cols%2 == 0 },
		"a checkerboard":   func(i int) bool { return (i/cols+i%cols)%2 == 0 },
	} {
		mean, within := 0.0, 0
		for range draws {
			whole := textured(r, rows, cols, 48, sigma2)
			var y []float64
			var places []int
			for i, v := range whole {
				if seen(i) {
					y, places = append(y, v), append(places, i)
				}
			}
			e := must(t)(SmoothBlocksOf(y, places, []int{rows, cols}))
			mean += e.Sigma2 / sigma2 / draws
			if math.Abs(e.Sigma2/sigma2-1) < 2*e.RelStdErr*e.Sigma2/sigma2 {
				within++
			}
			if name != "all" {
				continue
			}
			if want := must(t)(SmoothBlocks(whole, rows, cols)); math.Abs(e.Sigma2/want.Sigma2-1) > 1e-10 ||
				math.Abs(e.RelStdErr/want.RelStdErr-1) > 1e-8 {
				t.Fatalf("an image without gaps: %+v, want %+v", e, want)
			}
		}
		if t.Logf("%s: mean %.3f, %d of %d within two bars", name, mean, within, draws); math.Abs(mean-1) > 0.04 ||
			within < draws*85/100 {
			t.Errorf("%s: mean %.3f of the truth, %d of %d within two bars", name, mean, within, draws)
		}
	}
	colours := normals(r, 64*64*3, 1)
	places := lists.Upto(len(colours))
	e := must(t)(SmoothBlocksOf(colours, places, []int{64, 64, 3}))
	if math.Abs(e.Sigma2-1) > 3*e.RelStdErr || e.RelStdErr > 0.05 {
		t.Errorf("three channels: %+v, want 1", e)
	}
	var few []float64
	if _, err := SmoothBlocksOf(append(few, colours[:200]...), places[:200], []int{64, 64}); err == nil {
		t.Error("three rows of an image have blocks enough")
	}
}
