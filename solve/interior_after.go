package solve

import (
	"context"
	"sync"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/prox"
)

// secondChance solves small problems by alternating directions, and where these do not converge soon by
// interior points, whose matrix is made when it is needed: on a well-conditioned problem the former are several times as
// fast.
type secondChance struct {
	s     situation
	first *plain // alternating directions

	mu   sync.Mutex
	last *plain // the interior points; nil before they are needed
}

// soonIterations is the number of iterations of ADMM that come first.
const soonIterations = 1000

// secondChance reports that interior points with a dense matrix are asked for.
func (s *situation) secondChance() bool {
	return s.p.K != nil && s.e.Name == "interior-point" && !s.o.Whole && !(linops.StructureOf(s.p.A).Columns.Value > 0) && smallInterior(s.p)
}

func newSecondChance(ctx context.Context, s situation) (Solver, error) {
	soon := s
	soon.e, _ = Lookup("admm")
	soon.from = nil
	soon.o.MaxIter = min(s.o.MaxIter, soonIterations)
	first, err := newPlain(ctx, soon)
	if err != nil {
		return nil, err
	}
	return &secondChance{s: s, first: first.(*plain)}, nil
}

// points are the interior points.
func (s *secondChance) points(ctx context.Context) (*plain, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil {
		last, err := newPlain(ctx, s.s)
		if err != nil {
			return nil, err
		}
		s.last = last.(*plain)
	}
	return s.last, nil
}

// Name is the name of the method that was asked for.
func (s *secondChance) Name() string { return s.s.e.Name }

// Problem is the problem that it solves.
func (s *secondChance) Problem() Problem { return s.s.p }

// Solve returns the solution of ADMM, or that of interior points.
func (s *secondChance) Solve(ctx context.Context, y array.Batch, from From) (*Solution, error) {
	sol, err := s.first.Solve(ctx, y, from)
	if err != nil || sol.Converged {
		return sol, err
	}
	sol.Release()
	last, err := s.points(ctx)
	if err != nil {
		return nil, err
	}
	return last.Solve(ctx, y, from)
}

// Record records ADMM, whose iterations have a derivative.
func (s *secondChance) Record(ctx context.Context, y array.Batch, newTape func(Method, array.Batch) Tape) (*Solution, error) {
	last, err := s.points(ctx)
	if err != nil {
		return nil, err
	}
	return last.Record(ctx, y, newTape)
}

// Reweight makes both anew for another regularizer.
func (s *secondChance) Reweight(ctx context.Context, r prox.Prox) (Solver, error) {
	return s.s.reweight(ctx, r, nil)
}

// Release frees what the methods keep.
func (s *secondChance) Release() {
	if s.last != nil {
		s.last.Release()
	}
	s.first.Release()
}
