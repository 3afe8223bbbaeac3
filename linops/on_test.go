package linops_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
	. "surepipe/linops"
	"surepipe/linops/imaging"
	"surepipe/linops/linopstest"
	"surepipe/space"
)

// everywhere tests an operator on spaces, which it releases.
func everywhere(t *testing.T, dev array.Device, name string, a Operator, spaces ...space.Space) {
	t.Helper()
	if err := linopstest.CheckOn(dev, a, spaces...); err != nil {
		t.Errorf("%s: %v", name, err)
	}
	for _, s := range spaces {
		s.Release()
	}
}

// Any operator works on any space: by its own On, or after the embedding.
func TestOperatorsOnEverySpace(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		for _, e := range catalogue(t, dev) {
			_, p := e.a.Dims()
			everywhere(t, dev, e.name, e.a, linopstest.Spaces(dev, p)...)
		}
	})
}

// factors are random U and V of matrices of a shape, on a device.
func factors(dev array.Device, shape array.Shape, r int, seed uint64) (u, v array.Batch) {
	u, v = dev.Alloc(1, shape.Rows*r), dev.Alloc(1, shape.Cols*r)
	dev.Upload(u, gaussian(shape.Rows*r, seed))
	dev.Upload(v, gaussian(shape.Cols*r, seed+1))
	return u, v
}

// weighted is clusters with other weights.
type weighted struct{ space.Space }

func (w weighted) Embed(dst, c array.Batch) {
	w.Space.Embed(dst, c)
	dst.Device().Lin(dst, 2, dst, 0, array.Batch{})
}

func (w weighted) Coordinates(dst, z array.Batch) {
	w.Space.Coordinates(dst, z)
	dst.Device().Lin(dst, 2, dst, 0, array.Batch{})
}

func (w weighted) Form() space.Form {
	f := w.Space.Form()
	f.Orthonormal = false
	rows := f.Average()
	for i := range rows.Values {
		rows.Values[i] *= 2
	}
	f.Average = func() space.Rows { return rows }
	return f
}

