package linops_test

import (
	"math"
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
			checkBlocks(t, dev, whole, k)
			checkBlocks(t, dev, some, k)
			picked, free, err := Pick(dev, scaled, []int{3, 4, 5, 12, 13, 14})
			if err != nil {
				t.Fatal(err)
			}
			want := mat.NewDense(2*k, p*k-1, nil)
			want.Stack(ToDense(dev, scaled).Slice(k, 2*k, 0, p*k-1), ToDense(dev, scaled).Slice(4*k, 5*k, 0, p*k-1))
			if !mat.Equal(ToDense(dev, picked), want) || StructureOf(picked).Blocks == nil {
				t.Errorf("rows of two observations of %T differ", x)
			}
			checkBlocks(t, dev, picked, k)
			free()
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

// checkBlocks compares the blocks of A P A* with those of the matrix.
func checkBlocks(t *testing.T, dev array.Device, op Operator, k int) {
	t.Helper()
	d, p := op.Dims()
	a, form, h := ToDense(dev, op), mat.NewDense(p, p, gaussian(p*p, 4)), mat.NewDense(d, d, nil)
	form.Add(mat.DenseCopyOf(form), mat.DenseCopyOf(form.T()))
	h.Product(a, form, a.T())
	got := StructureOf(op).Blocks(form.RawMatrix().Data, k)
	for i := range d {
		for j := range k {
			if want := h.At(i, i-i%k+j); math.Abs(got[i*k+j]-want) > 1e-10 {
				t.Fatalf("entry %d, %d of a block is %v, want %v", i, j, got[i*k+j], want)
			}
		}
	}
	if StructureOf(op).Blocks(form.RawMatrix().Data, k+1) != nil {
		t.Error("blocks of another order")
	}
}
