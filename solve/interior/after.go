package interior

import (
	"context"
	"errors"
	"sync"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/prox"
	"surepipe/solve/engine"
	"surepipe/solve/splitting"
)

// secondChance solves by another method, and where that does not converge soon by interior points, whose
// matrix is made when it is needed: small problems by alternating directions, and images by gradient
// steps on the dual. On a well-conditioned problem, or at a weight that leaves small regions, these are faster.
type secondChance struct {
	s     engine.Task
	first *engine.Plain // the other method; nil where it comes after interior points

	mu   sync.Mutex
	last *engine.Plain // the interior points, or the other method without a limit; nil before they are needed
}

// The number of iterations of the other method that come first: of alternating directions, on a small problem and on
// an image, and of gradient steps on the dual, of which all together cost about as much as interior points, unless the
// gap shows earlier that they do not suffice.
const (
	soonIterations = 1000
	soonSteps      = 2000
	soonGradients  = 8000
)

// soonSparse is the number of columns of K, times that of the channels in a norm, up to which the steps with a sparse
// factor are so fast that no other method comes first.
const soonSparse = 1 << 13

// soonest reports that interior points with a sparse factor come first.
func soonest(p engine.Problem) bool {
	_, dim := p.K.Dims()
	return dim*max(1, prox.StructureOf(p.R).Balls.Channels) <= soonSparse
}

// comesFirst is the method that comes before interior points; nil for none.
func comesFirst(s *engine.Task) *engine.Entry {
	if s.Problem.K == nil || s.Options.Whole || Sequence(s.Problem) {
		return nil
	}
	if Sparse(s.Problem) && !Small(s.Problem) {
		if !soonest(s.Problem) {
			return &splitting.Dual
		}
		return nil
	}
	if !(linops.StructureOf(s.Problem.A).Columns.Value > 0) && Small(s.Problem) || Iterated(s.Problem) ||
		Matrix(s.Problem) {
		return &splitting.ADMM
	}
	return nil
}

// comesAfter reports that interior points come first, and another method where they do not serve.
func comesAfter(p engine.Problem) bool { return !Small(p) && (Matrix(p) || picked(p)) }

// picked reports that A picks some pixels: A*A is diagonal, and a sparse factor serves alone. About 20 steps from the
// unpenalized fit then solve at every weight, and cost less than what brings another method near.
func picked(p engine.Problem) bool { return Iterated(p) && normalDiagonal(p.A) != nil }

// after is the form of a solve in which another method comes first, or after.
func after(s *engine.Task) (engine.Builder, engine.Choice) {
	switch {
	case comesFirst(s) == nil:
		return nil, engine.Choice{}
	case comesAfter(s.Problem) && picked(s.Problem):
		return newSecondChance, engine.Choice{Part: "method", Chosen: "interior points, and else another method",
			Reason: "A picks pixels: some 20 steps with a sparse factor solve at every weight, where alternating " +
				"directions come near in hundreds of iterations and at small weights in none"}
	case comesAfter(s.Problem):
		return newSecondChance, engine.Choice{Part: "method", Chosen: "interior points, and else another method",
			Reason: "A is a matrix of few columns: a step of interior points costs little, and they take any " +
				"condition of it"}
	}
	return newSecondChance, engine.Choice{Part: "method", Chosen: "interior points after another method",
		Reason: "a step of interior points costs as much as many of ADMM, where A and K are small, or of the " +
			"dual, where K takes differences of many pixels: these come first and mostly suffice"}
}

func newSecondChance(ctx context.Context, s engine.Task) (engine.Solver, error) {
	soon := s
	soon.Entry, soon.From = *comesFirst(&s), nil
	if of, ok := s.From.(both); ok {
		soon.From, s.From = of.first, of.Method
	}
	if comesAfter(s.Problem) {
		return &secondChance{s: s}, nil
	}
	most := soonIterations
	switch {
	case Small(s.Problem):
	case Iterated(s.Problem):
		most = soonSteps
	default:
		most = soonGradients
	}
	soon.Options.MaxIter, soon.Options.Promising = min(s.Options.MaxIter, most), !Small(s.Problem)
	soon.Options.Resolved = Small(s.Problem) // a large factor is only for what the other method leaves
	first, err := engine.PlainOf(ctx, soon)
	if err != nil {
		return nil, err
	}
	return &secondChance{s: s, first: first}, nil
}

