package prox_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/prox"
	"surepipe/space"
)

// A penalty confined to a set that it splits over maps what is there as the whole
// penalty does, and has its value where the rest is 0.
func TestRestrictedPenaltiesAreTheirOwnParts(t *testing.T) {
	const p = 12
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		must := func(r prox.Prox, err error) prox.Prox {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		groups := [][]int{{0, 3, 6}, {1, 2}, {4, 5, 7, 8}, {10}}
		weights := []float64{1, 0.4, 1.3, 2}
		each := make([]float64, p)
		for j := range each {
			each[j] = 0.2 * float64(j)
		}
		for name, r := range map[string]prox.Prox{
			"l1":             prox.NewL1(0.7),
			"elastic net":    prox.NewElasticNet(0.7, 2),
			"nonnegative":    prox.NonNegative(),
			"weighted l1":    must(prox.NewWeightedL1(dev, 0.7, each)),
			"group l2":       must(prox.NewGroupL2(dev, p, 0.7, groups, weights)),
			"group linf":     must(prox.NewGroupLinf(dev, p, 0.7, groups, weights)),
			"2 x group linf": prox.NewScaled(2, must(prox.NewGroupLinf(dev, p, 0.7, groups, weights))),
		} {
			t.Run(name, func(t *testing.T) {
				whole := prox.StructureOf(r)
				if whole.Closure == nil {
					t.Fatal("no Closure")
				}
				s := whole.Closure([]int{3, 5, 9})
				on := space.Coordinates(dev, p, s)
				defer on.Release()
				part, err := whole.On(dev, on)
				if err != nil {
					t.Fatal(err)
				}
				rng := rand.New(rand.NewPCG(1, 2))
				full, small := make([]float64, p), make([]float64, len(s))
				for i, j := range s {
					small[i] = 2 * rng.NormFloat64()
					full[j] = small[i]
				}
				v, u := dev.Alloc(1, p), dev.Alloc(1, len(s))
				dev.Upload(v, full)
				dev.Upload(u, small)
				if a, b := whole.Value, prox.StructureOf(part).Value; a != nil && b != nil {
					if a, b := a(v), b(u); math.Abs(a-b) > 1e-14*a {
						t.Errorf("the whole has the value %g, its part %g", a, b)
					}
				}
				const step = 0.8
				if err := r.Eval(v, v, step); err != nil {
					t.Fatal(err)
				}
				if err := part.Eval(u, u, step); err != nil {
					t.Fatal(err)
				}
				want, got := v.ToHost(), u.ToHost()
				for i, j := range s {
					if math.Abs(got[i]-want[j]) > 1e-14 {
						t.Errorf("entry %d goes to %g, in the part to %g", j, want[j], got[i])
					}
				}
				v.Free()
				u.Free()
				prox.Release(part)
			})
			prox.Release(r)
		}
	})
}

// Errors name the penalty that was asked for, once.
func TestGroupErrorsNameTheirPenalty(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		arraytest.NoLeak(t, dev)
		_, l2 := prox.NewGroupL2(dev, 4, 1, [][]int{{0, 7}}, nil)
		_, linf := prox.NewGroupLinf(dev, 4, 1, [][]int{{0, 7}}, nil)
		for _, c := range []struct {
			err  error
			want string
		}{
			{l2, "prox: group l2: group 0 has entry 7, want 0 to 3"},
			{linf, "prox: group linf: group 0 has entry 7, want 0 to 3"},
		} {
			if c.err == nil || c.err.Error() != c.want {
				t.Errorf("error %v, want %s", c.err, c.want)
			}
		}
	})
}
