package linopstest_test

import (
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/linops"
	"surepipe/linops/linopstest"
	"surepipe/space"
)

// honest is a correct 3 x 5 operator for the broken ones below to embed.
func honest(dev array.Device) linops.Operator {
	return linops.NewDense(dev, mat.NewDense(3, 5, []float64{
		2, -1, 0, 3, 1,
		0, 4, 1, -2, 5,
		1, 1, 7, 0, -3,
	}))
}

// broken is an operator with one or two methods replaced.
type broken struct {
	linops.Operator
	forward, adjoint func(dst, src array.Batch)
}

func (b broken) Forward(dst, src array.Batch) {
	if b.forward == nil {
		b.Operator.Forward(dst, src)
		return
	}
	b.forward(dst, src)
}

func (b broken) Adjoint(dst, src array.Batch) {
	if b.adjoint == nil {
		b.Operator.Adjoint(dst, src)
		return
	}
	b.adjoint(dst, src)
}

// claiming is an operator with a structure that need not be true.
type claiming struct {
	linops.Operator
	s linops.Structure
}

func (c claiming) Structure() linops.Structure { return c.s }

// edited is an operator with its own structure, changed in one place.
func edited(a linops.Operator, edit func(s *linops.Structure)) linops.Operator {
	s := linops.StructureOf(a)
	edit(&s)
	return claiming{a, s}
}

// twice is an operator with its products multiplied by 2.
type twice struct{ linops.Restricted }

func (t twice) Forward(dst, b array.Batch) {
	t.Restricted.Forward(dst, b)
	dst.Device().Lin(dst, 2, dst, 0, array.Batch{})
}

func TestCheckPassesAnHonestOperator(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		a := honest(dev)
		for _, a := range []linops.Operator{a, broken{Operator: a}, claiming{Operator: a},
			edited(a, func(*linops.Structure) {})} {
			if err := linopstest.Check(dev, a); err != nil {
				t.Errorf("%T: %v", a, err)
			}
		}
	})
}

// a fault is an operator and part of the error that Check should return for it.
type fault struct {
	name string
	a    linops.Operator
	want string
}

func (f fault) found(t *testing.T, err error) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), f.want) {
		t.Errorf("%s: Check says %v, want %q", f.name, err, f.want)
	}
}

func TestCheckFindsEveryKindOfFault(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		a := honest(dev)
		var calls atomic.Int64
		for _, c := range []fault{
			{"adjoint off by a factor", broken{a, nil, func(dst, z array.Batch) {
				a.Adjoint(dst, z)
				dev.Lin(dst, 1+1e-9, dst, 0, array.Batch{})
			}}, "not the adjoint"},
			{"affine", broken{a, func(dst, b array.Batch) {
				a.Forward(dst, b)
				one := dev.Alloc(dst.K(), dst.N())
				defer one.Free()
				dev.Fill(one, 1e-6)
				dev.Lin(dst, 1, dst, 1, one)
			}, nil}, "Forward is not linear"},
			{"soft threshold", broken{a, func(dst, b array.Batch) {
				a.Forward(dst, b)
				dev.Soft(dst, dst, array.Batch{}, 0.1)
			}, nil}, "Forward is not linear"},
			{"NaN", broken{a, func(dst, b array.Batch) { dev.Fill(dst, math.NaN()) }, nil}, "is NaN"},
			{"vectors see each other", broken{a, func(dst, b array.Batch) {
				a.Forward(dst, b)
				if dst.K() > 2 {
					dev.Lin(dst, 1+0x1p-50, dst, 0, array.Batch{})
				}
			}, nil}, "in a batch of"},
			{"adds to dst", broken{a, func(dst, b array.Batch) {
				t := dev.Alloc(dst.K(), dst.N())
				defer t.Free()
				a.Forward(t, b)
				dev.Lin(dst, 1, dst, 1, t)
			}, nil}, "is NaN"},
			{"modifies its source", broken{a, func(dst, b array.Batch) {
				a.Forward(dst, b)
				dev.Lin(b, -1, b, 0, array.Batch{})
			}, nil}, "modifies its source"},
			{"no views", broken{a, func(dst, b array.Batch) {
				if !dst.Contiguous() {
					panic("gaps")
				}
				a.Forward(dst, b)
			}, nil}, "Forward: panic: gaps"},
			{"any shape", broken{a, func(dst, b array.Batch) {
				if dst.K() == b.K() && dst.N() == 3 && b.N() == 5 {
					a.Forward(dst, b)
				}
			}, nil}, "does not panic"},
			{"leak", broken{a, func(dst, b array.Batch) {
				a.Forward(dst, b)
				if calls.Add(1); dst.K() == 2 {
					dev.Alloc(1, 1)
				}
			}, nil}, "not given back"},
		} {
			c.found(t, linopstest.Check(dev, c.a))
		}
	})
}