func (s *secondChance) points(ctx context.Context) (*engine.Plain, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil {
		last, err := engine.PlainOf(ctx, s.s)
		if errors.Is(err, errNoInterior) {
			last, err = s.whole(ctx)
		}
		if err != nil {
			return nil, err
		}
		s.last = last
	}
	return s.last, nil
}

// begin solves by the other method, with all its iterations where interior points take conjugate gradients: these cost
// less only for a solution that is to be certified.
func (s *secondChance) begin(ctx context.Context, y array.Batch, from engine.From) (*engine.Solution, error) {
	if !(from.Effort.Error > 0 && Iterated(s.s.Problem)) {
		return s.first.Solve(ctx, y, from)
	}
	whole, err := s.whole(ctx)
	if err != nil {
		return nil, err
	}
	defer whole.Release()
	return whole.Solve(ctx, y, from)
}

// whole is the other method with all its iterations.
func (s *secondChance) whole(ctx context.Context) (*engine.Plain, error) {
	whole := s.s
	if whole.Entry, whole.From = *comesFirst(&s.s), nil; s.first != nil {
		whole.From = s.first.Method
	}
	return engine.PlainOf(ctx, whole)
}

func (s *secondChance) Name() string { return s.s.Entry.Name }

func (s *secondChance) Solve(ctx context.Context, y array.Batch, from engine.From) (*engine.Solution, error) {
	if from.Path == nil {
		from.Path = new(engine.Path)
		defer from.Path.Release()
	}
	var sol *engine.Solution
	var err error
	if s.first != nil {
		sol, err = s.begin(ctx, y, from)
	}
	switch {
	case s.first == nil:
	case err != nil && (ctx.Err() != nil || s.s.Problem.Device.Err() != nil):
		return nil, err
	case err == nil && sol.Converged:
		sol.Method = s.first.Name()
		return sol, nil
	case err == nil:
		defer sol.Release()
		from.B = sol.B
	default:
		// Its linear systems may have no numerical solution where those of interior points have one.
	}
	last, err := s.points(ctx)
	if err != nil {
		return nil, err
	}
	sol, err = last.Solve(ctx, y, from)
	// Steps by iterations do not take any condition, nor do those from a matrix without its full rank.
	if err == nil && !sol.Converged && last.Name() == s.Name() && (s.first == nil || Iterated(s.s.Problem)) {
		sol.Release()
		if last, err = s.whole(ctx); err != nil {
			return nil, err
		}
		defer last.Release()
		from.Path.Release()
		sol, err = last.Solve(ctx, y, from)
	}
	if err == nil && last.Name() != s.Name() {
		sol.Method = last.Name()
	}
	return sol, err
}

// Record records the iterations of a method that has a derivative.
func (s *secondChance) Record(ctx context.Context, y array.Batch, newTape engine.NewTape) (*engine.Solution, error) {
	last, err := s.points(ctx)
	if err != nil {
		return nil, err
	}
	return last.Record(ctx, y, newTape)
}

func (s *secondChance) Reweight(ctx context.Context, r prox.Prox) (engine.Solver, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	from := both{Method: s.s.From}
	if s.first != nil {
		from.first = s.first.Method
	}
	if s.last != nil {
		from.Method = s.last.Method
	}
	return s.s.Reweight(ctx, r, from)
}

// both are the methods of a solver for another regularizer.
type both struct {
	engine.Method // nil before it is needed
	first         engine.Method
}

func (b both) Traits() engine.Traits {
	if b.Method == nil {
		return engine.Traits{}
	}
	return b.Method.Traits()
}

func (s *secondChance) Release() {
	if s.last != nil {
		s.last.Release()
	}
	if s.first != nil {
		s.first.Release()
	}
}
