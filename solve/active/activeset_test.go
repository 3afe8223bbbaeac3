package active_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/linops"
	"surepipe/prox"
	"surepipe/solve"
	"surepipe/solve/internal/roomtest"
	"surepipe/solve/solvetest"
)

// penalties are regularizers of a size relative to the largest correlation.
func penalties(t *testing.T, dev array.Device, x *mat.Dense, y []float64, share float64) map[string]prox.Prox {
	_, p := x.Dims()
	var c mat.VecDense
	c.MulVec(x.T(), mat.NewVecDense(len(y), y))
	most := share * floats.Norm(c.RawVector().Data, math.Inf(1))
	w := make([]float64, p)
	for j := range w {
		w[j] = float64(j % 4)
	}
	weighted, err := prox.NewWeightedL1(dev, most, w)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { prox.Release(weighted) })
	norm := mat.Norm(x, 2)
	blocks := prox.NewSeparable(
		prox.Block{Prox: prox.NewL1(most), N: p / 3}, prox.Block{Prox: prox.NonNegative(), N: p / 3},
		prox.Block{Prox: prox.NewScaled(2, prox.NewElasticNet(most, share*norm*norm)), N: p - 2*(p/3)})
	return map[string]prox.Prox{
		"l1": prox.NewL1(most), "weighted": weighted, "elastic": prox.NewElasticNet(most, share*norm*norm/100),
		"nonnegative": prox.NonNegative(), "none": prox.NewL1(0), "ridge": prox.NewSquaredL2(share * norm * norm),
		"blocks": blocks,
	}
}

func TestActiveSetsAlwaysEnd(t *testing.T) {
	dev := array.NewHost()
	for _, size := range [][2]int{{12, 6}, {20, 20}, {10, 30}, {40, 300}, {60, 50}, {160, 20}} {
		rng := rand.New(rand.NewPCG(uint64(size[0]), uint64(size[1])))
		d, p := size[0], size[1]
		all := roomtest.Designs(rng, d, p)
		y := solvetest.Gaussian(rng, d)
		for design, x := range all {
			a := roomtest.Dense(t, dev, d, p, x.RawMatrix().Data)
			for _, share := range []float64{0.5, 0.1, 1e-2, 1e-4, 1e-8} {
				for name, r := range penalties(t, dev, x, y, share) {
					what := fmt.Sprintf("%d x %d %s %s %g", d, p, design, name, share)
					s := roomtest.NewSolver(t, "active-set", solve.Problem{A: a, R: r, Device: dev},
						solve.Options{Point: true})
					sol := roomtest.At(t, s, roomtest.On(t, dev, y))
					if !sol.Converged || sol.Iterations > 1500 ||
						sol.Choices[len(sol.Choices)-1].Chosen == "finished by fista" {
						t.Errorf("%s: %+v", what, sol.Convergence)
					}
				}
			}
		}
	}
}

// Multiplying columns by powers of ten, and the weights with them, changes no fit.
func TestActiveSetsDoNotSeeUnits(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		arraytest.NoLeak(t, dev)
		rng := rand.New(rand.NewPCG(5, 7))
		const d, p = 40, 60
		x, y := mat.NewDense(d, p, solvetest.Gaussian(rng, d*p)), solvetest.Gaussian(rng, d)
		w := make([]float64, p)
		for j := range w {
			w[j] = 3 * rng.Float64()
		}
		solved := func(scale func(j int) float64) *solve.Solution {
			z, v := mat.DenseCopyOf(x), make([]float64, p)
			z.Apply(func(_, j int, c float64) float64 { return c * scale(j) }, z)
			for j := range v {
				v[j] = w[j] * scale(j)
			}
			r, err := prox.NewWeightedL1(dev, 1, v)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { prox.Release(r) })
			s := roomtest.NewSolver(t, "active-set",
				solve.Problem{A: roomtest.Dense(t, dev, d, p, z.RawMatrix().Data), R: r, Device: dev}, solve.Options{})
			return roomtest.At(t, s, roomtest.On(t, dev, y))
		}
		one := solved(func(int) float64 { return 1 })
		other := solved(func(j int) float64 { return math.Pow(10, float64(j%17-8)) })
		roomtest.Near(t, "A b in other units", other.MuHat.ToHost(), one.MuHat.ToHost(), 1e-10)
		if !other.Converged {
			t.Errorf("%+v", other.Convergence)
		}
	})
}

// A warm start takes few steps, on any operator, and ends where a cold one does.
func TestActiveSetsStartWarm(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		arraytest.NoLeak(t, dev)
		rng := rand.New(rand.NewPCG(8, 1))
		const d, p = 60, 400
		x, y := mat.NewDense(d, p, solvetest.Gaussian(rng, d*p)), roomtest.On(t, dev, solvetest.Gaussian(rng, d))
		a := roomtest.Dense(t, dev, d, p, x.RawMatrix().Data)
		for name, op := range map[string]linops.Operator{"dense": a, "products": bare{a}} {
			base := roomtest.NewSolver(t, "active-set", solve.Problem{A: op, R: prox.NewL1(8), Device: dev},
				solve.Options{Point: true})
			before := roomtest.At(t, base, y)
			next, err := base.Reweight(t.Context(), prox.NewL1(7.6))
			if err != nil {
				t.Fatal(err)
			}
			warm, cold := roomtest.From(t, next, y, before.B), roomtest.At(t, next, y)
			next.Release()
			if warm.Iterations > 8 {
				t.Errorf("%s: %d steps from the weight before", name, warm.Iterations)
			}
			roomtest.Near(t, name, warm.MuHat.ToHost(), cold.MuHat.ToHost(), 1e-12)
		}
	})
}

// bare is an operator that tells nothing but its products.
type bare struct{ a linops.Operator }

func (b bare) Dims() (d, p int)           { return b.a.Dims() }
func (b bare) Forward(dst, x array.Batch) { b.a.Forward(dst, x) }
func (b bare) Adjoint(dst, z array.Batch) { b.a.Adjoint(dst, z) }