func TestCheckFindsEveryFalseNumber(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		a := honest(dev)
		claim := func(s linops.Structure) linops.Operator { return claiming{a, s} }
		five := linops.NewFunc(5, 5, func(dst, b []float64) { copy(dst, b); dst[3] *= 2 },
			func(dst, b []float64) { copy(dst, b); dst[3] *= 2 })
		for _, c := range []fault{
			{"Rows", claim(linops.Structure{Rows: linops.Known(1)}), "Rows is 1, but ||A A* z"},
			{"negative Rows", claim(linops.Structure{Rows: linops.Known(-1)}), "Rows is -1, want 0 or more"},
			{"Columns", claim(linops.Structure{Columns: linops.Known(1)}), "Columns is 1, but ||A*A z"},
			{"NaN", claim(linops.Structure{Columns: linops.Known(math.NaN())}), "Columns is NaN"},
			{"Norm2 too small", claim(linops.Structure{Norm2: linops.Known(20)}), "Norm2 is 20"},
			{"Norm2 too large", claim(linops.Structure{Norm2: linops.Known(200)}), "Norm2 is 200"},
			{"Identity", claiming{five, linops.Structure{Identity: true}},
				"Identity: A b differs from b at vector 0, coordinate 3"},
			{"Identity of other sizes", claim(linops.Structure{Identity: true}), "Identity is claimed by a 3 x 5"},
			{"Entries", claim(linops.Structure{Entries: linops.Known(16)}), "Entries is 16"},
		} {
			c.found(t, linopstest.Check(dev, c.a))
		}
	})
}

