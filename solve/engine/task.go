package engine

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"surepipe/linops"
	"surepipe/loss"
	"surepipe/prox"
	"surepipe/solve/internal/limits"
)

// Task is a problem on its way to a method: what the rules depend on.
type Task struct {
	Entry   Entry   // of the method that was asked for
	Problem Problem // with Loss nil if the user's loss is quadratic
	Family  *Family // of the solvers that share what a Path carries
	Options Options
	From    Method  // the solver for another regularizer, whose data is shared; or nil
	Tables  *Tables // by which it goes on

	Loss      loss.Loss // the user's
	Quadratic bool      // whether it is
	Weights   []float64 // of the observations; nil for ones
	Even      bool      // the lengths of the columns differ by at most widestSpread, by A's structure
	Lengths2  []float64 // squared lengths of the columns; nil where they are not known, or even
	Uneven    bool      // whether these differ by more
	Units     []float64 // of the columns; nil for the user's
	// Of K's rows: their squared lengths, nil where they are not known, and the units for them, nil for the user's.
	RowLengths2, RowUnits []float64
	Bound                 *float64 // of ||A||^2, where Newton steps on the loss have needed it; or nil
}

// Tables are the tables of rules by which a solver is chosen, each of which leads to the next one, and what the
// solvers ask of them.
type Tables struct {
	// Rows, Loss, Units and Method choose the units of K's rows, the form of the loss, the units of A's columns
	// and the form of the method.
	Rows, Loss, Units, Method func(ctx context.Context, s Task) (Solver, error)
	// Behind is the method for r(K b) where one is asked for that takes r(b) only.
	Behind Entry
	// Instead is the default method for a problem that the one of the given name does not serve.
	Instead func(name string, p Problem) Entry
	// Finish is the method that goes on where active sets have come to an end before the tolerance.
	Finish func(s *Task) (Entry, Choice)
}

// Family is shared by solvers of one operator in the same units: what a [Path] carries belongs to
// one of them.
type Family struct {
	// Moves says that y differs from solve to solve: what a Path carries then serves any of them.
	Moves bool

	once sync.Once
	kept any
}

// Kept is what the solvers share, which is made when it is first asked for.
func (f *Family) Kept(make func() any) any {
	f.once.Do(func() { f.kept = make() })
	return f.kept
}

// Make makes the method for the task.
func (s *Task) Make(ctx context.Context) (Method, error) {
	if s.From != nil {
		if again := s.From.Traits().Reweight; again != nil {
			return again(ctx, s.Problem.R)
		}
	}
	return s.Entry.New(ctx, s.Problem, s.Options)
}

// Reweight chooses anew for another regularizer. Where that one allows for other units and the last
// one did not, they are chosen anew too.
func (s Task) Reweight(ctx context.Context, r prox.Prox, from Method) (Solver, error) {
	s.Problem.R, s.From = r, from
	if s.Units == nil && !s.Entry.Closed && s.UnitsFor(r) != nil {
		s.From, s.Options.InverseLengths = nil, nil
		s.Options.Choices = s.Options.Before("units")
		return s.Tables.Units(ctx, s)
	}
	s.Options.Choices = s.Options.Before("method")
	return s.Tables.Method(ctx, s)
}

// Before is the choices up to the first one about a part.
func (o Options) Before(part string) []Choice {
	if i := slices.IndexFunc(o.Choices, func(c Choice) bool { return c.Part == part }); i >= 0 {
		return o.Choices[:i:i]
	}
	return o.Choices
}

// Unwritten reports that vectors of length p are too long for this problem.
func (s *Task) Unwritten() bool {
	_, dim := s.Problem.A.Dims()
	return dim > limits.Written
}

// UnwrittenError is the error of a method that needs vectors of length p where they are too long.
func UnwrittenError(p Problem) error {
	_, dim := p.A.Dims()
	return fmt.Errorf("solve: b has %d numbers, too many to be written down: a matrix of which so many rows and "+
		"columns are connected by observed entries can only be completed with the nuclear norm, the squared loss "+
		"without weights, the solver fista or ista, and the implicit derivative", dim)
}

// Lengths are the squared lengths of A's columns, nil where they are not known.
func (s *Task) Lengths() []float64 {
	if s.Even {
		return ColumnLengths2(s.Problem)
	}
	return s.Lengths2
}

// UnitsFor are units for the columns of A with a regularizer; nil for the user's. With r(K b) they are for
// matrices A and K, and not where K takes differences of pairs: its products, its normal equations or its null
// spaces may be cheap in the user's units only ([Task.Tied]).
func (s *Task) UnitsFor(r prox.Prox) []float64 {
	switch {
	case !s.Uneven:
		return nil
	case s.Problem.K == nil:
		return ColumnUnits(r, s.Lengths2)
	}
	return unitsOf(s.Lengths2)
}

// Tied reports that there are no other units for b.
func (s *Task) Tied() bool {
	if s.Problem.K == nil {
		return false
	}
	a, k := linops.StructureOf(s.Problem.A), linops.StructureOf(s.Problem.K)
	return !a.Entries.Known || !k.Entries.Known || k.Pairs != nil && k.Pairs() != nil
}
