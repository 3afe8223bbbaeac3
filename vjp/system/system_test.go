package system_test

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/linops"
	"surepipe/prox"
	"surepipe/space"
	"surepipe/vjp/system"
)

const d, p = 9, 7

// problem is a system, with its matrices by dense algebra.
type problem struct {
	name string
	made func(t *testing.T, dev array.Device) system.System
	a, d *mat.Dense // A and D mu_hat
}

func normals(rng *rand.Rand, r, c int) *mat.Dense {
	x := make([]float64, r*c)
	for i := range x {
		x[i] = rng.NormFloat64()
	}
	return mat.NewDense(r, c, x)
}

// problems are those of the systems that need no solver. Others are reached by the tests of package vjp alone.
func problems() []problem {
	rng := rand.New(rand.NewPCG(7, 1))
	set := []int{0, 2, 3, 6}
	e := mat.NewDense(p, len(set), nil)
	for i, j := range set {
		e.Set(j, i, 1)
	}
	a := normals(rng, d, p)
	short := mat.DenseCopyOf(a) // the columns 0, 2 and 3 depend on each other
	for i := range d {
		short.Set(i, 3, a.At(i, 0)-2*a.At(i, 2))
	}
	turned := new(mat.Dense)
	{
		var qr mat.QR
		qr.Factorize(normals(rng, p, p))
		qr.QTo(turned)
		turned.Scale(2, turned) // A A* = A*A = 4 I
	}
	q := mat.NewDense(len(set), len(set), nil)
	for i := range set {
		q.Set(i, i, 0.5+float64(i))
	}
	none := mat.NewDense(len(set), len(set), nil)
	on := func(dev array.Device, m *mat.Dense) (linops.Restricted, space.Space) {
		full := linops.NewDense(dev, m)
		t := space.Coordinates(dev, p, set)
		op, _ := linops.On(dev, full, t)
		return owning{op, full, t}, t
	}
	factor := func(m, q *mat.Dense) func(t *testing.T, dev array.Device) system.System {
		return func(t *testing.T, dev array.Device) system.System {
			op, on := on(dev, m)
			eq := system.Equations{M: op, Space: on, Norm: mat.Norm(m, 2)}
			if q != none {
				eq.Q = mat.DenseCopyOf(q).RawMatrix().Data
			}
			s, _, err := system.Factor(t.Context(), dev, eq)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
	}
	dense := func(name string, m, q *mat.Dense, made func(t *testing.T, dev array.Device) system.System) problem {
		var on, k, inverse, dmu mat.Dense
		on.Mul(m, e)
		k.Mul(on.T(), &on)
		k.Add(&k, q)
		inverse.CloneFrom(pseudoInverse(&k))
		dmu.Product(&on, &inverse, on.T())
		return problem{name, made, m, &dmu}
	}
	iterate := func(t *testing.T, dev array.Device) system.System {
		op, on := on(dev, a)
		return system.Iterate(dev, op, &prox.Model{Space: on, Curvature: prox.NewUniformCurvature(0.5, 0.1, len(set))},
			0.1, 1e-8)
	}
	half := mat.NewDense(len(set), len(set), nil)
	for i := range set {
		half.Set(i, i, 0.5)
	}
	all := []problem{
		dense("Cholesky", a, q, factor(a, q)),
		dense("a projection", a, none, factor(a, none)),
		dense("QR", short, none, factor(short, none)),
		dense("deferred", a, q, func(t *testing.T, dev array.Device) system.System {
			return system.Defer(system.Closed{}, d, len(set), true, func(context.Context) (system.System, error) {
				return factor(a, q)(t, dev), nil
			})
		}),
		dense("A*A = 4 I", turned, none, func(_ *testing.T, dev array.Device) system.System {
			op, on := on(dev, turned)
			return system.Project(op, on, 4)
		}),
		dense("conjugate gradients", a, half, iterate),
	}
	all = append(all, curved(a, turned)...)
	return append(all, problem{"zero", func(_ *testing.T, dev array.Device) system.System {
		op, _ := on(dev, a)
		defer op.Release()
		return system.Zero(op.(owning).full, system.Exactly(0, 0))
	}, a, mat.NewDense(d, d, nil)})
}

// owning releases what an operator on a space refers to.
type owning struct {
	linops.Restricted
	full *linops.Dense
	t    space.Space
}

func (o owning) Release() {
	o.Restricted.Release()
	o.t.Release()
	o.full.Release()
}

func pseudoInverse(k *mat.Dense) *mat.Dense {
	n, _ := k.Dims()
	sym := mat.NewSymDense(n, nil)
	for i := range n {
		for j := i; j < n; j++ {
			sym.SetSym(i, j, k.At(i, j))
		}
	}
	var eig mat.EigenSym
	eig.Factorize(sym, true)
	var v, w, out mat.Dense
	eig.VectorsTo(&v)
	w.CloneFrom(&v)
	for j, x := range eig.Values(nil) {
		for i := range n {
			if x > 1e-10 {
				w.Set(i, j, w.At(i, j)/x)
			} else {
				w.Set(i, j, 0)
			}
		}
	}
	out.Mul(&w, v.T())
	return &out
}

// apart is the largest difference between an r x c batch and the transpose of a matrix.
func apart(x []float64, want mat.Matrix) (most float64) {
	r, c := want.Dims()
	for i := range r {
		for j := range c {
			most = max(most, math.Abs(x[j*r+i]-want.At(i, j)))
		}
	}
	return most
}

// apart is the largest difference between A b and a vector: where A is singular b is not determined.
func (c *problem) apart(b array.Batch, want mat.Vector) float64 {
	var image mat.VecDense
	image.MulVec(c.a, mat.NewVecDense(p, b.ToHost()))
	return apart(image.RawVector().Data, want)
}

// Every system agrees with dense algebra in all that it knows.
func TestSystemsAgreeWithDenseAlgebra(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		for _, c := range problems() {
			t.Run(c.name, func(t *testing.T) {
				arraytest.NoLeak(t, dev)
				s := c.made(t, dev)
				defer s.Release()
				rows, _ := c.d.Dims()
				units, images := dev.Alloc(rows, rows), dev.Alloc(rows, rows)
				defer units.Free()
				defer images.Free()
				dev.Fill(units, 0)
				dev.Fill(units.Diagonal(), 1)
				left := make([]float64, rows)
				if err := s.Apply(t.Context(), images, units, system.Goal{Residual: 1e-9, Form: 1e-9}, left); err != nil {
					t.Fatal(err)
				}
				if off := apart(images.ToHost(), c.d); off > 1e-8 {
					t.Errorf("images off by %g", off)
				}
				for i, v := range left {
					if v < 0 || v > 1e-8 {
						t.Errorf("bound %d is %g", i, v)
					}
				}
				if s.ProbeBytes() < int64(16*rows) {
					t.Errorf("%d bytes a probe", s.ProbeBytes())
				}
				checkClosed(t, s.Closed(), c.d)
				checkEffort(t, dev, s, c.d)
				inverse := s.Inverse()
				for j := range rows {
					b := dev.Alloc(1, p)
					defer b.Free()
					if inverse != nil { // of A* times a unit vector: where A is singular g is in the range
						g := dev.Put(mat.Row(nil, j, c.a), 1, p)
						defer g.Free()
						inverse(b, g)
						if off := c.apart(b, c.d.ColView(j)); off > 1e-9 {
							t.Errorf("inverse of row %d off by %g", j, off)
						}
					}
				}
			})
		}
	})
}