func TestCheckFindsEveryFalseFunction(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		a := honest(dev)
		off := func(dst array.Batch) { dev.Lin(dst, 1+1e-9, dst, 0, array.Batch{}) }
		kept := linops.StructureOf(a).ColumnNorms2()
		true1 := linops.StructureOf(a)
		edit := func(f func(s *linops.Structure)) linops.Operator { return edited(a, f) }
		for _, c := range []fault{
			{"no matrix", edit(func(s *linops.Structure) { s.Dense = func() *mat.Dense { return nil } }),
				"Dense returns nil"},
			{"Dense of another size", edit(func(s *linops.Structure) { s.Dense = func() *mat.Dense { return mat.NewDense(5, 3, nil) } }), "Dense is 5 x 3"},
			{"another Dense", edit(func(s *linops.Structure) {
				s.Dense = func() *mat.Dense {
					return mat.NewDense(3, 5,
						nil)
				}
			}), "Dense: its column 0"},
			{"columns", edit(func(s *linops.Structure) {
				s.ColumnNorms2 = func() []float64 {
					return make([]float64,
						5)
				}
			}), "ColumnNorms2 of column 0"},
			{"too few columns", edit(func(s *linops.Structure) { s.ColumnNorms2 = func() []float64 { return nil } }),
				"ColumnNorms2 has 0 values"},
			{"columns kept", edit(func(s *linops.Structure) { s.ColumnNorms2 = func() []float64 { return kept } }),
				"a slice that it keeps"},
			{"solution", edit(func(s *linops.Structure) {
				s.SolveNormal = func(dst, rhs array.Batch, eta float64) bool {
					dev.Lin(dst, 1/(1+eta), rhs, 0, array.Batch{})
					return true
				}
			}), "SolveNormal at eta"},
			{"false after writing", edit(func(s *linops.Structure) {
				s.SolveNormal = func(dst, rhs array.Batch, eta float64) bool {
					dev.Copy(dst, rhs)
					return false
				}
			}), "has written to its destination"},
			{"SolveNormal of any shape", edit(func(s *linops.Structure) {
				s.SolveNormal = func(dst, rhs array.Batch, eta float64) bool {
					return dst.N() != 5 || rhs.N() != 5 || dst.K() != rhs.K() || true1.SolveNormal(dst, rhs, eta)
				}
			}), "SolveNormal of"},
			{"Listed", edit(func(s *linops.Structure) {
				s.Listed = func(int) (space.Rows, bool) { return space.Rows{Indptr: make([]int, 1+3)}, true }
			}), "Listed: entry 0 of A b"},
			{"PickRows", edit(func(s *linops.Structure) {
				s.PickRows = func(dev array.Device, rows []int) (linops.Operator, func(), error) {
					return linops.Zero(len(rows), 5), func() {}, nil
				}
			}), "PickRows: entry"},
			{"RowNorms2", edit(func(s *linops.Structure) {
				s.RowNorms2 = func([]float64) []float64 { return make([]float64, 1) }
			}), "RowNorms2 is"},
			{"Cosines", edit(func(s *linops.Structure) {
				s.Cosines = linops.Spectrum{Shape: array.Shape{Rows: 1, Cols: 5},
					Values: func() []float64 { return make([]float64, 5) }}
			}), "Cosines differs from A's products"},
			{"Cosines of another size", edit(func(s *linops.Structure) {
				s.Cosines = linops.Spectrum{Shape: array.Shape{Rows: 1, Cols: 4},
					Values: func() []float64 { return make([]float64, 4) }}
			}), "Cosines are 4 numbers"},
			{"Normal", edit(func(s *linops.Structure) {
				s.Normal = func(dst, b array.Batch) {
					z := dev.Alloc(b.K(), 3)
					defer z.Free()
					a.Forward(z, b)
					a.Adjoint(dst, z)
					off(dst)
				}
			}), "Normal differs from A's products"},
			{"Panels", edit(func(s *linops.Structure) {
				s.Panels = linops.Panels{Rows: 2, Accumulate: func(dst, z array.Batch, _ int) { off(dst) }}
			}), "Panels: their sums differ"},
			{"no panels", edit(func(s *linops.Structure) {
				s.Panels = linops.Panels{Accumulate: func(dst, z array.Batch, _ int) {}}
			}), "Panels have 0 rows"},
			{"Gram", edit(func(s *linops.Structure) {
				s.Gram = func(dst array.Batch) {
					true1.Gram(dst)
					off(dst)
				}
			}), "Gram differs from A's products"},
			{"AddForward", edit(func(s *linops.Structure) {
				s.AddForward = func(dst array.Batch, alpha float64, x array.Batch) { a.Forward(dst, x) }
			}), "AddForward differs from A's products"},
			{"AddAdjoint", edit(func(s *linops.Structure) {
				s.AddAdjoint = func(dst array.Batch, alpha float64, x array.Batch) {
					t := dev.Alloc(x.K(), 5)
					defer t.Free()
					a.Adjoint(t, x)
					dev.Lin(dst, 1, dst, 1, t)
				}
			}), "AddAdjoint differs from A's products"},
			{"ScaleColumns", edit(func(s *linops.Structure) {
				s.ScaleColumns = func(dev array.Device,
					c []float64) linops.Restricted {
					return twice{true1.ScaleColumns(dev, c)}
				}
			}), "ScaleColumns: Forward differs"},
			{"shifts of no image", edit(func(s *linops.Structure) { s.Commutes = true }),
				"shifts of 0 x 0 images commute with a 3 x 5 operator"},
			{"blocks of another size", edit(func(s *linops.Structure) { s.Beside = []linops.Operator{linops.Identity(3)} }), "the blocks are 3 x 3 together"},
			{"other blocks", edit(func(s *linops.Structure) {
				s.Beside = []linops.Operator{linops.Identity(3),
					linops.Zero(3, 2)}
			}), "Beside differs from A's products"},
			{"scaled in place", edit(func(s *linops.Structure) {
				s.ScaleColumns = func(dev array.Device, c []float64) linops.Restricted { return nil }
			}), "ScaleColumns returns nil"},
		} {
			c.found(t, linopstest.Check(dev, c.a))
		}
	})
}

