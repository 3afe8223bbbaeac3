package active_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/internal/lists"
	"surepipe/prox"
	"surepipe/solve"
	"surepipe/solve/active"
	"surepipe/solve/internal/limits"
	"surepipe/solve/internal/roomtest"
	"surepipe/solve/solvetest"
)

// groupViolation is by how much b violates the optimality conditions of the group LASSO, computed from
// X itself, each group in units of its longest column.
func groupViolation(x *mat.Dense, y, b []float64, groups [][]int, w []float64) float64 {
	d, p := x.Dims()
	var z, g mat.VecDense
	z.MulVec(x, mat.NewVecDense(p, b))
	z.SubVec(&z, mat.NewVecDense(d, y))
	g.MulVec(x.T(), &z)
	most := 0.0
	for k, group := range groups {
		var on, e []float64
		length := 0.0
		for _, j := range group {
			on, e = append(on, b[j]), append(e, g.AtVec(j))
			length = max(length, mat.Norm(x.ColView(j), 2))
		}
		off := max(floats.Norm(e, 2)-w[k], 0)
		if size := floats.Norm(on, 2); size > 0 {
			floats.AddScaled(e, w[k]/size, on)
			off = floats.Norm(e, 2)
		}
		if length > 0 {
			most = max(most, off/length)
		}
	}
	return most
}

// A group is one for active sets up to the number of coordinates of which a Gram matrix is factorized, or where it is
// not penalized.
func TestLargeGroupsAreLeftToGradientSteps(t *testing.T) {
	dev := array.NewHost()
	for _, c := range []struct {
		size   int
		weight float64
		serves bool
	}{{limits.MostFactored, 1, true}, {limits.MostFactored + 1, 1, false}, {limits.MostFactored + 1, 0, true}} {
		r, err := prox.NewGroupL2(dev, c.size+2, 1, [][]int{lists.Upto(c.size)}, []float64{c.weight})
		if err != nil {
			t.Fatal(err)
		}
		if got := active.Serves(r); got != c.serves {
			t.Errorf("%d coordinates of weight %g: %v", c.size, c.weight, got)
		}
		prox.Release(r)
	}
}

// A path of the group LASSO is exact at every weight, as a solve of its own says and as the
// optimality conditions say: with more columns than rows, with duplicated columns, in units that
// differ from group to group, and with groups that are not penalized.
func TestPathsOfGroups(t *testing.T) {
	dev := array.NewHost()
	arraytest.NoLeak(t, dev)
	const d, p, weights = 40, 90, 25
	for _, design := range []string{"normal", "duplicated", "units", "free"} {
		rng := rand.New(rand.NewPCG(5, uint64(len(design))))
		x := mat.NewDense(d, p, solvetest.Gaussian(rng, d*p))
		groups, roots := make([][]int, p/3), make([]float64, p/3)
		for j := range p {
			groups[j%len(groups)] = append(groups[j%len(groups)], j)
		}
		for g, group := range groups {
			roots[g] = math.Sqrt(3)
			for _, j := range group {
				column := mat.Col(nil, j, x)
				switch {
				case design == "units":
					floats.Scale(math.Pow(10, float64(g%7-3)), column)
					roots[g] = math.Sqrt(3) * math.Pow(10, float64(g%7-3))
				case design == "duplicated" && j > 80:
					copy(column, mat.Col(nil, j-80, x))
				case design == "free" && g == 4:
					roots[g] = 0
				}
				x.SetCol(j, column)
			}
		}
		y := solvetest.Gaussian(rng, d)
		a := roomtest.Dense(t, dev, d, p, x.RawMatrix().Data)
		regularizer := func(w float64) prox.Prox {
			r, err := prox.NewGroupL2(dev, p, w, groups, roots)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { prox.Release(r) })
			return r
		}
		base := roomtest.NewSolver(t, "active-set", solve.Problem{A: a, R: regularizer(1), Device: dev},
			solve.Options{Point: true})
		var path solve.Path
		steps := 0
		for k := range weights {
			w := 8 * math.Pow(1e-4, float64(k)/(weights-1))
			s, err := base.Reweight(t.Context(), regularizer(w))
			if err != nil {
				t.Fatal(err)
			}
			sol, err := s.Solve(t.Context(), roomtest.On(t, dev, y), solve.From{Path: &path})
			if err != nil {
				t.Fatal(err)
			}
			scaled := make([]float64, len(roots))
			floats.ScaleTo(scaled, w, roots)
			if !sol.Converged {
				t.Errorf("%s, weight %g: %+v", design, w, sol.Convergence)
			}
			if v := groupViolation(x, y, sol.B.ToHost(), groups, scaled); !(v <= 1e-8*floats.Norm(y, 2)) {
				t.Errorf("%s, weight %g: violated by %g", design, w, v)
			}
			steps += sol.Iterations
			if k%12 == 11 {
				cold := roomtest.At(t, s, roomtest.On(t, dev, y))
				roomtest.Near(t, design, sol.MuHat.ToHost(), cold.MuHat.ToHost(), 1e-6)
			}
			sol.Release()
			s.Release()
		}
		path.Release()
		t.Log(design, steps)
		if design == "normal" && steps > 12*weights {
			t.Errorf("%d steps", steps)
		}
	}
}
