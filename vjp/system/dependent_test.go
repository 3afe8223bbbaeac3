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
	const d, n, extra = 150, 70, 5
	for _, c := range []struct {
		off   float64
		trace float64
		by    string
	}{{0, n, "combinations"}, {1e-7, n + 1, "pivoted QR"}} {
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
		m, _ := linops.On(dev, a, on)
		s, fit, err := system.Factor(context.Background(), dev, system.Equations{M: m, Space: on, Norm: 1e6, Certain: true})
		if err != nil {
			t.Fatal(err)
		}
		if trace := s.Closed().Trace; trace != c.trace || !strings.Contains(fit.By, c.by) {
			t.Errorf("off by %g: trace %g%s, expected %g by %s", c.off, trace, fit.By, c.trace, c.by)
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
