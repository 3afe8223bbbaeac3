package prox_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/internal/lists"
	"surepipe/prox"
	"surepipe/prox/clustered"
	"surepipe/prox/cones"
	"surepipe/prox/lowrank"
	"surepipe/prox/proxtest"
)

// whole is one group of n coordinates.
func whole(n int) [][]int { return [][]int{lists.Upto(n)} }

// must unwraps a constructor whose data is known to be good.
func must(p prox.Prox, err error) prox.Prox {
	if err != nil {
		panic(err)
	}
	return p
}

func normal(seed uint64, n int) []float64 {
	rng := rand.New(rand.NewPCG(seed, 0))
	v := make([]float64, n)
	for i := range v {
		v[i] = rng.NormFloat64()
	}
	return v
}

// linear returns n numbers from first to last, evenly spaced.
func linear(n int, first, last float64) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = first + (last-first)*float64(i)/float64(max(n-1, 1))
	}
	return v
}

// softProx is the soft threshold.
func softProx(dst, v []float64, t float64) error {
	for i, x := range v {
		dst[i] = math.Copysign(max(math.Abs(x)-t, 0), x)
		if x != x {
			dst[i] = x
		}
	}
	return nil
}

// ballProx is the projection on the ball of radius 2.
func ballProx(dst, v []float64, t float64) error {
	norm := 0.0
	for _, x := range v {
		norm += x * x
	}
	norm = math.Sqrt(norm)
	for i, x := range v {
		dst[i] = x * min(1, 2/norm)
		if norm == 0 {
			dst[i] = 0
		}
	}
	return nil
}

// softFunc is the soft threshold as a user would write it.
func softFunc(p int) prox.Prox {
	return prox.NewFunc(p, softProx,
		func(dst, v, z []float64, t float64) {
			for i, x := range v {
				dst[i] = 0
				if math.Abs(x) > t {
					dst[i] = z[i]
				}
			}
		},
		func(b []float64) float64 {
			s := 0.0
			for _, x := range b {
				s += math.Abs(x)
			}
			return s
		})
}

