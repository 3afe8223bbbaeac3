package faces

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// program is a random problem with n coordinates, d rows, and a copy of column 0 at the end.
func program(seed uint64, d, n int, w, q float64) (*Program, []float64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	x, y := mat.NewDense(d, n, nil), mat.NewVecDense(d, nil)
	for i := range d {
		for j := range n {
			x.Set(i, j, rng.NormFloat64()*math.Pow(10, float64(j%9-4)))
		}
		y.SetVec(i, rng.NormFloat64())
	}
	x.SetCol(n-1, mat.Col(nil, 0, x))
	var g mat.Dense
	g.Mul(x.T(), x)
	var c mat.VecDense
	c.MulVec(x.T(), y)
	p := &Program{Point: Point{Floor: 1e-12, Cut: 1e-12}}
	weights, squares, grad := make([]float64, n), make([]float64, n), make([]float64, n)
	for j := range n {
		weights[j], squares[j], grad[j] = w*math.Pow(10, float64(j%9-4)), q*g.At(j, j), -c.AtVec(j)
	}
	p.Extend(Penalty{W: weights, Q: squares, Positive: make([]bool, n)}, grad)
	for i := range n {
		for j := range n {
			p.Set(i, j, g.At(i, j))
		}
	}
	p.Ready()
	return p, grad
}

// check fails unless the conditions of optimality hold at p's point, by a gradient of its own.
func check(t *testing.T, p *Program, linear []float64) {
	t.Helper()
	for j := range p.B {
		g := linear[j]
		for i, b := range p.B {
			g += p.Gram(j)[i] * b
		}
		g += p.Q[j] * p.B[j]
		off := max(math.Abs(g)-p.W[j], 0)
		if p.B[j] != 0 {
			off = math.Abs(g + math.Copysign(p.W[j], p.B[j]))
		}
		if !(off*p.scale[j] <= 1e-10) {
			t.Errorf("coordinate %d is off by %g", j, off*p.scale[j])
		}
	}
}

func TestMinimumOverAllFaces(t *testing.T) {
	for seed := range uint64(40) {
		for _, w := range []float64{0, 1e-6, 0.3, 3} {
			p, linear := program(seed, 8+int(seed), 30, w, 0)
			p.Start(make([]float64, 30))
			if _, err := p.Minimize(t.Context(), func() {}, 1000); err != nil {
				t.Fatal(err)
			}
			check(t, p, linear)
			again, linear := program(seed, 8+int(seed), 30, 0.9*w, 0.1)
			again.Start(p.B)
			if _, err := again.Minimize(t.Context(), func() {}, 1000); err != nil {
				t.Fatal(err)
			}
			check(t, again, linear)
		}
	}
}

// Columns that come and go leave a factor that solves the system of those that are there.
func TestFactorFollowsItsColumns(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	p, _ := program(7, 120, 100, 0, 0.01)
	for round := range 200 {
		var list []int
		for j := range p.B {
			if !p.in[j] && rng.IntN(4) == 0 {
				list = append(list, j)
			}
		}
		p.join(list)
		var out []int
		for i := range p.active {
			if rng.IntN(4+40*(round%3)) == 0 {
				out = append(out, i)
			}
		}
		p.leave(out)
		n := len(p.active)
		if n == 0 {
			continue
		}
		k, x := mat.NewSymDense(n, nil), mat.NewVecDense(n, nil)
		for i, a := range p.active {
			x.SetVec(i, rng.NormFloat64())
			for j, b := range p.active[:i+1] {
				v := p.Gram(a)[b]
				if i == j {
					v += p.Q[a]
				}
				k.SetSym(i, j, v*p.scale[a]*p.scale[b])
			}
		}
		d := slices.Clone(x.RawVector().Data)
		p.solve(d)
		var want mat.VecDense
		if err := want.SolveVec(k, x); err != nil {
			t.Fatal(err)
		}
		for i := range n {
			if math.Abs(d[i]-want.AtVec(i)) > 1e-9*mat.Norm(&want, 2) {
				t.Fatalf("round %d, %d columns, %d held: entry %d is %g, expected %g", round, n, len(p.f.held), i,
					d[i], want.AtVec(i))
			}
		}
	}
}

// Whatever changes in the penalty, the next minimum is that of the new one.
func TestReweightGoesOnFromThePoint(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 9))
		p, linear := program(seed, 10+int(seed), 30, 0.5, 0)
		base := slices.Clone(p.W)
		p.Start(make([]float64, 30))
		for round := range 25 {
			w, q, positive := slices.Clone(base), slices.Clone(p.Q), slices.Clone(p.Positive)
			factor := math.Pow(10, 2*rng.Float64()-1)
			for j := range w {
				w[j] *= factor
				switch kind := rng.IntN(40); {
				case round%5 != 4:
				case kind == 0:
					w[j] = math.Inf(1)
				case kind < 4:
					w[j] = 0
				case kind < 8:
					positive[j] = !positive[j]
				case kind < 12:
					q[j] = rng.Float64() * p.Gram(j)[j]
				}
			}
			p.Reweight(Penalty{W: w, Q: q, Positive: positive})
			if _, err := p.Minimize(t.Context(), func() {}, 2000); err != nil {
				t.Fatal(err)
			}
			for j, b := range p.B {
				g := linear[j] + p.Q[j]*b
				for i, c := range p.B {
					g += p.Gram(j)[i] * c
				}
				off := max(math.Abs(g)-w[j], 0)
				switch {
				case b != 0:
					off = math.Abs(g + math.Copysign(w[j], b))
				case positive[j]:
					off = max(-g-w[j], 0)
				}
				if positive[j] && b < 0 || math.IsInf(w[j], 1) && b != 0 || !(off*p.scale[j] <= 1e-9) {
					t.Fatalf("seed %d, round %d: coordinate %d is %g, off by %g", seed, round, j, b, off*p.scale[j])
				}
			}
		}
	}
}
