package rewrite_test

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/prox"
	"surepipe/solve"
)

// normals are q x p random numbers.
func normals(rng *rand.Rand, q, p int) *mat.Dense {
	m := mat.NewDense(q, p, nil)
	m.Apply(func(int, int, float64) float64 { return rng.NormFloat64() }, m)
	return m
}

// With b = c/s the problem of A diag(s) and K is that of A and K diag(1/s): mu_hat, K b, and the multiplier at
// which that vanishes are the same, for lengths of A's columns over ten decades.
func TestUnitsOfColumnsBehindK(t *testing.T) {
	dev := array.NewHost()
	defer dev.Close()
	const d, p, rank = 40, 24, 12
	rng := rand.New(rand.NewPCG(8, 30))
	x, spread, inverse := normals(rng, d, p), make([]float64, p), make([]float64, p)
	for j := range spread {
		spread[j] = math.Pow(10, float64((7*j)%p)/(p-1)*10-5)
		inverse[j] = 1 / spread[j]
	}
	deficient := mat.NewDense(p, p, nil)
	deficient.Mul(normals(rng, p, rank), normals(rng, rank, p))
	y := dev.Alloc(1, d)
	defer y.Free()
	host := make([]float64, d)
	for i := range host {
		host[i] = rng.NormFloat64()
	}
	dev.Upload(y, host)
	for name, k := range map[string]*mat.Dense{"few rows": normals(rng, rank, p), "many rows": normals(rng, p+8, p),
		"dependent rows": deficient} {
		type outcome struct{ mu, kb, u []float64 }
		weight := 0.0
		solved := func(x, k *mat.Dense) (out outcome) {
			a, op := linops.NewDense(dev, x), linops.NewDense(dev, k)
			defer a.Release()
			defer op.Release()
			problem := solve.Problem{A: a, K: op, R: prox.NewL1(1), Device: dev}
			u, err := solve.Multiplier(context.Background(), problem, y)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			defer u.Free()
			if weight == 0 {
				weight = 0.2 * floats.Norm(u.ToHost(), math.Inf(1))
			}
			problem.R = prox.NewL1(weight)
			solver, err := solve.New(context.Background(), solve.Default(problem), problem, solve.Options{Sigma2: 1})
			if err != nil {
				t.Fatal(err)
			}
			defer solver.Release()
			sol, err := solver.Solve(context.Background(), y, solve.From{})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			defer sol.Release()
			if !sol.Converged || !(sol.Error <= 1e-2*math.Sqrt(d)) {
				t.Errorf("%s: converged %v, within %g", name, sol.Converged, sol.Error)
			}
			kb := dev.Alloc(1, u.N())
			defer kb.Free()
			op.Forward(kb, sol.B)
			return outcome{sol.MuHat.ToHost(), kb.ToHost(), u.ToHost()}
		}
		want, got := solved(x, scaleColumns(k, inverse)), solved(scaleColumns(x, spread), k)
		near := func(what string, got, want []float64, tol float64) {
			if off := floats.Distance(got, want, 2); !(off <= tol*floats.Norm(want, 2)) {
				t.Errorf("%s: %s is off by %.2g of %.2g", name, what, off, floats.Norm(want, 2))
			}
		}
		near("mu_hat", got.mu, want.mu, 1e-3)
		near("K b", got.kb, want.kb, 1e-3)
		near("the multiplier", got.u, want.u, 1e-5)
	}
}

// scaleColumns is m diag(s).
func scaleColumns(m *mat.Dense, s []float64) *mat.Dense {
	out := mat.DenseCopyOf(m)
	out.Apply(func(_, j int, v float64) float64 { return v * s[j] }, out)
	return out
}
