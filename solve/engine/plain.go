package engine

import (
	"context"
	"math"
	"sync"

	"surepipe/array"
	"surepipe/prox"
)

// Plain runs a method on the whole problem.
type Plain struct {
	s      Task
	Method Method // that is run

	mu       sync.Mutex
	recorded Method // in place of Method, where that has no derivative; or nil
}

// NewPlain runs the method of a task on the whole problem.
func NewPlain(ctx context.Context, s Task) (Solver, error) {
	p, err := PlainOf(ctx, s)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// PlainOf is NewPlain for a solver that has it as a part.
func PlainOf(ctx context.Context, s Task) (*Plain, error) {
	if _, dim := s.Problem.A.Dims(); dim > math.MaxInt32 {
		return nil, UnwrittenError(s.Problem)
	}
	m, err := s.Make(ctx)
	if err != nil {
		return nil, err
	}
	return &Plain{s: s, Method: m}, nil
}

// NewDualized is NewPlain, by another method where a method was chosen that takes r(b) only.
func NewDualized(ctx context.Context, s Task) (Solver, error) {
	if !s.Entry.Behind {
		s.Entry = s.Tables.Behind
	}
	return NewPlain(ctx, s)
}

func (s *Plain) Name() string { return s.Method.Name() }

func (s *Plain) Solve(ctx context.Context, y array.Batch, from From) (*Solution, error) {
	start, o := Start{B: from.B}, s.s.Options
	o.Effort = from.Effort
	if s.s.Problem.K == nil || from.Path == nil || s.s.Entry.Closed {
		return Run(ctx, s.Method, y, o, start)
	}
	return s.alongPath(ctx, y, o, start, from.Path)
}

func (s *Plain) Record(ctx context.Context, y array.Batch, newTape NewTape) (*Solution, error) {
	m, err := s.differentiable(ctx)
	if err != nil {
		return nil, err
	}
	return Run(ctx, m, y, s.s.Options, Start{Tape: newTape(m, y)})
}

func (s *Plain) differentiable(ctx context.Context) (Method, error) {
	recorded := s.Method.Traits().Recorded
	if recorded == nil {
		return s.Method, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.recorded == nil {
		m, err := recorded(ctx, s.s.Options)
		if err != nil {
			return nil, err
		}
		s.recorded = m
	}
	return s.recorded, nil
}

// Reweight shares the data that the method shares.
func (s *Plain) Reweight(ctx context.Context, r prox.Prox) (Solver, error) {
	return s.s.Reweight(ctx, r, s.Method)
}

func (s *Plain) Release() {
	if s.recorded != nil {
		s.recorded.Release()
	}
	s.Method.Release()
}
