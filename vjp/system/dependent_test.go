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
		error float64 // the optimality of the solution
		more  float64
		may   float64
		by    string
	}{
		{150, 70, false, 0, 0, 0, 0, "combinations"},
		{150, 70, false, 1e-7, 0, 1, 0, "pivoted QR"},
		{150, 70, false, 1e-7, 1e-10, 0, 1, "combinations"},
		{150, 70, false, 0, 1e-10, 0, 0, "combinations"},
		{2000, 40, true, 0, 0, 0, 0, "combinations"}, // many rows and few columns, all of which count
		{150, 40, false, 0, 0, 0, 0, "pivoted QR"},   // too small for a search to pay
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
		s, fit, err := system.Factor(context.Background(), dev, system.Equations{M: m, Space: on, Norm: 1e6,
			Certain: c.error == 0, Optimality: c.error})
		if err != nil {
			t.Fatal(err)
		}
		known := s.Closed()
		if trace := known.Trace; trace != float64(n)+c.more || known.High != trace+c.may || known.Low != trace ||
			!strings.Contains(fit.By, c.by) {
			t.Errorf("%+v: trace %g, from %g to %g%s", c, trace, known.Low, known.High, fit.By)
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

// The null space of a large curvature, which is known by its entries alone, has no curvature from their rounding
// errors: of squares behind differences at weights near 1e18 the constants and straight lines are left, however small A
// is there.
func TestRoundingErrorsOfACurvatureAreNone(t *testing.T) {
	dev := array.NewHost()
	for _, n := range []int{4, 5, 6, 8} {
		for _, weight := range []float64{1e17, 0.3e18, 1.23e18, 3.3e18} {
			k := mat.NewDense(n-2, n, nil)
			for i := range n - 2 {
				k.Set(i, i, 1)
				k.Set(i, i+1, -2)
				k.Set(i, i+2, 1)
			}
			var q mat.Dense
			q.Mul(k.T(), k)
			q.Scale(weight, &q)
			x := mat.NewDense(2, n, nil)
			x.Set(0, 0, 8.1e8)
			x.Set(1, 0, 8.1e8)
			x.Set(0, n-1, 0.76)
			a, on := linops.NewDense(dev, x), space.All(n)
			m, _ := linops.On(dev, a, on)
			s, fit, err := system.Factor(context.Background(), dev, system.Equations{M: m, Space: on,
				Q: q.RawMatrix().Data, Norm: 1.2e9, Certain: true})
			if err != nil {
				t.Fatal(err)
			}
			if trace := s.Closed().Trace; math.Abs(trace-2) > 1e-3 {
				t.Errorf("%d columns, weight %g: the trace%s is %g, expected 2", n, weight, fit.By, trace)
			}
			s.Release()
			a.Release()
		}
	}
}