func TestEveryProxConforms(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		inf := math.Inf(1)
		groups := [][]int{{0, 5, 7}, {1}, {10, 9, 8, 2}}
		weights := []float64{0, 1, inf, 0.5, 2, 0.1, 1, 3, 0.7, 1, 0.2, 1}
		lo := []float64{-1, -inf, 0, -0.5, -inf, 0.25, -1, -1, -1, -1, -1, 0}
		hi := []float64{1, 0.5, inf, -0.5, inf, 3, 1, 1, 1, 1, 1, 1e-3}
		for _, c := range []struct {
			name string
			p    prox.Prox
			dim  int
		}{
			{"Zero", prox.Zero(), 12},
			{"L1", prox.NewL1(0.8), 12},
			{"L1 in one dimension", prox.NewL1(0.8), 1},
			{"L1, lambda 0", prox.NewL1(0), 12},
			{"L1, lambda +Inf", prox.NewL1(inf), 12},
			{"L1 in 200 dimensions", prox.NewL1(0.8), 200},
			{"WeightedL1", must(prox.NewWeightedL1(dev, 0.8, weights)), 12},
			{"WeightedL1, lambda 0", must(prox.NewWeightedL1(dev, 0, weights)), 12},
			{"WeightedL1, lambda +Inf", must(prox.NewWeightedL1(dev, inf, weights)), 12},
			{"SquaredL2", prox.NewSquaredL2(0.8), 12},
			{"SquaredL2, lambda +Inf", prox.NewSquaredL2(inf), 12},
			{"Coordinates", must(prox.NewCoordinates(dev, linear(12, 0, 1), linear(12, 0.5, 0), linear(12, -2, 0),
				linear(12, 0.3, 2))), 12},
			{"Coordinates, no curvature", must(prox.NewCoordinates(dev, linear(12, 0, 1), make([]float64, 12),
				linear(12, -2, 0), nil)), 12},
			{"Coordinates, signs", must(prox.NewCoordinates(dev, linear(4, 0, 1), linear(4, 0, 1),
				[]float64{0, 0, -inf, -inf}, nil)), 4},
			{"Coordinates without bounds", must(prox.NewCoordinates(dev, linear(12, 0, 1), linear(12, 0.5, 0), nil, nil)),
				12},
			{"ElasticNet", prox.NewElasticNet(0.5, 0.7), 12},
			{"ElasticNet, lambda2 0", prox.NewElasticNet(0.5, 0), 12},
			{"ElasticNet, lambda2 +Inf", prox.NewElasticNet(0.5, inf), 12},
			{"GroupL2, one group", must(prox.NewGroupL2(dev, 12, 3, whole(12), nil)), 12},
			{"GroupL2, one coordinate", must(prox.NewGroupL2(dev, 1, 0.8, whole(1), nil)), 1},
			{"GroupL2", must(prox.NewGroupL2(dev, 12, 1.1, groups, nil)), 12},
			{"GroupL2, weights", must(prox.NewGroupL2(dev, 12, 1.1, groups, []float64{2, 0, inf})), 12},
			{"GroupL2, lambda 0", must(prox.NewGroupL2(dev, 12, 0, groups, nil)), 12},
			{"GroupL2, lambda +Inf", must(prox.NewGroupL2(dev, 12, inf, groups, nil)), 12},
			{"GroupL2, every entry in a group", must(prox.NewGroupL2(dev, 4, 1.1, [][]int{{3, 1}, {0, 2}}, nil)), 4},
			{"GroupL2, no group", must(prox.NewGroupL2(dev, 4, 1.1, nil, nil)), 4},
			{"Nuclear, square", lowrank.NewNuclear(array.Shape{Rows: 6, Cols: 6}, 3), 36},
			{"Nuclear, wide", lowrank.NewNuclear(array.Shape{Rows: 4, Cols: 9}, 3), 36},
			{"Nuclear, tall", lowrank.NewNuclear(array.Shape{Rows: 11, Cols: 5}, 3), 55},
			{"Nuclear, all active", lowrank.NewNuclear(array.Shape{Rows: 4, Cols: 9}, 0.01), 36},
			{"Nuclear, all active, tall", lowrank.NewNuclear(array.Shape{Rows: 9, Cols: 4}, 0.01), 36},
			{"Nuclear, a row", lowrank.NewNuclear(array.Shape{Rows: 1, Cols: 8}, 3), 8},
			{"Nuclear, a column", lowrank.NewNuclear(array.Shape{Rows: 8, Cols: 1}, 3), 8},
			{"Nuclear, a number", lowrank.NewNuclear(array.Shape{Rows: 1, Cols: 1}, 0.8), 1},
			{"Nuclear, lambda 0", lowrank.NewNuclear(array.Shape{Rows: 4, Cols: 3}, 0), 12},
			{"Nuclear, lambda +Inf", lowrank.NewNuclear(array.Shape{Rows: 4, Cols: 3}, inf), 12},
			{"Nuclear, 20 x 15", lowrank.NewNuclear(array.Shape{Rows: 20, Cols: 15}, 5), 300},
			{"Nuclear, 60 x 45", lowrank.NewNuclear(array.Shape{Rows: 60, Cols: 45}, 12), 2700},
			{"GroupLinf", must(prox.NewGroupLinf(dev, 12, 1.1, groups, nil)), 12},
			{"GroupLinf, weights", must(prox.NewGroupLinf(dev, 12, 1.1, groups, []float64{2, 0, inf})), 12},
			{"GroupLinf, lambda 0", must(prox.NewGroupLinf(dev, 12, 0, groups, nil)), 12},
			{"GroupLinf, lambda +Inf", must(prox.NewGroupLinf(dev, 12, inf, groups, nil)), 12},
			{"GroupLinf, one group", must(prox.NewGroupLinf(dev, 4, 1.1, [][]int{{3, 1, 0, 2}}, nil)), 4},
			{"GroupLinf, no group", must(prox.NewGroupLinf(dev, 4, 1.1, nil, nil)), 4},
			{"GroupLinf in one dimension", must(prox.NewGroupLinf(dev, 1, 0.8, [][]int{{0}}, nil)), 1},
			{"TV1D", clustered.NewTV1D(12, 0.8), 12},
			{"TV1D of any length", clustered.NewTV1D(0, 0.8), 12},
			{"TV1D, a few pieces", clustered.NewTV1D(40, 4), 40},
			{"TV1D, one piece", clustered.NewTV1D(12, 1e3), 12},
			{"TV1D in one dimension", clustered.NewTV1D(1, 0.8), 1},
			{"TV1D in two dimensions", clustered.NewTV1D(2, 0.8), 2},
			{"TV1D in 200 dimensions", clustered.NewTV1D(200, 2), 200},
			{"TV1D, lambda 0", clustered.NewTV1D(12, 0), 12},
			{"TV1D, lambda 1e-300", clustered.NewTV1D(12, 1e-300), 12},
			{"TV1D, lambda 1e300", clustered.NewTV1D(12, 1e300), 12},
			{"TV1D, lambda +Inf", clustered.NewTV1D(12, inf), 12},
			{"JointL2", prox.NewVectorialL2(6, 2, 1, 1.5), 12},
			{"JointL2 of one plane", prox.NewVectorialL2(12, 1, 1, 1), 12},
			{"JointL2 of four planes", prox.NewVectorialL2(3, 4, 1, 2), 12},
			{"VectorialL2", prox.NewVectorialL2(4, 2, 3, 1.5), 24},
			{"VectorialL2 of one plane", prox.NewVectorialL2(6, 1, 2, 0.9), 12},
			{"VectorialL2, lambda +Inf", prox.NewVectorialL2(2, 2, 3, inf), 12},
			{"JointL2, lambda 0", prox.NewVectorialL2(6, 2, 1, 0), 12},
			{"JointL2, lambda +Inf", prox.NewVectorialL2(6, 2, 1, inf), 12},
			{"SortedL1", must(clustered.NewSortedL1(linear(12, 2, 0.1))), 12},
			{"SortedL1, some zeros", must(clustered.NewSortedL1([]float64{2, 1, 1, 0, 0, 0})), 6},
			{"SortedL1, the largest alone", must(clustered.NewSortedL1([]float64{2, 0, 0, 0, 0, 0})), 6},
			{"SortedL1, constant", must(clustered.NewSortedL1([]float64{0.8, 0.8, 0.8, 0.8})), 4},
			{"SortedL1, zero", must(clustered.NewSortedL1(make([]float64, 12))), 12},
			{"SortedL1, large", must(clustered.NewSortedL1(linear(12, 2e3, 1e3))), 12},
			{"SortedL1, the first +Inf", must(clustered.NewSortedL1([]float64{inf, 1, 1})), 3},
			{"SortedL1 in one dimension", must(clustered.NewSortedL1([]float64{0.8})), 1},
			{"SortedL1 in two dimensions", must(clustered.NewSortedL1([]float64{1.5, 0.2})), 2},
			{"SortedL1 in 200 dimensions", must(clustered.NewSortedL1(linear(200, 4, 0.5))), 200},
			{"NonNegative", prox.NonNegative(), 12},
			{"Simplex", cones.NewSimplex(12, 3), 12},
			{"Simplex of any length", cones.NewSimplex(0, 3), 12},
			{"Simplex in one dimension", cones.NewSimplex(1, 3), 1},
			{"Simplex in two dimensions", cones.NewSimplex(2, 1), 2},
			{"Simplex, small", cones.NewSimplex(12, 1e-3), 12},
			{"Simplex, large", cones.NewSimplex(12, 1e3), 12},
			{"L1Ball", cones.NewL1Ball(12, 5), 12},
			{"L1Ball in one dimension", cones.NewL1Ball(1, 0.5), 1},
			{"L1Ball, s 0", cones.NewL1Ball(12, 0), 12},
			{"L1Ball, s +Inf", cones.NewL1Ball(12, inf), 12},
			{"LinfBall", prox.NewLinfBall(12, 1), 12},
			{"LinfBall of any length", prox.NewLinfBall(0, 1), 12},
			{"LinfBall, c 0", prox.NewLinfBall(12, 0), 12},
			{"LinfBall, c +Inf", prox.NewLinfBall(12, inf), 12},
			{"Box", must(prox.NewBox(dev, lo, hi)), 12},
			{"L2Ball", cones.NewL2Ball(12, 3), 12},
			{"L2Ball of any length", cones.NewL2Ball(0, 3), 12},
			{"L2Ball, inside and outside", cones.NewL2Ball(12, 7), 12},
			{"L2Ball in one dimension", cones.NewL2Ball(1, 0.5), 1},
			{"L2Ball, c 0", cones.NewL2Ball(12, 0), 12},
			{"L2Ball, c +Inf", cones.NewL2Ball(12, inf), 12},
			{"SecondOrderCones", must(cones.NewSecondOrderCones(12, [][]int{{0, 1, 2}, {11, 4, 3, 10}, {6}, {7, 8}})),
				12},
			{"SecondOrderCones, one", must(cones.NewSecondOrderCones(6, [][]int{{5, 1, 2, 3, 4, 0}})), 6},
			{"SecondOrderCones of one entry", must(cones.NewSecondOrderCones(3, [][]int{{0}, {1}, {2}})), 3},
			{"SecondOrderCones, none", must(cones.NewSecondOrderCones(3, nil)), 3},
			{"Semidefinite", cones.NewSemidefinite(5), 25},
			{"Semidefinite, a number", cones.NewSemidefinite(1), 1},
			{"Shifted L2Ball", must(prox.NewShifted(dev, cones.NewL2Ball(0, 3), linear(12, -1, 2))), 12},
			{"Shifted cones", must(prox.NewShifted(dev,
				must(cones.NewSecondOrderCones(6, [][]int{{0, 1, 2}, {3, 4, 5}})), linear(6, -1, 2))), 6},
			{"Shifted NonNegative", must(prox.NewShifted(dev, prox.NonNegative(), linear(12, -1, 2))), 12},
			{"Shifted L1", must(prox.NewShifted(dev, prox.NewL1(0.8), linear(12, -1, 2))), 12},
			{"Scaled L2Ball", prox.NewScaled(2.5, cones.NewL2Ball(12, 3)), 12},
			{"Scaled cones", prox.NewScaled(2.5, must(cones.NewSecondOrderCones(6, [][]int{{0, 1, 2}, {3, 4, 5}}))), 6},
			{"Scaled Semidefinite", prox.NewScaled(2.5, cones.NewSemidefinite(4)), 16},
			{"Separable of constraints", prox.NewSeparable(
				cones.NewL2Ball(5, 2), must(cones.NewSecondOrderCones(4, [][]int{{0, 1, 2, 3}})),
				cones.NewSemidefinite(3), cones.NewSimplex(3, 1),
				prox.Block{Prox: prox.NewL1(1), N: 2}), 23},
			{"Separable, masked", prox.NewSeparable(prox.Block{Prox: prox.NewL1(1), N: 5},
				prox.Block{Prox: prox.NonNegative(), N: 7}), 12},
			{"Separable, quadratic", prox.NewSeparable(prox.Block{Prox: prox.NewSquaredL2(2), N: 5},
				prox.Block{Prox: prox.NewSquaredL2(2), N: 7}), 12},
			{"Separable, dense", prox.NewSeparable(
				prox.Block{Prox: prox.NewL1(1), N: 5},
				lowrank.NewNuclear(array.Shape{Rows: 4, Cols: 5}, 2),
				must(prox.NewGroupL2(dev, 7, 2, whole(7), nil)),
				prox.Block{Prox: prox.Zero(), N: 1}), 33},
			{"Separable, groups", prox.NewSeparable(must(prox.NewGroupL2(dev, 4, 2, whole(4), nil)),
				must(prox.NewGroupL2(dev, 7, 2, whole(7), nil))), 11},
			{"Scaled L1", prox.NewScaled(0.4, prox.NewL1(2)), 12},
			{"Scaled Nuclear", prox.NewScaled(2.5, lowrank.NewNuclear(array.Shape{Rows: 5, Cols: 7}, 1)), 35},
			{"Scaled quadratic", prox.NewScaled(2.5, prox.NewSquaredL2(1)), 12},
			{"Scaled block", prox.NewScaled(2.5, prox.Block{Prox: prox.NewL1(1), N: 12}), 12},
			{"Func", softFunc(0), 12},
			{"Func of a dimension", softFunc(12), 12},
			{"Func without a derivative", prox.NewFunc(12, softProx, nil, nil), 12},
			{"Func without a derivative, smooth", prox.NewFunc(12, ballProx, nil, nil), 12},
		} {
			t.Run(c.name, func(t *testing.T) {
				if err := proxtest.Check(dev, c.p, c.dim); err != nil {
					t.Error(err)
				}
			})
		}
	})
}

