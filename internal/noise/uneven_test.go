package noise

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"surepipe/internal/lists"
)

// White noise of one variance is even, also beside texture; noise that follows the brightness, the place or the channel
// is told by what it follows.
func TestUneven(t *testing.T) {
	const rows, cols, draws = 264, 200, 10
	source := rand.NewPCG(31, 1)
	r := rand.New(source)
	slope := func(i int) float64 { return 0.2 + 0.8*float64(i%cols)/cols } // of brightness, along the rows
	for name, c := range map[string]struct {
		channels int
		texture  bool
		variance func(i, channel int) float64
		by       string
		ratio    float64
	}{
		"white":             {channels: 1, variance: func(int, int) float64 { return 1 }},
		"white, texture":    {channels: 1, texture: true, variance: func(int, int) float64 { return 1 }},
		"white, in colours": {channels: 3, texture: true, variance: func(int, int) float64 { return 1 }},
		"photons": {channels: 1, by: ByBrightness, ratio: 3,
			variance: func(i, _ int) float64 { return slope(i) }},
		"photons, texture": {channels: 1, texture: true, by: ByBrightness, ratio: 3,
			variance: func(i, _ int) float64 { return slope(i) }},
		"lower part": {channels: 1, by: ByPlace, ratio: 2,
			variance: func(i, _ int) float64 { return 1 + math.Floor(float64(i/cols)*1.5/rows) }},
		"a channel": {channels: 3, by: ByChannel, ratio: 2,
			variance: func(_, k int) float64 { return 1 + float64(k/2) }},
	} {
		source.Seed(31, 1)
		told, ratio := 0, 0.0
		for range draws {
			grain := normals(r, rows*cols, 4)
			y := make([]float64, rows*cols*c.channels)
			for i := range y {
				p, k := i/c.channels, i%c.channels
				y[i] = 30*slope(p) + math.Sqrt(c.variance(p, k))*r.NormFloat64()
				if row := p / cols; c.texture && row > 0 && row < 2*rows/5 {
					y[i] += (grain[p] + grain[p-cols]) / 2
				}
			}
			u := NewImage(y, rows, cols, c.channels).Uneven()
			if u.By == c.by {
				told++
				ratio += u.Greatest / u.Least / draws
			}
		}
		if told != draws || c.by != "" && math.Abs(math.Log(ratio/c.ratio)) > 0.3 {
			t.Errorf("%s: %d of %d draws as expected, by %q, and a ratio of variances of %.2f for %g", name, told,
				draws, c.by, ratio, c.ratio)
		}
	}
	signal := func(i int) float64 { return math.Sin(float64(i) / 300) }
	for name, c := range map[string]struct {
		of   func(v float64) float64
		want float64
	}{
		"normal":         {func(v float64) float64 { return v }, 0},
		"rounded":        {func(v float64) float64 { return math.Round(4 * v) }, 0},
		"clipped":        {func(v float64) float64 { return max(v, -1) }, -1},
		"clipped, grey":  {func(v float64) float64 { return math.Round(40 * min(v, 1.2)) }, 48},
		"hardly clipped": {func(v float64) float64 { return max(v, -1.9) }, 0},
		"under a mask":   {func(v float64) float64 { return math.Floor(min(0, v+1)) * v }, 0},
		"dead": {func(v float64) float64 {
			if r.Float64() < 0.05 {
				return 0.25
			}
			return v
		}, 0.25},
		"dead, grey": {func(v float64) float64 {
			if r.Float64() < 0.2 {
				return 7
			}
			return math.Round(40 * v)
		}, 7},
		// The noise of a flat area is half a step of the values.
		"flat, grey": {func(float64) float64 { return math.Round(r.NormFloat64() / 2) }, 0},
		// At an end of the range the next value but one may be common, as in a drawing.
		"few values": {func(float64) float64 { return []float64{-2, -2, -2, -2, -2, -1, 0, 0, 0, 0}[r.IntN(10)] }, -2},
	} {
		source.Seed(31, 2)
		y := make([]float64, 384*256)
		for i := range y {
			y[i] = c.of(signal(i) + 0.3*r.NormFloat64())
		}
		share, at := Clipped(y)
		if told := share > 0; told != (c.want != 0 || name == "under a mask") || at != c.want {
			t.Errorf("%s: %.3g of the values are %g, expected %g", name, share, at, c.want)
		}
	}
	skewed := make([]float64, 256*256)
	for i := range skewed {
		skewed[i] = r.ExpFloat64()
	}
	if u := NewImage(skewed, 256, 256, 1).Uneven(); u.By != "" {
		t.Errorf("skewed noise: %+v", u)
	}
	if u := NewImage(make([]float64, 64*64), 64, 64, 1).Uneven(); u != (Uneven{}) {
		t.Errorf("an image of zeros: %+v", u)
	}
}

