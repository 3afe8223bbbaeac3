package engine

import (
	"slices"

	"surepipe/array"
	"surepipe/prox"
)

// From says where a solve starts. The zero value starts at b = 0.
type From struct {
	// B is an estimate, one vector of length p, such as the solution of a nearby problem; the zero
	// Batch stands for 0.
	B array.Batch
	// Factors is B in factored form, for a matrix completion. Where it is given B is not read, and other
	// solvers start at 0.
	Factors *Factors
	// Path is handed on from the solve before, nil for none. A Path that holds something stands in
	// for B: the solve starts where the last one ended.
	Path *Path
	// Ahead returns the regularizer of the i-th solve of the path after this one, for i = 1, 2, ..., nil
	// after the last. A solver for which a product with A is expensive asks for some of them, and
	// finds several solutions at once. The caller releases them ([prox.Release]). Nil where nothing is
	// known about the solves to come.
	Ahead func(i int) (prox.Prox, error)
	// Effort is that of the solve, in place of the solver's own: [Options].Effort. Solvers that are exact, or follow
	// active sets, certify their solutions whatever it is.
	Effort Effort
	// Solved, if not nil, is called with the solution when it is known, before work that only its derivative needs.
	// Calls after the first do nothing.
	Solved func(sol *Solution)
}

// Tell calls Solved.
func (f From) Tell(sol *Solution) {
	if f.Solved != nil {
		f.Solved(sol)
	}
}

// Path carries along a path of weights what the solves of one y take over from each other besides
// b: the working set, its Gram matrix, the factor of the active part, and the gradient. The zero
// Path is empty. It serves one solve at a time; the solvers must be made from each other by
// Reweight, and a solver that finds nothing in it that it can use starts from B.
//
// The bits of a solution depend on what the Path has been through, as they depend on B: the same
// solves in the same order give the same bits.
type Path struct {
	Kept interface{ Release() }
	// Before is what the solve before says about the effort of the next, where there is one.
	Before Compared
}

// Compared is what points of a path are compared by.
type Compared struct {
	RSS, Degrees float64 // ||A b - y||^2, and about the divergence
	Allowed      float64 // by how much SURE may still have changed
	// Images are those of some vectors, the same at every point, under D mu_hat; zero where they are not known.
	Images array.Batch
}

// Release frees what the path holds. It may be used again, empty.
func (p *Path) Release() {
	if p == nil {
		return
	}
	p.Before.Images.Free()
	p.Before = Compared{}
	if p.Kept != nil {
		p.Kept.Release()
		p.Kept = nil
	}
}

// Apart reports that the derivative of the solve before reads nothing of what the path holds: the next solve may go on
// while that is used.
func (p *Path) Apart() bool {
	if p == nil || p.Kept == nil {
		return true
	}
	own, ok := p.Kept.(interface{ Apart() bool })
	return ok && own.Apart()
}

// Parts returns the paths of n parts of a problem, which the path holds from now on.
func (p *Path) Parts(n int) []*Path {
	if p == nil {
		return make([]*Path, n)
	}
	if parts, ok := p.Kept.(pathParts); ok && len(parts) == n {
		return parts
	}
	p.Release()
	parts := make(pathParts, n)
	for k := range parts {
		parts[k] = new(Path)
	}
	p.Kept = parts
	return parts
}

type pathParts []*Path

func (p pathParts) Apart() bool {
	return !slices.ContainsFunc(p, func(part *Path) bool { return !part.Apart() })
}

func (p pathParts) Release() {
	for _, part := range p {
		part.Release()
	}
}

// Take moves what the path holds out of it.
func (p *Path) Take() interface{ Release() } {
	if p == nil {
		return nil
	}
	kept := p.Kept
	p.Kept = nil
	return kept
}
