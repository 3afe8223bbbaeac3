package prox_test

import (
	"math"
	"slices"
	"sync"
	"testing"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/prox"
	"surepipe/prox/clustered"
	"surepipe/prox/cones"
	"surepipe/prox/lowrank"
	"surepipe/space"
)

// modelAt returns the derivative of prox_{t r} at v; the caller releases it.
func modelAt(t *testing.T, dev array.Device, p prox.Prox, v []float64, step float64) prox.Derivative {
	t.Helper()
	at, dst := dev.Alloc(1, len(v)), dev.Alloc(1, len(v))
	defer at.Free()
	defer dst.Free()
	dev.Upload(at, v)
	j, err := p.Linearize(dst, at, step)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// Spaces, curvatures and margins at points where they are known.
func TestModelsAreWhatTheyAreKnownToBe(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		inf := math.Inf(1)
		group := must(prox.NewGroupL2(dev, 5, 1, [][]int{{0, 1}, {2, 3}}, []float64{1, 6}))
		linf := must(prox.NewGroupLinf(dev, 5, 2, [][]int{{0, 1, 2}, {3, 4}}, nil))
		box := must(prox.NewBox(dev, []float64{-1, 0, -inf}, []float64{1, 0, 2}))
		weighted := must(prox.NewWeightedL1(dev, 1, []float64{1, 0, 2}))
		slope := must(clustered.NewSortedL1([]float64{3, 2, 1, 1}))
		for _, p := range []prox.Prox{group, linf, box, weighted} {
			defer prox.Release(p)
		}
		matrix := []float64{0, 5, 0, 0, 0, 1} // singular values 5 and 1
		for _, c := range []struct {
			name     string
			p        prox.Prox
			v        []float64
			t        float64
			kind     space.Kind
			set      []int
			dim      int
			diagonal []float64 // of Q
			margin   float64   // +Inf where there is none
		}{
			{"l1", prox.NewL1(1), []float64{3, -0.5, -2, 1.25}, 1, space.Subset, []int{0, 2, 3}, 3, nil, 0.25},
			{"l1, step 2", prox.NewL1(1), []float64{3, -0.5, -2.5, 1.25}, 2, space.Subset, []int{0, 2}, 2, nil, 0.5},
			{"l1, lambda 0", prox.NewL1(0), []float64{3, 0}, 1, space.Subset, []int{0, 1}, 2, nil, inf},
			{"weighted l1", weighted, []float64{0.25, 0, 3}, 1, space.Subset, []int{1, 2}, 2, nil, 0.75},
			{"elastic net", prox.NewElasticNet(1, 0.7), []float64{3, -0.5}, 1, space.Subset, []int{0}, 1,
				[]float64{0.7}, 0.5},
			{"scaled elastic net", prox.NewScaled(2, prox.NewElasticNet(1, 0.5)), []float64{3, -0.5}, 1, space.Subset,
				[]int{0}, 1, []float64{1}, 1},
			{"ridge", prox.NewSquaredL2(0.7), []float64{3, 1}, 1, space.Whole, nil, 2, []float64{0.7, 0.7}, inf},
			{"zero", prox.Zero(), []float64{3, 1}, 1, space.Whole, nil, 2, nil, inf},
			{"nonnegative", prox.NonNegative(), []float64{3, -1, 2}, 1, space.Subset, []int{0, 2}, 2, nil, 1},
			{"box", box, []float64{0.25, 3, 2.5}, 1, space.Subset, []int{0}, 1, nil, 0.5},
			{"linf ball", prox.NewLinfBall(0, 2), []float64{1.75, -3}, 1, space.Subset, []int{0}, 1, nil, 0.25},
			{"group l2", group, []float64{3, 4, 3, 4, 7}, 1, space.Subset, []int{0, 1, 4}, 3, nil, 1},
			{"group linf", linf, []float64{4, -3, 1, 0.25, -0.25}, 1, space.Cluster, nil, 2, nil, math.Sqrt(0.5)},
			{"slope", slope, []float64{-5, 0.5, 5.5, 3}, 1, space.Cluster, nil, 2, nil, math.Sqrt(0.125)},
			{"slope, all apart", slope, []float64{20, 10, 5, 0.5}, 1, space.Subset, []int{0, 1, 2}, 3, nil, 0.5},
			{"total variation", clustered.NewTV1D(0, 1), []float64{0, 0, 4, 4}, 1, space.Cluster, nil, 2, nil,
				math.Sqrt(0.5)},
			{"simplex", cones.NewSimplex(0, 1), []float64{0.75, 0.5, 0.5, -1}, 1, space.Hyperplane, nil, 2, nil,
				0.25 / math.Sqrt(2./3)},
			{"l1 ball", cones.NewL1Ball(0, 2), []float64{3, -2, 0.25}, 1, space.Hyperplane, nil, 1, nil,
				0.5 / math.Sqrt(0.5)},
			{"inside the l1 ball", cones.NewL1Ball(0, 9), []float64{3, -2, 0, 0}, 1, space.Whole, nil, 4, nil, 2},
			{"nuclear", lowrank.NewNuclear(array.Shape{Rows: 2, Cols: 3}, 2), matrix, 1, space.FixedRank, nil, 4, nil,
				1},
			{"nuclear, full rank", lowrank.NewNuclear(array.Shape{Rows: 2, Cols: 3}, 0.25), matrix, 1, space.Whole,
				nil, 6, nil, 0.75},
			{"nuclear, zero", lowrank.NewNuclear(array.Shape{Rows: 2, Cols: 3}, 7), matrix, 1, space.Subset, nil, 0,
				nil, 2},
			{"separable", prox.NewSeparable(prox.Block{Prox: prox.NewL1(1), N: 2},
				prox.Block{Prox: prox.NewSquaredL2(2), N: 1}), []float64{3, 0.5, 7}, 1, space.Subset, []int{0, 2}, 2,
				[]float64{0, 2}, 0.5},
		} {
			j := modelAt(t, dev, c.p, c.v, c.t)
			m := j.Model()
			f := m.Space.Form()
			if f.Kind != c.kind || !slices.Equal(f.Set, c.set) || m.Space.Dim() != c.dim {
				t.Errorf("%s: space of kind %v, dimension %d, set %v, want kind %v, dimension %d, set %v", c.name,
					f.Kind, m.Space.Dim(), f.Set, c.kind, c.dim, c.set)
			}
			var diagonal []float64
			if m.Curvature != nil {
				diagonal = m.Curvature.Diagonal()
			}
			if !slices.Equal(diagonal, c.diagonal) {
				t.Errorf("%s: the curvature's diagonal is %v, want %v", c.name, diagonal, c.diagonal)
			}
			at := dev.Alloc(1, len(c.v))
			dev.Upload(at, c.v)
			if got := m.Margin(at); !(math.Abs(got-c.margin) <= 1e-12) && got != c.margin {
				t.Errorf("%s: margin %.15g, want %.15g", c.name, got, c.margin)
			}
			at.Free()
			j.Release()
		}
	})
}

