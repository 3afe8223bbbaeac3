package noise

import (
	"math"
	"math/rand/v2"
	"testing"

	"surepipe/internal/lists"
)

// Offsets of rows and columns and waves are told, also beside texture, and white noise has none, nor have edges along
// the rows, nor has print, whose lines repeat with more than a wave.
func TestPattern(t *testing.T) {
	const rows, cols, draws = 144, 128, 10
	source := rand.NewPCG(43, 1)
	r := rand.New(source)
	for name, c := range map[string]struct {
		rows, columns, wave, twice, edge float64
		of                               string
		share                            float64
		level                            bool
	}{
		"white":   {},
		"edges":   {edge: 10},
		"rows":    {rows: 0.3, of: ByRow, share: 0.09},
		"columns": {columns: 0.4, of: ByColumn, share: 0.16},
		"wave":    {wave: 0.5, of: ByWave, share: 0.125},
		"print":   {wave: 0.5, twice: 0.4, level: true},
		"mains":   {wave: 0.5, twice: 0.3, of: ByWave, share: 0.125},
	} {
		source.Seed(43, 1)
		told, share, period := 0, 0.0, 0.0
		for range draws {
			grain, byRow, byColumn := normals(r, rows*cols, 4), normals(r, rows, 1), normals(r, cols, 1)
			y := make([]float64, rows*cols)
			for k := range y {
				i, j := k/cols, k%cols
				turn := 2 * math.Pi * (0.8*float64(i) - 0.6*float64(j)) / 7
				if c.level {
					turn = 2 * math.Pi * (float64(i)/7 + float64(j)/64)
				}
				y[k] = r.NormFloat64() + c.rows*byRow[i] + c.columns*byColumn[j] + c.wave*math.Sin(turn) +
					c.twice*math.Sin(2*turn)
				if i > rows/2 && j < cols/2 && i%20 > 10 {
					y[k] += grain[k] + grain[k-cols] + c.edge
				}
			}
			if p := NewImage(y, rows, cols, 1).Pattern(); p.Of == c.of {
				told++
				share += p.Share / draws
				period += p.Period / draws
			}
		}
		if told < draws-1 || math.Abs(share-c.share) > 0.3*c.share || c.of == ByWave && math.Abs(period-7) > 0.1 {
			t.Errorf("%s: %d of %d draws as expected, and a share of %.3g for %.3g, period %.3g", name, told, draws,
				share, c.share, period)
		}
	}
}

// Laplace's distribution has heavy tails, and the normal one and texture do not.
func TestHeavyTails(t *testing.T) {
	const rows, cols, draws = 96, 96, 20
	r := rand.New(rand.NewPCG(47, 1))
	told, ratio := [2]int{}, 0.0
	for range draws {
		for k, draw := range []func() float64{r.NormFloat64, func() float64 { return r.ExpFloat64() - r.ExpFloat64() }} {
			y := make([]float64, rows*cols)
			for i := range y {
				y[i] = draw() + 20*math.Sin(float64(i/cols)/15)
			}
			if q := NewImage(y, rows, cols, 1).HeavyTails(); q > 0 {
				told[k]++
				ratio += q
			}
		}
	}
	if told[0] > 0 || told[1] < draws*3/4 || math.Abs(ratio/float64(told[1])-0.75) > 0.1 {
		t.Errorf("heavy tails in %v of %d draws, a sum of ratios of %.3g", told, draws, ratio)
	}
}

// Of an image of which a fifth or a half of the pixels are missing, at random or every second row, the same is told, and
// white noise beside texture and slopes has none of it. Where all are there it is the image itself.
func TestNoiseOfImagesWithGaps(t *testing.T) {
	const rows, cols, draws = 144, 128, 10
	source := rand.NewPCG(53, 1)
	r := rand.New(source)
	fifth, half := func(int) bool { return r.Float64() > 0.2 }, func(int) bool { return r.Float64() > 0.5 }
	type flaws struct{ uneven, pattern, outliers, tails, neighbours bool }
	for name, c := range map[string]struct {
		seen func(i int) bool
		add  func(y []float64, i, j int) float64
		want flaws
	}{
		"white":            {seen: fifth},
		"white, half":      {seen: half},
		"every second row": {seen: func(i int) bool { return i/cols%2 == 0 }},
		"lower half, three times the variance": {fifth, func(y []float64, i, j int) float64 {
			return y[i*cols+j] * math.Sqrt(3) * math.Floor(2*float64(i)/rows)
		}, flaws{uneven: true}},
		"lower half, five times, half": {half, func(y []float64, i, j int) float64 {
			return y[i*cols+j] * 1.24 * math.Floor(2*float64(i)/rows)
		}, flaws{uneven: true}},
		"rows": {fifth, func(y []float64, i, _ int) float64 { return y[i*cols] * 0.6 }, flaws{pattern: true}},
		"a wave": {fifth, func(_ []float64, i, j int) float64 {
			return 0.7 * math.Sin(2*math.Pi*(0.8*float64(i)-0.6*float64(j))/7)
		}, flaws{pattern: true}},
		"hot pixels": {fifth, func(_ []float64, i, j int) float64 {
			return 15 * max(0, float64((i*cols+j)%401)-399)
		}, flaws{outliers: true}},
		"tails": {fifth, func(y []float64, i, j int) float64 {
			return r.ExpFloat64() - r.ExpFloat64() - y[i*cols+j]
		}, flaws{tails: true}},
		"neighbours": {fifth, func(y []float64, i, j int) float64 {
			return 0.6*y[i*cols+(j+1)%cols] - 0.2*y[i*cols+j]
		}, flaws{neighbours: true}},
	} {
		source.Seed(53, 1)
		told := 0
		for range draws {
			white, grain := normals(r, rows*cols, 1), normals(r, rows*cols, 2)
			var y []float64
			var places []int
			sum := 0.0
			for k := range white {
				i, j := k/cols, k%cols
				v := white[k] + 10*math.Sin(float64(i)/30)
				if i > rows*3/4 && j < cols/2 {
					v += grain[k] + grain[k-cols]
				}
				if c.add != nil {
					v += c.add(white, i, j)
				}
				if c.seen(k) {
					y, places = append(y, v), append(places, k)
					sum += v
				}
			}
			m := Gapped(y, places, []int{rows, cols})
			at, _ := m.Outliers()
			got := flaws{m.Uneven().By != "", m.Pattern().Of != "", at != nil, m.HeavyTails() > 0, false}
			if got.neighbours = m.Shared(1).Neighbours; c.want == (flaws{}) {
				got.neighbours = got.neighbours || m.Shared(0).Neighbours
			}
			if got == c.want {
				told++
			}
		}
		if t.Logf("%s: %d of %d draws as expected", name, told, draws); told < draws*3/4 || c.add == nil && told < draws {
			t.Errorf("%s: %d of %d draws as expected", name, told, draws)
		}
	}
	y := normals(r, 64*64, 1)
	all := Gapped(y, lists.Upto(len(y)), []int{64, 64})
	for k, s := range NewImage(y, 64, 64, 1).spectra() {
		if s != all.spectra()[k] {
			t.Fatalf("block %d of an image without gaps: %+v, want %+v", k, all.spectra()[k], s)
		}
	}
}
