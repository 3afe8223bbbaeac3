package system_test

import (
	"context"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/space"
	"surepipe/vjp/system"
)

// Columns that are combinations of others change nothing: the projection is that on the columns before them. A column
// that is only nearly one counts, or is left to a factorization with pivots.
func TestColumnsInTheSpanOfOthers(t *testing.T) {
	const extra = 5
	for _, c := range []struct {
		d, n  int
		whole bool
		off   float64
		more  float64
		by    string
	}{
		{150, 70, false, 0, 0, "combinations"},
		{150, 70, false, 1e-7, 1, "pivoted QR"},
		{2000, 40, true, 0, 0, "combinations"}, // many rows and few columns, all of which count
		{150, 40, false, 0, 0, "pivoted QR"},   // too small for a search to pay
	} {
		d, n := c.d, c.n
		rng := rand.New(rand.NewPCG(7, 8))
		dev := array.NewHost()
		x := mat.NewDense(d, n+extra, nil)
		for i := range d {
			for j := range n {
				x.Set(i, j, rng.NormFloat64()*math.Pow(10, float64(j%5)))
			}
			for j := range extra {
				x.Set(i, n+j, x.At(i, j)-2*x.At(i, j+9)+x.At(i, 30))
			}
			x.Set(i, n, x.At(i, n)+c.off*rng.NormFloat64()*1e3)
		}
		a := linops.NewDense(dev, x)
		set := make([]int, n+extra)
		for j := range set {
			set[j] = j
		}
		on := space.Coordinates(dev, n+extra, set)
		if c.whole {
			on = space.All(n + extra)
		}
		m, _ := linops.On(dev, a, on)
		s, fit, err := system.Factor(context.Background(), dev, system.Equations{M: m, Space: on, Norm: 1e6, Certain: true})
		if err != nil {
			t.Fatal(err)
		}
		if trace := s.Closed().Trace; trace != float64(n)+c.more || !strings.Contains(fit.By, c.by) {
			t.Errorf("%+v: trace %g%s", c, trace, fit.By)
		}
		z, image := make([]float64, d), dev.Alloc(1, d)
		for i := range z {
			z[i] = x.At(i, 3) - x.At(i, n+2)/1e3
		}
		if err := s.Apply(context.Background(), image, dev.Put(z, 1, d), system.Goal{}, make([]float64, 1)); err != nil {
			t.Fatal(err)
		}
		for i, v := range image.ToHost() {
			if math.Abs(v-z[i]) > 1e-8*1e3 {
				t.Fatalf("the image of a column is %g at %d, expected %g", v, i, z[i])
			}
		}
		s.Release()
	}
}
