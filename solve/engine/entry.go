package engine

import "context"

// Constructor makes a method for a problem. The context bounds the work done once for all y. The
// loss of the problem is nil if the user's is quadratic.
type Constructor func(ctx context.Context, p Problem, o Options) (Method, error)

// Entry is a method of the table.
type Entry struct {
	// Name is what [solve.New] takes; About is what the help says of it.
	Name, About string
	// New makes it.
	New Constructor
	// Closed reports whether it needs no iterations, and that its derivative is known in closed
	// form. It is given the problem in the user's units.
	Closed bool

	// Sparse says that it may be run on a working set, where solutions are sparse: it is made for
	// the problem confined to a set of coordinates, again and again as the set grows.
	Sparse bool
	// Path says that solves at a sequence of weights go on where the last one ended, by what a
	// [Path] carries: the longer the sequence the better. Other methods only start near.
	Path bool

	// Normal says that its steps solve A's normal equations, which may have a closed form.
	Normal bool

	// Behind says that it solves problems with r(K b). Others take r(b) only.
	Behind bool

	// Factors says that its iterates may be kept in factored form: its [Traits] have Factored.
	Factors bool
	// ActiveSet says that where r is a sum over coordinates or groups it goes from one active set to the next by
	// Newton steps. New then makes the method whose iterations are recorded.
	ActiveSet bool
	// Manifold says that it takes Newton steps on the manifold of a partly smooth r.
	Manifold bool

	// Alternates says that it takes alternating directions.
	Alternates bool

	// Refused reports that an error of New means that the problem is not one for this method, which could not be
	// known before, and that another one is to take over; nil for never.
	Refused func(p Problem, err error) bool
	// Own returns how a problem is solved with this method where that is not by one of the common rules, and the
	// choice that says so; nil for a common rule. Own itself is nil where there is no such problem.
	Own func(s *Task) (Builder, Choice)
}

// Builder makes the solver of a problem.
type Builder func(ctx context.Context, s Task) (Solver, error)
