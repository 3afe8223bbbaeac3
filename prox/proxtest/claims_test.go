package proxtest_test

import (
	"strings"
	"testing"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/internal/lists"
	"surepipe/prox"
	"surepipe/prox/lowrank"
	"surepipe/prox/proxtest"
	"surepipe/space"
)

// must unwraps a constructor whose data is known to be good.
func must(p prox.Prox, err error) prox.Prox {
	if err != nil {
		panic(err)
	}
	return p
}

// shaped is a derivative with another model.
type shaped struct {
	prox.Derivative
	model *prox.Model
}

func (d shaped) Model() *prox.Model { return d.model }

// modelled returns p with the models of its derivatives changed by f, which gets a copy.
func modelled(p prox.Prox, f func(m *prox.Model)) prox.Prox {
	return wrapped{Prox: p, linearize: func(dst, v array.Batch, t float64) (prox.Derivative, error) {
		j, err := p.Linearize(dst, v, t)
		if err != nil {
			return nil, err
		}
		m := *j.Model()
		f(&m)
		return shaped{j, &m}, nil
	}}
}

// bent is a curvature with another answer to one question.
type bent struct {
	prox.Curvature
	precondition func(dst, image, z array.Batch)
	diagonal     func() []float64
	matrix       func() []float64
	factor       float64 // of the trace
}

func (c bent) Precondition(dst, image, z array.Batch) {
	c.Curvature.Precondition(dst, image, z)
	if c.precondition != nil {
		c.precondition(dst, image, z)
	}
}

func (c bent) Diagonal() []float64 {
	if c.diagonal != nil {
		return c.diagonal()
	}
	return c.Curvature.Diagonal()
}

func (c bent) Matrix() []float64 {
	if c.matrix != nil {
		return c.matrix()
	}
	return c.Curvature.Matrix()
}

func (c bent) Trace() (trace, frobenius2 float64, ok bool) {
	trace, frobenius2, ok = c.Curvature.Trace()
	return c.factor * trace, frobenius2, ok
}

// bending returns p with the curvatures of its models, where there are any, changed by f.
func bending(p prox.Prox, f func(c *bent)) prox.Prox {
	return modelled(p, func(m *prox.Model) {
		if m.Curvature != nil {
			c := &bent{Curvature: m.Curvature, factor: 1}
			f(c)
			m.Curvature = c
		}
	})
}

// leaning is a space whose E is 2 E of another that says it is orthonormal.
type leaning struct{ space.Space }

func (s leaning) Embed(dst, c array.Batch) {
	s.Space.Embed(dst, c)
	dst.Device().Lin(dst, 2, dst, 0, array.Batch{})
}

