package prox

import (
	"math"

	"surepipe/array"
)

// elsewhere reports whether a batch of one vector is not in the host's memory. The gaps that the
// solvers of r(K b) look at every few iterations are computed where their vectors are.
func elsewhere(b array.Batch) bool {
	_, ok := b.HostRow(0)
	return !ok
}

// least is the part of the largest root below which squareRoots takes a root for 0.
const least = 0x1p-60

// squareRoots sets dst to the square roots of q, of one vector, by c/q^(3/2) q q / c. dst and q must not
// overlap.
func squareRoots(dst, q array.Batch) {
	dev := q.Device()
	c := least * math.Sqrt(q.MaxAbs())
	if c == 0 {
		dev.Fill(dst, 0)
		return
	}
	dev.ShrinkSlope(dst, q, array.Batch{}, c)
	dev.Mul(dst, dst, q)
	dev.Mul(dst, dst, q)
	dev.Lin(dst, 1/c, dst, 0, array.Batch{})
}

// sumOfSurplus is the sum of max(w norms_i - t along_i, 0). It overwrites norms.
func sumOfSurplus(norms, along array.Batch, w, t float64) float64 {
	dev := norms.Device()
	lo, hi := dev.Alloc(1, norms.N()), dev.Alloc(1, norms.N())
	dev.Fill(lo, 0)
	dev.Fill(hi, math.Inf(1))
	dev.Lin(norms, w, norms, -t, along)
	dev.Clamp(norms, norms, lo, hi)
	dev.Fill(hi, 1)
	defer array.Free(lo, hi)
	return norms.Dot(hi)
}
