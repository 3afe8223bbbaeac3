//go:build cuda

package cuda_test

import (
	"fmt"
	"math"
	"testing"

	"surepipe/array"
	"surepipe/cuda/emulator"
	"surepipe/linops"
	"surepipe/linops/imaging"
)

// quick skips what takes seconds where a program stands in for the card.
func quick(b *testing.B, values int) {
	b.Helper()
	if emulator.Present() && values > 1<<14 {
		b.Skip("the card is emulated")
	}
}

// BenchmarkScanners projects images and sinograms. The bytes are those that have to be moved once:
// image, sinogram and 36 of every ray. The operations are those of the places at which rays meet
// lines, of which a quarter are multiplications and additions of values.
func BenchmarkScanners(b *testing.B) {
	dev := card(b)
	for _, size := range [][2]int{{32, 24}, {256, 180}, {512, 360}} {
		n, views := size[0], size[1]
		angles := make([]float64, views)
		for i := range angles {
			angles[i] = 360 * float64(i) / float64(views)
		}
		detectors := int(math.Ceil(float64(n) * math.Sqrt2))
		parallel, err := imaging.NewParallelBeam(n, n, angles, detectors, 1, imaging.Axis{})
		if err != nil {
			b.Fatal(err)
		}
		fan, err := imaging.NewFanBeam(n, n, angles, detectors, 2, 2*float64(n), 2*float64(n), imaging.Axis{})
		if err != nil {
			b.Fatal(err)
		}
		for name, a := range map[string]*imaging.Projection{"parallel": parallel, "fan": fan} {
			for _, k := range []int{1, 24} {
				b.Run(fmt.Sprintf("%s/%dx%d/%d/k=%d", name, n, n, views, k), func(b *testing.B) {
					d, p := a.Dims()
					quick(b, k*d)
					room(b, dev, k*(d+p)+5*d)
					a.Load(dev)
					defer a.Release()
					x, y := dev.Alloc(k, p), dev.Alloc(k, d)
					defer x.Free()
					defer y.Free()
					dev.Fill(x, 1)
					bytes, flops := 8*float64(k*(d+p))+36*float64(d), 16*float64(k*d)*float64(n)
					b.Run("Forward", func(b *testing.B) {
						report(b, seconds(b, dev, func() { a.Forward(y, x) }),
							bytes, flops)
					})
					b.Run("Adjoint", func(b *testing.B) {
						report(b, seconds(b, dev, func() { a.Adjoint(x, y) }),
							bytes, flops)
					})
				})
			}
		}
	}
}

// BenchmarkFourier transforms complex images. The bytes are those of one pass: every pass of a
// transform moves them.
func BenchmarkFourier(b *testing.B) {
	dev := card(b)
	for _, s := range []array.Shape{{Rows: 32, Cols: 32}, {Rows: 256, Cols: 256}, {Rows: 512, Cols: 512},
		{Rows: 509, Cols: 509}, {Rows: 2048, Cols: 2048}, {Rows: 1, Cols: 1 << 20}} {
		for _, k := range []int{1, 24} {
			b.Run(fmt.Sprintf("%dx%d/k=%d", s.Rows, s.Cols, k), func(b *testing.B) {
				room(b, dev, 3*2*k*s.Len())
				quick(b, k*s.Len())
				f := dev.NewDFT(s)
				defer f.Free()
				x, y := dev.Alloc(k, 2*s.Len()), dev.Alloc(k, 2*s.Len())
				defer x.Free()
				defer y.Free()
				dev.Fill(x, 1)
				n := float64(k * s.Len())
				report(b, seconds(b, dev, func() { dev.MulDFT(false, 1, y, f, x) }), 32*n,
					5*n*math.Log2(float64(s.Len())))
			})
		}
	}
}

// BenchmarkDifferences takes gradients of images and solves their normal equations.
func BenchmarkDifferences(b *testing.B) {
	dev := card(b)
	for _, n := range []int{32, 512, 2048} {
		for _, k := range []int{1, 24} {
			b.Run(fmt.Sprintf("%dx%d/k=%d", n, n, k), func(b *testing.B) {
				room(b, dev, 6*k*n*n+2*n*n)
				quick(b, k*n*n)
				g := imaging.NewGradient([]int{n, n}, nil, imaging.Reflecting)
				g.Load(dev)
				defer g.Release()
				x, y := dev.Alloc(k, n*n), dev.Alloc(k, 2*n*n)
				defer x.Free()
				defer y.Free()
				dev.Fill(x, 1)
				pixels := float64(k * n * n)
				b.Run("Forward", func(b *testing.B) {
					report(b, seconds(b, dev, func() { g.Forward(y, x) }),
						24*pixels, 0)
				})
				b.Run("Adjoint", func(b *testing.B) {
					report(b, seconds(b, dev, func() { g.Adjoint(x, y) }),
						24*pixels, 0)
				})
				solve := linops.StructureOf(g).SolveNormal
				b.Run("Solve", func(b *testing.B) {
					report(b, seconds(b, dev, func() { solve(x, x, 0.5) }), 0, 8*pixels*float64(n))
				})
			})
		}
	}
}
