package splitting

import (
	"context"
	"math"
	"math/rand/v2"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/linops/imaging"
	"surepipe/linops/krylov"
	"surepipe/solve/engine"
)

// cosines is the preconditioner C* diag(1/(v + rho l)) C of A*A + rho K*K, where a cosine transform C
// diagonalizes K*K with the eigenvalues l, and v are those of a convolution near A*A.
type cosines struct {
	dct  *imaging.DCT
	v, l []float64
}

// leastCosines is the number of pixels from which it is looked for.
const leastCosines = 1 << 8

// newCosines is nil where no cosine transform diagonalizes K*K.
func newCosines(p engine.Problem, k linops.Structure) *cosines {
	if _, dim := p.A.Dims(); !k.Cosines.Known() || dim < leastCosines {
		return nil
	}
	shape := k.Cosines.Shape
	c := &cosines{dct: imaging.NewDCT2D(shape.Rows, shape.Cols), l: k.Cosines.Values()}
	c.dct.Load(p.Device)
	c.v = imaging.NearCosines(p.Device, p.A, shape, c.dct)
	return c
}

func (c *cosines) Release() {
	if c != nil {
		c.dct.Release()
	}
}

// weights are 1/(v + rho l).
func (c *cosines) weights(rho float64) []float64 {
	host := make([]float64, len(c.v))
	for i, v := range c.v {
		host[i] = 1 / (v + rho*c.l[i])
	}
	return host
}

// by applies the preconditioner with given weights.
func (c *cosines) by(dev array.Device, w array.Batch) func(dst, r array.Batch) {
	return func(dst, r array.Batch) {
		t := dev.Alloc(r.K(), r.N())
		defer t.Free()
		c.dct.Forward(t, r)
		dev.Mul(t, t, w)
		c.dct.Adjoint(dst, t)
	}
}

// A trial solves the system for a random right-hand side K* w to a residual of trialTol, in trialSteps at
// most. A transform of n pixels and back takes the time of cosineWork n log2 n operations of a convolution, and
// the rest of a step that of stepWork n.
const (
	trialTol   = 0.1
	trialSteps = 100
	cosineWork = 140
	stepWork   = 200
)

// pays reports that cosines with n steps take less time than m steps without them. A product whose
// cost is not known counts as much as a transform.
func (s *penalized) pays(n, m int) bool {
	_, dim := s.p.A.Dims()
	transform := cosineWork * float64(dim) * math.Log2(float64(dim))
	product := transform
	if s.a.Flops.Known {
		product = 2*s.a.Flops.Value + stepWork*float64(dim)
	}
	return float64(n+1)*(product+transform) <= float64(m+1)*product
}

// steps is the number of products that a trial takes.
func (s *penalized) steps(ctx context.Context, dev array.Device, rho float64,
	precondition func(dst, r array.Batch)) (int, error) {
	_, dim := s.p.A.Dims()
	q, _ := s.p.K.Dims()
	w, rhs, x := dev.Alloc(1, q), dev.Alloc(1, dim), dev.Alloc(1, dim)
	defer func() {
		for _, b := range []array.Batch{w, rhs, x} {
			b.Free()
		}
	}()
	rng, host := rand.New(rand.NewPCG(1, 2)), make([]float64, q)
	for i := range host {
		host[i] = math.Copysign(1, rng.Float64()-0.5)
	}
	dev.Upload(w, host)
	s.p.K.Adjoint(rhs, w)
	apply, free := s.products(dev, 1, rho)
	defer free()
	res, err := krylov.CG(ctx, x, rhs, apply, krylov.CGOptions{Tol: trialTol, MaxIterations: trialSteps,
		Precondition: precondition})
	return res.Iterations, err
}

// better is the preconditioner of cosines, or the other one where that needs not much more.
func (s *penalized) better(ctx context.Context, dev array.Device, rho float64,
	other func(dst, r array.Batch)) (func(dst, r array.Batch), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w, tried := s.spectra[rho]
	if !tried {
		w = s.p.Device.Alloc(1, len(s.cosines.v))
		s.p.Device.Upload(w, s.cosines.weights(rho))
		n, err := s.steps(ctx, dev, rho, s.cosines.by(dev, w))
		m := 0
		if err == nil {
			m, err = s.steps(ctx, dev, rho, other)
		}
		if err == nil {
			err = s.p.Device.Err()
		}
		if err != nil || !s.pays(n, m) {
			w.Free()
			w = array.Batch{}
		}
		if err != nil {
			return nil, err
		}
		s.spectra[rho] = w
	}
	if w.IsZero() {
		return other, nil
	}
	return s.cosines.by(dev, w), nil
}
