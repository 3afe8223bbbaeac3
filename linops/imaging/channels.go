package imaging

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
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
	on   *loadedChannels
}

// loadedChannels is what a Channels keeps on another device.
type loadedChannels struct {
	re, im array.Batch // k x k
	turn   complexPairs
	i      factors // the imaginary unit, for every number
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
	a.mapped = mapped{name: "Channels", d: k * a.width(), p: k * a.width(), run: a.apply}
	s := linops.Structure{ColumnNorms2: a.columnNorms2}
	if norm2, ok := a.norm2(); ok {
		s.Norm2 = linops.Known(norm2)
	}
	a.structure = linops.Complete(a, s)
	return a, nil
}

// norm2 is the largest squared singular value of M, by that of the real matrix [Re -Im; Im Re].
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
	var svd mat.SVD
	if !svd.Factorize(x, mat.SVDNone) {
		return 0, false
	}
	top := svd.Values(nil)[0]
	return top * top, true
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

// width is the number of values of a channel.
func (a *Channels) width() int {
	if a.pair {
		return 2 * a.n
	}
	return a.n
}

// Load puts the matrix on a device, unless that computes in the host's memory. It comes before the
// first product.
func (a *Channels) Load(dev array.Device) {
	if inHostMemory(dev) || a.on != nil || a.k == 0 || a.n == 0 {
		return
	}
	re, im := make([]float64, len(a.m)), make([]float64, len(a.m))
	for i, v := range a.m {
		re[i], im[i] = real(v), imag(v)
	}
	on := &loadedChannels{re: dev.Alloc(1, len(re))}
	dev.Upload(on.re, re)
	if a.pair {
		on.im = dev.Alloc(1, len(im))
		dev.Upload(on.im, im)
		unit := make([]float64, a.k*a.width())
		for i := range unit {
			unit[i] = float64(i % 2)
		}
		on.turn, on.i = newComplexPairs(dev, len(unit)/2), newFactors(dev, 1, unit)
	}
	a.on = on
}

// Release frees the memory of Load. The operator is dead on that device afterwards.
func (a *Channels) Release() {
	if a.on == nil {
		return
	}
	a.on.re.Free()
	if a.pair {
		a.on.im.Free()
		a.on.turn.free()
		a.on.i.free()
	}
	a.on = nil
}

// apply is mapOnHost for a batch on the device, where M B = Re(M) B + Im(M) (i B) are products of real
// matrices.
func (a *Channels) apply(dst, src array.Batch, do action) {
	if a.on == nil || !elsewhere(dst) {
		mapOnHost(dst, src, a, do)
		return
	}
	dev, adjoint := dst.Device(), do.kind == doAdjoint
	square, side := array.Shape{Rows: a.k, Cols: a.k}, array.Shape{Rows: a.k, Cols: a.width()}
	dev.GemmEach(adjoint, false, 1, a.on.re, square, src, side, 0, dst)
	if !a.pair {
		return
	}
	sign := 1.0
	if adjoint {
		sign = -1
	}
	inGroups(dst, src, 3*src.N(), func(dst, src array.Batch) {
		turned := dev.Alloc(src.K(), src.N())
		a.on.turn.multiply(turned, a.on.i, false, src)
		dev.GemmEach(adjoint, false, sign, a.on.im, square, turned, side, 1, dst)
		turned.Free()
	})
}

func (a *Channels) shares() bool { return false }

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
