package active

import (
	"math"
	"math/rand/v2"

	"surepipe/linops"
	"surepipe/solve/engine"
	"surepipe/solve/internal/faces"
)

// identified reports, for columns that nearly depend on each other, that the support and the signs of b are
// those of the solution even so: with a gradient that is off by random rounding errors, of A b and of A* (A b -
// y), the minimum over the face has the same signs, and inactive coordinates stay so. z and b are the norms of
// A b - y and b.
func (n *newton) identified(z, b float64) bool {
	if !n.Convergence.Converged || n.violations > 0 || n.separate == nil || n.lengths == nil ||
		n.separate.Least() > faces.WellConditioned {
		return false
	}
	size := engine.Epsilon * (n.Scales.Y + n.norm*b)
	rng := rand.New(rand.NewPCG(0x69646e74, uint64(len(n.set))))
	sign := func() float64 { return float64(1 - 2*int(rng.Uint64()&1)) }
	noise := make([]float64, n.y.N())
	for i := range noise {
		noise[i] = sign() * size / math.Sqrt(float64(len(noise)))
	}
	of := n.dev.Alloc(1, len(noise))
	defer of.Free()
	n.dev.Upload(of, noise)
	e := make([]float64, len(n.set))
	n.workspace.adjoint(e, of, linops.Operator.Adjoint)
	for i, j := range n.set {
		e[i] += sign() * engine.Epsilon * z * n.lengths[j]
	}
	off, same := n.separate.Keeps(e)
	return same && n.s.stays(n.hostB, n.hostG, n.lengths, 2*(off+size))
}
