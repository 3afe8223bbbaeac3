package imaging_test

import (
	"fmt"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/linops"
	"surepipe/linops/imaging"
)

// loadable are operators that compute on the host, and on a device that they are loaded to.
func loadable() map[string]linops.Operator {
	kernel := mat.NewDense(2, 3, []float64{1, 2, 3, 4, 5, 6})
	return map[string]linops.Operator{
		"Projection": must(imaging.NewFanBeam(5, 4, []float64{0, 50, 120}, 6, 1, 9, 3, imaging.Axis{})),
		"Fourier": must(imaging.NewFourier(4, 5, []int{3, 0, 12},
			imaging.FourierLayout{Complex: true, Centered: true})),
		"Fourier of all":       must(imaging.NewFourier(1, 3, []int{0, 1, 2}, imaging.FourierLayout{})),
		"Coils":                must(imaging.NewCoils(2, 3, gaussian(12, 4))),
		"Channels":             must(imaging.NewChannels(2, 3, []complex128{1, 2i, 3, 4}, true)),
		"circular convolution": must(imaging.NewConvolution2D(4, 6, kernel, imaging.Circular)),
		"zero-padded":          must(imaging.NewConvolution2D(4, 6, kernel, imaging.ZeroPadded)),
		"DCT":                  imaging.NewDCT2D(4, 3),
		"Wavelet":              must(imaging.NewWavelet2D(6, 9, "db2", 2)),
		"Wavelet of sequences": must(imaging.NewWavelet1D(9, "haar", 2)),
		"Gradient":             imaging.NewGradient([]int{2, 4, 3}, []int{1, 2}, imaging.Reflecting),
		"Gradient, not solved": imaging.NewGradient([]int{4, 3}, nil, imaging.Periodic),
		"Difference":           imaging.NewDifference2D(3, 4),
	}
}

// What Load takes Release gives back; nothing that Load takes is on another device or request; and
// without memory the request fails, not the device.
func TestLoadedOperatorsGiveAllMemoryBack(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		for name, a := range loadable() {
			l := a.(linops.Loadable)
			before := dev.Stats()
			for range 2 {
				l.Load(dev)
				l.Load(dev) // does nothing
				d, p := a.Dims()
				b, z := dev.Alloc(2, p), dev.Alloc(2, d)
				dev.Fill(b, 1)
				a.Forward(z, b)
				a.Adjoint(b, z)
				if s := linops.StructureOf(a); s.SolveNormal != nil {
					for eta := range 7 {
						s.SolveNormal(b, b, float64(eta))
					}
				}
				b.Free()
				z.Free()
				l.Release()
				l.Release()
			}
			if now := dev.Stats(); now.Live != before.Live || now.LiveBytes != before.LiveBytes {
				t.Errorf("%s: %+v before, %+v when all is released", name, before, now)
			}
			if err := arraytest.AllocatesOn(dev, func(view array.Device) func() {
				l.Load(view)
				return l.Release
			}); err != nil {
				t.Error(fmt.Errorf("%s: %w", name, err))
			}
		}
	})
}

// A loaded operator has the host's matrix, and the host's solution of its normal equations.
func TestLoadedOperatorsAreTheHosts(t *testing.T) {
	host := array.NewHost()
	defer host.Close()
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		arraytest.NoLeak(t, dev)
		for name, a := range loadable() {
			d, p := a.Dims()
			if d*p == 0 {
				continue
			}
			want := linops.ToDense(host, a)
			loaded(t, dev, a)
			if got := linops.ToDense(dev, a); !mat.EqualApprox(got, want, 1e-13) {
				t.Errorf("%s: its matrix is\n%v, on the host\n%v", name, mat.Formatted(got), mat.Formatted(want))
			}
			solve := linops.StructureOf(a).SolveNormal
			if solve == nil {
				continue
			}
			const k, eta = 3, 0.7
			rhs := gaussian(k*p, 5)
			on, at := dev.Alloc(k, p), host.Alloc(k, p)
			dev.Upload(on, rhs)
			host.Upload(at, rhs)
			solve(on, on, eta)
			solve(at, at, eta)
			if got, want := mat.NewDense(k, p, on.ToHost()), mat.NewDense(k, p, at.ToHost()); !mat.EqualApprox(got,
				want, 1e-13) {
				t.Errorf("%s: the normal equations have the solution\n%v, on the host\n%v", name, mat.Formatted(got),
					mat.Formatted(want))
			}
			on.Free()
			at.Free()
		}
	})
}