// A model is built once, by the first caller.
func TestModelsAreBuiltOnce(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		arraytest.NoLeak(t, dev)
		p := prox.NewSeparable(lowrank.NewNuclear(array.Shape{Rows: 4, Cols: 5}, 2),
			prox.Block{Prox: prox.NewL1(0.5), N: 20})
		j := modelAt(t, dev, p, normal(5, 40), 0.5)
		defer j.Release()
		var models [8]*prox.Model
		var wg sync.WaitGroup
		for i := range models {
			wg.Go(func() { models[i] = j.Model() })
		}
		wg.Wait()
		for _, m := range models {
			if m == nil || m != models[0] {
				t.Fatalf("models %p and %p", m, models[0])
			}
		}
	})
}

// The structure of a combined regularizer follows from its parts.
func TestWrappersKnowWhatTheirPartsKnow(t *testing.T) {
	l1 := prox.NewL1(2)
	nuclear := lowrank.NewNuclear(array.Shape{Rows: 70, Cols: 80}, 3)
	for name, p := range map[string]prox.Prox{
		"block":            prox.Block{Prox: l1, N: 4},
		"scaled block":     prox.NewScaled(2, prox.Block{Prox: l1, N: 4}),
		"separable":        prox.NewSeparable(prox.Block{Prox: l1, N: 4}, prox.Block{Prox: prox.NonNegative(), N: 2}),
		"scaled":           prox.NewScaled(2, l1),
		"scaled of scaled": prox.NewScaled(2, prox.NewScaled(3, l1)),
	} {
		s := prox.StructureOf(p)
		if s.Value == nil || s.Free == nil || s.Closure == nil || s.On == nil || s.Units == nil || s.Rescale == nil {
			t.Errorf("%s: %+v lacks what its parts know", name, s)
		}
	}
	for name, p := range map[string]prox.Prox{
		"block":        prox.Block{Prox: nuclear, N: 5600},
		"scaled":       prox.NewScaled(2, nuclear),
		"scaled block": prox.NewScaled(2, prox.Block{Prox: nuclear, N: 5600}),
	} {
		s := prox.StructureOf(p)
		want := 6.0
		if name == "block" {
			want = 3
		}
		if s.Nuclear != (prox.Number{Value: want, Known: true}) || s.Shape.Rows != 70 || s.Follow == nil ||
			s.Follow() == nil {
			t.Errorf("%s: %+v, want the nuclear norm times %g, and a follower", name, s, want)
		}
	}
}

