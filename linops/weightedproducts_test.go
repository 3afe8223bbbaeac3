package linops_test

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/linops"
)

// Weighted products are A* W B, with the same bits for any number of processors; other operators are left alone.
func TestWeightedProducts(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	rng := rand.New(rand.NewPCG(4, 0))
	dev := array.NewHost()
	for _, d := range []int{1, 7, 700, 9001} {
		random := func(p int) *linops.Dense {
			x := mat.NewDense(d, p, nil)
			x.Apply(func(int, int, float64) float64 { return rng.NormFloat64() }, x)
			a := linops.NewDense(dev, x)
			t.Cleanup(a.Release)
			return a
		}
		a, b, w := random(5), random(3), make([]float64, d)
		for i := range w {
			w[i] = rng.Float64()
		}
		for _, by := range []*linops.Dense{a, b} {
			_, p := by.Dims()
			var weighted, want mat.Dense
			weighted.Apply(func(i, _ int, v float64) float64 { return w[i] * w[i] * v }, linops.ToDense(dev, by))
			want.Mul(linops.ToDense(dev, a).T(), &weighted)
			dst := dev.Alloc(5, p)
			defer dst.Free()
			var first []float64
			for _, procs := range []int{1, 2, 8} {
				runtime.GOMAXPROCS(procs)
				if !linops.WeightedProducts(dst, a, by, w) {
					t.Fatal("matrices are not multiplied")
				}
				got := dst.ToHost()
				if first == nil {
					first = got
				}
				if !slices.Equal(got, first) || !mat.EqualApprox(mat.NewDense(5, p, got), &want, 1e-10) {
					t.Errorf("%d rows: %v, expected %v", d, got, want.RawMatrix().Data)
				}
			}
		}
		if linops.WeightedProducts(array.Batch{}, a, linops.Identity(d), w) {
			t.Error("the identity is multiplied as a matrix")
		}
	}
}