func TestStructuresAreWhatThePiecesAllow(t *testing.T) {
	block := func(p prox.Prox) prox.Prox { return prox.Block{Prox: p, N: 3} }
	mute := prox.NewFunc(3, func(dst, v []float64, t float64) error { copy(dst, v); return nil }, nil, nil)
	for _, c := range []struct {
		name              string
		p                 prox.Prox
		valuer, quadratic bool
		curvature         float64
	}{
		{"Zero", prox.Zero(), true, true, 0},
		{"SquaredL2", prox.NewSquaredL2(3), true, true, 3},
		{"L1", prox.NewL1(3), true, false, 0},
		{"Scaled SquaredL2", prox.NewScaled(2, prox.NewSquaredL2(3)), true, true, 6},
		{"Scaled block of SquaredL2", prox.NewScaled(2, block(prox.NewSquaredL2(3))), true, true, 6},
		{"Scaled function without value", prox.NewScaled(2, mute), false, false, 0},
		{"Separable of equal curvature", prox.NewSeparable(block(prox.NewSquaredL2(3)), block(prox.NewSquaredL2(3))),
			true, true, 3},
		{"Separable of two curvatures", prox.NewSeparable(block(prox.NewSquaredL2(3)), block(prox.Zero())), true,
			false, 0},
		{"Separable with a part without value", prox.NewSeparable(block(prox.NewL1(3)), mute), false, false, 0},
	} {
		got := prox.StructureOf(c.p)
		if (got.Value != nil) != c.valuer {
			t.Errorf("%s: value known %t, want %t", c.name, got.Value != nil, c.valuer)
		}
		if want := (prox.Number{Value: c.curvature, Known: c.quadratic}); got.Quadratic != want {
			t.Errorf("%s: curvature %v, want %v", c.name, got.Quadratic, want)
		}
	}
}

