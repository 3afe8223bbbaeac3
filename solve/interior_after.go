package solve

import (
	"context"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/prox"
)

// secondChance solves by another method, and where that does not converge soon by interior points: small
// problems by alternating directions, and images by gradient steps on the dual. On a well-conditioned
// problem, or at a weight that leaves small regions, these are several times as fast.
type secondChance struct {
	*plain        // the interior points
	first  *plain // the other method
}

// soonIterations is the number of iterations of the other method that come first.
const soonIterations = 1000

// soonSparse is the number of columns of K up to which the steps with a sparse factor are so fast that no other
// method comes first.
const soonSparse = 1 << 13

// comesFirst is the method that comes before interior points; empty for none.
func (s *situation) comesFirst() string {
	if s.p.K == nil || s.e.Name != "interior-point" || s.o.Whole || interiorPoint(s.p) {
		return ""
	}
	if _, dim := s.p.K.Dims(); sparseInterior(s.p) && !smallInterior(s.p) {
		if dim > soonSparse {
			return "dual"
		}
		return ""
	}
	if !(linops.StructureOf(s.p.A).Columns.Value > 0) && smallInterior(s.p) {
		return "admm"
	}
	return ""
}

func newSecondChance(ctx context.Context, s situation) (Solver, error) {
	last, err := newPlain(ctx, s)
	if err != nil {
		return nil, err
	}
	soon := s
	soon.e, _ = Lookup(s.comesFirst())
	soon.from = nil
	soon.o.MaxIter = min(s.o.MaxIter, soonIterations)
	first, err := newPlain(ctx, soon)
	if err != nil {
		last.Release()
		return nil, err
	}
	return &secondChance{last.(*plain), first.(*plain)}, nil
}

// Solve returns the solution of the other method, or that of interior points.
func (s *secondChance) Solve(ctx context.Context, y array.Batch, from From) (*Solution, error) {
	sol, err := s.first.Solve(ctx, y, from)
	if err != nil {
		return nil, err
	}
	if sol.Converged {
		sol.Method = s.first.Name()
		return sol, nil
	}
	sol.Release()
	return s.plain.Solve(ctx, y, from)
}

// Reweight shares the interior points' matrices, and makes the other method anew.
func (s *secondChance) Reweight(ctx context.Context, r prox.Prox) (Solver, error) {
	return s.s.reweight(ctx, r, s.plain.m)
}

// Release frees what the methods keep.
func (s *secondChance) Release() {
	s.plain.Release()
	s.first.Release()
}
