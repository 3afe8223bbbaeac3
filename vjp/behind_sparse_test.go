package vjp

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/linops/imaging"
	"surepipe/prox"
	"surepipe/solve"
)

// With an incomplete factor conjugate gradients reach the derivative that a complete one gives.
func TestIncompleteFactorOfTheCurvature(t *testing.T) {
	const side = 40
	rng := rand.New(rand.NewPCG(1, 2))
	dev := array.NewHost()
	y := make([]float64, side*side)
	for i := range y {
		y[i] = math.Floor(float64(i%side)/10) + 0.3*rng.NormFloat64()
	}
	b := dev.Alloc(1, len(y))
	dev.Upload(b, y)
	p := solve.Problem{Device: dev, A: linops.Identity(len(y)), K: imaging.NewGradient([]int{side, side}, nil,
		imaging.Reflecting), R: prox.NewJointL2(len(y), 2, 0.3)}
	probes := dev.Alloc(3, len(y))
	signs := make([]float64, 3*len(y))
	for i := range signs {
		signs[i] = float64(2*rng.IntN(2) - 1)
	}
	dev.Upload(probes, signs)
	derivative := func() []float64 {
		s, err := NewSolver(context.Background(), "dual", p, Options{Tol: 1e-8})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Release()
		sol, err := s.Solve(context.Background(), b)
		if err != nil {
			t.Fatal(err)
		}
		defer sol.Release()
		out := dev.Alloc(3, len(y))
		if err := sol.Linearization.VJP(context.Background(), out, probes); err != nil {
			t.Fatal(err)
		}
		return out.ToHost()
	}
	want := derivative()
	before := mostFactor
	mostFactor = 0
	defer func() { mostFactor = before }()
	for i, v := range derivative() {
		if math.Abs(v-want[i]) > 1e-5 {
			t.Fatalf("entry %d is %v, want %v", i, v, want[i])
		}
	}
}
