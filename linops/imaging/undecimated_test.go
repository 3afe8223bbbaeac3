package imaging_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/linops/imaging"
	"surepipe/linops/linopstest"
)

// undecimatedCases are transforms of every shape, with filters longer than the signal among them.
func undecimatedCases() map[string]*imaging.Undecimated {
	return map[string]*imaging.Undecimated{
		"1-D odd":         must(imaging.NewUndecimated1D(13, "db2", 2)),
		"1-D of one":      must(imaging.NewUndecimated1D(1, "haar", 1)),
		"1-D long filter": must(imaging.NewUndecimated1D(5, "sym8", 3)),
		"2-D odd":         must(imaging.NewUndecimated2D(5, 7, 1, "sym4", 2)),
		"2-D one row":     must(imaging.NewUndecimated2D(1, 6, 1, "haar", 1)),
		"2-D colour":      must(imaging.NewUndecimated2D(4, 3, 3, "db2", 2)),
	}
}

// F*F = I, the norms of the rows are those of the stored matrix, and Filter is F* f(F x), in place
// and on many processors.
func TestUndecimatedIsAParsevalFrame(t *testing.T) {
	dev := array.NewHost()
	defer dev.Close()
	for name, a := range undecimatedCases() {
		k, n := a.Dims()
		m := linops.ToDense(dev, a)
		for i := range n {
			for j := range n {
				dot := 0.0
				for r := range k {
					dot += m.At(r, i) * m.At(r, j)
				}
				want := 0.0
				if i == j {
					want = 1
				}
				if math.Abs(dot-want) > 1e-13 {
					t.Fatalf("%s: (F*F)_%d,%d is %v", name, i, j, dot)
				}
			}
		}
		lines, length := a.Lines()
		for band := range a.Bands() {
			down, along := a.Norms2(band)
			for i := range lines {
				for j := range length {
					norm := 0.0
					for c := range n {
						v := m.At((band*lines+i)*length+j, c)
						norm += v * v
					}
					if math.Abs(norm-down[i]*along[j]) > 1e-13 {
						t.Fatalf("%s: band %d line %d place %d has norm^2 %v, want %v", name, band, i, j,
							down[i]*along[j], norm)
					}
				}
			}
		}
		rng := rand.New(rand.NewPCG(1, 2))
		x, keep, want := make([]float64, n), make([]float64, k), make([]float64, n)
		for i := range x {
			x[i] = rng.NormFloat64()
		}
		for r := range k {
			keep[r] = float64(rng.IntN(2))
			z := 0.0
			for c := range n {
				z += m.At(r, c) * x[c]
			}
			for c := range n {
				want[c] += keep[r] * z * m.At(r, c)
			}
		}
		got := append([]float64(nil), x...)
		a.Filter(got, got, func(band, line int, z []float64) {
			for j := range z {
				z[j] *= keep[(band*lines+line)*length+j]
			}
		})
		for i := range got {
			if math.Abs(got[i]-want[i]) > 1e-13 {
				t.Fatalf("%s: entry %d is %v, want %v", name, i, got[i], want[i])
			}
		}
		if err := linopstest.Check(dev, a); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The bands are the levels from the finest, and constants are in the averages alone.
func TestUndecimatedBands(t *testing.T) {
	a := must(imaging.NewUndecimated2D(6, 8, 3, "db3", 2))
	if a.Bands() != 21 {
		t.Fatalf("%d bands, want 21", a.Bands())
	}
	x := make([]float64, a.Len())
	for i := range x {
		x[i] = 2
	}
	largest := make([]float64, a.Bands())
	a.Filter(x, x, func(band, _ int, z []float64) {
		for _, v := range z {
			largest[band] = max(largest[band], math.Abs(v))
		}
	})
	for band, v := range largest {
		_, averages := a.Level(band)
		if grey := band == 6; grey != (v > 1e-12) || band%7 == 6 != averages {
			t.Errorf("band %d: largest %v, averages %v", band, v, averages)
		}
	}
}

func TestUndecimatedRefusesLevels(t *testing.T) {
	for _, levels := range []int{-1, 0, 5, 62, 63, 1000} {
		if _, err := imaging.NewUndecimated2D(4, 9, 1, "haar", levels); err == nil {
			t.Errorf("%d levels of 4 x 9 pixels were accepted", levels)
		}
	}
	if _, err := imaging.NewUndecimated2D(4, 9, 1, "haar", 4); err != nil {
		t.Error(err)
	}
	if _, err := imaging.NewUndecimated1D(4, "db99", 1); err == nil {
		t.Error("family db99 was accepted")
	}
}
