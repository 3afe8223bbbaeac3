package linops_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/linops"
	"surepipe/linops/linopstest"
)

// A selection on a tangent space is the selection of what the coordinates stand
// for, and an operator like any other.
func TestSelectionOnATangentSpace(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		rng := rand.New(rand.NewPCG(1, 9))
		for _, s := range []struct{ m, n, r, d int }{{1, 1, 1, 1}, {7, 5, 2, 11}, {5, 9, 1, 0}, {30, 40, 6, 300}} {
			idx := rng.Perm(s.m * s.n)[:s.d]
			sel, err := linops.NewSelection(dev, s.m*s.n, idx)
			if err != nil {
				t.Fatal(err)
			}
			u, v := mat.NewDense(s.m, s.r, nil), mat.NewDense(s.n, s.r, nil)
			for _, f := range []*mat.Dense{u, v} {
				f.Apply(func(_, _ int, _ float64) float64 { return rng.NormFloat64() }, f)
			}
			ub, vb := dev.Alloc(1, s.m*s.r), dev.Alloc(1, s.n*s.r)
			dev.Upload(ub, u.RawMatrix().Data)
			dev.Upload(vb, v.RawMatrix().Data)
			shape := array.Shape{Rows: s.m, Cols: s.n}
			if sel.RestrictTangent(array.Shape{Rows: s.m + 1, Cols: s.n}, s.r, ub, vb) != nil {
				t.Errorf("%+v: a tangent space of larger matrices is accepted", s)
			}
			a := sel.RestrictTangent(shape, s.r, ub, vb)
			if err := linopstest.Check(dev, a); err != nil {
				t.Errorf("%+v: %v", s, err)
			}

			_, p := a.Dims()
			b := dev.Alloc(1, p)
			host := make([]float64, p)
			for i := range host {
				host[i] = rng.NormFloat64()
			}
			dev.Upload(b, host)
			out := dev.Alloc(1, s.d)
			a.Forward(out, b)
			var x, up mat.Dense
			x.Mul(mat.NewDense(s.m, s.r, host[:s.m*s.r]), v.T())
			up.Mul(u, mat.NewDense(s.n, s.r, host[s.m*s.r:]).T())
			x.Add(&x, &up)
			for e, got := range out.ToHost() {
				if want := x.At(idx[e]/s.n, idx[e]%s.n); math.Abs(got-want) > 1e-12*(1+math.Abs(want)) {
					t.Errorf("%+v: entry %d is %v, want %v", s, e, got, want)
				}
			}
			for _, x := range []array.Batch{ub, vb, b, out} {
				x.Free()
			}
			a.Release()
			sel.Release()
		}
	})
}
