package system_test

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/hutch"
	"surepipe/linops"
	"surepipe/prox"
	"surepipe/space"
	"surepipe/vjp/system"
)

// curved are systems that take the derivative J of the proximal operator of eta r as it is,
//
//	D mu_hat = eta A (eta J A*A + I - J)^{-1} J A*,
//
// for norms of groups, of which one is 0; with K b in place of b for an invertible K, A K^{-1} is in A's place. turned
// has A A* = A*A = 4 I.
func curved(a, turned *mat.Dense) []problem {
	const eta = 0.25
	host := array.NewHost()
	derivative := func(dev array.Device) (prox.Derivative, func()) {
		r, err := prox.NewGroupL2(dev, p, 1, [][]int{{0, 1, 2}, {3, 4}, {5, 6}}, nil)
		if err != nil {
			panic(err)
		}
		at := dev.Put([]float64{3, -1, 2, 0.1, 0.2, -2, 1}, 1, p)
		defer at.Free()
		j, err := r.Linearize(at, at, eta)
		if err != nil {
			panic(err)
		}
		return j, func() {
			j.Release()
			prox.Release(r)
		}
	}
	image := func(a *mat.Dense) *mat.Dense {
		j, release := derivative(host)
		defer release()
		units := host.Alloc(p, p)
		defer units.Free()
		host.Fill(units, 0)
		host.Fill(units.Diagonal(), 1)
		j.Apply(units, units)
		matrix := mat.NewDense(p, p, units.ToHost()) // symmetric
		var k, ja, solved, out mat.Dense
		k.Product(matrix, a.T(), a)
		k.Scale(eta, &k)
		for i := range p {
			for l := range p {
				k.Set(i, l, k.At(i, l)-matrix.At(i, l))
			}
			k.Set(i, i, k.At(i, i)+1)
		}
		ja.Mul(matrix, a.T())
		if err := solved.Solve(&k, &ja); err != nil {
			panic(err)
		}
		out.Mul(a, &solved)
		out.Scale(eta, &out)
		return &out
	}
	const outcomes = 3
	outcome := mat.DenseCopyOf(a.Slice(0, d/outcomes, 0, outcomes))
	joint := mat.NewDense(d, p, nil)
	for i := range d {
		for j := i % outcomes; j < p; j += outcomes {
			joint.Set(i, j, outcome.At(i/outcomes, j/outcomes))
		}
	}
	inverse := new(mat.Dense)
	inverse.Scale(0.25, turned.T())
	behind := new(mat.Dense)
	behind.Mul(a, inverse)
	held := func(t *testing.T, dev array.Device, m *mat.Dense) (*linops.Dense, prox.Derivative) {
		full := linops.NewDense(dev, m)
		j, release := derivative(dev)
		t.Cleanup(full.Release)
		t.Cleanup(release)
		return full, j
	}
	return []problem{
		{"a transform", func(t *testing.T, dev array.Device) system.System {
			full, j := held(t, dev, turned)
			return system.Transform(full, j, eta)
		}, turned, image(turned)},
		{"bent", func(t *testing.T, dev array.Device) system.System {
			full, j := held(t, dev, turned)
			m, _ := linops.On(dev, full, j.Model().Space)
			return system.Bend(m, j.Model().Curvature, eta)
		}, turned, image(turned)},
		{"conjugate gradients in the product of J", func(t *testing.T, dev array.Device) system.System {
			full, j := held(t, dev, a)
			return system.IterateInProduct(dev, full, j, eta, 1e-8)
		}, a, image(a)},
		{"conjugate gradients by panels", func(t *testing.T, dev array.Device) system.System {
			full, j := held(t, dev, a)
			return system.IterateInProduct(dev, panelled{full}, j, eta, 1e-8)
		}, a, image(a)},
		{"several outcomes", func(t *testing.T, dev array.Device) system.System {
			x := linops.NewDense(dev, outcome)
			op := linops.Kronecker(dev, x, outcomes, p)
			t.Cleanup(x.Release)
			t.Cleanup(op.Release)
			m, _ := linops.On(dev, op, space.All(p))
			q := mat.NewDense(p, p, nil)
			for i := range p {
				q.Set(i, i, 0.5)
			}
			s, _, err := system.Factor(t.Context(), dev, system.Equations{M: m, Space: space.All(p),
				Q: q.RawMatrix().Data, Norm: mat.Norm(outcome, 2)})
			if err != nil {
				t.Fatal(err)
			}
			if s.Closed().Blocks == nil {
				t.Error("no blocks")
			}
			return s
		}, joint, ridge(joint, 0.5)},
		{"a saddle point", func(t *testing.T, dev array.Device) system.System {
			full, j := held(t, dev, a)
			k := linops.NewDense(dev, turned)
			t.Cleanup(k.Release)
			s, _, err := system.Saddle(t.Context(), dev, full, k, j, eta, math.Pow(mat.Norm(a, 2), 2))
			if err != nil {
				t.Fatal(err)
			}
			return s
		}, a, image(behind)},
		{"a saddle point on a stage", func(t *testing.T, dev array.Device) system.System {
			full, j := held(t, dev, a)
			k := linops.NewDense(dev, turned)
			t.Cleanup(k.Release)
			on := system.Stage{Space: space.All(p), Curvature: func(float64) (system.Curved, error) { return nil, nil }}
			s, _, err := system.SaddleOn(t.Context(), dev, on, full, k, j, eta, math.Pow(mat.Norm(a, 2), 2))
			if err != nil {
				t.Fatal(err)
			}
			return s
		}, a, image(behind)},
	}
}