func TestSeparablePenaltiesHaveDiagonalDerivatives(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		ones := []float64{1, 1, 1}
		for name, p := range map[string]prox.Prox{
			"Zero":        prox.Zero(),
			"L1":          prox.NewL1(1),
			"WeightedL1":  must(prox.NewWeightedL1(dev, 1, ones)),
			"SquaredL2":   prox.NewSquaredL2(1),
			"ElasticNet":  prox.NewElasticNet(1, 1),
			"NonNegative": prox.NonNegative(),
			"Box":         must(prox.NewBox(dev, []float64{-1, -1, -1}, ones)),
			"Scaled":      prox.NewScaled(2, prox.NewL1(1)),
			"Separable": prox.NewSeparable(prox.Block{Prox: prox.NewL1(1), N: 1},
				prox.Block{Prox: prox.Zero(), N: 2}),
		} {
			v := dev.Alloc(1, 3)
			dev.Upload(v, []float64{-2, 0.5, 3})
			j, err := p.Linearize(v, v, 1)
			if err != nil {
				t.Fatal(err)
			}
			if j.Diagonal().IsZero() {
				t.Errorf("%s: derivative %T is not diagonal", name, j)
			}
			j.Release()
			v.Free()
		}
	})
}

func TestReleaseGivesTheDataBack(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		one := []float64{1, 1}
		for name, p := range map[string]prox.Prox{
			"WeightedL1": must(prox.NewWeightedL1(dev, 1, one)),
			"Box":        must(prox.NewBox(dev, one, one)),
			"GroupL2":    must(prox.NewGroupL2(dev, 2, 1, [][]int{{0, 1}}, nil)),
		} {
			before := dev.Stats().Live
			prox.Release(p)
			if after := dev.Stats().Live; after >= before {
				t.Errorf("%s: %d batches on loan before Release, %d after", name, before, after)
			}
		}
		if live := dev.Stats().Live; live != 0 {
			t.Errorf("%d batches on loan after every Release", live)
		}
	})
}