func TestFalseModelsAreFound(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		l1, net := prox.NewL1(1), prox.NewElasticNet(0.5, 0.7)
		nuclear := lowrank.NewNuclear(array.Shape{Rows: 3, Cols: 4}, 12)
		group := must(prox.NewGroupL2(dev, dim, 0.8, [][]int{{0, 2, 4}, {1, 3}}, nil))
		defer prox.Release(group)
		l2 := must(prox.NewGroupL2(dev, dim, 1, [][]int{lists.Upto(dim)}, nil))
		defer prox.Release(l2)
		twice := func(v []float64) []float64 {
			out := make([]float64, len(v))
			for i, x := range v {
				out[i] = 2 * x
			}
			return out
		}
		all := space.All(dim)
		for _, c := range []struct {
			name string
			p    prox.Prox
			dim  int
			want string // the claim that must be reported, "" for none
		}{
			{"sound", modelled(l1, func(*prox.Model) {}), dim, ""},
			{"sound, curved", bending(net, func(*bent) {}), dim, ""},
			{"sound, of low rank", bending(nuclear, func(*bent) {}), 12, ""},
			{"too large a space", modelled(l1, func(m *prox.Model) { m.Space = all }), dim, "model: "},
			{"the space of another dimension", modelled(l1, func(m *prox.Model) { m.Space = space.All(dim + 1) }),
				dim, "model: "},
			{"a space that is not what it says", modelled(l1, func(m *prox.Model) { m.Space = leaning{m.Space} }),
				dim, "model: "},
			{"no curvature", modelled(l2, func(m *prox.Model) { m.Curvature = nil }), dim, "model: "},
			{"twice the matrix", bending(l2, func(c *bent) {
				c.matrix = func() []float64 { return twice(c.Curvature.Matrix()) }
			}), dim, "by the matrix of Q"},
			{"twice the matrix of groups", bending(group, func(c *bent) {
				c.matrix = func() []float64 { return twice(c.Curvature.Matrix()) }
			}), dim, "by the matrix of Q"},
			{"a matrix of the wrong size", bending(net, func(c *bent) {
				c.matrix = func() []float64 { return []float64{1, 2, 3} }
			}), dim, "the curvature's matrix has 3 entries"},
			{"twice the diagonal", bending(net, func(c *bent) {
				c.diagonal = func() []float64 { return twice(c.Curvature.Diagonal()) }
			}), dim, "by the diagonal of Q"},
			{"a wrong inverse", bending(net, func(c *bent) {
				c.precondition = func(dst, _, _ array.Batch) { dev.Lin(dst, 1.01, dst, 0, array.Batch{}) }
			}), dim, "by the model, and J z"},
			{"a wrong image", bending(net, func(c *bent) {
				c.precondition = func(_, image, _ array.Batch) { dev.Lin(image, 1.01, image, 0, array.Batch{}) }
			}), dim, "the image and z - E*E dst"},
			{"a wrong image of low rank", bending(nuclear, func(c *bent) {
				c.precondition = func(_, image, _ array.Batch) { dev.Lin(image, 1.01, image, 0, array.Batch{}) }
			}), 12, "z - E*E dst - image"},
			{"a wrong trace", bending(nuclear, func(c *bent) { c.factor = 1.01 }), 12, "the trace is"},
			{"too large a margin", modelled(l1, func(m *prox.Model) {
				margin := m.Margin
				m.Margin = func(v array.Batch) float64 { return 1.5 * margin(v) }
			}), dim, "margin of the model"},
			{"too large a margin of low rank", modelled(nuclear, func(m *prox.Model) {
				margin := m.Margin
				m.Margin = func(v array.Batch) float64 { return 50 * margin(v) }
			}), 12, "margin of the model"},
			{"a negative margin", modelled(l1, func(m *prox.Model) {
				m.Margin = func(array.Batch) float64 { return -1 }
			}), dim, "the margin is -1"},
		} {
			expect(t, c.name, proxtest.Check(dev, c.p, c.dim), c.want)
		}
	})
}

// expect fails unless err has a complaint, or is nil where none is wanted.
func expect(t *testing.T, name string, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("%s: %v", name, err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("%s: %q is not among the complaints: %v", name, want, err)
	}
}

