package active_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/prox"
	"surepipe/solve"
	"surepipe/solve/internal/roomtest"
	"surepipe/solve/solvetest"
)

// violation is by how much b violates the optimality conditions of
//
//	1/2 ||X b - y||^2 + sum_j w |b_j| + q/2 b_j^2
//
// with every entry in units of its column's length, computed from X itself.
func violation(x *mat.Dense, y, b []float64, w, q float64) float64 {
	d, p := x.Dims()
	var z mat.VecDense
	z.MulVec(x, mat.NewVecDense(p, b))
	z.SubVec(&z, mat.NewVecDense(d, y))
	most := 0.0
	for j := range p {
		column := mat.Col(nil, j, x)
		length := math.Sqrt(floats.Dot(column, column) + q)
		if length == 0 {
			continue
		}
		g := floats.Dot(column, z.RawVector().Data) + q*b[j]
		e := max(math.Abs(g)-w, 0)
		if b[j] != 0 {
			e = math.Abs(g + math.Copysign(w, b[j]))
		}
		most = max(most, e/length)
	}
	return most
}

// Paths of 60 weights to 1e-8 of the largest, on designs that are hard in one way each, are exact at
// every weight: as a solve of its own says, and as the optimality conditions say.
func TestPathsOfHardDesigns(t *testing.T) {
	dev := array.NewHost()
	arraytest.NoLeak(t, dev)
	const weights = 60
	for _, size := range [][2]int{{30, 20}, {25, 60}, {160, 20}} {
		d, p := size[0], size[1]
		rng := rand.New(rand.NewPCG(uint64(d), uint64(p)))
		all := roomtest.Designs(rng, d, p)
		y := solvetest.Gaussian(rng, d)
		for design, x := range all {
			a := roomtest.Dense(t, dev, d, p, x.RawMatrix().Data)
			var c mat.VecDense
			c.MulVec(x.T(), mat.NewVecDense(d, y))
			most := floats.Norm(c.RawVector().Data, math.Inf(1))
			for _, q := range []float64{0, 1e-3} {
				base := roomtest.NewSolver(t, "active-set", solve.Problem{A: a, R: prox.NewL1(most), Device: dev},
					solve.Options{Point: true})
				var path solve.Path
				steps := 0
				for k := range weights {
					w := most * math.Pow(1e-8, float64(k)/(weights-1))
					s, err := base.Reweight(t.Context(), prox.NewElasticNet(w, q))
					if err != nil {
						t.Fatal(err)
					}
					sol, err := s.Solve(t.Context(), roomtest.On(t, dev, y), solve.From{Path: &path})
					if err != nil {
						t.Fatal(err)
					}
					what := fmt.Sprintf("%d x %d %s, q = %g, weight %g", d, p, design, q, w/most)
					if !sol.Converged {
						t.Errorf("%s: %+v", what, sol.Convergence)
					}
					if v := violation(x, y, sol.B.ToHost(), w, q); !(v <= 1e-11*floats.Norm(y, 2)) {
						t.Errorf("%s: violated by %g", what, v)
					}
					steps += sol.Iterations
					if k%20 == 19 {
						cold := roomtest.At(t, s, roomtest.On(t, dev, y))
						roomtest.Near(t, what, sol.MuHat.ToHost(), cold.MuHat.ToHost(), 1e-7)
					}
					sol.Release()
					s.Release()
				}
				path.Release()
				if steps > 30*weights {
					t.Errorf("%d x %d %s, q = %g: %d steps", d, p, design, q, steps)
				}
			}
		}
	}
}