// Which operators have their own On for which space.
func TestWaysOfTheirOwn(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		shape := array.Shape{Rows: 4, Cols: 3}
		u, v := factors(dev, shape, 1, 1)
		subset := func(p int, set ...int) space.Space { return space.Coordinates(dev, p, set) }
		tangent := func() space.Space { return space.Tangent(shape, 1, u, v) }
		clusters := func() space.Space { return space.Clusters(dev, 12, []int{0, 2, 5}, []int{0, 7, 3, 4, 5}, nil) }
		plane := func() space.Space { return space.HyperplaneOf(dev, 12, []int{0, 3, 7}, []float64{1, 2, -1}) }
		dense, sparse := randomDense(dev, 12, 12), randomCSR(t, dev, 12, 12)
		id, sel := Identity(12), selection(t, dev, 12, 5, 0, 7)
		pair := func(a, b space.Space) space.Space { return space.ProductOf(a, b) }
		for _, c := range []struct {
			name   string
			a      Operator
			s      space.Space
			native bool
			normal bool // A*A without A
		}{
			{"dense", dense, subset(12, 1, 5), true, false},
			{"dense", dense, clusters(), true, false},
			{"dense", dense, tangent(), true, false},
			{"dense", dense, plane(), true, false},
			{"sparse", sparse, subset(12, 1, 5), true, false},
			{"sparse", sparse, clusters(), true, false},
			{"sparse", sparse, plane(), false, false},
			{"identity", id, space.All(12), true, false},
			{"identity", id, tangent(), true, true},
			{"identity", id, subset(12, 3), false, false},
			{"selection", sel, tangent(), true, false},
			{"selection", sel, subset(12, 1, 5), false, false},
			{"scaled selection", Scale(3, sel), tangent(), true, false},
			{"a product", Compose(imaging.NewDCT(12), dense), clusters(), true, false},
			{"a product", Compose(dense, imaging.NewDCT(12)), clusters(), false, false},
			{"a sum", Sum(dense, sparse), clusters(), true, false},
			{"a sum", Sum(dense, id), clusters(), false, false},
			{"above", VStack(sel, id), tangent(), true, false},
			{"above", VStack(sel, imaging.NewDCT(12)), tangent(), false, false},
			{"adjoint", Adjoint(dense), subset(12, 1), false, false},
			{"user's", plain{dense}, subset(12, 1), false, false},
			{"beside", HStack(dense, sparse), subset(24, 1, 11, 12, 20), true, false},
			{"beside", HStack(dense, id), subset(24, 1, 11, 12, 20), false, false},
			{"beside", HStack(dense, id), pair(clusters(), tangent()), true, false},
			{"beside", HStack(dense, id), pair(tangent(), tangent()), true, false},
			{"beside", HStack(dense, id), pair(subset(12, 1), space.All(12)), true, false},
			{"beside", HStack(dense, id, sparse), space.ProductOf(subset(12, 1), space.All(12), clusters()), true,
				false},
			{"beside", HStack(id, id), pair(tangent(), subset(12, 1, 5)), true, true},
			{"beside", HStack(id, id), pair(subset(12, 1, 5), tangent()), true, true},
			{"beside", HStack(id, id), pair(tangent(), tangent()), true, false},
			{"beside", HStack(id, id), pair(subset(12, 1, 5), subset(12, 2)), false, false},
			{"beside", HStack(id, id), pair(tangent(), clusters()), false, false},
			{"beside", HStack(Scale(2, id), id), pair(tangent(), subset(12, 1)), false, false},
			{"beside", HStack(Scale(2, id), id), pair(tangent(), tangent()), true, false},
			{"scaled", Scale(2, HStack(id, id)), pair(subset(12, 1, 5), tangent()), true, true},
			{"after", Compose(dense, HStack(id, id)), pair(subset(12, 1, 5), tangent()), true, false},
			{"diagonal", BlockDiag(dense, sparse), subset(24, 1, 11, 12, 20), true, false},
			{"diagonal", BlockDiag(sel, dense), pair(tangent(), plane()), true, false},
			// Factors and blocks that do not have the same ends.
			{"nested", HStack(HStack(dense, sparse), dense), space.ProductOf(clusters(), plane(), plane()), false,
				false},
			{"nested", HStack(HStack(dense, sparse), dense), space.ProductOf(clusters(), subset(12, 4), plane()),
				true, false},
			{"nested", HStack(dense, HStack(sparse, dense)), pair(subset(24, 3, 12, 13), space.All(12)), true, false},
			{"nested", HStack(dense, HStack(sparse, dense)), space.ProductOf(pair(subset(12, 3), clusters()),
				space.All(12)), true, false},
			{"across", HStack(dense, dense), space.Clusters(dev, 24, []int{0, 2, 4}, []int{0, 3, 7, 13}, nil), false,
				false},
			{"behind", HStack(dense, dense), space.Clusters(dev, 24, []int{0, 2, 4}, []int{13, 14, 3, 7}, nil), false,
				false},
			{"within", HStack(dense, sparse), space.Clusters(dev, 24, []int{0, 2, 4}, []int{5, 3, 17, 13},
				[]float64{1, 1, 1, -1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}), true, false},
			{"weighted", HStack(dense, sparse), weighted{space.Clusters(dev, 24, []int{0, 2, 4}, []int{5, 3, 17, 13},
				nil)}, false, false},
			{"nested", HStack(dense, dense), pair(space.All(5), subset(19, 3, 12, 13)), true, false},
			{"across", HStack(dense, dense), space.Clusters(dev, 24, []int{0, 2, 4}, []int{0, 3, 7, 13}, nil), false,
				false},
			{"behind", HStack(dense, dense), space.Clusters(dev, 24, []int{0, 2, 4}, []int{13, 14, 3, 7}, nil), false,
				false},
			{"within", HStack(dense, sparse), space.Clusters(dev, 24, []int{0, 2, 4}, []int{5, 3, 17, 13},
				[]float64{1, 1, 1, -1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}), true, false},
			{"weighted", HStack(dense, sparse), weighted{space.Clusters(dev, 24, []int{0, 2, 4}, []int{5, 3, 17, 13},
				nil)}, false, false},
			{"nested", HStack(dense, dense), pair(space.All(5), space.Span(dev.Alloc(0, 19))), false, false},
			{"nested", HStack(dense, Zero(12, 0), dense), pair(clusters(), clusters()), false, false},
			{"nested", HStack(dense, randomCSR(t, dev, 12, 0), dense), pair(clusters(), clusters()), true, false},
		} {
			op, native := On(dev, c.a, c.s)
			name := fmt.Sprintf("%s on a space of kind %d", c.name, c.s.Form().Kind)
			if native != c.native {
				t.Errorf("%s: a way of its own: %t, expected %t", name, native, c.native)
			}
			if normal := StructureOf(op).Normal != nil; normal != c.normal {
				t.Errorf("%s: A*A without A: %t, expected %t", name, normal, c.normal)
			}
			op.Release()
			everywhere(t, dev, name, c.a, c.s)
		}
		for _, x := range []interface{ Release() }{dense, sparse, sel} {
			x.Release()
		}
		u.Free()
		v.Free()
	})
}

