package splitting

import (
	"math"
	"math/rand/v2"
	"testing"

	"surepipe/array"
	"surepipe/linops/imaging"
	"surepipe/prox"
	"surepipe/solve/engine"
)

// counted counts products with the adjoint.
type counted struct {
	*imaging.Projection
	products *int
}

func (c counted) Adjoint(dst, z array.Batch) {
	*c.products += z.K()
	c.Projection.Adjoint(dst, z)
}

// exactly hides the rough multiplier of a method.
type exactly struct{ engine.Method }

func (e exactly) Traits() engine.Traits {
	t := e.Method.Traits()
	t.Rough = nil
	return t
}

// A tomography whose gap is estimated first takes fewer products, and has the same solution; and a solve
// that begins at the step of one before converges sooner than one that has its multiplier only.
func TestRoughGapsTakeNoProducts(t *testing.T) {
	const n, count, lambda = 32, 24, 0.5
	angles := make([]float64, count)
	for i := range angles {
		angles[i] = 180. / count * float64(i)
	}
	projection, err := imaging.NewParallelBeam(n, n, angles, n, 1, imaging.Axis{})
	if err != nil {
		t.Fatal(err)
	}
	dev, rng, products := array.NewHost(), rand.New(rand.NewPCG(1, 2)), 0
	defer dev.Close()
	a := counted{projection, &products}
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
		R: prox.NewJointL2(dim, 2, lambda)}
	defer func(most int) { mostInverted = most }(mostInverted)
	mostInverted = 0
	o := engine.Options{Tol: 1e-5, Sigma2: 0.09, Multiplier: true}.WithDefaults()
	m, err := NewADMM(t.Context(), p, o)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Release()
	solution := func(m engine.Method, from engine.Start) (*engine.Solution, int) {
		before := products
		s, err := engine.Run(t.Context(), m, y, o, from)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Release)
		if !s.Converged {
			t.Fatalf("optimality %g after %d iterations", s.Optimality, s.Iterations)
		}
		return s, products - before
	}
	first, few := solution(m, engine.Start{})
	second, many := solution(exactly{m}, engine.Start{})
	if few >= many {
		t.Errorf("%d products, and %d without rough gaps", few, many)
	}
	u, v := first.MuHat.ToHost(), second.MuHat.ToHost()
	off := 0.0
	for i := range u {
		off = math.Hypot(off, u[i]-v[i])
	}
	if off > first.Error+second.Error {
		t.Errorf("the solutions are %g apart, their errors at most %g and %g", off, first.Error, second.Error)
	}
	again, _ := solution(m, engine.Start{B: first.B, Dual: first.Dual, Eta: first.Eta})
	without, _ := solution(m, engine.Start{B: first.B, Dual: first.Dual})
	if again.Iterations > without.Iterations {
		t.Errorf("%d iterations from a step, and %d from the multiplier only", again.Iterations, without.Iterations)
	}
	t.Logf("%d and %d products; %d, %d, %d and %d iterations", few, many, first.Iterations, second.Iterations,
		again.Iterations, without.Iterations)
}
