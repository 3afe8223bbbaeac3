package loss

import (
	"math"
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

// Gaps and means of several observations are those of each, up to rounding errors of e^z.
func TestSeveralObservationsHaveTheGapsAndMeansOfEach(t *testing.T) {
	zs := []float64{-800, -30, -2.5, -1e-9, 0, 1e-9, 0.3, 2.5, 30, 800}
	for _, f := range []Function{logistic{}, poisson{}} {
		several := f.(interface {
			gaps(gap, u, z, y []float64)
		})
		for _, y := range []float64{0, 0.25, 1} {
			for _, off := range []float64{0, 1e-13, -1e-5, 0.01, -0.2, 0.5, -1, 2} {
				gap, u, ys, means := make([]float64, len(zs)), make([]float64, len(zs)), make([]float64, len(zs)), zs
				for i, z := range zs {
					u[i], ys[i] = f.Slope(z, y)+off, y
				}
				several.gaps(gap, u, zs, ys)
				if f, ok := f.(interface{ means(z []float64) }); ok {
					means = append([]float64(nil), zs...)
					f.means(means)
				}
				for i, z := range zs {
					want := f.Gap(u[i], u[i]-f.Slope(z, y), z, y)
					// The slope is off by rounding errors of e^z.
					error := 1e-12*want + 2e-15*math.Abs(off) + 1e-31*f.Mean(z)
					if e := math.Abs(gap[i] - want); gap[i] != want && !(e <= error) {
						t.Errorf("%s at z = %g, y = %g, off by %g: the gap is %g, expected %g", f.Name(), z, y, off,
							gap[i], want)
					}
					if e := math.Abs(means[i] - f.Mean(z)); f.Name() == "logistic" && !(e <= 1e-15*f.Mean(z)) {
						t.Errorf("the mean at z = %g is %g, expected %g", z, means[i], f.Mean(z))
					}
				}
			}
		}
	}
}
