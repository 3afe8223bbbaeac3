package proxtest_test

import (
	"math"
	"strings"
	"sync/atomic"
	"testing"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/internal/lists"
	"surepipe/prox"
	"surepipe/prox/lowrank"
	"surepipe/prox/proxtest"
)

const dim = 6

// soft and softVJP are the soft threshold with lambda = 1, correct.
func soft(dst, v []float64, t float64) error {
	for i, x := range v {
		switch {
		case x != x:
			dst[i] = x
		case x > t:
			dst[i] = x - t
		case x < -t:
			dst[i] = x + t
		default:
			dst[i] = 0
		}
	}
	return nil
}

func softVJP(dst, v, z []float64, t float64) {
	for i, x := range v {
		dst[i] = 0
		if math.Abs(x) > t {
			dst[i] = z[i]
		}
	}
}

func norm1(b []float64) float64 {
	s := 0.0
	for _, x := range b {
		s += math.Abs(x)
	}
	return s
}

// linear returns v -> A v with A given by rows, as a prox and derivative that
// ignore t.
func linear(a [dim][dim]float64) prox.Prox {
	mul := func(dst, z []float64) {
		for i := range dst {
			dst[i] = 0
			for j, x := range z {
				dst[i] += a[i][j] * x
			}
		}
	}
	return prox.NewFunc(dim,
		func(dst, v []float64, t float64) error {
			for _, x := range v {
				if x != x {
					copy(dst, v)
					return nil
				}
			}
			mul(dst, v)
			return nil
		},
		func(dst, v, z []float64, t float64) { mul(dst, z) }, nil)
}

// wrapped lets a test break one behaviour of a sound Prox.
type wrapped struct {
	prox.Prox
	eval      func(dst, v array.Batch, t float64) error
	linearize func(dst, v array.Batch, t float64) (prox.Derivative, error)
}

func (w wrapped) Eval(dst, v array.Batch, t float64) error {
	if w.eval != nil {
		return w.eval(dst, v, t)
	}
	return w.Prox.Eval(dst, v, t)
}

func (w wrapped) Linearize(dst, v array.Batch, t float64) (prox.Derivative, error) {
	if w.linearize != nil {
		return w.linearize(dst, v, t)
	}
	return w.Prox.Linearize(dst, v, t)
}

// derivative lets a test break one behaviour of a sound Derivative.
type derivative struct {
	prox.Derivative
	apply func(dst, z array.Batch)
	bytes func() int64
}

func (d derivative) Apply(dst, z array.Batch) {
	if d.apply != nil {
		d.apply(dst, z)
	} else {
		d.Derivative.Apply(dst, z)
	}
}

func (d derivative) Bytes() int64 {
	if d.bytes != nil {
		return d.bytes()
	}
	return d.Derivative.Bytes()
}

// breaking returns the l1 prox with its derivative changed by f.
func breaking(f func(d *derivative)) prox.Prox {
	l1 := prox.NewL1(1)
	return wrapped{Prox: l1, linearize: func(dst, v array.Batch, t float64) (prox.Derivative, error) {
		j, err := l1.Linearize(dst, v, t)
		if err != nil {
			return nil, err
		}
		d := &derivative{Derivative: j}
		f(d)
		return d, nil
	}}
}

// diagonalLie is a dense derivative that claims to be diagonal.
type diagonalLie struct {
	prox.Derivative
	d array.Batch
}

func (m diagonalLie) Diagonal() array.Batch { return m.d }

// told is a Prox with another structure.
type told struct {
	prox.Prox
	structure prox.Structure
}

func (p told) Structure() prox.Structure { return p.structure }

// telling returns p with its structure changed by f.
func telling(p prox.Prox, f func(s *prox.Structure)) prox.Prox {
	s := prox.StructureOf(p)
	f(&s)
	return told{p, s}
}

func TestSoundProxesPass(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		if err := proxtest.Check(dev, prox.NewFunc(dim, soft, softVJP, norm1), dim); err != nil {
			t.Error(err)
		}
		if err := proxtest.Check(dev, prox.NewFunc(dim, soft, nil, norm1), dim); err != nil {
			t.Errorf("without a derivative: %v", err)
		}
		// The caller's points may be at kinks.
		if err := proxtest.Check(dev, prox.NewL1(1), 2, proxtest.Points([]float64{1.7, -0.3}), proxtest.Seed(9),
			proxtest.Steps(0.3, 1.7), proxtest.Scale(3), proxtest.Tolerance(1e-8)); err != nil {
			t.Error(err)
		}
		if live := dev.Stats().Live; live != 0 {
			t.Errorf("Check left %d batches on loan", live)
		}
	})
}

