package study

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// Residuals that share a number within a subject agree within its rows, whatever the subjects' numbers are; those of a
// smooth effect, which a straight line has missed, agree with their neighbours' too, however many rows tell of it, and
// white ones with none.
func TestGroupsAreToldFromCurves(t *testing.T) {
	source := rand.NewPCG(3, 1)
	r := rand.New(source)
	subject := func(float64) float64 { return r.NormFloat64() }
	for name, c := range map[string]struct {
		values, rows int
		effect       func(x float64) float64 // 0 < x < 1
		shuffled     bool
		told         bool
	}{
		"subjects":                 {40, 8, subject, false, true},
		"few subjects":             {6, 12, func(float64) float64 { return 3 * r.NormFloat64() }, false, true},
		"subjects in any order":    {40, 8, subject, true, true},
		"a curve":                  {40, 8, func(x float64) float64 { return 10 * (x - 0.5) * (x - 0.5) }, false, false},
		"a curve over many rows":   {40, 60, func(x float64) float64 { return 10 * (x - 0.5) * (x - 0.5) }, false, false},
		"a season":                 {12, 40, func(x float64) float64 { return 3 * math.Sin(2*math.Pi*x) }, true, false},
		"counts whose effect ends": {9, 200, func(x float64) float64 { return 2 * math.Exp(-9*x) }, true, false},
		"nothing":                  {40, 8, func(float64) float64 { return 0 }, false, false},
	} {
		source.Seed(3, 1)
		told, strong := 0, 0
		for range 20 {
			var column, residuals []float64
			for k := range c.values {
				effect := c.effect((float64(k) + 0.5) / float64(c.values))
				for range c.rows {
					column, residuals = append(column, float64(101+k)), append(residuals, effect+r.NormFloat64())
				}
			}
			if c.shuffled {
				r.Shuffle(len(column), func(i, j int) {
					column[i], column[j] = column[j], column[i]
					residuals[i], residuals[j] = residuals[j], residuals[i]
				})
			}
			var whole wholeNumbers
			n := whole.number(mat.NewDense(len(column), 1, column), 0)
			z, curved := whole.alike(n, residuals)
			if n != c.values {
				t.Fatalf("%d values, expected %d", n, c.values)
			}
			if z > mostAlike {
				if strong++; !curved {
					told++
				}
			}
		}
		if c.told && told < 16 || !c.told && told > 1 || name != "nothing" && strong < 16 {
			t.Errorf("%s: told in %d of 20, of which residuals agree in %d", name, told, strong)
		}
	}
}

// Residuals with a memory agree in the order of the rows, white ones do not, nor those of a table sorted by y.
func TestRowsInOrderAreTold(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 2))
	for range 50 {
		white, memory := make([]float64, 400), make([]float64, 400)
		for i := range white {
			if white[i] = r.NormFloat64(); i > 0 {
				memory[i] = 0.6*memory[i-1] + white[i]
			}
		}
		if c := agreeInOrder(white, white); c != 0 {
			t.Errorf("white residuals agree: %.2f", c)
		}
		if c := agreeInOrder(memory, memory); c < 0.4 || c > 0.8 {
			t.Errorf("residuals of an autoregression of 0.6 agree: %.2f", c)
		}
		slices.Sort(white)
		if c := agreeInOrder(white, white); c != 0 {
			t.Errorf("residuals of a sorted table agree: %.2f", c)
		}
	}
}
