package hutch

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/internal/numerics"
)

// naHutchPP is the non-adaptive Hutch++: all queries for the sketch, none of which depends on the
// answer to another.
type naHutchPP struct{}

func (naHutchPP) Name() string      { return NAHutchPP }
func (naHutchPP) First(float64) int { return 0 }

func (naHutchPP) layout(queries int) (Layout, string) {
	if queries < 6 || queries%6 != 0 {
		return Layout{}, "na-hutch++ takes a multiple of 6 (it splits its probes 1:2:3), at least 6"
	}
	return Layout{Sketch: queries, SketchNeeds: Images, Keeps: true}, ""
}

func (naHutchPP) estimate(r *Run) (Estimate, error) {
	return r.combined(func(probes array.Batch) (Estimate, error) { return nonAdaptive(probes, r.sketch, r.sketchLeft) })
}

// pseudoInverseCut is the singular value, relative to the largest, below which a singular value
// counts as a rounding error.
const pseudoInverseCut = 1e-13

// nonAdaptive splits the probes into S (a sixth), R (a third) and G (a half), and with Z = MR and W
// = MS uses G to sample the part of M that the approximation
//
//	A = Z (S*Z)^+ W*
//
// leaves out: tr M ~ tr A + 1/g sum_j <g_j, (M - A) g_j>, and ||M||_F^2 ~ ||A||_F^2 + 1/g sum_j
// (||M g_j||^2 - ||A g_j||^2) (Meyer, Musco, Musco and Woodruff 2021, algorithm 2). Both are
// unbiased for any A that does not depend on the g_j, even with truncated images, so only the
// truncation of the forms <g_j, M g_j> matters; A is close to a symmetric M. The standard error has
// g - 1 degrees of freedom, see [Widened]. left holds the oracle's bounds.
func nonAdaptive(probes, y array.Batch, left []float64) (Estimate, error) {
	sixth := y.K() / 6
	s, w := probes.Rows(0, sixth), y.Rows(0, sixth)
	z := y.Rows(sixth, 3*sixth)
	g, mg := probes.Rows(3*sixth, 6*sixth), y.Rows(3*sixth, 6*sixth)

	core := products(s, z)
	// The singular values of the core's inverse are split between both sides,
	// A = Z' W'*, so that neither factor is much larger than the root of M. On one
	// side only they would multiply the rounding errors of the other.
	zs, ws, err := roots(core, z, w)
	if err != nil {
		return Estimate{}, err
	}
	defer zs.Free()
	defer ws.Free()
	rank, n := zs.K(), g.K()
	quad, norm2, own := make([]float64, n), make([]float64, n), make([]float64, rank)
	dev := y.Device()
	dev.Dot(quad, g, mg)
	dev.Dot(norm2, mg, mg)
	var e Estimate
	if rank > 0 {
		zz, ww, zg, wg := products(zs, zs), products(ws, ws), products(zs, g), products(ws, g)
		zzwg := mul(zz, wg)
		for j := range n {
			quad[j] -= columnDot(zg, wg, j)
			norm2[j] -= columnDot(wg, zzwg, j)
		}
		dev.Dot(own, zs, ws)
		for _, x := range own {
			e.Trace += x
		}
		e.Frobenius2 = inner(zz, ww)
	}
	mean, stdErr := meanAndError(quad)
	mean2, _ := meanAndError(norm2)
	e.Trace, e.StdErr, e.Frobenius2 = e.Trace+mean, stdErr*Widened(n-1), e.Frobenius2+mean2
	e.Truncation, _ = meanAndError(left[3*sixth:])
	return e, nil
}

// roots returns Z' = Z V D and W' = W U D, vectors as rows, where U and V are
// the singular vectors of the core and D^2 is the pseudo-inverse of its singular
// values. The caller frees both.
func roots(core *mat.Dense, z, w array.Batch) (zs, ws array.Batch, err error) {
	u, sigma, v, err := numerics.SVD(core)
	if err != nil {
		return zs, ws, fmt.Errorf("hutch: na-hutch++, S*MR: %w", err)
	}
	rank := 0
	for rank < len(sigma) && sigma[rank] > pseudoInverseCut*sigma[0] {
		rank++
	}
	combine := func(x array.Batch, vectors *mat.Dense) array.Batch {
		dev := x.Device()
		coefficients := make([]float64, 0, rank*x.K())
		for l := range rank {
			for i := range x.K() {
				coefficients = append(coefficients, vectors.At(i, l)/math.Sqrt(sigma[l]))
			}
		}
		c, out := dev.Alloc(rank, x.K()), dev.Alloc(rank, x.N())
		defer c.Free()
		if rank > 0 {
			dev.Upload(c, coefficients)
			dev.Gemm(false, false, 1, c, x, 0, out)
		}
		return out
	}
	return combine(z, v), combine(w, u), nil
}
