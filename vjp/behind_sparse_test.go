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

// With an incomplete factor conjugate gradients reach the derivative that a complete one gives, and with one of the
// blocks of three channels.
func TestIncompleteFactorOfTheCurvature(t *testing.T) {
	t.Run("grey", func(t *testing.T) {
		testIncompleteFactor(t, 40, nil, func(n int) prox.Prox { return prox.NewVectorialL2(n, 2, 1, 0.3) })
	})
	t.Run("colours", func(t *testing.T) {
		testIncompleteFactor(t, 24, []int{3}, func(n int) prox.Prox { return prox.NewVectorialL2(n/3, 2, 3, 0.3) })
	})
}

func testIncompleteFactor(t *testing.T, side int, channels []int, penalty func(n int) prox.Prox) {
	shape, n := []int{side, side}, side*side
	for _, c := range channels {
		shape, n = append(shape, c), n*c
	}
	rng := rand.New(rand.NewPCG(1, 2))
	dev := array.NewHost()
	y := make([]float64, n)
	for i := range y {
		y[i] = math.Floor(float64(i*side/n%side)/10) + 0.3*rng.NormFloat64()
	}
	b := dev.Alloc(1, len(y))
	dev.Upload(b, y)
	p := solve.Problem{Device: dev, A: linops.Identity(len(y)), K: imaging.NewGradient(shape, []int{0, 1},
		imaging.Reflecting), R: penalty(n)}
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
