package noise

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// White noise is not taken for shared, whatever the texture of a part of the image; noise that is averaged over
// neighbours, of opposite sign there, or common to channels, is.
func TestSharedNoise(t *testing.T) {
	const rows, cols, channels, sigma2, draws = 128, 96, 3, 2.25, 20
	source := rand.NewPCG(23, 1)
	r := rand.New(source)
	tests := map[string]struct {
		noise    func() []float64
		pixels   bool
		sharp    bool
		channels float64
	}{
		"white": {noise: func() []float64 { return normals(r, rows*cols*channels, 1) }},
		// Pixels between those of a grid are the means of their neighbours along the rows, as after demosaicing.
		"interpolated": {pixels: true, noise: func() []float64 {
			z := normals(r, rows*cols*channels, 1)
			for i := range z {
				if col := i / channels % cols; col%2 == 1 && col+1 < cols {
					z[i] = (z[i-channels] + z[i+channels]) / 2
				}
			}
			return z
		}},
		// A pixel has a correlation of 0.2 with each of its neighbours.
		"slightly blurred": {pixels: true, noise: func() []float64 {
			const side = 0.1
			z := normals(r, rows*cols*channels, 1)
			for _, step := range []int{channels, cols * channels} {
				white, n := slices.Clone(z), len(z)
				for i := range z {
					z[i] = (white[i] + side*(white[(i+step)%n]+white[(i+n-step)%n])) / math.Sqrt(1+2*side*side)
				}
			}
			return z
		}},
		// What pixels differ from their four neighbours by is added to them, and the variance is 1.
		"sharpened": {sharp: true, noise: func() []float64 {
			const more = 0.3
			white, n := normals(r, rows*cols*channels, 1), rows*cols*channels
			z := make([]float64, n)
			for i := range z {
				for _, step := range []int{channels, cols * channels, n - channels, n - cols*channels} {
					z[i] -= more / 4 * white[(i+step)%n]
				}
				z[i] = (z[i] + (1+more)*white[i]) / math.Sqrt((1+more)*(1+more)+more*more/4)
			}
			return z
		}},
		"channels": {channels: 0.4, noise: func() []float64 {
			z, common := normals(r, rows*cols*channels, math.Sqrt(0.6)), normals(r, rows*cols, math.Sqrt(0.4))
			for i := range z {
				if i%channels != 1 {
					z[i] += common[i/channels]
				} else {
					z[i] /= math.Sqrt(0.6)
				}
			}
			return z
		}},
	}
	for name, c := range tests {
		source.Seed(23, 1)
		var pixels, sharp, colours [2]int
		mean := 0.0
		for draw := range draws {
			upper := []int{0, 48, 80}[draw%3]
			signal := textured(r, rows, cols, upper, 4*sigma2)
			white := textured(r, rows, cols, 0, 1e-12)
			y := make([]float64, rows*cols*channels)
			for i, z := range c.noise() {
				y[i] = white[i/channels] + math.Sqrt(sigma2)*z
				if row := i / channels / cols; row < upper {
					y[i] = signal[i/channels] + math.Sqrt(sigma2)*z
				}
			}
			for known, variance := range []float64{0, sigma2} {
				s := NewImage(y, rows, cols, channels).Shared(variance)
				if s.Neighbours {
					pixels[known]++
				}
				if s.Low != 0 {
					sharp[known]++
				}
				if s.Channels != 0 {
					colours[known]++
					mean += s.Channels / draws / 2
					if s.First != 0 || s.Second != 2 {
						t.Errorf("%s: channels %d and %d", name, s.First, s.Second)
					}
				}
			}
		}
		t.Logf("%s: pixels %v, channels %v of %d, mean correlation %.3f", name, pixels, colours, draws, mean)
		for known := range 2 {
			if want := map[bool]int{true: draws}[c.pixels]; pixels[known] != want {
				t.Errorf("%s: %d of %d draws share noise of pixels, expected %d", name, pixels[known], draws, want)
			}
			if want := map[bool]int{true: draws}[c.sharp]; sharp[known] != want {
				t.Errorf("%s: %d of %d draws are sharpened, expected %d", name, sharp[known], draws, want)
			}
			if want := map[bool]int{true: draws}[c.channels > 0]; colours[known] != want {
				t.Errorf("%s: %d of %d draws share noise of channels, expected %d", name, colours[known], draws, want)
			}
		}
		if math.Abs(mean-c.channels) > 0.05 {
			t.Errorf("%s: mean correlation %.3f, expected %.3f", name, mean, c.channels)
		}
	}
}

func TestSmallImagesShareNothing(t *testing.T) {
	for _, shape := range [][3]int{{0, 0, 1}, {8, 8, 3}, {40, 40, 1}, {64, 64, 1}} {
		y := make([]float64, shape[0]*shape[1]*shape[2])
		if s := NewImage(y, shape[0], shape[1], shape[2]).Shared(1); s != (Shared{}) {
			t.Errorf("%v: %+v", shape, s)
		}
	}
}

// TestAVolumeIsEstimatedFromItsSlices where rows of texture would be taken for noise by their details.
func TestAVolumeIsEstimatedFromItsSlices(t *testing.T) {
	const depth, side, sigma2 = 6, 48, 0.01
	rng := rand.New(rand.NewPCG(3, 4))
	at := func(shape []int, axis, row, column int) []float64 {
		y := make([]float64, depth*side*side)
		for i := range y {
			p := [3]int{i / (shape[1] * shape[2]), i / shape[2] % shape[1], i % shape[2]}
			if y[i] = 0.1 * rng.NormFloat64(); p[row] < side/2 {
				y[i] += math.Sin(2.5*float64(p[column])) + float64(p[axis])
			}
		}
		return y
	}
	for name, c := range map[string]struct {
		shape             []int
		axis, row, column int
	}{
		"slices first": {[]int{depth, side, side}, 0, 1, 2},
		"slices last":  {[]int{side, side, depth}, 2, 0, 1},
	} {
		y := at(c.shape, c.axis, c.row, c.column)
		for _, bare := range []bool{false, true} {
			e, err := Choose(MethodAuto, Observed{Y: y, Shape: c.shape, Bare: bare})
			if err != nil || e.Method != MethodSmoothBlocks ||
				math.Abs(e.Sigma2-sigma2) > 4*e.Sigma2*e.RelStdErr {
				t.Errorf("%s: %+v, %v; expected %g by %s", name, e, err, sigma2, MethodSmoothBlocks)
			}
		}
	}
}
