package hutch

import (
	"fmt"

	"surepipe/array"
)

// exact is the exact trace, sum_i <e_i, M e_i> over the d unit vectors e_i. Its phase is the
// projected one, with the unit vectors for a basis.
type exact struct{}

func (exact) Name() string                { return Exact }
func (exact) First(float64) int           { return 0 }
func (exact) layout(int) (Layout, string) { return Layout{Basis: UnitBasis, Needs: Images}, "" }

// Known is the estimate of a trace that is known without any query. It carries the given seed.
func Known(trace, frobenius2 float64, seed uint64) Estimate {
	return Estimate{Estimator: Exact, Trace: trace, Frobenius2: frobenius2, Seed: seed, Exact: true}
}

// UnitVectors sets vector i of dst to the unit vector e_{first+i}: rows first
// to first+k-1 of the identity. It panics if there are not that many.
func UnitVectors(dst array.Batch, first int) {
	k := dst.K()
	if first < 0 || first+k > dst.N() {
		panic(fmt.Sprintf("hutch: unit vectors %d to %d in a batch %s", first, first+k-1, dst))
	}
	dev := dst.Device()
	dev.Fill(dst, 0)
	dev.Fill(dst.Cols(first, first+k).Diagonal(), 1)
}
