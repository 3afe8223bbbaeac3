package system

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/linops"
	"surepipe/prox"
	"surepipe/solve"
	"surepipe/space"
)

// record is a diagonal derivative given by its diagonal.
type record struct {
	prox.Derivative
	d array.Batch
}

func (r record) Diagonal() array.Batch { return r.d }

// sets notes the columns that it is asked for.
type sets struct {
	*linops.Dense
	asked [][]int
}

func (s *sets) Structure() linops.Structure {
	dense := s.Dense.Structure()
	on := dense.On
	dense.On = func(dev array.Device, t space.Space) linops.Restricted {
		if set := t.Form().Set; len(set) > 0 {
			s.asked = append(s.asked, slices.Clone(set))
		}
		return on(dev, t)
	}
	return dense
}

// Levels are what their definition says, found by going through all supports.
func TestLevelsAreTheUnionsOfSupports(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		arraytest.NoLeak(t, dev)
		const d, dim, iterations = 7, 300, 40
		rng := rand.New(rand.NewPCG(1, 2))
		columns := make([]float64, d*dim)
		for i := range columns {
			columns[i] = rng.NormFloat64()
		}
		x := linops.NewDense(dev, mat.NewDense(d, dim, columns))
		defer x.Release()
		supports := make([][]float64, iterations)
		records := make([]prox.Derivative, iterations)
		for k := range records {
			diagonal := make([]float64, dim)
			for i := range diagonal {
				// Shrinking, with coordinates that come late.
				if rng.Float64() < math.Pow(0.85, float64(k)) || i == 7*k {
					diagonal[i] = []float64{1, 1e-300, 0.3}[rng.IntN(3)]
				}
			}
			b := dev.Alloc(1, dim)
			defer b.Free()
			dev.Upload(b, diagonal)
			supports[k], records[k] = diagonal, record{d: b}
		}
		for _, lookback := range []int{1, 2} {
			union := func(k int) (set []int) {
				for i := range dim {
					if slices.ContainsFunc(supports[max(k-lookback, 0):], func(s []float64) bool { return s[i] != 0 }) {
						set = append(set, i)
					}
				}
				return set
			}
			var from []int
			for limit := dim / 2; limit > 0; limit /= 2 {
				for k := range iterations {
					if len(union(k)) <= limit {
						from = append(from, k)
						break
					}
				}
			}
			from = slices.Compact(from)
			a := &sets{Dense: x}
			levels := newLevels(solve.Problem{A: a, Device: dev}, records, lookback, 1<<30)
			if len(levels) != len(from) || len(from) < 3 {
				t.Fatalf("%d levels, expected those from iterations %d", len(levels), from)
			}
			for i, l := range levels {
				if want := union(from[i]); l.from != from[i] || l.n != len(want) || !slices.Equal(a.asked[i], want) {
					t.Errorf("level %d is from iteration %d with %d coordinates, expected iteration %d with %d", i,
						l.from, l.n, from[i], len(want))
				}
				l.release()
			}
		}
	})
}
