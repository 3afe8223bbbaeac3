package solve

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
