package solve

import (
	"context"
	"sync"

	"surepipe/array"
	"surepipe/prox"
)

// everywhere is what solvers share that work on a few coordinates at a time: the problem, and the
// method over all coordinates for when that is needed.
type everywhere struct {
	s situation

	mu   sync.Mutex
	full Method // made when it is first needed
}

// Name is the method's.
func (s *everywhere) Name() string { return s.s.e.Name }

// Problem is the problem that it solves.
func (s *everywhere) Problem() Problem { return s.s.p }

// Release frees the method over all coordinates.
func (s *everywhere) Release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.full != nil {
		s.full.Release()
		s.full = nil
	}
}

// Reweight shares what the method over all coordinates keeps, if it has been needed by now.
func (s *everywhere) Reweight(ctx context.Context, r prox.Prox) (Solver, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.s.reweight(ctx, r, s.full)
}

// whole is the method over all coordinates. It serves all solves, and so it is built on a view of
// the device that has no other use: a lack of memory fails the solve that met it, and the next
// solve builds it anew.
func (s *everywhere) whole(ctx context.Context) (Method, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.full != nil {
		return s.full, nil
	}
	on := s.s
	on.p.Device = s.s.p.Device.Request()
	full, err := on.method(ctx)
	if err != nil {
		return nil, err
	}
	if err := on.p.Device.Err(); err != nil {
		full.Release()
		return nil, err
	}
	s.full = full
	return full, nil
}

// Record iterates over all coordinates.
func (s *everywhere) Record(ctx context.Context, y array.Batch, newTape func(Method, array.Batch) Tape) (*Solution, error) {
	full, err := s.whole(ctx)
	if err != nil {
		return nil, err
	}
	return Run(ctx, full, y, s.s.o, Start{Tape: newTape(full, y)})
}
