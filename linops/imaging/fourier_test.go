package imaging_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/linops"
	"surepipe/linops/imaging"
)

// spread lists places of n in no order, with steps that are coprime to n.
func spread(n, count int) []int {
	places := make([]int, count)
	for i := range places {
		places[i] = (i*7 + 3) % n
	}
	return places
}

func TestFourierSamplesAreTheirMatrices(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		for _, s := range [][3]int{{1, 1, 1}, {1, 8, 5}, {5, 1, 3}, {4, 5, 9}, {6, 4, 24}, {2, 103, 60}, {3, 3, 0}} {
			rows, cols := s[0], s[1]
			for _, layout := range []imaging.FourierLayout{{}, {Complex: true}, {Centered: true},
				{Complex: true, Centered: true}} {
				name := fmt.Sprintf("Fourier %v %+v", s, layout)
				places := spread(rows*cols, s[2])
				a := must(imaging.NewFourier(rows, cols, places, layout))
				isConforming(t, dev, name, a)
				isMatrix(t, dev, name, a, 1e-14,
					func(i, j int) float64 { return fourierEntry(rows, cols, places, layout, i, j) })
				if s[2] > 0 {
					norm, ok := knownNorm2(a)
					if want := singular2(a)[0]; !ok || math.Abs(norm-want) > 1e-12 {
						t.Errorf("%s: Norm2 is %.16g (%t), the matrix has %.16g", name, norm, ok, want)
					}
				}
			}
		}
		// Shared among processors.
		isConforming(t, dev, "64 x 80", must(imaging.NewFourier(64, 80, spread(64*80, 1000),
			imaging.FourierLayout{Complex: true})))
	})
}

// fourierEntry is the definition, entry by entry.
func fourierEntry(rows, cols int, places []int, layout imaging.FourierLayout, i, j int) float64 {
	imaginary := false
	if layout.Complex {
		imaginary = j%2 == 1
		j /= 2
	}
	place := places[i/2]
	k, l, r, c := place/cols, place%cols, j/cols, j%cols
	if layout.Centered {
		k, r, l, c = k-rows/2, r-rows/2, l-cols/2, c-cols/2
	}
	sin, cos := math.Sincos(-2 * math.Pi * (float64(k*r)/float64(rows) + float64(l*c)/float64(cols)))
	if imaginary { // times the imaginary unit
		sin, cos = cos, -sin
	}
	scale := 1 / math.Sqrt(float64(rows*cols))
	if i%2 == 0 {
		return scale * cos
	}
	return scale * sin
}

// What a mask says about A A*: frequencies that are neither opposite nor their own opposite give
// I/2, and all of them, of a real image, A*A = I.
func TestFourierStructureFollowsFromTheMask(t *testing.T) {
	half := must(imaging.NewFourier(4, 4, []int{1, 5, 6}, imaging.FourierLayout{}))
	if s := linops.StructureOf(half); s.Rows != linops.Known(0.5) || s.Norm2 != linops.Known(0.5) {
		t.Errorf("without opposite frequencies A A* = %v, ||A||^2 = %v", s.Rows, s.Norm2)
	}
	opposite := must(imaging.NewFourier(4, 4, []int{1, 3}, imaging.FourierLayout{}))
	if s := linops.StructureOf(opposite); s.Rows.Known || s.Norm2 != linops.Known(1) {
		t.Errorf("with opposite frequencies A A* = %v, ||A||^2 = %v", s.Rows, s.Norm2)
	}
	all := must(imaging.NewFourier(3, 5, spread(15, 15), imaging.FourierLayout{}))
	if s := linops.StructureOf(all); s.Rows.Known || s.Columns != linops.Known(1) {
		t.Errorf("with all frequencies A A* = %v, A*A = %v", s.Rows, s.Columns)
	}
}

