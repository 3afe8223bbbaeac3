package imaging

import (
	"fmt"
	"math"
	"slices"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/linops"
	"surepipe/linops/internal/product"
)

// Coils multiplies complex images by the sensitivities of several receivers, as parallel magnetic
// resonance imaging does (Pruessmann et al., SENSE, 1999).
//
//	Forward: dst_c = s_c ∘ b,  c = 1, 2, ...        Adjoint: dst = sum_c conj(s_c) ∘ z_c
//
// Images are vectors of n pairs of real and imaginary part. A*A is diagonal, sum_c |s_c|^2, and so
// are its norm and (eta A*A + I)^{-1} known. It computes on the host, and after [Coils.Load] on another
// device too; else the vectors of that device are copied to the host and back.
type Coils struct {
	mapped
	n, coils int
	maps     []float64 // coils x n pairs
	gains    []float64 // sum_c |s_c|^2
}

// NewCoils returns the operator of the sensitivities s, coils x n pairs of real and imaginary part.
// The slice is copied.
func NewCoils(coils, n int, s []float64) (*Coils, error) {
	product.CheckSize("Coils", coils, n)
	if len(s) != 2*coils*n {
		return nil, fmt.Errorf("linops: %d values of sensitivities, expected 2 x %d coils x %d pixels", len(s), coils,
			n)
	}
	a := &Coils{n: n, coils: coils, maps: append([]float64(nil), s...), gains: make([]float64, n)}
	a.mapped = mapped{twin: twin{host: a.vector}, name: "Coils", d: 2 * coils * n, p: 2 * n}
	for i, v := range s {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("linops: the sensitivity of coil %d at pixel %d is %g, expected finite numbers",
				i/(2*n), i%(2*n)/2, v)
		}
		a.gains[i%(2*n)/2] += v * v
	}
	lo, hi := math.Inf(1), 0.0
	for _, g := range a.gains {
		lo, hi = min(lo, g), max(hi, g)
	}
	structure := linops.Structure{Norm2: linops.Known(hi), ColumnNorms2: a.columnNorms2, SolveNormal: a.solveNormal}
	if lo == hi {
		structure.Columns = linops.Known(hi)
	}
	a.structure = linops.Complete(a, structure)
	return a, nil
}

// Load puts the sensitivities on a device, twice, unless that computes in the host's memory. It comes
// before the first product. There one image, or all images of the coils, are a batch.
func (a *Coils) Load(dev array.Device) {
	if !a.loads(dev) || a.n == 0 || a.coils == 0 {
		return
	}
	pairs, maps := newComplexPairs(&a.twin, dev, a.n), newFactors(&a.twin, dev, a.coils, a.maps)
	ones := a.put(dev, slices.Repeat([]float64{1}, a.coils))
	a.on = func(dst, src array.Batch, do action) {
		dev := dst.Device()
		if do.kind == doNormal {
			a.shrunk(dev, do.eta, a.columnNorms2, func(w array.Batch) { dev.Mul(dst, src, w) })
			return
		}
		for i := range dst.K() {
			to, from := dst.Rows(i, i+1), src.Rows(i, i+1)
			if do.kind == doForward {
				pairs.multiply(to.Reshape(a.coils, 2*a.n), maps, false, from)
				continue
			}
			products := dev.Alloc(a.coils, 2*a.n)
			pairs.multiply(products, maps, true, from.Reshape(a.coils, 2*a.n))
			dev.Gemm(false, false, 1, ones, products, 0, to)
			products.Free()
		}
	}
}

func (a *Coils) columnNorms2() []float64 {
	return lists.Make(2*a.n, func(i int) float64 { return a.gains[i/2] })
}

func (a *Coils) vector(dst, src []float64, do action, _ bool) {
	switch do.kind {
	case doForward:
		for c := range a.coils {
			maps, out := a.maps[2*a.n*c:][:2*a.n], dst[2*a.n*c:][:2*a.n]
			for i := 0; i+1 < len(src); i += 2 {
				u, v, x, y := maps[i], maps[i+1], src[i], src[i+1]
				out[i], out[i+1] = u*x-v*y, u*y+v*x
			}
		}
	case doAdjoint:
		clear(dst)
		for c := range a.coils {
			maps, in := a.maps[2*a.n*c:][:2*a.n], src[2*a.n*c:][:2*a.n]
			for i := 0; i+1 < len(dst); i += 2 {
				u, v, x, y := maps[i], maps[i+1], in[i], in[i+1]
				dst[i] += u*x + v*y
				dst[i+1] += u*y - v*x
			}
		}
	default:
		for i, v := range src {
			dst[i] = v / (1 + do.eta*a.gains[i/2])
		}
	}
}