// userQuadratic is a regularizer of a user's own, which knows its value.
type userQuadratic struct{ prox.Prox }

func (p userQuadratic) Structure() prox.Structure {
	return prox.Structure{Value: prox.StructureOf(p.Prox).Value, Quadratic: prox.Number{Value: 4, Known: true}}
}

func TestSeparableValueIsTheSumOverBlocks(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		b := dev.Alloc(1, 5)
		dev.Upload(b, []float64{1, -2, 3, 1, -1})
		p := prox.NewSeparable(
			prox.Block{Prox: prox.NewL1(2), N: 2},
			prox.Block{Prox: userQuadratic{prox.NewSquaredL2(4)}, N: 1},
			prox.Block{Prox: prox.NewScaled(3, prox.NewL1(1)), N: 2},
		)
		// 2*3 + 4/2*9 + 3*2
		if got := prox.StructureOf(p).Value(b); got != 30 {
			t.Errorf("value %v, want 30", got)
		}
	})
}

// evaluateOn returns prox_{t r}(v).
func evaluateOn(t *testing.T, dev array.Device, p prox.Prox, v []float64, step float64) []float64 {
	t.Helper()
	b := dev.Alloc(1, len(v))
	defer b.Free()
	dev.Upload(b, v)
	if err := p.Eval(b, b, step); err != nil {
		t.Fatal(err)
	}
	return b.ToHost()
}

