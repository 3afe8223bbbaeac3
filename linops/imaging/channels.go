package imaging

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/internal/numerics"
	"surepipe/linops"
	"surepipe/linops/internal/product"
)

// Channels mixes the channels of a measurement: with k channels of n numbers each,
//
//	Forward: dst_i = sum_j M_{ij} b_j        Adjoint: dst_j = sum_i conj(M_{ij}) z_i
//
// for a real or complex k x k matrix M. Complex numbers are pairs of real and imaginary part, side by
// side. A triangular M that makes the noise of the channels independent whitens them. It computes on
// the host, and after [Channels.Load] on another device too; else the vectors of that device are
// copied to the host and back.
type Channels struct {
	mapped
	k, n int
	m    []complex128 // row-major
	pair bool         // the numbers are complex
}

// NewChannels returns the operator of a matrix, row-major k x k, on k channels of n real numbers, for
// which the matrix must be real, or of n complex ones. The slice is copied.
func NewChannels(k, n int, m []complex128, pairs bool) (*Channels, error) {
	product.CheckSize("Channels", k, n)
	if len(m) != k*k {
		return nil, fmt.Errorf("linops: %d values of a matrix that mixes %d channels, expected %d", len(m), k, k*k)
	}
	for i, v := range m {
		if bad := math.IsNaN(real(v)+imag(v)) || math.IsInf(real(v), 0) || math.IsInf(imag(v), 0); bad || !pairs &&
			imag(v) != 0 {
			return nil, fmt.Errorf("linops: entry (%d, %d) of a matrix that mixes channels is %g, expected finite "+
				"numbers, real ones for real channels", i/k, i%k, v)
		}
	}
	a := &Channels{k: k, n: n, m: append([]complex128(nil), m...), pair: pairs}
	a.mapped = mapped{twin: twin{host: a.vector}, name: "Channels", d: k * a.width(), p: k * a.width()}
	s := linops.Structure{ColumnNorms2: a.columnNorms2}
	if norm2, ok := a.norm2(); ok {
		s.Norm2 = linops.Known(norm2)
	}
	a.structure = linops.Complete(a, s)
	return a, nil
}

func (a *Channels) norm2() (float64, bool) {
	if a.k == 0 || a.n == 0 {
		return 0, true
	}
	x := mat.NewDense(2*a.k, 2*a.k, nil)
	for i, v := range a.m {
		r, c := i/a.k, i%a.k
		x.Set(r, c, real(v))
		x.Set(r+a.k, c+a.k, real(v))
		x.Set(r, c+a.k, -imag(v))
		x.Set(r+a.k, c, imag(v))
	}
	values, err := numerics.SingularValues(x)
	if err != nil {
		return 0, false
	}
	return values[0] * values[0], true
}

func (a *Channels) columnNorms2() []float64 {
	width := a.width()
	norms := make([]float64, a.k*width)
	for i, v := range a.m {
		j := i % a.k
		for u := range width {
			norms[j*width+u] += squared(v)
		}
	}
	return norms
}

func (a *Channels) width() int {
	if a.pair {
		return 2 * a.n
	}
	return a.n
}

// Load puts the matrix on a device, unless that computes in the host's memory. It comes before the
// first product. There M B = Re(M) B + Im(M) (i B) are products of real matrices.
func (a *Channels) Load(dev array.Device) {
	if !a.loads(dev) || a.k == 0 || a.n == 0 {
		return
	}
	parts := [2][]float64{make([]float64, len(a.m)), make([]float64, len(a.m))}
	for i, v := range a.m {
		parts[0][i], parts[1][i] = real(v), imag(v)
	}
	square, side := array.Shape{Rows: a.k, Cols: a.k}, array.Shape{Rows: a.k, Cols: a.width()}
	re := a.put(dev, parts[0])
	if !a.pair {
		a.on = func(dst, src array.Batch, do action) {
			dst.Device().GemmEach(do.kind == doAdjoint, false, 1, re, square, src, side, 0, dst)
		}
		return
	}
	im, unit := a.put(dev, parts[1]), make([]float64, a.k*a.width())
	for i := range unit {
		unit[i] = float64(i % 2)
	}
	turn, i := newComplexPairs(&a.twin, dev, len(unit)/2), newFactors(&a.twin, dev, 1, unit)
	a.on = func(dst, src array.Batch, do action) {
		dev, adjoint, sign := dst.Device(), do.kind == doAdjoint, 1.0
		if adjoint {
			sign = -1
		}
		dev.GemmEach(adjoint, false, 1, re, square, src, side, 0, dst)
		inGroups(dst, src, 3*src.N(), func(dst, src array.Batch) {
			turned := dev.Alloc(src.K(), src.N())
			turn.multiply(turned, i, false, src)
			dev.GemmEach(adjoint, false, sign, im, square, turned, side, 1, dst)
			turned.Free()
		})
	}
}

func (a *Channels) vector(dst, src []float64, do action, _ bool) {
	clear(dst)
	width := a.width()
	for i := range a.k {
		out := dst[i*width:][:width]
		for j := range a.k {
			v := a.m[i*a.k+j]
			if do.kind == doAdjoint {
				v = a.m[j*a.k+i]
				v = complex(real(v), -imag(v))
			}
			if v == 0 {
				continue
			}
			in := src[j*width:][:width]
			if !a.pair {
				for u, x := range in {
					out[u] += real(v) * x
				}
				continue
			}
			re, im := real(v), imag(v)
			for u := 0; u+1 < width; u += 2 {
				x, y := in[u], in[u+1]
				out[u] += re*x - im*y
				out[u+1] += re*y + im*x
			}
		}
	}
}
