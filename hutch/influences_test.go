package hutch

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"surepipe/array"
)

// The difference of the means of two matrices by common probes has an error of its own: for matrices
// that are near each other it is far smaller than that of either, and the difference of the
// influences says how small, with a tenth of either error for what is not linear.
func TestInfluencesSayTheErrorOfADifference(t *testing.T) {
	dev := array.NewHost()
	rng := rand.New(rand.NewPCG(9, 9))
	const d, queries, seeds = 150, 40, 60
	for _, near := range []float64{0.02, 0.5} {
		// Ridge regressions on the same matrix at two weights.
		a := newLeverageCase(dev, rng, d, hat(rand.New(rand.NewPCG(1, 1)), d, 60, 100, 0, ones))
		b := newLeverageCase(dev, rng, d, hat(rand.New(rand.NewPCG(1, 1)), d, 60, 100*(1+near), 0, ones))
		b.r = a.r
		var values, alone []float64
		bar := 0.0
		for seed := range seeds {
			var means [2]DiagonalMean
			for i, c := range []leverageCase{a, b} {
				r := c.run(t, Hutchinson, queries, Options{Seed: uint64(seed), Batch: 64})
				var err error
				if means[i], err = r.Leverages().Mean(c.leftOut); err != nil {
					t.Fatal(err)
				}
				r.Free()
			}
			values = append(values, means[0].Value-means[1].Value)
			alone = append(alone, means[0].Value)
			off := floats.Distance(means[0].Influences, means[1].Influences, 2)
			bar += (off*off + means[0].ProbesErr*means[0].ProbesErr/100) / seeds
			if err := math.Abs(floats.Norm(means[0].Influences, 2) - means[0].ProbesErr); err > 1e-12 {
				t.Fatalf("the influences' norm is off the error by %g", err)
			}
		}
		spread := stat.StdDev(values, nil)
		if ratio := spread / math.Sqrt(bar); !(ratio > 0.1 && ratio < 1.5) || near < 0.1 &&
			spread > stat.StdDev(alone, nil)/5 {
			t.Errorf("near %g: the spread is %.3g, the bar %.3g, and the spread of one mean %.3g", near, spread,
				math.Sqrt(bar), stat.StdDev(alone, nil))
		}
		a.m.Free()
		b.m.Free()
	}
}