func TestASpaceOfOtherVectorsPanics(t *testing.T) {
	defer func() {
		if r := fmt.Sprint(recover()); !strings.Contains(r, "a 5 x 5 operator on a space of 4 coordinates in R^4") {
			t.Errorf("panic %q", r)
		}
	}()
	On(array.NewHost(), Identity(5), space.All(4))
}

// The sum of a matrix of low rank and a sparse one, in either order, on a tangent space and a set
// of coordinates.
func TestLowRankPlusSparse(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		arraytest.NoLeak(t, dev)
		rng := rand.New(rand.NewPCG(4, 9))
		for _, s := range []struct{ m, n, r, d int }{{1, 1, 1, 1}, {7, 5, 2, 11}, {5, 9, 1, 0}, {20, 30, 4, 90}} {
			set := rng.Perm(s.m * s.n)[:s.d]
			slices.Sort(set)
			shape := array.Shape{Rows: s.m, Cols: s.n}
			u, v := factors(dev, shape, s.r, 3)
			q, p, entries := gaussian(s.m*s.r, 5), gaussian(s.n*s.r, 6), gaussian(s.d, 7)
			var want, up mat.Dense
			want.Mul(mat.NewDense(s.m, s.r, q), mat.NewDense(s.n, s.r, v.ToHost()).T())
			up.Mul(mat.NewDense(s.m, s.r, u.ToHost()), mat.NewDense(s.n, s.r, p).T())
			want.Add(&want, &up)
			for e, at := range set {
				want.RawMatrix().Data[at] += entries[e]
			}
			for _, sparseFirst := range []bool{false, true} {
				parts := []space.Space{space.Tangent(shape, s.r, u, v), space.Coordinates(dev, s.m*s.n, set)}
				x := slices.Concat(q, p, entries)
				if sparseFirst {
					slices.Reverse(parts)
					x = slices.Concat(entries, q, p)
				}
				both := space.ProductOf(parts...)
				i := Identity(s.m * s.n)
				a, native := On(dev, HStack(i, i), both)
				if !native || StructureOf(a).Normal == nil {
					t.Errorf("%+v, sparse first %t: [I I] does not know its structure", s, sparseFirst)
				}
				if err := linopstest.Check(dev, a); err != nil {
					t.Errorf("%+v, sparse first %t: %v", s, sparseFirst, err)
				}
				b, out := dev.Alloc(1, len(x)), dev.Alloc(1, s.m*s.n)
				dev.Upload(b, x)
				a.Forward(out, b)
				if e := floats.Distance(out.ToHost(), want.RawMatrix().Data, 2); e > 1e-12 {
					t.Errorf("%+v, sparse first %t: off by %.2g", s, sparseFirst, e)
				}
				a.Release()
				both.Release()
				b.Free()
				out.Free()
			}
			u.Free()
			v.Free()
		}
	})
}

