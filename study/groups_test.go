package study

import (
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// Residuals that share a number within a subject agree within its rows, whatever the subjects' numbers are; those of a
// smooth effect, which a straight line has missed, agree with their neighbours' too, and white ones with none.
func TestGroupsAreToldFromCurves(t *testing.T) {
	const subjects, rows = 40, 8
	source := rand.NewPCG(3, 1)
	r := rand.New(source)
	for name, c := range map[string]struct {
		effect func(subject int) float64
		told   bool
	}{
		"subjects": {func(int) float64 { return r.NormFloat64() }, true},
		"a curve":  {func(k int) float64 { x := float64(k)/20 - 0.975; return 2.5 * (x*x - 0.33) }, false},
		"nothing":  {func(int) float64 { return 0 }, false},
	} {
		source.Seed(3, 1)
		told := 0
		for range 20 {
			var column, residuals []float64
			for k := range subjects {
				effect := c.effect(k)
				for range rows {
					column, residuals = append(column, float64(101+k)), append(residuals, effect+r.NormFloat64())
				}
			}
			var whole wholeNumbers
			n := whole.number(mat.NewDense(len(column), 1, column), 0)
			all, steps := alikeWithin(whole.labels, n, residuals)
			if n != subjects {
				t.Fatalf("%d values, expected %d", n, subjects)
			}
			if name == "a curve" && all < mostAlike {
				t.Errorf("a curve's residuals agree by %.2g only: the test tries nothing", all)
			}
			if all > mostAlike && steps > leastSteps {
				told++
			}
		}
		if c.told && told < 17 || !c.told && told > 1 {
			t.Errorf("%s: told in %d of 20", name, told)
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
