package linops

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/space"
)

// Products are A*B for operators of any kind, and rows can be weighed in place on a space.
func TestProductsOfColumns(t *testing.T) {
	dev := array.NewHost()
	arraytest.NoLeak(t, dev)
	rng := rand.New(rand.NewPCG(1, 14))
	const d, p = 30, 9
	x := mat.NewDense(d, p, nil)
	for i := range d {
		for j := range p {
			x.Set(i, j, rng.NormFloat64())
		}
	}
	a := NewDense(dev, x)
	defer a.Release()
	w := make([]float64, d)
	for i := range w {
		w[i] = rng.Float64()
	}
	sets := [][]int{{0, 3, 4}, {1, 2, 5, 8}}
	var parts []Restricted
	for _, set := range sets {
		s := space.Coordinates(dev, p, set)
		op, _ := On(dev, a, s)
		StructureOf(op).WeighRows(w)
		parts = append(parts, op)
		defer s.Release()
		defer op.Release()
	}
	parts = append(parts, &combined{Operator: Scale(1, parts[1])}) // knows no entries
	for k, b := range parts[1:] {
		for _, left := range []int{0, 1} {
			first, second := parts[0], b
			if left == 1 {
				first, second = b, parts[0]
			}
			_, m := first.Dims()
			_, n := second.Dims()
			dst := dev.Alloc(m, n)
			into, free := Products(dev, first)
			into(dst, second)
			free()
			got := dst.ToHost()
			dst.Free()
			rows, cols := sets[left], sets[1-left]
			for i, r := range rows {
				for j, c := range cols {
					want := 0.0
					for l := range d {
						want += w[l] * w[l] * x.At(l, r) * x.At(l, c)
					}
					if math.Abs(got[i*n+j]-want) > 1e-12 {
						t.Fatalf("part %d: entry %d, %d is %g, want %g", k, i, j, got[i*n+j], want)
					}
				}
			}
		}
	}
	if beside := StructureOf(HStack(a, a)).Entries; beside != Known(2*d*p) {
		t.Errorf("beside each other they have %v entries", beside)
	}
}
