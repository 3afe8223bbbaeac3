package splitting

import (
	"math/rand/v2"
	"testing"

	"surepipe/array"
	"surepipe/linops/imaging"
	"surepipe/prox"
	"surepipe/solve/engine"
)

// A tomography that begins at the step of a solve before converges sooner than one that has its multiplier only.
func TestStepOfTheSolveBefore(t *testing.T) {
	const n, count, lambda = 32, 24, 0.5
	angles := make([]float64, count)
	for i := range angles {
		angles[i] = 180. / count * float64(i)
	}
	projection, err := imaging.NewParallelBeam(n, n, angles, n, 1, imaging.Axis{})
	if err != nil {
		t.Fatal(err)
	}
	dev, rng := array.NewHost(), rand.New(rand.NewPCG(1, 2))
	defer dev.Close()
	a := projection
	d, dim := a.Dims()
	image := make([]float64, dim)
	for i := range image {
		if x, y := float64(i%n)-14, float64(i/n)-17; x*x+2*y*y < 80 {
			image[i] = 1
		}
	}
	b, y := dev.Alloc(1, dim), dev.Alloc(1, d)
	dev.Upload(b, image)
	a.Forward(y, b)
	host := y.ToHost()
	for i := range host {
		host[i] += 0.3 * rng.NormFloat64()
	}
	dev.Upload(y, host)
	p := engine.Problem{Device: dev, A: a, K: imaging.NewGradient([]int{n, n}, nil, imaging.Reflecting),
		R: prox.NewVectorialL2(dim, 2, 1, lambda)}
	defer func(most int) { mostInverted = most }(mostInverted)
	mostInverted = 0
	o := engine.Options{Tol: 1e-5, Sigma2: 0.09, Multiplier: true}.WithDefaults()
	m, err := NewADMM(t.Context(), p, o)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Release()
	solution := func(from engine.Start) *engine.Solution {
		s, err := engine.Run(t.Context(), m, y, o, from)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Release)
		if !s.Converged {
			t.Fatalf("optimality %g after %d iterations", s.Optimality, s.Iterations)
		}
		return s
	}
	first := solution(engine.Start{})
	again := solution(engine.Start{B: first.B, Dual: first.Dual, Eta: first.Eta})
	without := solution(engine.Start{B: first.B, Dual: first.Dual})
	if again.Iterations > without.Iterations {
		t.Errorf("%d iterations from a step, and %d from the multiplier only", again.Iterations, without.Iterations)
	}
}
