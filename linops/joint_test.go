package linops_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/linops"
	"surepipe/linops/linopstest"
)

// The sum of a matrix of low rank and a sparse one, confined to a tangent space and a set of
// coordinates, is what its coordinates stand for, and an operator like any other.
func TestLowRankPlusSparse(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		arraytest.NoLeak(t, dev)
		rng := rand.New(rand.NewPCG(4, 9))
		random := func(r, c int) *mat.Dense {
			x := mat.NewDense(r, c, nil)
			x.Apply(func(_, _ int, _ float64) float64 { return rng.NormFloat64() }, x)
			return x
		}
		for _, s := range []struct{ m, n, r, d int }{{1, 1, 1, 1}, {7, 5, 2, 11}, {5, 9, 1, 0}, {20, 30, 4, 90}} {
			set := rng.Perm(s.m * s.n)[:s.d]
			slices.Sort(set)
			u, v := random(s.m, s.r), random(s.n, s.r)
			ub, vb := dev.Alloc(1, s.m*s.r), dev.Alloc(1, s.n*s.r)
			dev.Upload(ub, u.RawMatrix().Data)
			dev.Upload(vb, v.RawMatrix().Data)
			low := linops.Part{Shape: array.Shape{Rows: s.m, Cols: s.n}, Rank: s.r, U: ub, V: vb}
			sparse := linops.Part{Set: set}
			i := linops.Identity(s.m * s.n)
			whole := linops.HStack(i, i).(linops.BlockRestrictor)
			a := whole.RestrictBlocks(dev, []linops.Part{low, sparse})
			if err := linopstest.Check(dev, a); err != nil {
				t.Errorf("%+v: %v", s, err)
			}
			_, p := a.Dims()
			q, pp, entries := random(s.m, s.r), random(s.n, s.r), make([]float64, s.d)
			b, out := dev.Alloc(1, p), dev.Alloc(1, s.m*s.n)
			for e := range entries {
				entries[e] = rng.NormFloat64()
			}
			dev.Upload(b, slices.Concat(q.RawMatrix().Data, pp.RawMatrix().Data, entries))
			a.Forward(out, b)
			var want, up mat.Dense
			want.Mul(q, v.T())
			up.Mul(u, pp.T())
			want.Add(&want, &up)
			for e, at := range set {
				want.RawMatrix().Data[at] += entries[e]
			}
			if e := floats.Distance(out.ToHost(), want.RawMatrix().Data, 2); e > 1e-12 {
				t.Errorf("%+v: off by %.2g", s, e)
			}
			a.Release()

			// What it cannot do it says.
			other := low
			other.Shape.Rows++
			for _, parts := range [][]linops.Part{{sparse, low}, {low}, {low, low}, {sparse, sparse}, {other, sparse}} {
				if whole.RestrictBlocks(dev, parts) != nil {
					t.Errorf("%+v: %d parts of other kinds are accepted", s, len(parts))
				}
			}
			twice := linops.HStack(linops.Scale(2, i), i).(linops.BlockRestrictor)
			if twice.RestrictBlocks(dev, []linops.Part{low, sparse}) != nil {
				t.Errorf("%+v: [2 I I] is accepted", s)
			}
			for _, x := range []array.Batch{ub, vb, b, out} {
				x.Free()
			}
		}
	})
}