// The part of a sum of blocks on a set is the sum of the blocks' parts.
func TestSeparableRegularizersOnASet(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		arraytest.NoLeak(t, dev)
		weighted := must(prox.NewWeightedL1(dev, 1, []float64{1, 2, 3}))
		group := must(prox.NewGroupL2(dev, 4, 1, [][]int{{0, 1}, {2, 3}}, nil))
		defer prox.Release(weighted)
		defer prox.Release(group)
		p := prox.NewScaled(2, prox.NewSeparable(weighted, group))
		s := prox.StructureOf(p)
		set := s.Closure([]int{1, 5})
		if !slices.Equal(set, []int{1, 5, 6}) {
			t.Fatalf("closure %v, want [1 5 6]", set)
		}
		on := space.Coordinates(dev, 7, set)
		defer on.Release()
		q, err := s.On(dev, on)
		if err != nil {
			t.Fatal(err)
		}
		defer prox.Release(q)
		b := dev.Alloc(1, 3)
		defer b.Free()
		dev.Upload(b, []float64{1, 3, -4})
		// 2 (2*1 + 5)
		if got := prox.StructureOf(q).Value(b); got != 14 {
			t.Errorf("value %v, want 14", got)
		}
	})
}

// Central differences of a proximal operator are as close to its derivative as NewFunc documents.
func TestDifferencesComeNearTheDerivative(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		for _, size := range []float64{1e-6, 1, 1e6} {
			for name, c := range map[string]struct {
				p   prox.Prox
				tol float64
			}{
				// The thresholds lie in gaps of the entries.
				"l1":       {prox.NewL1(0.7 * size), 1e-10},
				"group l2": {must(prox.NewGroupL2(dev, 7, 1.3*size, [][]int{{0, 1, 2, 3, 4, 5, 6}}, nil)), 1e-9},
			} {
				v := []float64{2, -1, 0.25, -0.5, 3, 0.1, -1.5}
				for i := range v {
					v[i] *= size
				}
				f := prox.NewFunc(len(v), func(dst, v []float64, step float64) error {
					copy(dst, evaluateOn(t, dev, c.p, v, step))
					return nil
				}, nil, nil)
				exact, near := modelAt(t, dev, c.p, v, 1), modelAt(t, dev, f, v, 1)
				z, x, y := dev.Alloc(2, len(v)), dev.Alloc(2, len(v)), dev.Alloc(2, len(v))
				dev.Upload(z, append(normal(8, len(v)), make([]float64, len(v))...))
				exact.Apply(x, z)
				near.Apply(y, z)
				for i, want := range x.ToHost() {
					if got := y.ToHost()[i]; math.Abs(got-want) > c.tol {
						t.Errorf("%s, size %g: entry %d is %.12g by differences, want %.12g", name, size, i, got, want)
					}
				}
				exact.Release()
				near.Release()
				for _, b := range []array.Batch{x, y, z} {
					b.Free()
				}
			}
		}
	})
}
