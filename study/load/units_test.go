package load

import (
	"math"
	"math/rand/v2"
	"testing"

	"surepipe/problems"
)

// Columns of other units have other standard deviations, of which one with the same value in most rows, as of a pixel
// at the border of pictures, says nothing, unless all are such.
func TestColumnsOfOneValueSayNothingOfUnits(t *testing.T) {
	for _, c := range []struct {
		unit, often float64 // of the fourth column, and how often it is not 0
		all         bool    // others too
		different   bool
	}{{0.05, 1, false, true}, {1, 0.02, false, false}, {0.05, 0.5, false, true}, {0.05, 0.02, false, false},
		{0.05, 0.1, true, true}, {1, 0.1, true, false}} {
		rng := rand.New(rand.NewPCG(4, 2))
		y := make([]float64, 4*300)
		for i := range y {
			often, unit := 1.0, 1.0
			if i%4 == 3 {
				unit = c.unit
			}
			if i%4 == 3 || c.all {
				often = c.often
			}
			if rng.Float64() < often {
				y[i] = unit * rng.NormFloat64()
			}
		}
		s := spreadOf(deviations(problems.Data{Y: y, YShape: []int{300, 4}}))
		if s.different() != c.different {
			t.Errorf("%+v: %+v", c, s)
		}
	}
}

// Columns of two or three entries are not told to be in other units, although the deviations of so few differ by more
// than a factor of 10; those of four rows are.
func TestColumnsOfFewEntriesSayNothingOfUnits(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 3))
		few := problems.Data{Shape: []int{75, 30}}
		for i := range 75 {
			few.Y, few.Indices = append(few.Y, rng.NormFloat64()), append(few.Indices, 30*i+i%30)
		}
		if s := spreadOf(deviations(few)); s.different() {
			t.Errorf("seed %d: %+v", seed, s)
		}
		rows := problems.Data{YShape: []int{4, 3}}
		for i := range 12 {
			rows.Y = append(rows.Y, rng.NormFloat64()*[]float64{1, 3000, 3000}[i%3])
		}
		if s := spreadOf(deviations(rows)); !s.different() {
			t.Errorf("seed %d: %+v", seed, s)
		}
	}
}

// Where nearly all columns are mostly 0, as amounts of rain in other units, they tell units too.
func TestAmountsThatAreMostlyNoneTellUnits(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 3))
	y := make([]float64, 8*300)
	for i := range y {
		if j := i % 8; j == 0 || rng.Float64() < 0.2 {
			y[i] = math.Pow(4, float64(j)) * rng.NormFloat64()
		}
	}
	if s := spreadOf(deviations(problems.Data{Y: y, YShape: []int{300, 8}})); !s.different() {
		t.Errorf("%+v", s)
	}
}
