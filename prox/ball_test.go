package prox_test

import (
	"math"
	"slices"
	"testing"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/prox"
	"surepipe/prox/clustered"
	"surepipe/prox/cones"
)

// level finds theta with sum max(u_j - theta, 0) = s by bisection.
func level(u []float64, s float64) float64 {
	lo, hi := slices.Min(u)-s, slices.Max(u)
	for range 200 {
		theta, sum := (lo+hi)/2, 0.0
		for _, x := range u {
			sum += max(x-theta, 0)
		}
		if sum > s {
			lo = theta
		} else {
			hi = theta
		}
	}
	return (lo + hi) / 2
}

func abs(v []float64) []float64 {
	u := make([]float64, len(v))
	for i, x := range v {
		u[i] = math.Abs(x)
	}
	return u
}

func sum(v []float64) float64 {
	s := 0.0
	for _, x := range v {
		s += x
	}
	return s
}

// heights are vectors of many kinds to find a level in; the last has entries that
// grow so fast that every pass of a filter by the mean drops one.
func heights() [][]float64 {
	all := [][]float64{{2}, {1, 1}, {-3, 5}, {0, 0, 0}, {4, 4, 4, -4}}
	for seed := range uint64(40) {
		all = append(all, normal(seed, 3+int(seed)*7))
	}
	factorial, f := make([]float64, 60), 1.0
	for i := range factorial {
		factorial[i] = -f
		f *= float64(i + 1)
	}
	return append(all, factorial)
}

func TestProjectionsAgreeWithBisection(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		for _, v := range heights() {
			for _, s := range []float64{1e-3, 0.7, 3, 50} {
				n := len(v)
				simplex, ball := make([]float64, n), make([]float64, n)
				theta := level(v, s)
				for i, x := range v {
					simplex[i] = max(x-theta, 0)
				}
				u := abs(v)
				copy(ball, v)
				if sum(u) > s {
					theta = level(u, s)
					for i, x := range v {
						ball[i] = math.Copysign(max(math.Abs(x)-theta, 0), x)
					}
				}
				for name, c := range map[string]struct {
					p    prox.Prox
					want []float64
				}{
					"simplex": {cones.NewSimplex(n, s), simplex},
					"l1 ball": {cones.NewL1Ball(n, s), ball},
				} {
					got := evaluateOn(t, dev, c.p, v, 1)
					top := slices.Max(abs(v))
					for i := range got {
						if math.Abs(got[i]-c.want[i]) > 1e-13*(s+top) {
							t.Fatalf("%s, s = %v, v = %v: got %v, want %v", name, s, v, got, c.want)
						}
					}
				}
				if d := sum(evaluateOn(t, dev, cones.NewSimplex(n, s), v, 1)); math.Abs(d-s) > 1e-13*s {
					t.Errorf("v = %v: the projection on the simplex sums to %v, want %v", v, d, s)
				}
			}
		}
	})
}

func TestFastGrowingEntriesReachTheSort(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		// -0!, -1!, -2!, ...: with s = 10 the level leaves four of them.
		v := heights()[len(heights())-1]
		got := evaluateOn(t, dev, cones.NewSimplex(len(v), 10), v, 1)
		// -1, -1, -2, -6: theta = (-10 - 10)/4 = -5 leaves three: (-4 - 10)/3 = -14/3.
		want := []float64{11.0 / 3, 11.0 / 3, 8.0 / 3}
		for i, x := range got {
			w := 0.0
			if i < len(want) {
				w = want[i]
			}
			if math.Abs(x-w) > 1e-14 {
				t.Errorf("entry %d is %v, want %v", i, x, w)
			}
		}
	})
}

func TestSimplexSumIsRightWhateverTheSizeOfV(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		v := normal(3, 1000)
		for i := range v {
			v[i] = 1e12 + v[i]
		}
		if got := sum(evaluateOn(t, dev, cones.NewSimplex(1000, 1e-2), v, 1)); math.Abs(got-1e-2) > 1e-14 {
			t.Errorf("the projection sums to %v, want 0.01", got)
		}
	})
}

