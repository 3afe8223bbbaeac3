package differential

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

func TestSingularValues(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, shape := range [][2]int{{1, 1}, {3, 3}, {5, 2}, {2, 6}, {8, 8}} {
		for _, rank := range []int{0, 1, min(shape[0], shape[1])} {
			m := newMatrix(shape[0], shape[1])
			for range rank {
				for i := range m.r {
					x := num(rng.NormFloat64())
					for j := range m.c {
						m.set(i, j, m.at(i, j).Add(x.Mul(num(math.Sin(float64(j+1)*(1+float64(rank)))))))
					}
				}
			}
			u, s, v := m.svd()
			for i := range m.r {
				for j := range m.c {
					var sum dd
					for k := range s {
						sum = sum.Add(u.at(i, k).Mul(s[k]).Mul(v.at(j, k)))
					}
					if off := sum.Sub(m.at(i, j)).Abs().Hi; off > 1e-28*(1+s[0].Hi) {
						t.Fatalf("%v, rank %d: entry %d, %d is off by %g", shape, rank, i, j, off)
					}
				}
			}
			for _, q := range []*matrix{u, v} {
				for i, x := range q.t().mul(q).a {
					if i%(q.c+1) == 0 {
						x = x.Sub(num(1))
					}
					if x.Abs().Hi > 1e-29 {
						t.Fatalf("%v, rank %d: singular vectors are not orthonormal, %g", shape, rank, x.Hi)
					}
				}
			}
		}
	}
}

// TestReferenceAgreesWithDifferences compares the divergence of the reference with central
// differences of its solution.
func TestReferenceAgreesWithDifferences(t *testing.T) {
	n := 500
	if testing.Short() {
		n = 200
	}
	const h = 0x1p-26
	compared := 0
	for i := range n {
		c := Generate(7, i)
		k := newCanonical(c)
		if k.observed > 12 || k.a.c > 30 || norm2(k.y).Hi == 0 { // at y = 0 no step is small
			continue
		}
		// Where a face is nearer than the step the differences see another.
		r := referenceFor(c, k, 100*h)
		if !r.OK || r.Ambiguous() {
			continue
		}
		by := byDifferences(c, h)
		compared++
		if off := math.Abs(by - r.Divergence); !(off <= 1e-4) {
			t.Errorf("case %d, %s %s %v: divergence %.9g, by differences %.9g", i, c.Op.Kind, c.Reg.Kind, c.Features,
				r.Divergence, by)
		}
	}
	t.Logf("%d cases compared", compared)
}

// A square of third differences under a total variation: the column of the constant is 0 in both, and rounding errors of
// it are no column. With the steps s of b, which are all above 0, (I + mu D*D) s = y - lambda for second differences D.
func TestReferenceOfSquaresWithoutAColumn(t *testing.T) {
	const lambda, mu = 0.0007730838496318691, 5.999263372785125
	c := &Case{Op: Op{Kind: "difference1d", Rows: 4, Cols: 5}, Reg: Reg{Kind: "tv1d", N: 5, Lambda: lambda},
		Squares: []Square{{Op{Kind: "differences", Rows: 2, Cols: 5}, mu}}, Y: []float64{2, 0, 0, 2}, Sigma2: 1}
	system, right, s := mat.NewDense(4, 4, nil), mat.NewVecDense(4, nil), new(mat.VecDense)
	for _, row := range [][]float64{{1, -2, 1, 0}, {0, 1, -2, 1}} {
		system.RankOne(system, mu, mat.NewVecDense(4, row), mat.NewVecDense(4, row))
	}
	for i, y := range c.Y {
		system.Set(i, i, system.At(i, i)+1)
		right.SetVec(i, y-lambda)
	}
	if err := s.SolveVec(system, right); err != nil {
		t.Fatal(err)
	}
	got := newReference(c)
	if !got.OK || mat.Min(s) <= 0 || !floats.EqualApprox(got.MuHat, s.RawVector().Data, 1e-12) {
		t.Errorf("mu_hat is %v, expected %v", got.MuHat, s.RawVector().Data)
	}
}
