package loss

import (
	"testing"

	"surepipe/array"
)

// What is computed together has the bits of the three functions, with weights, offsets and proportions.
func TestTogetherHasTheBitsOfTheThreeFunctions(t *testing.T) {
	dev := array.NewHost()
	zs := []float64{-800, -30, -2.5, -1e-9, 0, 1e-9, 0.3, 2.5, 30, 800}
	w := []float64{1, 2, 0, 0.5, 1, 3, 1, 1, 1, 1}
	offset := []float64{0, 1, 2, -1, 0, 0.5, 0, 0, 0, -200}
	for name, make := range map[string]func([]float64) (*Pointwise, error){"logistic": Logistic, "poisson": Poisson} {
		for _, y := range []float64{0, 0.25, 1} {
			l, err := make(w)
			if err == nil {
				l, err = l.Shifted(offset)
			}
			if err != nil {
				t.Fatal(err)
			}
			n := len(zs)
			z, ys := dev.Put(zs, 1, n), dev.Alloc(1, n)
			dev.Fill(ys, y)
			slope, curve, first, second := dev.Alloc(1, n), dev.Alloc(1, n), dev.Alloc(1, n), dev.Alloc(1, n)
			value := StructureOf(l).Together(slope, curve, z, ys)
			l.Gradient(first, z, ys)
			l.Curvature(second, z, ys)
			if want := l.Value(z, ys); value != want {
				t.Errorf("%s at y = %g: the value is %g, expected %g", name, y, value, want)
			}
			for i := range zs {
				if a, b := slope.ToHost()[i], first.ToHost()[i]; a != b {
					t.Errorf("%s at z = %g, y = %g: the slope is %g, expected %g", name, zs[i], y, a, b)
				}
				if a, b := curve.ToHost()[i], second.ToHost()[i]; a != b {
					t.Errorf("%s at z = %g, y = %g: the curvature is %g, expected %g", name, zs[i], y, a, b)
				}
			}
			array.Free(z, ys, slope, curve, first, second)
		}
	}
}