func TestDivergencesOfProjectionsCountTheFace(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		for seed := range uint64(30) {
			v := normal(seed, 20)
			b, rows := jacobian(t, dev, cones.NewSimplex(20, 2), v, 1)
			if tr, want := trace(rows), float64(nonzero(b)-1); math.Abs(tr-want) > 1e-12 {
				t.Errorf("simplex: divergence %v, want %v", tr, want)
			}
			b, rows = jacobian(t, dev, cones.NewL1Ball(20, 4), v, 1)
			if tr, want := trace(rows), float64(nonzero(b)-1); math.Abs(tr-want) > 1e-12 {
				t.Errorf("l1 ball: divergence %v, want %v", tr, want)
			}
			_, rows = jacobian(t, dev, cones.NewL1Ball(20, 1e3), v, 1)
			if tr := trace(rows); tr != 20 {
				t.Errorf("inside the l1 ball: divergence %v, want 20", tr)
			}
		}
	})
}

func nonzero(b []float64) int {
	m := 0
	for _, x := range b {
		if x != 0 {
			m++
		}
	}
	return m
}

func TestGroupLinfAgreesWithBisection(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		groups := [][]int{{0, 4, 2}, {1}, {9, 8, 7, 6}}
		weights := []float64{1, 0.5, 2}
		for seed := range uint64(60) {
			v := normal(seed, 10)
			for i := range v {
				v[i] *= 1.5
			}
			p := must(prox.NewGroupLinf(dev, 10, 0.8, groups, weights))
			got, rows := jacobian(t, dev, p, v, 1.1)
			want, divergence := append([]float64(nil), v...), 2.0 // two are in no group
			for g, entries := range groups {
				u := make([]float64, len(entries))
				for i, j := range entries {
					u[i] = math.Abs(v[j])
				}
				tau := 0.8 * 1.1 * weights[g]
				theta := 0.0
				if sum(u) > tau {
					theta = level(u, tau)
					divergence++
				}
				for i, j := range entries {
					want[j] = math.Copysign(min(u[i], theta), v[j])
					if u[i] < theta {
						divergence++
					}
				}
			}
			for i := range got {
				if math.Abs(got[i]-want[i]) > 1e-13 {
					t.Fatalf("v = %v: got %v, want %v", v, got, want)
				}
			}
			if tr := trace(rows); math.Abs(tr-divergence) > 1e-12 {
				t.Errorf("v = %v: divergence %v, want %v", v, tr, divergence)
			}
			prox.Release(p)
		}
	})
}

func TestWhatCountsAsActiveAtAKink(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		identity := [][]float64{{1, 0}, {0, 1}}
		zero := [][]float64{{0, 0}, {0, 0}}
		group := func(weight float64) prox.Prox {
			return must(prox.NewGroupLinf(dev, 2, 1, [][]int{{0, 1}}, []float64{weight}))
		}
		for _, c := range []struct {
			name string
			p    prox.Prox
			v    []float64
			want [][]float64
		}{
			{"a point on the l1 ball is inside", cones.NewL1Ball(2, 3), []float64{1, -2}, identity},
			{"an l1 ball of radius 0 is a point", cones.NewL1Ball(2, 0), []float64{0, 0}, zero},
			{"the center of an l1 ball is inside", cones.NewL1Ball(2, 1), []float64{0, 0}, identity},
			{"a group whose l1 norm is tau is inactive", group(3), []float64{1, -2}, zero},
			{"a group of weight 0 is free at 0", group(0), []float64{0, 0}, identity},
			{"an entry at a group's level is below it", group(1), []float64{1, -2}, identity},
			{"a point on the linf ball is outside", prox.NewLinfBall(2, 1), []float64{1, -1}, zero},
			{"an entry at the simplex's level is 0", cones.NewSimplex(2, 1), []float64{1, 0}, zero},
			{"a sorted l1 block at 0 is inactive", must(clustered.NewSortedL1([]float64{2, 1})), []float64{2, 1}, zero},
			{"a pooled sorted l1 block at 0 is inactive", must(clustered.NewSortedL1([]float64{3, 1})),
				[]float64{2, 2}, zero},
			{"an entry without sorted weight is free at 0", must(clustered.NewSortedL1([]float64{2, 0})),
				[]float64{3, 0}, identity},
			{"blocks of equal values are two", must(clustered.NewSortedL1([]float64{2, 1})), []float64{4, 3}, identity},
			{"values that meet are one piece", clustered.NewTV1D(2, 1), []float64{0, 2},
				[][]float64{{0.5, 0.5}, {0.5, 0.5}}},
		} {
			if _, rows := jacobian(t, dev, c.p, c.v, 1); !slices.EqualFunc(rows, c.want, slices.Equal) {
				t.Errorf("%s: J = %v at %v, want %v", c.name, rows, c.v, c.want)
			}
		}
	})
}

