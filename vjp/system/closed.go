package system

import (
	"context"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/prox"
	"surepipe/space"
)

// zero is D mu_hat = 0.
type zero struct{ direct }

// Zero is the system of a space {0}: the estimate A b does not depend on y. known is what is known besides, of
// directions that may count.
func Zero(a linops.Operator, known Closed) System {
	d, _ := a.Dims()
	known.Diagonal = func() ([]float64, error) { return make([]float64, d), nil }
	known.Root = func() ([]float64, error) { return []float64{}, nil }
	return &zero{direct{Base{d: d, closed: known}}}
}

func (s *zero) Apply(_ context.Context, dst, _ array.Batch, _ Goal, left []float64) error {
	clear(left)
	dst.Device().Fill(dst, 0)
	return dst.Device().Err()
}

func (s *zero) Inverse() func(dst, g array.Batch) {
	return func(dst, _ array.Batch) { dst.Device().Fill(dst, 0) }
}

func (s *zero) ProbeBytes() int64 { return 16 * int64(s.d) }

// projection is D mu_hat = M M*/c.
type projection struct {
	direct
	m     linops.Operator
	space space.Space
	c     float64
}

// Project is the system with M*M + Q = c I, for an operator m = A E, which it takes over: A*A is c I on the space t
// and Q is 0, so that D mu_hat is a projection.
func Project(m linops.Restricted, t space.Space, c float64) System {
	d, _ := m.Dims()
	n := float64(t.Dim())
	return &projection{direct{Base{d, Exactly(n, n), array.Owning(m)}}, m, t, c}
}

func (s *projection) Apply(_ context.Context, dst, w array.Batch, _ Goal, left []float64) error {
	clear(left)
	_, n := s.m.Dims()
	dev := w.Device()
	x := dev.Alloc(w.K(), n)
	defer x.Free()
	s.m.Adjoint(x, w)
	dev.Lin(x, 1/s.c, x, 0, array.Batch{})
	s.m.Forward(dst, x)
	return dev.Err()
}

func (s *projection) Inverse() func(dst, g array.Batch) {
	return func(dst, g array.Batch) {
		s.space.Project(dst, g)
		dst.Device().Lin(dst, 1/s.c, dst, 0, array.Batch{})
	}
}

func (s *projection) ProbeBytes() int64 {
	_, n := s.m.Dims()
	return 8 * int64(n+2*s.d)
}

// bent is D mu_hat = eta M J M*.
type bent struct {
	direct
	m   linops.Operator
	q   prox.Curvature
	eta float64
}

// Bend is the system with M*M = I/eta, for an operator m = A E, which it takes over, and a curvature q whose J is the
// inverse of I + eta Q to rounding errors.
func Bend(m linops.Restricted, q prox.Curvature, eta float64) System {
	d, _ := m.Dims()
	return &bent{direct{Base{d: d, Held: array.Owning(m)}}, m, q, eta}
}

func (s *bent) Apply(_ context.Context, dst, w array.Batch, _ Goal, left []float64) error {
	clear(left)
	_, n := s.m.Dims()
	dev := w.Device()
	x, jx := dev.Alloc(w.K(), n), dev.Alloc(w.K(), n)
	defer array.Free(x, jx)
	s.m.Adjoint(x, w)
	s.q.Precondition(jx, x, x)
	dev.Lin(jx, s.eta, jx, 0, array.Batch{})
	s.m.Forward(dst, jx)
	return dev.Err()
}

func (s *bent) ProbeBytes() int64 {
	_, n := s.m.Dims()
	return 16 * int64(n+s.d)
}

// transformed is D mu_hat = eta A J A*.
type transformed struct {
	direct
	a   linops.Operator
	j   prox.Derivative
	eta float64
}

// Transform is the system of a square A with A A* = A*A = I/eta: D mu_hat has the eigenvalues of J, the derivative of
// the proximal operator of eta r.
func Transform(a linops.Operator, j prox.Derivative, eta float64) System {
	d, _ := a.Dims()
	known := Closed{}
	if m := j.Model(); m != nil && m.Curvature == nil {
		n := float64(m.Space.Dim())
		known = Exactly(n, n)
	} else if m != nil {
		if trace, frobenius2, ok := m.Curvature.Trace(); ok {
			known = Exactly(trace, frobenius2)
		}
	}
	return &transformed{direct{Base{d: d, closed: known}}, a, j, eta}
}

func (s *transformed) Apply(_ context.Context, dst, w array.Batch, _ Goal, left []float64) error {
	clear(left)
	dev := w.Device()
	x := dev.Alloc(w.K(), s.d)
	defer x.Free()
	s.a.Adjoint(x, w)
	s.j.Apply(x, x)
	dev.Lin(x, s.eta, x, 0, array.Batch{})
	s.a.Forward(dst, x)
	return dev.Err()
}

func (s *transformed) ProbeBytes() int64 { return 8 * 3 * int64(s.d) }
