package solve

import (
	"context"
	"fmt"
	"slices"

	"surepipe/linops"
	"surepipe/loss"
	"surepipe/prox"
	"surepipe/solve/internal/limits"
)

// situation is what the rules depend on.
type situation struct {
	e      Entry
	p      Problem // with Loss nil if the user's loss is quadratic
	kin    *family
	o      Options
	from   Method // the solver for another regularizer, whose data is shared; or nil
	tables *tables

	loss      loss.Loss // the user's
	quadratic bool      // whether it is
	weights   []float64 // of the observations; nil for ones
	even      bool      // the lengths of the columns differ by at most widestSpread, by A's structure
	lengths2  []float64 // squared lengths of the columns; nil where they are not known, or even
	units     []float64 // of the columns; nil for the user's
	// Of K's rows: their squared lengths, nil where they are not known, and the units for them, nil for the user's.
	rowLengths2, rowUnits []float64
	bound                 *float64 // of ||A||^2, where Newton steps on the loss have needed it; or nil
}

// tables are the tables of rules by which a solver is chosen, each of which leads to the next one, and what the
// solvers ask of them.
type tables struct {
	// Rows, Loss, Units and Method choose the units of K's rows, the form of the loss, the units of A's columns
	// and the form of the method.
	Rows, Loss, Units, Method func(ctx context.Context, s situation) (Solver, error)
	// Behind is the method for r(K b) where one is asked for that takes r(b) only.
	Behind Entry
	// Instead is the default method for a problem that the one of the given name does not serve.
	Instead func(name string, p Problem) Entry
	// Finish is the method that goes on where active sets have come to an end before the tolerance.
	Finish func(s *situation) (Entry, Choice)
}

// family is shared by solvers of one operator in the same units: what a [Path] carries belongs to
// one of them.
type family struct {
	// moves says that y differs from solve to solve: what a Path carries then serves any of them.
	moves bool
}

// method makes the method for the situation.
func (s *situation) method(ctx context.Context) (Method, error) {
	if s.from != nil {
		if again := s.from.Traits().Reweight; again != nil {
			return again(ctx, s.p.R)
		}
	}
	return s.e.New(ctx, s.p, s.o)
}

// reweight chooses anew for another regularizer. Where that one allows for other units and the last
// one did not, they are chosen anew too.
func (s situation) reweight(ctx context.Context, r prox.Prox, from Method) (Solver, error) {
	s.p.R, s.from = r, from
	if s.units == nil && !s.e.Closed && s.unitsFor(r) != nil {
		s.from, s.o.shortness = nil, nil
		s.o.choices = s.o.before("units")
		return s.tables.Units(ctx, s)
	}
	s.o.choices = s.o.before("method")
	return s.tables.Method(ctx, s)
}

// before is the choices up to the first one about a part.
func (o Options) before(part string) []Choice {
	if i := slices.IndexFunc(o.choices, func(c Choice) bool { return c.Part == part }); i >= 0 {
		return o.choices[:i:i]
	}
	return o.choices
}

// unwritten reports that vectors of length p are too long for this problem.
func (s *situation) unwritten() bool {
	_, dim := s.p.A.Dims()
	return dim > limits.Written
}

// errUnwritten is the error of a method that needs vectors of length p where they are too long.
func errUnwritten(p Problem) error {
	_, dim := p.A.Dims()
	return fmt.Errorf("solve: b has %d numbers, too many to be written down: a matrix of which so many rows and columns are connected by observed entries can only be completed with the nuclear norm, the squared loss without weights, the solver fista or ista, and the implicit derivative", dim)
}

// lengths are the squared lengths of A's columns, nil where they are not known.
func (s *situation) lengths() []float64 {
	if s.even {
		return columnLengths2(s.p)
	}
	return s.lengths2
}

// unitsFor are units for the columns of A with a regularizer; nil for the user's. With r(K b) they are for matrices A and K,
// and not where K takes differences of pairs: its products, its normal equations or its null spaces may be cheap in the
// user's units only ([situation.tied]).
func (s *situation) unitsFor(r prox.Prox) []float64 {
	switch {
	case s.p.K == nil:
		return columnUnits(r, s.lengths2)
	case spread(s.lengths2, nil):
		return unitsOf(s.lengths2)
	}
	return nil
}

// tied reports that there are no other units for b.
func (s *situation) tied() bool {
	if s.p.K == nil {
		return false
	}
	a, k := linops.StructureOf(s.p.A), linops.StructureOf(s.p.K)
	return !a.Entries.Known || !k.Entries.Known || k.Pairs != nil && k.Pairs() != nil
}
