package vjp

import (
	"context"
	"fmt"

	"surepipe/prox"
)

// Reweight shares the norm.
func (g *proximalGradient) Reweight(ctx context.Context, r prox.Prox) (Solver, error) {
	p := g.p
	p.R = r
	// The new regularizer may be one for working sets.
	if s := newWorkingSet(p, g.o, g.accelerated); s != nil {
		return s, nil
	}
	other := *g
	other.p = p
	return &other, nil
}

// Reweight shares the norm where it is known by now.
func (s *workingSet) Reweight(ctx context.Context, r prox.Prox) (Solver, error) {
	p := s.p
	p.R = r
	other := newWorkingSet(p, s.o, s.accelerated)
	if other == nil {
		return newProximalGradient(ctx, p, s.o, s.accelerated)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.full != nil {
		full := *s.full
		full.p = p
		other.full = &full
	}
	return other, nil
}

// Reweight shares the norm and the factorizations of the z-step.
func (s *admm) Reweight(_ context.Context, r prox.Prox) (Solver, error) {
	other := *s
	other.p.R = r
	return &borrowed{&other}, nil
}

// borrowed is an admm whose factorizations are another's.
type borrowed struct{ *admm }

// Release does nothing: the factorizations are another's.
func (borrowed) Release() {}

// Reweight shares the singular vectors.
func (s *direct) Reweight(ctx context.Context, r prox.Prox) (Solver, error) {
	q, ok := r.(prox.Quadratic)
	if !ok {
		return nil, fmt.Errorf("vjp: the direct solver needs a quadratic regularizer; use ista, fista or admm")
	}
	if s.graded {
		p := s.p
		p.R = r
		return newDirect(ctx, p, s.o)
	}
	other := *s
	other.p.R, other.curve, other.shared = r, q.Curvature(), true
	other.weigh()
	if err := s.p.Device.Sync(); err != nil {
		other.Release()
		return nil, err
	}
	return &other, nil
}

// weigh sets the weights of the singular vectors.
func (s *direct) weigh() {
	toB, toMu := make([]float64, len(s.sigma)), make([]float64, len(s.sigma))
	for i, sv := range s.sigma {
		toB[i] = 1 / (sv + s.curve/sv)
		toMu[i] = 1 / (1 + s.curve/sv/sv)
	}
	s.upload(toB, toMu)
}

// upload puts the weights on the device.
func (s *direct) upload(toB, toMu []float64) {
	dev := s.p.Device
	inverse := make([]float64, len(toB))
	for i := range inverse {
		if inverse[i] = 1; !s.graded {
			inverse[i] = toMu[i] / s.sigma[i] / s.sigma[i]
		}
	}
	s.toB, s.toMu, s.inverse = dev.Alloc(1, len(toB)), dev.Alloc(1, len(toMu)), dev.Alloc(1, len(inverse))
	dev.Upload(s.toB, toB)
	dev.Upload(s.toMu, toMu)
	dev.Upload(s.inverse, inverse)
}

// Reweight shares the norm.
func (s *lowRank) Reweight(ctx context.Context, r prox.Prox) (Solver, error) {
	p := s.p
	p.R = r
	return newISTA(ctx, p, s.o, s.full.accelerated)
}