// checkClosed compares what is known without probes.
func checkClosed(t *testing.T, known system.Closed, want *mat.Dense) {
	t.Helper()
	fro := mat.Norm(want, 2)
	if known.Known && (math.Abs(known.Trace-mat.Trace(want)) > 1e-9 || math.Abs(known.Frobenius2-fro*fro) > 1e-9) {
		t.Errorf("trace %g and Frobenius norm %g squared, expected %g and %g", known.Trace, known.Frobenius2,
			mat.Trace(want), fro*fro)
	}
	if known.Root != nil {
		root, err := known.Root()
		if err != nil {
			t.Fatal(err)
		}
		d, _ := want.Dims()
		var product mat.Dense
		if len(root) > 0 {
			r := mat.NewDense(len(root)/d, d, root)
			product.Mul(r.T(), r)
			product.Sub(&product, want)
		} else {
			product.CloneFrom(want)
		}
		if off := mat.Norm(&product, 2); off > 1e-9 {
			t.Errorf("R* R is off by %g", off)
		}
	}
	if known.Diagonal == nil {
		return
	}
	diagonal, err := known.Diagonal()
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range diagonal {
		if math.Abs(v-want.At(i, i)) > 1e-9 {
			t.Errorf("entry %d of the diagonal is %g, expected %g", i, v, want.At(i, i))
		}
	}
}
