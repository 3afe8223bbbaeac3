package loss_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/loss"
)

// The second observation counts twice, the third not at all.
func ExampleWeightedSquared() {
	dev := array.NewHost()
	l, err := loss.WeightedSquared(dev, []float64{1, 2, 0})
	if err != nil {
		panic(err)
	}
	defer l.Release()
	y, z, g := dev.Alloc(1, 3), dev.Alloc(1, 3), dev.Alloc(1, 3)
	dev.Upload(y, []float64{1, 1, 1})
	dev.Upload(z, []float64{3, 4, 5})
	l.Gradient(g, z, y)
	fmt.Println("value", l.Value(z, y), "gradient", g.ToHost(), "Lipschitz constant", l.Lipschitz())
	// Output:
	// value 11 gradient [2 6 0] Lipschitz constant 2
}

// Gradients are those of the values, curvatures those of the gradients, and none exceeds the
// Lipschitz constant. A destination may be an operand.
func TestDerivativesMatchDifferences(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		arraytest.NoLeak(t, dev)
		weights := []float64{1, 0, 2.5, 1e-3}
		weighted, err := loss.WeightedSquared(dev, weights)
		if err != nil {
			t.Fatal(err)
		}
		defer weighted.Release()
		n := len(weights)
		on := func(x []float64) array.Batch {
			b := dev.Alloc(1, n)
			dev.Upload(b, x)
			t.Cleanup(b.Free)
			return b
		}
		y := on([]float64{1, -2, 0.5, 4})
		point := []float64{0.3, 7, -1, 2}
		for name, l := range map[string]loss.Loss{"squared": loss.Squared(), "weighted": weighted} {
			z, g, c := on(point), on(point), on(point)
			l.Gradient(g, z, y)
			l.Curvature(c, z, y)
			gradient, curvature := g.ToHost(), c.ToHost()
			const h = 1e-4
			largest := 0.0
			for i := range n {
				moved := append([]float64(nil), point...)
				moved[i] += h
				up := on(moved)
				moved[i] -= 2 * h
				down := on(moved)
				if got := (l.Value(up, y) - l.Value(down, y)) / (2 * h); math.Abs(got-gradient[i]) > 1e-8 {
					t.Errorf("%s: gradient %d is %g, differences give %g", name, i, gradient[i], got)
				}
				l.Gradient(up, up, y)
				l.Gradient(down, down, y)
				if got := (up.ToHost()[i] - down.ToHost()[i]) / (2 * h); math.Abs(got-curvature[i]) > 1e-8 {
					t.Errorf("%s: curvature %d is %g, differences give %g", name, i, curvature[i], got)
				}
				largest = max(largest, curvature[i])
			}
			if l.Lipschitz() != largest {
				t.Errorf("%s: Lipschitz constant %g, the largest curvature is %g", name, l.Lipschitz(), largest)
			}
			w, ok := l.Weights()
			if !ok || w.IsZero() != (name == "squared") {
				t.Errorf("%s: weights %v, %v", name, w, ok)
			}
		}
	})
}

func TestWeightsThatAreNoneAreErrors(t *testing.T) {
	dev := array.NewHost()
	arraytest.NoLeak(t, dev)
	for _, c := range []struct {
		w    []float64
		want string
	}{
		{[]float64{1, -1}, "observation 1 is -1"},
		{[]float64{math.NaN()}, "observation 0 is NaN"},
		{[]float64{1, 2, math.Inf(1)}, "observation 2 is +Inf"},
		{[]float64{0, 0}, "none of 2 weights is positive"},
		{nil, "none of 0 weights is positive"},
	} {
		if _, err := loss.WeightedSquared(dev, c.w); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("weights %v: error %v, expected %q", c.w, err, c.want)
		}
	}
}

func TestShapesThatDoNotMatchPanic(t *testing.T) {
	dev := array.NewHost()
	l, err := loss.WeightedSquared(dev, []float64{1, 2})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Release()
	defer func() {
		if r := recover(); r == nil || !strings.Contains(fmt.Sprint(r), "1 x 3") {
			t.Errorf("panic %v", r)
		}
	}()
	l.Value(dev.Alloc(1, 3), dev.Alloc(1, 3))
}