func TestCheckFindsFalseOperatorsOnSpaces(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		a := honest(dev)
		own := linops.StructureOf(a).On
		on := func(f func(dev array.Device, t space.Space) linops.Restricted) linops.Operator {
			return edited(a, func(s *linops.Structure) { s.On = f })
		}
		// wrongOn is wrong on the spaces of one kind.
		wrongOn := func(kind space.Kind) linops.Operator {
			return on(func(dev array.Device, t space.Space) linops.Restricted {
				op := own(dev, t)
				if _, n := t.Dims(); op != nil && n > 0 && t.Form().Kind == kind {
					return twice{op}
				}
				return op
			})
		}
		for kind, want := range map[space.Kind]string{
			space.General: "On a general space: Forward", space.Whole: "On all of the space: Forward",
			space.Subset:  "On a subset: Forward",
			space.Cluster: "On clusters: Forward", space.Product: "On a product, all of the space, a span: Forward",
			space.Hyperplane: "On a hyperplane: Forward", space.Spanned: "On a span: Forward",
		} {
			fault{want, wrongOn(kind), want}.found(t, linopstest.Check(dev, wrongOn(kind)))
		}
		u, v := dev.Alloc(1, 1), dev.Alloc(1, 5)
		dev.Fill(u, 1)
		dev.Fill(v, 2)
		tangent := space.Tangent(array.Shape{Rows: 1, Cols: 5}, 1, u, v)
		id := linops.Identity(5)
		low := edited(id, func(s *linops.Structure) {
			own := s.On
			s.On = func(dev array.Device, t space.Space) linops.Restricted { return twice{own(dev, t)} }
		})
		fault{"tangent", low, "On a tangent space: Forward"}.found(t, linopstest.CheckOn(dev, low, tangent))
		for _, c := range []fault{
			{"another size", on(func(dev array.Device, t space.Space) linops.Restricted {
				return own(dev,
					space.All(5))
			}), "want 3 x"},
			{"leak", on(func(dev array.Device, t space.Space) linops.Restricted {
				dev.NewIndex([]int{1, 2})
				return own(dev, t)
			}), "are left after Release"},
			{"once", on(once(own)), "and then none"},
			{"its own structure", on(func(dev array.Device, t space.Space) linops.Restricted {
				if op := own(dev, t); op != nil {
					return lying{op}
				}
				return nil
			}), "On all of the space: Norm2 is 1e-09"},
			{"its own Normal", on(func(dev array.Device, t space.Space) linops.Restricted {
				if op := own(dev, t); op != nil {
					return squaring{op}
				}
				return nil
			}), "On all of the space: Normal differs"},
		} {
			c.found(t, linopstest.Check(dev, c.a))
		}
	})
}

// once returns what f returns the first time, and then nil.
func once(f func(array.Device, space.Space) linops.Restricted) func(array.Device, space.Space) linops.Restricted {
	called := false
	return func(dev array.Device, t space.Space) linops.Restricted {
		if called {
			return nil
		}
		called = true
		return f(dev, t)
	}
}

// lying claims a norm of its own.
type lying struct{ linops.Restricted }

func (l lying) Structure() linops.Structure { return linops.Structure{Norm2: linops.Known(1e-9)} }

// squaring claims that A*A = I.
type squaring struct{ linops.Restricted }

