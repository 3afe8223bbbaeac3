package linops_test

import (
	"fmt"
	"math"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/linops"
	"surepipe/linops/imaging"
	"surepipe/linops/linopstest"
)

// Operators of every kind are what their matrices with scaled rows are, pass the conformance suite, and have rows of
// the lengths that are said.
func TestScaleRows(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		arraytest.NoLeak(t, dev)
		const p = 6
		dense := linops.NewDense(dev, mat.NewDense(4, p, gaussian(4*p, 3)))
		defer dense.Release()
		sparse, err := linops.NewCSR(dev, 3, p, []int{0, 2, 2, 3}, []int{0, 4, 5}, []float64{2, -3, 1})
		if err != nil {
			t.Fatal(err)
		}
		defer sparse.Release()
		image := imaging.NewDifference2D(2, 3)
		for _, c := range []struct {
			name  string
			a     linops.Operator
			exact bool // the lengths of rows are those of entries
		}{
			{"dense", dense, true}, {"sparse", sparse, true},
			{"on top of each other", linops.VStack(dense, linops.Scale(-0.5, sparse), linops.Identity(p)), true},
			{"with differences", linops.VStack(image, linops.Scale(100, sparse)), false},
			{"by products", linops.Compose(dense, imaging.NewDCT(p)), false},
		} {
			d, _ := c.a.Dims()
			s, even := make([]float64, d), make([]float64, d)
			for i := range s {
				s[i], even[i] = math.Ldexp(1, i-2), 4
			}
			x := linops.ToDense(dev, c.a)
			for _, s := range [][]float64{s, even} {
				r := linops.ScaleRows(dev, c.a, s)
				if err := linopstest.Check(dev, r); err != nil {
					t.Errorf("%s: %v", c.name, err)
				}
				got := linops.ToDense(dev, r)
				for i := range d {
					for j := range p {
						if want := s[i] * x.At(i, j); math.Abs(got.At(i, j)-want) > 1e-13*math.Abs(want) {
							t.Fatalf("%s: entry %d, %d is %g, want %g", c.name, i, j, got.At(i, j), want)
						}
					}
				}
				r.Release()
			}
			for _, units := range [][]float64{nil, {1, 2, 3, 4, 5, 6}} {
				lengths := linops.RowNorms2(c.a, units)
				if !c.exact {
					continue
				}
				for i := range d {
					want := 0.0
					for j := range p {
						v := x.At(i, j)
						if units != nil {
							v *= units[j]
						}
						want += v * v
					}
					if identity := i >= 7; identity && units != nil {
						want = 91.0 / 6 // their mean
					}
					if math.Abs(lengths[i]-want) > 1e-13*want {
						t.Errorf("%s: row %d has the squared length %g, want %g", c.name, i, lengths[i], want)
					}
				}
			}
		}
		if n := linops.RowNorms2(linops.Compose(dense, imaging.NewDCT(p)), nil); n != nil {
			t.Errorf("rows known by products alone have lengths %g", n)
		}
		if n := linops.RowNorms2(linops.VStack(image, linops.Scale(100, linops.Identity(p))), nil); len(n) != 13 ||
			n[0] != 2 || n[12] != 1e4 {
			t.Errorf("differences and the identity have squared lengths %g", n)
		}
	})
}

// The rows of a matrix in raw units get length 1.
func ExampleScaleRows() {
	dev := array.NewHost()
	defer dev.Close()
	a := linops.NewDense(dev, mat.NewDense(2, 2, []float64{3e4, 4e4, 0, 0.125}))
	s := linops.RowNorms2(a, nil)
	for i, v := range s {
		s[i] = 1 / math.Sqrt(v)
	}
	r := linops.ScaleRows(dev, a, s)
	fmt.Printf("%.3g\n", linops.ToDense(dev, r).RawMatrix().Data)
	// Output:
	// [0.6 0.8 0 1]
}
