package solve

import (
	"context"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/prox"
)

// secondChance solves small problems by alternating directions, and where these do not converge soon by
// interior points: on a well-conditioned problem the former are several times as fast.
type secondChance struct {
	*plain        // the interior points
	first  *plain // alternating directions
}

// soonIterations is the number of iterations of ADMM that come first.
const soonIterations = 1000

// secondChance reports that interior points with a dense matrix are asked for.
func (s *situation) secondChance() bool {
	return s.p.K != nil && s.e.Name == "interior-point" && !s.o.Whole && !(linops.StructureOf(s.p.A).Columns.Value > 0) && smallInterior(s.p)
}

func newSecondChance(ctx context.Context, s situation) (Solver, error) {
	last, err := newPlain(ctx, s)
	if err != nil {
		return nil, err
	}
	soon := s
	soon.e, _ = Lookup("admm")
	soon.from = nil
	soon.o.MaxIter = min(s.o.MaxIter, soonIterations)
	first, err := newPlain(ctx, soon)
	if err != nil {
		last.Release()
		return nil, err
	}
	return &secondChance{last.(*plain), first.(*plain)}, nil
}

// Solve returns the solution of ADMM, or that of interior points.
func (s *secondChance) Solve(ctx context.Context, y array.Batch, from From) (*Solution, error) {
	sol, err := s.first.Solve(ctx, y, from)
	if err != nil || sol.Converged {
		return sol, err
	}
	sol.Release()
	return s.plain.Solve(ctx, y, from)
}

// Reweight makes both anew for another regularizer.
func (s *secondChance) Reweight(ctx context.Context, r prox.Prox) (Solver, error) {
	return s.s.reweight(ctx, r, nil)
}

// Release frees what the methods keep.
func (s *secondChance) Release() {
	s.plain.Release()
	s.first.Release()
}