// A tangent space outside of a set of entries is the tangent space followed by 0 on the set.
func TestTangentSpaceOutsideOfASet(t *testing.T) {
	defer PanelsOf(70)() // two rows of the largest
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		arraytest.NoLeak(t, dev)
		rng := rand.New(rand.NewPCG(4, 9))
		for _, s := range []struct{ m, n, r, d int }{{1, 1, 1, 0}, {7, 5, 2, 11}, {5, 9, 1, 0}, {20, 30, 4, 90}} {
			set := rng.Perm(s.m * s.n)[:s.d]
			slices.Sort(set)
			shape := array.Shape{Rows: s.m, Cols: s.n}
			u, v := factors(dev, shape, s.r, 3)
			on := space.Tangent(shape, s.r, u, v)
			places := NewPlaces(dev, shape, set)
			a := OutsideOf(dev, on, places)
			if err := linopstest.Check(dev, a); err != nil {
				t.Errorf("%+v: %v", s, err)
			}
			_, n := a.Dims()
			b, got, want := dev.Alloc(1, n), dev.Alloc(1, s.m*s.n), dev.Alloc(1, s.m*s.n)
			dev.Upload(b, gaussian(n, 5))
			a.Forward(got, b)
			on.Embed(want, b)
			values := want.ToHost()
			for _, j := range set {
				values[j] = 0
			}
			if e := floats.Distance(got.ToHost(), values, 2); e > 1e-12 {
				t.Errorf("%+v: off by %.2g", s, e)
			}
			a.Release()
			places.Free()
			for _, b := range []array.Batch{b, got, want, u, v} {
				b.Free()
			}
		}
		defer func() {
			if recover() == nil {
				t.Error("no panic on another space")
			}
		}()
		OutsideOf(dev, space.All(4), nil)
	})
}

// A selection on a tangent space is the selection of the matrices that the coordinates stand for.
func TestSelectionOnATangentSpace(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		arraytest.NoLeak(t, dev)
		rng := rand.New(rand.NewPCG(1, 9))
		for _, s := range []struct{ m, n, r, d int }{{1, 1, 1, 1}, {7, 5, 2, 11}, {5, 9, 1, 0}, {30, 40, 6, 300}} {
			idx := rng.Perm(s.m * s.n)[:s.d]
			sel := selection(t, dev, s.m*s.n, idx...)
			// Any shape with as many entries will do, also one after the other.
			for _, shape := range []array.Shape{{Rows: s.m, Cols: s.n}, {Rows: s.n, Cols: s.m}} {
				u, v := factors(dev, shape, s.r, 5)
				tangent := space.Tangent(shape, s.r, u, v)
				a, native := On(dev, sel, tangent)
				if !native {
					t.Errorf("%+v: the selection has no way of its own", s)
				}
				if err := linopstest.Check(dev, a); err != nil {
					t.Errorf("%+v: %v", s, err)
				}
				_, p := a.Dims()
				host := gaussian(p, 8)
				b, out := dev.Alloc(1, p), dev.Alloc(1, s.d)
				dev.Upload(b, host)
				a.Forward(out, b)
				var x, up mat.Dense
				x.Mul(mat.NewDense(shape.Rows, s.r, host[:shape.Rows*s.r]),
					mat.NewDense(shape.Cols, s.r, v.ToHost()).T())
				up.Mul(mat.NewDense(shape.Rows, s.r, u.ToHost()),
					mat.NewDense(shape.Cols, s.r, host[shape.Rows*s.r:]).T())
				x.Add(&x, &up)
				for e, got := range out.ToHost() {
					if want := x.RawMatrix().Data[idx[e]]; math.Abs(got-want) > 1e-12*(1+math.Abs(want)) {
						t.Errorf("%+v: entry %d is %v, want %v", s, e, got, want)
					}
				}
				for _, x := range []array.Batch{u, v, b, out} {
					x.Free()
				}
				a.Release()
				tangent.Release()
			}
			sel.Release()
		}
	})
}