func TestFalseStructuresAreFound(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		l1 := prox.NewL1(1)
		group := must(prox.NewGroupL2(dev, dim, 0.8, [][]int{{0, 2, 4}, {1, 3}}, nil))
		defer prox.Release(group)
		matrix := array.Shape{Rows: 2, Cols: 3}
		itself := func(s []int) []int { return s }
		for _, c := range []struct {
			name string
			p    prox.Prox
			want string
		}{
			{"sound", telling(group, func(*prox.Structure) {}), ""},
			{"a curvature", telling(l1, func(s *prox.Structure) { s.Quadratic = prox.Number{Value: 1, Known: true} }),
				"quadratic regularizer"},
			{"the nuclear norm", telling(l1, func(s *prox.Structure) {
				s.Nuclear, s.Shape = prox.Number{Value: 1, Known: true}, matrix
			}), "nuclear norm"},
			{"another nuclear norm", telling(lowrank.NewNuclear(matrix, 1),
				func(s *prox.Structure) { s.Nuclear.Value = 1.01 }), "nuclear norm"},
			{"matrices of another size", telling(lowrank.NewNuclear(matrix, 1),
				func(s *prox.Structure) { s.Shape.Rows = 3 }), "nuclear norm"},
			{"another l1 norm", telling(l1, func(s *prox.Structure) { s.L1.Value = 1.01 }), "parts"},
			{"other blocks", telling(l1, func(s *prox.Structure) { s.Blocks = []prox.Prox{prox.Block{Prox: prox.NewSquaredL2(1), N: 6}} }), "parts"},
			{"too few blocks", telling(l1, func(s *prox.Structure) { s.Blocks = []prox.Prox{prox.Block{Prox: prox.NewL1(1), N: 5}} }), "parts"},
			{"a free coordinate", telling(l1, func(s *prox.Structure) { s.Free = func(int) []int { return []int{2} } }), "free coordinates"},
			{"a free coordinate out of range", telling(l1,
				func(s *prox.Structure) { s.Free = func(n int) []int { return []int{n} } }), "free coordinates"},
			{"another weight", telling(l1, func(s *prox.Structure) {
				s.Sparse = func(n int) (w, q prox.Numbers, positive []bool) {
					return prox.Numbers{List: []float64{1, 1, 1, 1, 1, 1.01}}, q, nil
				}
			}), "sum over coordinates"},
			{"no weight", telling(l1, func(s *prox.Structure) {
				s.Sparse = func(n int) (w, q prox.Numbers, positive []bool) { return w, q, nil }
			}), "sum over coordinates"},
			{"too few weights", telling(l1, func(s *prox.Structure) {
				s.Sparse = func(n int) (w, q prox.Numbers, positive []bool) { return prox.Numbers{List: []float64{1}}, q, nil }
			}), "sum over coordinates"},
			{"squares that are not there", telling(l1, func(s *prox.Structure) {
				s.Sparse = func(n int) (w, q prox.Numbers, positive []bool) {
					return prox.Numbers{One: 1}, prox.Numbers{List: []float64{0, 0, 0.1, 0, 0, 0}}, nil
				}
			}), "sum over coordinates"},
			{"a constraint that is not there", telling(l1, func(s *prox.Structure) {
				s.Sparse = func(n int) (w, q prox.Numbers, positive []bool) {
					return prox.Numbers{One: 1}, q, []bool{true, true, true, true, true, true}
				}
			}), "sum over coordinates"},
			{"a constraint that is not told", telling(prox.NonNegative(), func(s *prox.Structure) {
				s.Sparse = func(n int) (w, q prox.Numbers, positive []bool) { return w, q, nil }
			}), "sum over coordinates"},
			{"groups that split", telling(group, func(s *prox.Structure) { s.Closure = itself }),
				"regularizer on a space"},
			{"a closure without the set", telling(l1,
				func(s *prox.Structure) { s.Closure = func([]int) []int { return []int{0} } }), "which lacks"},
			{"another weight on a space", telling(l1, func(s *prox.Structure) {
				s.On = func(array.Device, space.Space) (prox.Prox, error) { return prox.NewL1(1.01), nil }
			}), "regularizer on a space"},
			{"nothing on a space", telling(l1, func(s *prox.Structure) {
				s.On = func(array.Device, space.Space) (prox.Prox, error) { return nil, nil }
			}), "On returns nothing"},
			{"a closure without On", telling(l1, func(s *prox.Structure) { s.On = nil }), "no On"},
			{"memory of a regularizer on a space", telling(l1, func(s *prox.Structure) {
				s.On = func(dev array.Device, _ space.Space) (prox.Prox, error) {
					dev.Alloc(1, 1)
					return l1, nil
				}
			}), "allocated before"},
			{"other units that are not taken", telling(l1, func(s *prox.Structure) {
				s.Rescale = func(array.Device, []float64) (prox.Prox, error) { return l1, nil }
			}), "other units"},
			{"units that cannot be taken", telling(l1, func(s *prox.Structure) { s.Rescale = nil }),
				"Units and Rescale"},
			{"a gap without a scale", telling(l1, func(s *prox.Structure) { s.DualScale = nil }),
				"DualScale and FenchelGap"},
			{"too large a scale", telling(l1, func(s *prox.Structure) {
				s.DualScale = func(_, _ array.Batch, _ float64) float64 { return 1 }
			}), "conjugate"},
			{"balls of another radius", telling(l1, func(s *prox.Structure) { s.Balls.Radius *= 1.01 }), "balls"},
			{"balls of pairs", telling(l1, func(s *prox.Structure) { s.Balls.Planes = 2 }), "shortened by the balls"},
			{"balls of neighbours", telling(l1, func(s *prox.Structure) { s.Balls.Channels = 2 }), "shortened by the balls"},
			{"balls that do not fit", telling(l1, func(s *prox.Structure) { s.Balls.Planes = 5 }), "5 planes"},
			{"degrees of freedom of none", telling(l1, func(s *prox.Structure) {
				s.Local = func([]float64) (prox.LocalMaps, error) {
					return prox.LocalMaps{Series: prox.Series{Rows: 1, Cols: 1}, DegreesOfFreedom: []float64{0}}, nil
				}
			}), "degrees of freedom add up to 0"},
			{"divergences of too many patches", telling(l1, func(s *prox.Structure) {
				s.Local = func([]float64) (prox.LocalMaps, error) {
					return prox.LocalMaps{Series: prox.Series{Rows: 1, Cols: 1}, DegreesOfFreedom: []float64{0},
						PatchDivergence: []float64{1}}, nil
				}
			}), "divergences of 0 patches"},
			{"half the gap", telling(l1, func(s *prox.Structure) {
				gap := s.FenchelGap
				s.FenchelGap = func(b, g array.Batch, t, near float64) float64 { return gap(b, g, t, near) - 0.1 }
			}), "conjugate"},
		} {
			expect(t, c.name, proxtest.Check(dev, c.p, dim), c.want)
		}
	})
}