// Parts of a sequence differ where counts do, and not where the signal does.
func TestUnevenSequence(t *testing.T) {
	r := rand.New(rand.NewPCG(37, 1))
	for name, of := range map[string]func(x float64) float64{
		"constant": func(float64) float64 { return 60 },
		"jump":     func(x float64) float64 { return 5 + 95*math.Floor(2*x) },
		"slow":     func(x float64) float64 { return 60 + 55*math.Sin(12*x) },
		"doppler":  func(x float64) float64 { return 60 + 100*math.Sqrt(x*(1-x))*math.Sin(6.6/(x+0.05)) },
	} {
		for range 20 {
			y, counts := make([]float64, 2500), make([]float64, 2500)
			for i := range y {
				m := of(float64(i) / float64(len(y)))
				y[i], counts[i] = m+7*r.NormFloat64(), m+math.Sqrt(m)*r.NormFloat64()
			}
			if u := UnevenSequence(y); u.By != "" {
				t.Errorf("%s with even noise: %+v", name, u)
			}
			if u := UnevenSequence(counts); (u.By == "") != (name == "constant") {
				t.Errorf("%s with the noise of counts: %+v", name, u)
			}
		}
	}
	if u := UnevenSequence([]float64{1, 2}); u != (Uneven{}) {
		t.Errorf("two values: %+v", u)
	}
}

// Values that stand out alone are counted, and jumps are not.
func TestOutliers(t *testing.T) {
	r := rand.New(rand.NewPCG(41, 1))
	for range 50 {
		y := make([]float64, 500)
		for i := range y {
			y[i] = 40*float64(i/90%3) + math.Sin(float64(i)/20) + r.NormFloat64()
		}
		if at, share := Outliers(y); at != nil {
			t.Errorf("normal noise: outliers at %v, %g", at, share)
		}
		y[50] += 20
		y[300] -= 15
		if at, share := Outliers(y); !slices.Equal(at, []int{50, 300}) || share < 0.6 || share > 2.2 {
			t.Errorf("two outliers: %v, %g", at, share)
		}
	}
	if at, _ := Outliers(make([]float64, 100)); at != nil {
		t.Error("zeros have outliers")
	}
	if at, _ := NewImage(make([]float64, 100), 10, 10, 1).Outliers(); at != nil {
		t.Error("an image of zeros has outliers")
	}
	for range 10 {
		m := NewImage(normals(r, 60*80*3, 0.1), 60, 80, 3)
		for i := range m.Y { // edges and a line
			if row, col := i/240, i/3%80; row > 30 || col == 20 {
				m.Y[i]++
			}
		}
		if at, share := m.Outliers(); at != nil {
			t.Errorf("edges: outliers at %v, %g", at, share)
		}
		hot := []int{(10*80+40)*3 + 1, (50*80 + 60) * 3}
		for _, i := range hot {
			m.Y[i] += 2
		}
		m = NewImage(m.Y, 60, 80, 3)
		if at, share := m.Outliers(); !slices.Equal(at, hot) || math.Abs(share/0.0556-1) > 0.4 {
			t.Errorf("two hot pixels: outliers at %v, %g", at, share)
		}
	}
}

// Outliers and skewed noise are those of all levels.
func TestWhiteNoiseThatIsNotNormalIsEven(t *testing.T) {
	source := rand.NewPCG(4, 4)
	r := rand.New(source)
	for name, draw := range map[string]func() float64{
		"exponential": r.ExpFloat64,
		"uniform":     r.Float64,
		"outliers": func() float64 {
			if r.Float64() < 0.05 {
				return 20 * r.NormFloat64()
			}
			return r.NormFloat64()
		},
	} {
		source.Seed(4, 4)
		told := 0
		for range 20 {
			if UnevenSequence(lists.Make(5000, func(int) float64 { return draw() })).By != "" {
				told++
			}
		}
		if told > 1 {
			t.Errorf("%s: uneven in %d of 20 sequences", name, told)
		}
	}
}

// Images of 64 x 64 pixels are enough where variances differ by a factor of four.
func TestUnevenSmall(t *testing.T) {
	const side, draws = 64, 40
	r := rand.New(rand.NewPCG(53, 1))
	var told [2]int
	for range draws {
		for k, ratio := range []float64{1, 4} {
			y := normals(r, side*side, 1)
			for i := range y[:side*side/2] {
				y[i] *= math.Sqrt(ratio)
			}
			if NewImage(y, side, side, 1).Uneven().By == ByPlace {
				told[k]++
			}
		}
	}
	if told[0] > 1 || told[1] < draws*2/3 {
		t.Errorf("uneven in %v of %d draws", told, draws)
	}
}

// Parts by level hold the steps that those of a stable sort do, also where levels are equal.
func TestByLevel(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for n := range 200 {
		steps := make([]step, n)
		for i := range steps {
			steps[i] = step{level: float64(rng.IntN(1 + rng.IntN(1+n))), first: float64(i)}
		}
		sorted, got := slices.Clone(steps), byLevel(steps)
		slices.SortStableFunc(sorted, func(a, b step) int { return cmp.Compare(a.level, b.level) })
		for k := range parts {
			from, to := k*n/parts, (k+1)*n/parts
			expected := slices.Clone(sorted[from:to])
			slices.SortFunc(expected, func(a, b step) int { return cmp.Compare(a.first, b.first) })
			if !slices.Equal(got[from:to], expected) {
				t.Fatalf("part %d of %d steps: %v, expected %v", k, n, got[from:to], expected)
			}
		}
	}
}
