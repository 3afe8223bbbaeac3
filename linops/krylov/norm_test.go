package krylov_test

import (
	"testing"

	"gonum.org/v1/gonum/floats"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/linops"
	"surepipe/linops/krylov"
)

// The norm of A (x) I is that of A, by as many products with A.
func TestNormOfSeveralOutcomes(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		const d, p = 30, 20
		x, count := gaussian(d*p, 5), 0
		a := linops.NewFunc(d, p, func(dst, b []float64) {
			count++
			for i := range dst {
				dst[i] = floats.Dot(x[i*p:(i+1)*p], b)
			}
		}, func(dst, z []float64) {
			count++
			clear(dst)
			for i, v := range z {
				floats.AddScaled(dst, v, x[i*p:(i+1)*p])
			}
		})
		want, err := krylov.Norm2(t.Context(), dev, a, krylov.NormOptions{})
		if err != nil {
			t.Fatal(err)
		}
		alone := count
		several := linops.Kronecker(dev, a, 7, 7*p)
		defer several.Release()
		got, err := krylov.Norm2(t.Context(), dev, several, krylov.NormOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got != want || count != 2*alone {
			t.Errorf("%v by %d products, expected %v by %d", got, count-alone, want, alone)
		}
	})
}