// panelled is a matrix with a product A*A and a sum over panels.
type panelled struct{ *linops.Dense }

func (a panelled) Structure() linops.Structure {
	return linops.Structure{
		Normal: func(dst, b array.Batch) {
			z := b.Device().Alloc(b.K(), d)
			defer z.Free()
			a.Forward(z, b)
			a.Adjoint(dst, z)
		},
		Panels: linops.Panels{Rows: d, Accumulate: func(dst, z array.Batch, _ int) {
			x := z.Device().Alloc(z.K(), p)
			defer x.Free()
			a.Adjoint(x, z)
			dst.Device().Lin(dst, 1, dst, 1, x)
		}},
	}
}

// ridge is A (A*A + q I)^{-1} A*.
func ridge(a *mat.Dense, q float64) *mat.Dense {
	var k, inverse, out mat.Dense
	k.Mul(a.T(), a)
	for i := range p {
		k.Set(i, i, k.At(i, i)+q)
	}
	if err := inverse.Inverse(&k); err != nil {
		panic(err)
	}
	out.Product(a, &inverse, a.T())
	return &out
}

// checkEffort compares moments and blocks, and tests what a system says of its effort after tight probes. What Rough
// returns is an estimate, of which only the range is known.
func checkEffort(t *testing.T, dev array.Device, s system.System, want *mat.Dense) {
	t.Helper()
	d, _ := want.Dims()
	if most, failed := s.Steps(); most < 0 || failed != 0 {
		t.Errorf("%d steps, %d probes failed", most, failed)
	}
	if ok, err := s.Settles(t.Context()); !ok || err != nil {
		t.Errorf("a system that reaches its goal settles: %t, %v", ok, err)
	}
	if trace, _, err := s.Rough(t.Context()); err != nil || trace < 0 || trace > float64(d) {
		t.Errorf("a rough trace of %g of %d, %v", trace, d, err)
	}
	if s.Bytes() < 0 {
		t.Errorf("%d bytes", s.Bytes())
	}
	if blocks := s.Closed().Blocks; blocks != nil {
		const order = 3
		got, err := blocks(order)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; got != nil && i < d*order; i++ {
			row := i / order
			if w := want.At(row, row-row%order+i%order); math.Abs(got[i]-w) > 1e-9 {
				t.Errorf("entry %d of the blocks is %g, expected %g", i, got[i], w)
			}
		}
	}
	m := s.Moments()
	if m.Compute == nil {
		return
	}
	const k = 3
	signs := hutch.Signs{K: k, Dim: d, Draw: func(dst array.Batch, from int) {
		hutch.RademacherPart(dst, 1, 2, 0, from)
	}}
	x := dev.Alloc(k, d)
	defer x.Free()
	signs.Draw(x, 0)
	quad, norm2, left := make([]float64, k), make([]float64, k), make([]float64, k)
	if err := m.Compute(t.Context(), dev, signs, 1e-9, quad, norm2, left); err != nil {
		t.Fatal(err)
	}
	probes := mat.NewDense(k, d, x.ToHost())
	for i := range k {
		var y mat.VecDense
		y.MulVec(want, probes.RowView(i))
		q, n := mat.Dot(probes.RowView(i), &y), mat.Dot(&y, &y)
		if math.Abs(quad[i]-q) > 1e-4 || math.Abs(norm2[i]-n) > 1e-4 {
			t.Errorf("moments of probe %d are %g and %g, expected %g and %g", i, quad[i], norm2[i], q, n)
		}
	}
}