func TestSoftThresholdBelowMinusTIsVPlusT(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		got := evaluateOn(t, dev, prox.NewL1(2), []float64{-3, -1, 0, 1, 3}, 0.5)
		for i, want := range []float64{-2, 0, 0, 0, 2} {
			if got[i] != want {
				t.Errorf("entry %d is %v, want %v", i, got[i], want)
			}
		}
	})
}

func TestZeroPenaltyIsTheIdentityAndInfinitePenaltyIsZero(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		v := normal(1, 12)
		inf := math.Inf(1)
		for name, f := range map[string]func(lambda float64) prox.Prox{
			"L1":      func(l float64) prox.Prox { return prox.NewL1(l) },
			"ridge":   func(l float64) prox.Prox { return prox.NewSquaredL2(l) },
			"Nuclear": func(l float64) prox.Prox { return lowrank.NewNuclear(array.Shape{Rows: 3, Cols: 4}, l) },
			"GroupL2": func(l float64) prox.Prox {
				return must(prox.NewGroupL2(dev, 12, l, [][]int{{0, 1, 2, 3, 4, 5}, {6, 7, 8, 9, 10, 11}}, nil))
			},
		} {
			for _, lambda := range []float64{0, inf} {
				b, dst, z := dev.Alloc(1, 12), dev.Alloc(1, 12), dev.Alloc(1, 12)
				dev.Upload(b, v)
				dev.Upload(z, normal(2, 12))
				j, err := f(lambda).Linearize(dst, b, 0.7)
				if err != nil {
					t.Fatal(err)
				}
				p, zs := dst.ToHost(), z.ToHost()
				j.Apply(z, z)
				for i, jz := range z.ToHost() {
					wantP, wantJ := v[i], zs[i]
					if lambda == inf {
						wantP, wantJ = 0, 0
					}
					if p[i] != wantP || jz != wantJ {
						t.Errorf("%s, lambda %v: prox %v and J z %v at entry %d, want %v and %v", name, lambda, p[i],
							jz, i, wantP, wantJ)
					}
				}
				j.Release()
			}
		}
	})
}