func TestFourierRefusesBadPlaces(t *testing.T) {
	for want, err := range map[string]error{
		"0 x 3 pixels": errorOf(imaging.NewFourier(0, 3, nil, imaging.FourierLayout{})),
		"place 9":      errorOf(imaging.NewFourier(3, 3, []int{0, 9}, imaging.FourierLayout{})),
		"occurs twice": errorOf(imaging.NewFourier(3, 3, []int{2, 2}, imaging.FourierLayout{})),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error with %q", err, want)
		}
	}
}

func TestCoilsAreTheirMatrices(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		for _, s := range [][2]int{{1, 1}, {3, 6}, {1, 0}} {
			coils, n := s[0], s[1]
			maps := gaussian(2*coils*n, 5)
			a := must(imaging.NewCoils(coils, n, maps))
			name := fmt.Sprintf("coils %v", s)
			isConforming(t, dev, name, a)
			isMatrix(t, dev, name, a, 0, func(i, j int) float64 {
				if i%(2*n)/2 != j/2 {
					return 0
				}
				re, im := maps[i/2*2], maps[i/2*2+1]
				return [2][2]float64{{re, -im}, {im, re}}[i%2][j%2]
			})
		}
	})
	for want, err := range map[string]error{
		"3 values of sensitivities": errorOf(imaging.NewCoils(1, 2, []float64{1, 2, 3})),
		"coil 0 at pixel 1 is NaN":  errorOf(imaging.NewCoils(1, 2, []float64{1, 2, math.NaN(), 3})),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error with %q", err, want)
		}
	}
}

func TestComplexActsOnBothParts(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		x := gaussianMatrix(3, 5, 8)
		inner := linops.NewDense(dev, x)
		defer inner.Release()
		a := must(imaging.NewInterleaved(dev, inner, 2))
		defer a.Release()
		isConforming(t, dev, "complex dense", a)
		isMatrix(t, dev, "complex dense", a, 1e-15, func(i, j int) float64 {
			if i%2 != j%2 {
				return 0
			}
			return x.At(i/2, j/2)
		})
		three := must(imaging.NewInterleaved(dev, inner, 3))
		defer three.Release()
		isConforming(t, dev, "interleaved dense", three)
		isMatrix(t, dev, "interleaved dense", three, 1e-15, func(i, j int) float64 {
			if i%3 != j%3 {
				return 0
			}
			return x.At(i/3, j/3)
		})
		wavelet := must(imaging.NewInterleaved(dev, must(imaging.NewWavelet2D(4, 8, "db2", 1)), 2))
		defer wavelet.Release()
		isConforming(t, dev, "complex wavelet", wavelet)
		if s := linops.StructureOf(wavelet); s.Rows != linops.Known(1) || s.Columns != linops.Known(1) {
			t.Errorf("an orthogonal transform of both parts has A A* = %v, A*A = %v", s.Rows, s.Columns)
		}
	})
}

func TestChannelsAreTheirMatrices(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		const k, n = 3, 4
		parts := gaussian(2*k*k, 11)
		for _, pairs := range []bool{false, true} {
			m := make([]complex128, k*k)
			for i := range m {
				m[i] = complex(parts[2*i], 0)
				if pairs {
					m[i] = complex(parts[2*i], parts[2*i+1])
				}
			}
			a := must(imaging.NewChannels(k, n, m, pairs))
			isConforming(t, dev, "channels", a)
			width := n
			if pairs {
				width = 2 * n
			}
			isMatrix(t, dev, "channels", a, 1e-15, func(i, j int) float64 {
				v, u, w := m[i/width*k+j/width], i%width, j%width
				switch {
				case !pairs && u == w, pairs && u == w:
					return real(v)
				case pairs && u/2 == w/2 && u%2 == 0:
					return -imag(v)
				case pairs && u/2 == w/2:
					return imag(v)
				}
				return 0
			})
			if norm, ok := knownNorm2(a); !ok || math.Abs(norm-singular2(a)[0]) > 1e-12*norm {
				t.Errorf("Norm2 is %g (%t)", norm, ok)
			}
		}
	})
	if _, err := imaging.NewChannels(1, 2, []complex128{1i}, false); err == nil {
		t.Error("a complex matrix mixes real channels")
	}
}
