package solve

import (
	"surepipe/internal/lists"
	"surepipe/linops"
	"surepipe/solve/active"
	"surepipe/solve/direct"
	"surepipe/solve/gradient"
	"surepipe/solve/interior"
	"surepipe/solve/manifold"
	"surepipe/solve/splitting"
)

// Names lists the names of the table.
func Names() []string {
	return lists.Map(Methods(), func(e Entry) string { return e.Name })
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

// Methods lists the methods that [New] knows. A new one is added here: its room has its entry.
func Methods() []Entry {
	return []Entry{direct.Entry, gradient.ISTA, gradient.FISTA, splitting.ADMM, active.Entry, manifold.Entry,
		splitting.Dual, interior.Entry}
}

// Solvers that others are held against.
var (
	// AnyProx is the name of the solver for any r(b), which needs no more than products with A and the prox.
	AnyProx = gradient.FISTA.Name
	// ClosedForm is the name of the solver by one factorization.
	ClosedForm = direct.Entry.Name
)

// Witness is the name of a solver that takes the problem and comes to its solution in another way than the
// one of the given name, which it is itself where there is none.
func Witness(name string, p Problem) string {
	switch e, _ := Lookup(name); {
	case !e.Alternates:
		return splitting.ADMM.Name
	case p.K == nil:
		return AnyProx
	case p.Loss == nil && linops.StructureOf(p.A).Columns.Value > 0:
		return splitting.Dual.Name
	}
	return name
}
