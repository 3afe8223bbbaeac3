package splitting

import (
	"context"
	"math/rand/v2"
	"testing"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/linops/imaging"
	"surepipe/solve/engine"
)

// The residual that one solution leaves serves for the next right-hand side, at the same step only.
func TestSolutionsAfterEachOther(t *testing.T) {
	const n = 16
	dev := array.NewHost()
	p := engine.Problem{Device: dev, A: linops.Scale(2, imaging.NewGradient([]int{n, n}, nil, imaging.Grounded)),
		K: imaging.NewGradient([]int{n, n}, nil, imaging.Reflecting)}
	defer func(most int) { mostInverted = most }(mostInverted)
	mostInverted = 0
	s, err := NewPenalized(t.Context(), p, 8, 1e-9)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Release()
	ctx := context.Background()
	rng := rand.New(rand.NewPCG(3, 4))
	rhs, x, want := dev.Alloc(1, n*n), dev.Alloc(1, n*n), dev.Alloc(1, n*n)
	before := &kept{rhs: dev.Alloc(1, n*n), left: dev.Alloc(1, n*n)}
	host := make([]float64, n*n)
	for i, rho := range []float64{1, 1, 1, 3, 3, 1, 1} {
		for j := range host {
			host[j] += rng.NormFloat64()
		}
		dev.Upload(rhs, host)
		if err := s.after(ctx, x, rhs, rho, nearer, before); err != nil {
			t.Fatal(err)
		}
		if same := before.rho == rho; !same || (before.since == 0) != (i == 0 || i == 3 || i == 5) {
			t.Errorf("solution %d: %d solutions since the residual was computed", i, before.since)
		}
		// What is said to be left is what is left.
		apply, free := s.products(dev, 1, rho)
		apply(want, x)
		free()
		dev.Lin(want, 1, rhs, -1, want)
		dev.Lin(want, 1, want, -1, before.left)
		if off := engine.Norm(want) / engine.Norm(rhs); !(off < 1e-13) {
			t.Errorf("solution %d: the residual is off by %g", i, off)
		}
	}
}
