package solve

import "context"

// Constructor makes a method for a problem. The context bounds the work done once for all y. The
// loss of the problem is nil if the user's is quadratic.
type Constructor func(ctx context.Context, p Problem, o Options) (Method, error)

// Entry is a method of the table.
type Entry struct {
	// Name is what [New] takes.
	Name string
	// About describes it in a line.
	About string
	// New makes it.
	New Constructor
	// Closed reports whether it needs no iterations, and that its derivative is known in closed
	// form. It is given the problem in the user's units.
	Closed bool

	// sparse reports whether it may run on a working set, and factors whether its iterates may be
	// kept in factored form, which takes a proximalGradient.
	sparse, factors bool
}

// Methods lists the methods that [New] knows. A new one is added here.
func Methods() []Entry {
	return []Entry{
		{Name: "direct", About: "r(b) = c/2 ||b||^2 in closed form, by one factorization of A", New: newDirect, Closed: true},
		{Name: "ista", About: "proximal gradient steps of length 1/||A||^2", New: newISTA, sparse: true, factors: true},
		{Name: "fista", About: "the same with momentum and adaptive restart", New: newFISTA, sparse: true, factors: true},
		{Name: "admm", About: "alternating directions, with the step balanced by the residuals", New: newADMM},
	}
}
