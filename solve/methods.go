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

	// factors says that its iterates may be kept in factored form: it is a proximalGradient.
	factors bool
	// newton says that where r is a sum over coordinates or groups it goes from one active set to the next by
	// Newton steps. New then makes the method whose iterations are recorded.
	newton bool
	// manifold says that it takes Newton steps on the manifold of a partly smooth r.
	manifold bool
}

// accelerated is the entry of fista, with which others finish.
var accelerated = Entry{Name: "fista", About: "the same with momentum and adaptive restart", New: newFISTA, Sparse: true, factors: true}

// Names lists the names of the table.
func Names() []string {
	var names []string
	for _, e := range Methods() {
		names = append(names, e.Name)
	}
	return names
}

// Lookup returns the entry of a name; ok is false for names that are not in the table.
func Lookup(name string) (e Entry, ok bool) {
	for _, e := range Methods() {
		if e.Name == name {
			return e, true
		}
	}
	return Entry{}, false
}

// Methods lists the methods that [New] knows. A new one is added here.
func Methods() []Entry {
	return []Entry{
		{Name: "direct", About: "sums of squares of b and of K b in closed form, by one factorization: dense, banded, sparse, or a fast transform", New: newDirect, Closed: true, Behind: true},
		{Name: "ista", About: "proximal gradient steps of length 1/||A||^2", New: newISTA, Sparse: true, factors: true},
		accelerated,
		{Name: "admm", About: "alternating directions, with the step balanced by the residuals", New: newADMM, Normal: true, Behind: true},
		{Name: "active-set", About: "l1, weighted l1, elastic net, b >= 0 and groups exactly, by Newton steps on active sets; of K b too, where A and K are matrices and K's rows independent", New: newRecorded, newton: true, Path: true},
		{Name: "newton", About: "gradient steps and Newton steps on the manifold of a partly smooth r", New: newSemismooth, Sparse: true, manifold: true},
		{Name: "dual", About: "r(K b) with A*A = c I: accelerated gradient steps on the dual, with restarts", New: newDual, Behind: true},
		{Name: "interior-point", About: "r(K b) of a sequence, an image or a small problem: Newton steps on the conditions of optimality, with a banded, sparse or dense matrix", New: newInterior, Behind: true},
		{Name: "primal-dual", About: "r(K b) by products with A and K alone: Halpern's iteration, with restarts", New: newPrimalDual, Behind: true},
	}
}