func (s squaring) Structure() linops.Structure {
	return linops.Structure{Normal: func(dst, b array.Batch) { dst.Device().Copy(dst, b) }}
}

func TestCheckFindsFalseSamples(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		a, err := linops.NewSelection(dev, 12, []int{7, 2, 3, 11})
		if err != nil {
			t.Fatal(err)
		}
		own := linops.StructureOf(a).Sampled
		sampled := func(f func(array.Device, array.Shape) (array.Pattern, array.Index)) linops.Operator {
			return edited(a, func(s *linops.Structure) { s.Sampled = f })
		}
		other := func(places ...int) linops.Operator {
			return sampled(func(_ array.Device, shape array.Shape) (array.Pattern, array.Index) {
				if shape.Len() != 12 {
					return nil, nil
				}
				_, order := own(dev, shape)
				return dev.NewPattern(shape.Rows, shape.Cols, places), order
			})
		}
		for _, c := range []fault{
			{"another place", other(2, 3, 7, 10), "Sampled: row 3 of A picks entry 10"},
			{"not sorted", other(2, 7, 3, 11), "Sampled: place 2 is 3, after 7"},
			{"too many", other(1, 2, 3, 7, 11), "Sampled has 5 places"},
			{"any shape", sampled(func(array.Device, array.Shape) (array.Pattern, array.Index) {
				return own(dev, array.Shape{Rows: 3, Cols: 4})
			}), "are taken for 1 x 13 matrices"},
			{"no order", sampled(func(_ array.Device, shape array.Shape) (array.Pattern, array.Index) {
				places, _ := own(dev, shape)
				return places, nil
			}), "Sampled: row 0 of A picks entry 2"},
		} {
			c.found(t, linopstest.Check(dev, c.a))
		}
	})
}

func ExampleCheck() {
	dev := array.NewHost()
	// Cumulative sums; the adjoint sums from the other end. This one forgot to.
	n := 4
	cumsum := func(dst, src []float64) {
		s := 0.0
		for i, v := range src {
			s += v
			dst[i] = s
		}
	}
	err := linopstest.Check(dev, linops.NewFunc(n, n, cumsum, cumsum))
	finding, _, _ := strings.Cut(err.Error(), ":")
	fmt.Println(finding)
	// Output: Adjoint is not the adjoint of Forward
}

// The sum of a matrix of low rank and a sparse one, on the spaces of a robust PCA.
func ExampleCheckOn() {
	dev := array.NewHost()
	defer dev.Close()
	a := linops.HStack(linops.Identity(6), linops.Identity(6))
	u, v := dev.Alloc(1, 2), dev.Alloc(1, 3)
	defer u.Free()
	defer v.Free()
	dev.Upload(u, []float64{1, 2})
	dev.Upload(v, []float64{0, 1, -1})
	t := space.ProductOf(space.Tangent(array.Shape{Rows: 2, Cols: 3}, 1, u, v), space.Coordinates(dev, 6, []int{0, 4}))
	defer t.Release()
	fmt.Println(linopstest.CheckOn(dev, a, t))
	// Output: <nil>
}

// A request's lack of memory must not reach the device, so that On and ScaleColumns allocate on the
// device that they are given.
func TestCheckFindsMemoryElsewhere(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		if dev.Request() == dev {
			t.Skip("a device without faults")
		}
		a := linops.NewDense(dev, mat.NewDense(2, 3, []float64{1, 2, 3, 4, 5, 6}))
		defer a.Release()
		for _, c := range []fault{
			{"On", edited(a, func(s *linops.Structure) {
				own := s.On
				s.On = func(_ array.Device, t space.Space) linops.Restricted { return own(dev, t) }
			}), "bytes are allocated elsewhere than on the device that is given"},
			{"ScaleColumns", edited(a, func(s *linops.Structure) {
				own := s.ScaleColumns
				s.ScaleColumns = func(_ array.Device, c []float64) linops.Restricted { return own(dev, c) }
			}), "ScaleColumns: "},
		} {
			c.found(t, linopstest.Check(dev, c.a))
		}
	})
}
