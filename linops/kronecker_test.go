package linops_test

import (
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
	. "surepipe/linops"
	"surepipe/linops/linopstest"
	"surepipe/space"
)

// Products with blocks between the rows of a Kronecker product are those of the matrices, in any units and at any
// columns.
func TestBlockProducts(t *testing.T) {
	const d, p, k = 7, 5, 3
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		h, square := gaussian(d*k*k, 3), mat.NewDense(d*k, d*k, nil)
		for i := range d * k {
			for j := range k {
				v := h[i*k+j] + h[(i-i%k+j)*k+i%k]
				square.Set(i, i-i%k+j, v)
			}
		}
		for i := range d * k {
			for j := range k {
				h[i*k+j] = square.At(i, i-i%k+j)
			}
		}
		for _, x := range []Operator{randomDense(dev, d, p), randomCSR(t, dev, d, p)} {
			whole := Kronecker(dev, x, k, p*k-1)
			scaled := ScaleColumns(dev, whole, weights(p*k-1))
			some, _ := On(dev, scaled, space.Coordinates(dev, p*k-1, []int{0, 4, 5, 9, 13}))
			for _, pair := range [][2]Operator{{whole, whole}, {some, some}, {some, whole}} {
				a, b := ToDense(dev, pair[0]), ToDense(dev, pair[1])
				_, m := a.Dims()
				_, n := b.Dims()
				dst, want := dev.Alloc(m, n), mat.NewDense(m, n, nil)
				want.Product(a.T(), square, b)
				if !BlockProducts(dst, pair[0], pair[1], h) || !mat.EqualApprox(mat.NewDense(m, n, dst.ToHost()), want, 1e-11) {
					t.Errorf("%d x %d products of %T differ", m, n, x)
				}
				dst.Free()
			}
			if BlockProducts(dev.Alloc(p, p), x, x, h) {
				t.Error("a matrix has products with blocks")
			}
			if err := linopstest.Check(dev, scaled); err != nil {
				t.Error(err)
			}
			some.Release()
			scaled.Release()
			whole.Release()
		}
	})
}