func TestBrokenProxesFail(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		l1, norm := prox.NewL1(1), must(prox.NewGroupL2(dev, dim, 1, [][]int{lists.Upto(dim)}, nil))
		defer prox.Release(norm)
		var rotation, indefinite, double, projection [dim][dim]float64
		for i := range dim {
			// (I + R)/2 with R a quarter turn: firmly nonexpansive, but no gradient.
			rotation[i][i] = 0.5
			rotation[i][(i/2)*2+1-i%2] = 0.5 - float64(i%2)
			indefinite[i][i] = 0.5 - float64(i)/4
			double[i][i] = 2
			// A sound derivative, but a map that ignores t and is not idempotent.
			projection[i][i] = 0.5
		}
		var calls atomic.Int64
		for _, c := range []struct {
			name string
			p    prox.Prox
			want string // the claim that must be reported
		}{
			{"a derivative off by a factor", prox.NewFunc(dim, soft, func(dst, v, z []float64, t float64) {
				softVJP(dst, v, z, t)
				for i := range dst {
					dst[i] *= 0.999
				}
			}, norm1), "derivative against central differences"},
			{"the derivative's complement", prox.NewFunc(dim, soft, func(dst, v, z []float64, t float64) {
				for i, x := range v {
					dst[i] = 0
					if math.Abs(x) <= t {
						dst[i] = z[i]
					}
				}
			}, nil), "derivative against central differences"},
			{"a derivative that ignores the sign below -t",
				prox.NewFunc(dim, soft, func(dst, v, z []float64, t float64) {
					for i, x := range v {
						dst[i] = 0
						if x > t {
							dst[i] = z[i]
						}
					}
				}, nil), "derivative against central differences"},
			{"a map that is no gradient", linear(rotation), "symmetry and spectrum"},
			{"an indefinite map", linear(indefinite), "firm nonexpansiveness"},
			{"an indefinite derivative", linear(indefinite), "symmetry and spectrum"},
			{"an expansion", linear(double), "firm nonexpansiveness"},
			{"a map that ignores t", linear(projection), "resolvent identity"},
			{"the hard threshold", prox.NewFunc(dim, func(dst, v []float64, t float64) error {
				for i, x := range v {
					dst[i] = x
					if math.Abs(x) <= 2*t {
						dst[i] = 0
					}
				}
				return nil
			}, softVJP, nil), "firm nonexpansiveness"},
			{"the wrong sign below -t", prox.NewFunc(dim, func(dst, v []float64, t float64) error {
				for i, x := range v {
					dst[i] = x - t
					if math.Abs(x) <= t {
						dst[i] = 0
					}
				}
				return nil
			}, softVJP, nil), "firm nonexpansiveness"},
			{"another regularizer's value", prox.NewFunc(dim, soft, softVJP,
				func(b []float64) float64 { return 0.9 * norm1(b) }), "optimality"},
			{"a value half as large", prox.NewFunc(dim, soft, softVJP,
				func(b []float64) float64 { return norm1(b) / 2 }), "Moreau identity"},
			{"a wrong curvature", telling(prox.NewSquaredL2(2), func(s *prox.Structure) {
				s.Quadratic.Value,
					s.Value = 1, nil
			}), "quadratic regularizer"},
			{"vectors that see each other", wrapped{Prox: l1, eval: func(dst, v array.Batch, t float64) error {
				if err := l1.Eval(dst, v, t); err != nil || v.K() == 1 {
					return err
				}
				dev.Lin(dst, 1+1e-15, dst, 0, array.Batch{})
				return nil
			}}, "batch equals loop"},
			{"no work in place", wrapped{Prox: l1, eval: func(dst, v array.Batch, t float64) error {
				dev.Fill(dst, 0)
				return l1.Eval(dst, v, t)
			}}, "in place"},
			{"no care for gaps", wrapped{Prox: l1, eval: func(dst, v array.Batch, t float64) error {
				if dst.Stride() > dst.N() {
					end := dst.Offset() + dst.N()
					dev.Fill(array.NewBatch(dev, dst.Buffer(), 1, end+1).Cols(end, end+1), 0)
				}
				return l1.Eval(dst, v, t)
			}}, "views with gaps"},
			{"no heed of strides", wrapped{Prox: l1, eval: func(dst, v array.Batch, t float64) error {
				if dst.Stride() == dst.N() {
					return l1.Eval(dst, v, t)
				}
				return l1.Eval(dst.Rows(0, 1), v.Rows(0, 1), t)
			}}, "views with gaps"},
			{"a NaN swallowed", prox.NewFunc(dim, func(dst, v []float64, t float64) error {
				if err := soft(dst, v, t); err != nil {
					return err
				}
				for i, x := range dst {
					if x != x {
						dst[i] = 0
					}
				}
				return nil
			}, softVJP, nil), "NaN"},
			{"another value from Linearize", wrapped{Prox: l1,
				linearize: func(dst, v array.Batch, t float64) (prox.Derivative, error) {
					return l1.Linearize(dst, v, 1.01*t)
				}}, "Linearize evaluates"},
			{"an affine derivative", breaking(func(d *derivative) {
				d.apply = func(dst, z array.Batch) {
					dev.Fill(dst, 1)
				}
			}), "derivative is linear"},
			{"directions that see each other", breaking(func(d *derivative) {
				d.apply = func(dst, z array.Batch) {
					d.Derivative.Apply(dst, z)
					if z.K() > 1 {
						dev.Lin(dst, 1+1e-15, dst, 0, array.Batch{})
					}
				}
			}), "derivative: batch equals loop"},
			{"a derivative that fails in place", breaking(func(d *derivative) {
				d.apply = func(dst, z array.Batch) {
					dev.Fill(dst, 0)
					d.Derivative.Apply(dst, z)
				}
			}), "derivative: in place"},
			{"a derivative with a state", breaking(func(d *derivative) {
				d.apply = func(dst, z array.Batch) {
					d.Derivative.Apply(dst, z)
					if z.K() == 3 && calls.Add(1)%2 == 0 {
						dev.Fill(dst, 0)
					}
				}
			}), "derivative from many goroutines"},
			{"a diagonal that is not", wrapped{Prox: norm,
				linearize: func(dst, v array.Batch, t float64) (prox.Derivative, error) {
					j, err := norm.Linearize(dst, v, t)
					ones := dev.Alloc(1, dim)
					dev.Fill(ones, 1)
					return diagonalLie{j, ones}, err
				}}, "diagonal of the derivative"},
			{"memory not given back", wrapped{Prox: l1,
				linearize: func(dst, v array.Batch, t float64) (prox.Derivative, error) {
					dev.Alloc(1, dim)
					return l1.Linearize(dst, v, t)
				}}, "memory of the derivative"},
			{"memory not given back by Apply", breaking(func(d *derivative) {
				d.apply = func(dst, z array.Batch) {
					dev.Alloc(1, dim)
					d.Derivative.Apply(dst, z)
				}
			}), "memory of the derivative"},
			{"more memory claimed than held", breaking(func(d *derivative) { d.bytes = func() int64 { return 1 << 20 } }), "memory of the derivative"},
			{"a panic", breaking(func(d *derivative) { d.apply = func(dst, z array.Batch) { panic("no") } }), "panic"},
		} {
			err := proxtest.Check(dev, c.p, dim)
			if err == nil {
				t.Errorf("%s passes", c.name)
			} else if !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %q is not among the complaints:\n%v", c.name, c.want, err)
			}
		}
	})
}

func TestKinkEverywhereIsReported(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		// The soft threshold with t far below the step of the differences, tested only near its
		// kink.
		p := prox.NewFunc(dim, func(dst, v []float64, t float64) error { return soft(dst, v, 1e-6) }, softVJP, nil)
		err := proxtest.Check(dev, p, dim, proxtest.Scale(1e-7))
		if err == nil || !strings.Contains(err.Error(), "no point in 20") {
			t.Errorf("got %v, want a complaint that no point is differentiable", err)
		}
	})
}

func TestCheckRefusesAnotherDimension(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		if err := proxtest.Check(dev, lowrank.NewNuclear(array.Shape{Rows: 2, Cols: 2}, 1), 5); err == nil {
			t.Error("no error")
		}
	})
}