func TestAVanishingStepLeavesAGroupAlone(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		p := must(prox.NewGroupLinf(dev, 4, 1, [][]int{{0, 1, 2, 3}}, nil))
		v := []float64{5, -5, 5, 1}
		b, _ := jacobian(t, dev, p, v, math.SmallestNonzeroFloat64)
		if !slices.Equal(b, v) {
			t.Errorf("got %v, want %v", b, v)
		}
	})
}

func TestLinfBallIsABox(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		box := must(prox.NewBox(dev, []float64{-1, -1, -1, -1}, []float64{1, 1, 1, 1}))
		v := []float64{-3, 0.5, 1, 2}
		b, j := jacobian(t, dev, prox.NewLinfBall(4, 1), v, 1)
		c, k := jacobian(t, dev, box, v, 1)
		if !slices.Equal(b, c) {
			t.Errorf("got %v, the box gives %v", b, c)
		}
		for i := range j {
			if !slices.Equal(j[i], k[i]) {
				t.Errorf("row %d of J is %v, the box gives %v", i, j[i], k[i])
			}
		}
	})
}

func TestConstraintsKnowTheirDomain(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		inf := math.Inf(1)
		for name, c := range map[string]struct {
			p    prox.Prox
			b    []float64
			want float64
		}{
			"on the simplex":        {cones.NewSimplex(3, 2), []float64{0.5, 0, 1.5}, 0},
			"above the simplex":     {cones.NewSimplex(3, 2), []float64{0.5, 0, 1.6}, inf},
			"a negative entry":      {cones.NewSimplex(3, 2), []float64{3, 0, -1}, inf},
			"a NaN":                 {cones.NewSimplex(3, 2), []float64{2, 0, math.NaN()}, inf},
			"in the l1 ball":        {cones.NewL1Ball(3, 2), []float64{0.5, 0, -1}, 0},
			"on the l1 ball":        {cones.NewL1Ball(3, 2), []float64{0.5, 0, -1.5}, 0},
			"outside the l1 ball":   {cones.NewL1Ball(3, 2), []float64{0.5, 0, -1.6}, inf},
			"a NaN in the l1 ball":  {cones.NewL1Ball(3, inf), []float64{0.5, 0, math.NaN()}, inf},
			"in the whole space":    {cones.NewL1Ball(3, inf), []float64{1e200, 0, 0}, 0},
			"on the linf ball":      {prox.NewLinfBall(3, 2), []float64{2, 0, -2}, 0},
			"outside the linf ball": {prox.NewLinfBall(3, 2), []float64{2, 0, -2.1}, inf},
			"the total variation":   {clustered.NewTV1D(3, 2), []float64{2, 0, -2.5}, 9},
			"the variation of one":  {clustered.NewTV1D(0, inf), []float64{2}, 0},
			"the sorted l1 norm":    {must(clustered.NewSortedL1([]float64{3, 2, 1})), []float64{-1, 5, 2}, 20},
			"the group linf norm": {must(prox.NewGroupLinf(dev, 3, 2, [][]int{{0, 2}}, nil)),
				[]float64{-1, 5, -2}, 4},
			"an unbounded weight of 0": {must(prox.NewGroupLinf(dev, 3, 2, [][]int{{0, 2}}, []float64{inf})),
				[]float64{0, 5, 0}, 0},
		} {
			b := dev.Alloc(1, len(c.b))
			dev.Upload(b, c.b)
			if got := prox.StructureOf(c.p).Value(b); got != c.want {
				t.Errorf("%s: r(%v) = %v, want %v", name, c.b, got, c.want)
			}
			b.Free()
		}
	})
}

// jacobian returns prox_{t r}(v) and the dense derivative there, row by row.
func jacobian(t testing.TB, dev array.Device, p prox.Prox, v []float64, step float64) (b []float64, rows [][]float64) {
	t.Helper()
	n := len(v)
	x, z := dev.Alloc(1, n), dev.Alloc(n, n)
	defer x.Free()
	defer z.Free()
	dev.Upload(x, v)
	j, err := p.Linearize(x, x, step)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Release()
	identity := make([]float64, n*n)
	for i := range n {
		identity[i*n+i] = 1
	}
	dev.Upload(z, identity)
	j.Apply(z, z)
	flat := z.ToHost()
	for i := range n {
		rows = append(rows, flat[i*n:(i+1)*n])
	}
	return x.ToHost(), rows
}

func trace(rows [][]float64) float64 {
	s := 0.0
	for i, row := range rows {
		s += row[i]
	}
	return s
}
