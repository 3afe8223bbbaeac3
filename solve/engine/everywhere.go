package engine

import (
	"context"
	"sync"

	"surepipe/array"
	"surepipe/prox"
)

// Everywhere is what solvers share that work on a few coordinates at a time: the problem, and the
// method over all coordinates for when that is needed.
type Everywhere struct {
	Task Task // the problem, on its way to a method

	mu   sync.Mutex
	full Method // made when it is first needed
}

func (s *Everywhere) Name() string { return s.Task.Entry.Name }

// Release frees the method over all coordinates.
func (s *Everywhere) Release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.full != nil {
		s.full.Release()
		s.full = nil
	}
}

// Reweight shares what the method over all coordinates keeps, if it has been needed by now.
func (s *Everywhere) Reweight(ctx context.Context, r prox.Prox) (Solver, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Task.Reweight(ctx, r, s.full)
}

// Whole is the method over all coordinates. It serves all solves, and so it is built on a view of
// the device that has no other use: a lack of memory fails the solve that met it, and the next
// solve builds it anew.
func (s *Everywhere) Whole(ctx context.Context) (Method, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.full != nil {
		return s.full, nil
	}
	on := s.Task
	on.Problem.Device = s.Task.Problem.Device.Request()
	full, err := on.Make(ctx)
	if err != nil {
		return nil, err
	}
	if err := on.Problem.Device.Err(); err != nil {
		full.Release()
		return nil, err
	}
	s.full = full
	return full, nil
}

// Record iterates over all coordinates.
func (s *Everywhere) Record(ctx context.Context, y array.Batch, newTape NewTape) (*Solution, error) {
	full, err := s.Whole(ctx)
	if err != nil {
		return nil, err
	}
	return Run(ctx, full, y, s.Task.Options, Start{Tape: newTape(full, y)})
}
