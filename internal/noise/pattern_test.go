package noise

import (
	"math"
	"math/rand/v2"
	"testing"
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