// cautious is a wrapper as a user would write it: it counts products and passes on the structure,
// without the functions that would compute uncounted products.
type cautious struct {
	Operator
	products *atomic.Int64
}

func (c cautious) Forward(dst, b array.Batch) {
	c.products.Add(1)
	c.Operator.Forward(dst, b)
}

func (c cautious) Structure() Structure {
	s := StructureOf(c.Operator)
	s.AddForward, s.AddAdjoint, s.Normal = nil, nil, nil
	return s
}

// A user's wrapper that passes on the structure is as good as the operator that it wraps, even
// within combinations.
func TestWrappersHandTheirStructureOn(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		shape := array.Shape{Rows: 3, Cols: 4}
		u, v := factors(dev, shape, 1, 1)
		var products atomic.Int64
		wrap := func(a Operator) Operator { return cautious{a, &products} }
		id := wrap(Identity(12))
		a := Scale(2, wrap(HStack(id, id)))
		if err := linopstest.Check(dev, a); err != nil {
			t.Error(err)
		}
		if products.Load() == 0 {
			t.Error("the products went past the wrapper")
		}
		tangent, set := space.Tangent(shape, 1, u, v), space.Coordinates(dev, 12, []int{2, 3})
		op, native := On(dev, a, space.ProductOf(set, tangent))
		if !native || StructureOf(op).Normal == nil {
			t.Errorf("[I I] through wrappers has a way of its own: %t, A*A: %t", native, StructureOf(op).Normal != nil)
		}
		op.Release()
		everywhere(t, dev, "wrapped", a, space.ProductOf(tangent, set))
		if n := StructureOf(a).Rows; n != Known(8) {
			t.Errorf("2 [I I] has A A* = c I with %+v", n)
		}
		s := ScaleColumns(dev, wrap(randomDense(dev, 3, 12)), weights(12))
		if StructureOf(s).SolveNormal == nil {
			t.Error("a wrapped matrix with scaled columns is no matrix any more")
		}
		if err := linopstest.Check(dev, s); err != nil {
			t.Error(err)
		}
	})
}

// Many columns of a matrix that has a copy by columns are not copied again, and are what they are without it; so are
// some of these.
func TestColumnsOfAMatrixByColumns(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		const d, p = 9, 700
		a := randomDense(dev, d, p)
		a.Structure().KeepColumns()
		some := func(last int) (set []int) {
			for j := 1; j < last; j += 1 + j%2 {
				set = append(set, j)
			}
			return set
		}
		for _, last := range []int{5, 400, p} {
			set := some(last)
			s := space.Coordinates(dev, p, set)
			everywhere(t, dev, fmt.Sprintf("%d columns", len(set)), a, space.Coordinates(dev, p, set))
			op, native := On(dev, a, s)
			if !native {
				t.Fatalf("%d columns by products with all", len(set))
			}
			for _, last := range []int{3, len(set)} {
				everywhere(t, dev, fmt.Sprintf("some of %d columns", len(set)), op,
					space.Coordinates(dev, len(set), some(last)))
			}
			if err := linopstest.Check(dev, op); err != nil {
				t.Errorf("%d columns: %v", len(set), err)
			}
			if _, host := dev.Alloc(1, 1).HostRow(0); host && op.Bytes() >= 8*d*int64(len(set)) && len(set) > 256 {
				t.Errorf("%d columns hold %d bytes, as many as a copy", len(set), op.Bytes())
			}
			op.Release()
			s.Release()
		}
	})
}
