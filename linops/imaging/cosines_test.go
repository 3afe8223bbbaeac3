package imaging_test

import (
	"math"
	"testing"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/linops/imaging"
)

// The differences of an image are the same at all places but for a reflecting border: their eigenvalues are
// found exactly, and likewise those of K beside the identity.
func TestNearCosines(t *testing.T) {
	dev := array.NewHost()
	for _, shape := range []array.Shape{{Rows: 1, Cols: 9}, {Rows: 12, Cols: 9}, {Rows: 33, Cols: 40}} {
		gradient := imaging.NewGradient([]int{shape.Rows, shape.Cols}, nil, imaging.Reflecting)
		for _, k := range []linops.Operator{gradient,
			linops.VStack(gradient, linops.Scale(3, linops.Identity(shape.Len())))} {
			known := linops.StructureOf(k).Cosines
			if !known.Known() {
				t.Fatalf("no cosines of %d x %d", shape.Rows, shape.Cols)
			}
			want := known.Values()
			got := imaging.NearCosines(dev, k, shape, imaging.NewDCT2D(shape.Rows, shape.Cols))
			for i, v := range want {
				if v < 0.05 {
					v = math.Max(v, got[i]) // small ones are not believed
				}
				if !(got[i] > 0) || math.Abs(got[i]-v) > 1e-9*(1+v) {
					t.Fatalf("%d x %d: value %d is %g, want %g", shape.Rows, shape.Cols, i, got[i], v)
				}
			}
		}
	}
}

// Of projections, in the basis of cosines, the numbers are near the diagonal of A*A.
func TestNearCosinesOfProjections(t *testing.T) {
	const n = 24
	angles := make([]float64, 30)
	for i := range angles {
		angles[i] = 6 * float64(i)
	}
	a, err := imaging.NewParallelBeam(n, n, angles, n, 1, imaging.Axis{})
	if err != nil {
		t.Fatal(err)
	}
	dev, dct := array.NewHost(), imaging.NewDCT2D(n, n)
	got := imaging.NearCosines(dev, a, array.Shape{Rows: n, Cols: n}, dct)
	gram := linops.GramOf(dev, linops.Compose(a, linops.Adjoint(dct)))
	off := 0
	for i, v := range got {
		if r := v / gram[i*n*n+i]; r < 1.0/3 || r > 3 {
			off++
		}
	}
	if off > n*n/8 {
		t.Errorf("%d of %d numbers are off by more than a factor of 3", off, n*n)
	}
}