func TestConstructorsRefuseBadData(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		nan, inf := math.NaN(), math.Inf(1)
		for name, f := range map[string]func() (prox.Prox, error){
			"no weights": func() (prox.Prox, error) { return prox.NewWeightedL1(dev, 1, nil) },
			"a negative weight": func() (prox.Prox, error) {
				return prox.NewWeightedL1(dev, 1,
					[]float64{1, -1})
			},
			"a NaN weight": func() (prox.Prox, error) { return prox.NewWeightedL1(dev, 1, []float64{nan}) },
			"an empty box": func() (prox.Prox, error) {
				return prox.NewBox(dev, []float64{1},
					[]float64{0})
			},
			"a NaN bound": func() (prox.Prox, error) {
				return prox.NewBox(dev, []float64{nan},
					[]float64{0})
			},
			"a lower bound of +Inf": func() (prox.Prox, error) {
				return prox.NewBox(dev, []float64{inf},
					[]float64{inf})
			},
			"bounds of two lengths": func() (prox.Prox, error) {
				return prox.NewBox(dev, []float64{1},
					[]float64{2, 3})
			},
			"overlapping groups": func() (prox.Prox, error) {
				return prox.NewGroupL2(dev, 3, 1,
					[][]int{{0, 1}, {1, 2}}, nil)
			},
			"an entry twice": func() (prox.Prox, error) {
				return prox.NewGroupL2(dev, 3, 1, [][]int{{1, 1}},
					nil)
			},
			"an entry out of range": func() (prox.Prox, error) {
				return prox.NewGroupL2(dev, 3, 1, [][]int{{3}},
					nil)
			},
			"an empty group": func() (prox.Prox, error) {
				return prox.NewGroupL2(dev, 3, 1, [][]int{{}},
					nil)
			},
			"a weight too many": func() (prox.Prox, error) {
				return prox.NewGroupL2(dev, 3, 1, [][]int{{0}},
					[]float64{1, 1})
			},
			"a negative group weight": func() (prox.Prox, error) {
				return prox.NewGroupL2(dev, 3, 1, [][]int{{0}},
					[]float64{-1})
			},
			"dimension 0": func() (prox.Prox, error) { return prox.NewGroupL2(dev, 0, 1, nil, nil) },
			"overlapping linf groups": func() (prox.Prox, error) {
				return prox.NewGroupLinf(dev, 3, 1,
					[][]int{{0, 1}, {1, 2}}, nil)
			},
			"a NaN linf weight": func() (prox.Prox, error) {
				return prox.NewGroupLinf(dev, 3, 1, [][]int{{0}},
					[]float64{nan})
			},
			"no sorted weights":        func() (prox.Prox, error) { return clustered.NewSortedL1(nil) },
			"a negative sorted weight": func() (prox.Prox, error) { return clustered.NewSortedL1([]float64{1, -1}) },
			"a NaN sorted weight":      func() (prox.Prox, error) { return clustered.NewSortedL1([]float64{nan, 1}) },
			"an empty cone":            func() (prox.Prox, error) { return cones.NewSecondOrderCones(3, [][]int{{}}) },
			"overlapping cones": func() (prox.Prox, error) {
				return cones.NewSecondOrderCones(3,
					[][]int{{0, 1}, {1, 2}})
			},
			"a cone out of range": func() (prox.Prox, error) {
				return cones.NewSecondOrderCones(3,
					[][]int{{0, 3}})
			},
			"cones in dimension 0": func() (prox.Prox, error) { return cones.NewSecondOrderCones(0, nil) },
			"a shift of another size": func() (prox.Prox, error) {
				return prox.NewShifted(dev, cones.NewL2Ball(3, 1),
					[]float64{1})
			},
			"an infinite shift": func() (prox.Prox, error) {
				return prox.NewShifted(dev, prox.NewL1(1),
					[]float64{inf})
			},
			"increasing weights": func() (prox.Prox, error) { return clustered.NewSortedL1([]float64{1, 2}) },
		} {
			if p, err := f(); err == nil || p != nil {
				t.Errorf("%s: got %v, %v, want an error", name, p, err)
			}
		}
		if live := dev.Stats().Live; live != 0 {
			t.Errorf("%d batches on loan after refused constructions", live)
		}
	})
}

