package subspace

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
)

// Resolved triplets of a graded matrix have orthonormal vectors, and values and products accurate to
// rounding of the largest one; those from squares are off by sigma_1/sigma_r times as much.
func TestResolvedTriplets(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		arraytest.NoLeak(t, dev)
		const m, n, r = 50, 40, 6
		var left, right mat.QR
		left.Factorize(gaussianMatrix(m, r, 1))
		right.Factorize(gaussianMatrix(n, r, 2))
		var u, v, x mat.Dense
		left.QTo(&u)
		right.QTo(&v)
		scaled := mat.NewDense(m, r, nil)
		var want [r]float64
		for j := range r {
			want[j] = math.Pow(10, -float64(j))
			for i := range m {
				scaled.Set(i, j, want[j]*u.At(i, j))
			}
		}
		x.Mul(scaled, v.Slice(0, n, 0, r).T())
		on := onDevice(dev, &x)
		defer on.Free()
		s := New(dev, array.Shape{Rows: m, Cols: n})
		defer s.Free()
		s.Resolve()
		for range 4 {
			top, err := s.Advance(Dense(on), 1e-7)
			if err != nil {
				t.Fatal(err)
			}
			top.Free()
		}
		top, err := s.Advance(Dense(on), 1e-7)
		if err != nil {
			t.Fatal(err)
		}
		defer top.Free()
		checkResolved(t, top, want[:], 1e-14)
		if e := top.Residual(Dense(on)); e > 1e-14 {
			t.Errorf("||X V - U S|| = %.3g", e)
		}

		l := onDevice(dev, scaled)
		defer l.Free()
		b := onDevice(dev, mat.DenseCopyOf(v.Slice(0, n, 0, r)))
		defer b.Free()
		thin, err := Thin(l, b)
		if err != nil {
			t.Fatal(err)
		}
		defer thin.Free()
		checkResolved(t, thin, want[:], 1e-14)
	})
}

func checkResolved(t *testing.T, top Triplets, want []float64, tol float64) {
	t.Helper()
	if len(top.Sigma) != len(want) {
		t.Fatalf("values %v, want %v", top.Sigma, want)
	}
	for i, s := range top.Sigma {
		if e := math.Abs(s - want[i]); !(e <= tol) {
			t.Errorf("value %d is off by %.3g", i, e)
		}
	}
	for _, b := range []array.Batch{top.U, top.V} {
		g, k := hostGram(b), b.N()
		for i := range k {
			g[i*k+i]--
		}
		for _, e := range g {
			if !(math.Abs(e) <= tol) {
				t.Fatalf("vectors are off orthonormal by %.3g", e)
			}
		}
	}
}