// What a path carries says of the system at a solution what a factorization of the columns does.
func TestFactorOfAPath(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		arraytest.NoLeak(t, dev)
		rng := rand.New(rand.NewPCG(4, 1))
		const d, p = 80, 300
		x, y := mat.NewDense(d, p, solvetest.Gaussian(rng, d*p)), roomtest.On(t, dev, solvetest.Gaussian(rng, d))
		a := roomtest.Dense(t, dev, d, p, x.RawMatrix().Data)
		for _, q := range []float64{0, 3} {
			base := roomtest.NewSolver(t, "active-set", solve.Problem{A: a, R: prox.NewL1(20), Device: dev},
				solve.Options{Point: true})
			var path solve.Path
			for k := range 12 {
				s, err := base.Reweight(t.Context(), prox.NewElasticNet(20*math.Pow(0.7, float64(k)), q))
				if err != nil {
					t.Fatal(err)
				}
				sol, err := s.Solve(t.Context(), y, solve.From{Path: &path})
				if err != nil {
					t.Fatal(err)
				}
				var set []int
				for j, v := range sol.B.ToHost() {
					if v != 0 {
						set = append(set, j)
					}
				}
				got, ok := sol.At.Factored(set)
				if !ok {
					t.Fatalf("weight %d: not factored", k)
				}
				outside := slices.IndexFunc(sol.B.ToHost(), func(v float64) bool { return v == 0 })
				if _, ok := sol.At.Factored(append(slices.Clone(set[1:]), outside)); ok {
					t.Fatalf("weight %d: another set is factored", k)
				}
				checkFactor(t, x, set, q, got, sol.At.Gram(set))
				if ok := roomtest.CheckMapped(t, rng, dev, d, got.Images, got.Mapped); !ok {
					t.Fatal("the factor has gone")
				}
				sol.Release()
				s.Release()
			}
			path.Release()
		}
	})
}

// checkFactor compares with eigenvalues.
func checkFactor(t *testing.T, x *mat.Dense, set []int, q float64, got solve.Factored, gram []float64) {
	t.Helper()
	n := len(set)
	g, k := mat.NewSymDense(n, nil), mat.NewSymDense(n, nil)
	for i, a := range set {
		for j, b := range set[:i+1] {
			v := floats.Dot(mat.Col(nil, a, x), mat.Col(nil, b, x))
			if math.Abs(gram[i*n+j]-v) > 1e-11*math.Abs(v)+1e-10 {
				t.Fatalf("entry %d, %d of the Gram matrix is %g, expected %g", i, j, gram[i*n+j], v)
			}
			g.SetSym(i, j, v)
			if i == j {
				v += q
			}
			k.SetSym(i, j, v)
		}
	}
	var inverse mat.Dense
	if err := inverse.Inverse(k); err != nil {
		t.Fatal(err)
	}
	var m, square mat.Dense
	m.Mul(&inverse, g)
	square.Mul(&m, &m)
	if math.Abs(got.Trace-mat.Trace(&m)) > 1e-9*float64(n) ||
		math.Abs(got.Frobenius2-mat.Trace(&square)) > 1e-9*float64(n) || got.Projection != (q == 0) {
		t.Errorf("%+v, expected the traces %g and %g", got, mat.Trace(&m), mat.Trace(&square))
	}
	for i := range n {
		for j := range i {
			k.SetSym(i, j, k.At(i, j)/math.Sqrt(k.At(i, i)*k.At(j, j)))
		}
	}
	for i := range n {
		k.SetSym(i, i, 1)
	}
	var eig mat.EigenSym
	eig.Factorize(k, false)
	values := eig.Values(nil)
	if c := values[n-1] / values[0]; got.Condition < c/3 || got.Condition > float64(n)*c {
		t.Errorf("%d columns: the condition number is %g, expected about %g", n, got.Condition, c)
	}
}

// A path of another operator, of other observations, or in other units is not used.
func TestPathsAreNotMixed(t *testing.T) {
	dev := array.NewHost()
	arraytest.NoLeak(t, dev)
	rng := rand.New(rand.NewPCG(6, 2))
	const d, p = 40, 90
	problem := func(scale float64) solve.Solver {
		x := solvetest.Gaussian(rng, d*p)
		for i := range x {
			x[i] *= math.Pow(scale, float64(i%p%5))
		}
		return roomtest.NewSolver(t, "active-set", solve.Problem{A: roomtest.Dense(t, dev, d, p, x), R: prox.NewL1(2),
			Device: dev}, solve.Options{})
	}
	solvers := []solve.Solver{problem(1), problem(1), problem(100)}
	ys := []array.Batch{roomtest.On(t, dev, solvetest.Gaussian(rng, d)),
		roomtest.On(t, dev, solvetest.Gaussian(rng, d))}
	var path solve.Path
	defer path.Release()
	for round := range 12 {
		s, y := solvers[rng.IntN(3)], ys[rng.IntN(2)]
		sol, err := s.Solve(t.Context(), y, solve.From{Path: &path})
		if err != nil {
			t.Fatal(err)
		}
		cold := roomtest.At(t, s, y)
		roomtest.Near(t, fmt.Sprint("solve ", round), sol.MuHat.ToHost(), cold.MuHat.ToHost(), 1e-11)
		sol.Release()
	}
}