func TestProgrammersErrorsPanic(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		v := dev.Alloc(2, 3)
		dev.Fill(v, 1)
		for name, f := range map[string]func(){
			"a negative lambda":              func() { prox.NewL1(-1) },
			"a NaN lambda":                   func() { lowrank.NewNuclear(array.Shape{Rows: 1, Cols: 1}, math.NaN()) },
			"a negative ridge":               func() { prox.NewElasticNet(1, -1) },
			"a negative lambda with weights": func() { prox.NewWeightedL1(dev, -1, []float64{1}) },
			"an empty shape":                 func() { lowrank.NewNuclear(array.Shape{Rows: 0, Cols: 1}, 1) },
			"a scale of 0":                   func() { prox.NewScaled(0, prox.Zero()) },
			"a block without length":         func() { prox.NewSeparable(prox.NewL1(1)) },
			"a block of the wrong length": func() {
				prox.NewSeparable(prox.Block{Prox: lowrank.NewNuclear(array.Shape{Rows: 2, Cols: 2}, 1), N: 5})
			},
			"no blocks":                 func() { prox.NewSeparable() },
			"a step of 0":               func() { prox.NewL1(1).Eval(v, v, 0) },
			"a NaN step":                func() { prox.NewL1(1).Eval(v, v, math.NaN()) },
			"an infinite step":          func() { prox.NewL1(1).Eval(v, v, math.Inf(1)) },
			"two shapes":                func() { prox.NewL1(1).Eval(v, v.Rows(0, 1), 1) },
			"the wrong dimension":       func() { lowrank.NewNuclear(array.Shape{Rows: 2, Cols: 2}, 1).Eval(v, v, 1) },
			"two vectors to linearize":  func() { prox.NewL1(1).Linearize(v, v, 1) },
			"the value of two vectors":  func() { prox.StructureOf(prox.NewL1(1)).Value(v) },
			"a negative length":         func() { clustered.NewTV1D(-1, 1) },
			"a negative variation":      func() { clustered.NewTV1D(3, -1) },
			"a negative group lambda":   func() { prox.NewGroupLinf(dev, 3, -1, nil, nil) },
			"a simplex of sum 0":        func() { cones.NewSimplex(3, 0) },
			"a simplex of sum +Inf":     func() { cones.NewSimplex(3, math.Inf(1)) },
			"a negative l1 radius":      func() { cones.NewL1Ball(3, -1) },
			"a NaN linf radius":         func() { prox.NewLinfBall(3, math.NaN()) },
			"a negative l2 radius":      func() { cones.NewL2Ball(3, -1) },
			"a 0 x 0 matrix":            func() { cones.NewSemidefinite(0) },
			"the wrong length":          func() { clustered.NewTV1D(4, 1).Eval(v, v, 1) },
			"a function that is absent": func() { prox.NewFunc(3, nil, nil, nil) },
		} {
			func() {
				defer func() {
					if r := recover(); r == nil {
						t.Errorf("%s: no panic", name)
					} else if _, ok := r.(string); !ok {
						t.Errorf("%s: panic with %T, want a sentence", name, r)
					}
				}()
				f()
			}()
		}
	})
}

func TestFunctionErrorsAreReturned(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		v := dev.Alloc(1, 2)
		dev.Fill(v, 1)
		fail := fmt.Errorf("no luck")
		p := prox.NewFunc(2, func(dst, v []float64, t float64) error { return fail },
			func(dst, v, z []float64, t float64) {}, nil)
		if err := p.Eval(v, v, 1); err == nil {
			t.Error("Eval: no error")
		}
		if _, err := p.Linearize(v, v, 1); err == nil {
			t.Error("Linearize: no error")
		}
		if live := dev.Stats().Live; live != 1 {
			t.Errorf("%d batches on loan, want 1", live)
		}
	})
}
