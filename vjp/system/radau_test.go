package system

import (
	"math"
	"math/rand/v2"
	"testing"
)

// On diagonal systems the bound holds at every step, even where rounding errors have destroyed
// orthogonality, it is no more than the residual over the node, and the smallest Ritz value is the
// smallest eigenvalue at the end.
func TestRadauBoundsWhatConjugateGradientsLack(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 7))
	for _, least := range []float64{0.5, 1e-2, 1e-4, 1e-6} {
		const n = 60
		eigen, r, p := make([]float64, n), make([]float64, n), make([]float64, n)
		want, rho := 0.0, 0.0
		for i := range eigen {
			eigen[i] = math.Pow(least, float64(i)/(n-1))
			// As in the derivative small eigenvalues have small parts.
			r[i] = rng.NormFloat64() * math.Sqrt(eigen[i])
			want += r[i] * r[i] / eigen[i]
			rho += r[i] * r[i]
		}
		copy(p, r)
		node := nodeShare * least
		var g radau
		g.start(node)
		form, start := 0.0, rho
		for step := 1; rho > 1e-14*start; step++ {
			curvature := 0.0
			for i, v := range p {
				curvature += eigen[i] * v * v
			}
			alpha, next := rho/curvature, 0.0
			for i, v := range p {
				r[i] -= alpha * eigen[i] * v
				next += r[i] * r[i]
			}
			form += alpha * rho
			beta := next / rho
			rho = next
			if !g.add(alpha, beta) {
				t.Fatalf("smallest eigenvalue %g, step %d: the node %g is above the spectrum", least, step, node)
			}
			for i := range p {
				p[i] = r[i] + beta*p[i]
			}
			lacks, bound := want-form, g.gamma*rho
			if lacks > bound*(1+1e-6)+1e-11*want || bound > rho/node*(1+1e-12) {
				t.Fatalf("smallest eigenvalue %g, step %d: the form lacks %g, bound %g, residual over node %g", least,
					step, lacks, bound, rho/node)
			}
			if step > 3000 {
				t.Fatalf("smallest eigenvalue %g: residual %g", least, rho/start)
			}
		}
		if ritz := g.smallest(len(g.alpha)); ritz < least*(1-1e-2) || ritz > least*1.2 {
			t.Errorf("smallest Ritz value %g after %d steps, smallest eigenvalue %g", ritz, len(g.alpha), least)
		}
	}
}

// A node that is above an eigenvalue is detected and lowered.
func TestRadauFindsOutANodeThatIsTooLarge(t *testing.T) {
	var g radau
	g.start(0.5)
	if !g.add(1.98, 0.5) {
		t.Fatal("the first Ritz value is 1/1.98")
	}
	if g.add(50, 0.5) {
		t.Fatal("a step of 50 has a Ritz value below 1/50")
	}
	g.lower()
	if _, ok := g.at(g.mu); !ok || g.mu >= 0.5 {
		t.Errorf("lowered to %g", g.mu)
	}
	if _, ok := g.at(g.smallest(2) * 1.01); ok {
		t.Error("more than the smallest Ritz value passes")
	}
}
