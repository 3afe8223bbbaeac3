package solve

import (
	"context"
	"math"
	"sync"

	"surepipe/array"
	"surepipe/prox"
)

// plain runs a method on the whole problem.
type plain struct {
	s situation
	m Method

	mu       sync.Mutex
	recorded Method // in place of m, where that has no derivative; or nil
}

func newPlain(ctx context.Context, s situation) (Solver, error) {
	if _, dim := s.p.A.Dims(); dim > math.MaxInt32 {
		return nil, errUnwritten(s.p)
	}
	m, err := s.method(ctx)
	if err != nil {
		return nil, err
	}
	return &plain{s: s, m: m}, nil
}

// newDualized is newPlain, by another method where a method was chosen that takes r(b) only.
func newDualized(ctx context.Context, s situation) (Solver, error) {
	if !s.e.Behind {
		s.e = s.tables.Behind
	}
	return newPlain(ctx, s)
}

// Name is the method's.
func (s *plain) Name() string { return s.m.Name() }

// Problem is the problem that it solves.
func (s *plain) Problem() Problem { return s.s.p }

// Solve runs the method.
func (s *plain) Solve(ctx context.Context, y array.Batch, from From) (*Solution, error) {
	start := Start{B: from.B}
	if s.s.p.K == nil || from.Path == nil || s.s.e.Closed {
		return Run(ctx, s.m, y, s.s.o, start)
	}
	return s.alongPath(ctx, y, start, from.Path)
}

// Record runs the method with a tape.
func (s *plain) Record(ctx context.Context, y array.Batch, newTape func(Method, array.Batch) Tape) (*Solution, error) {
	m, err := s.differentiable(ctx)
	if err != nil {
		return nil, err
	}
	return Run(ctx, m, y, s.s.o, Start{Tape: newTape(m, y)})
}

// differentiable is the method, or the one that is recorded in its place.
func (s *plain) differentiable(ctx context.Context) (Method, error) {
	recorded := s.m.Traits().Recorded
	if recorded == nil {
		return s.m, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.recorded == nil {
		m, err := recorded(ctx, s.s.o)
		if err != nil {
			return nil, err
		}
		s.recorded = m
	}
	return s.recorded, nil
}

// Reweight shares the data that the method shares.
func (s *plain) Reweight(ctx context.Context, r prox.Prox) (Solver, error) {
	return s.s.reweight(ctx, r, s.m)
}

// Release frees what the method keeps.
func (s *plain) Release() {
	if s.recorded != nil {
		s.recorded.Release()
	}
	s.m.Release()
}
