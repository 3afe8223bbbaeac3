package solve

import "context"

// Constructor makes a method for a problem. The context bounds the work done once for all y. The
// loss of the problem is nil if the user's is quadratic.
type Constructor func(ctx context.Context, p Problem, o Options) (Method, error)

// Entry is a method of the table.
type Entry struct {
	// Name is what [New] takes.
	Name string
	// About says what it is in a line.
	About string
	// New makes it.
	New Constructor
	// Closed says that it needs no iterations, and that its derivative is known in closed form. It
	// is given the problem in the user's units.
	Closed bool

	// sparse says that it may run on a working set, and factors that its iterates may be kept in
	// factored form: it is a proximalGradient.
	sparse, factors bool
	// newton says that it goes from one active set to the next by Newton steps where r is a sum over
	// coordinates. New then makes the method whose iterations are recorded.
	newton bool
}

// accelerated is the entry of fista, with which others finish.
var accelerated = Entry{Name: "fista", About: "the same with momentum and adaptive restart", New: newFISTA, sparse: true, factors: true}

// Methods lists the methods that [New] knows. A new one joins here.
func Methods() []Entry {
	return []Entry{
		{Name: "direct", About: "r(b) = c/2 ||b||^2 in closed form, by one factorization of A", New: newDirect, Closed: true},
		{Name: "ista", About: "proximal gradient steps of length 1/||A||^2", New: newISTA, sparse: true, factors: true},
		accelerated,
		{Name: "admm", About: "alternating directions, with the step balanced by the residuals", New: newADMM},
		{Name: "active-set", About: "l1, weighted l1, elastic net and b >= 0 exactly, by Newton steps on active sets", New: newRecorded, newton: true},
	}
}
