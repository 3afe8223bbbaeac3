package solve

import (
	"context"
	"fmt"
	"slices"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/loss"
	"surepipe/prox"
)

// All choices by the structure of a problem are made in this file. A table is read from the top:
// the first rule that applies is taken, and recorded as a [Choice].
//
// The coordinates are chosen first, then the units of K's rows, the loss, the units of the columns, and the
// form of the method.

// rule is a row of a table.
type rule struct {
	chosen, reason string
	applies        func(s *situation) bool
	build          func(ctx context.Context, s situation) (Solver, error)
}

var lossRules = []rule{
	{"squared", "the loss is 1/2 ||A b - y||^2", func(s *situation) bool { return s.weights == nil && s.quadratic }, chooseUnits},
	{"whitened", "a weighted squared loss is the squared loss of sqrt(w) A and sqrt(w) y", func(s *situation) bool { return s.quadratic }, newWhitened},
	{"its gradient", "the loss is not quadratic", always, newCurved},
}

// rowRules is for problems with r(K b).
var rowRules = []rule{
	{"the user's", "the lengths of K's rows are not known", func(s *situation) bool { return s.rowLengths2 == nil }, chooseLoss},
	{"the user's", "the rows of K differ in length by at most a factor of 8", func(s *situation) bool { return !spread(s.rowLengths2, nil) }, chooseLoss},
	{"rows of about unit length", "the rows of K differ in length by more than a factor of 8, and one step size is to suit them all", func(s *situation) bool { return s.rowUnits != nil }, newEvenRows},
	{"the user's", "the rows of K differ in length, but the regularizer allows for no other units", always, chooseLoss},
}

// coordinateRules is for problems with r(K b).
var coordinateRules = []rule{
	{"K b and a few of b's", "r is a sum over coordinates, A is a matrix and so is K, with no more rows than columns: unless these depend on each other, the problem is a regression in K b, for active sets", asksForSynthesis, newSynthesized},
	{"b's", "a method with a dual variable for K b is asked for, or K b and a few of b's entries are no coordinates for b", always, chooseRows},
}

var unitRules = []rule{
	{"the user's", "the factorization scales the columns itself", func(s *situation) bool { return s.e.Closed }, chooseMethod},
	{"the user's", "r(K b) ties the columns of A together, and these are about equally long, or K has a structure that other units would lose", func(s *situation) bool { return s.p.K != nil && s.units == nil }, chooseMethod},
	{"the user's", "the lengths of A's columns are not known, and differ little as far as products with it show, or the regularizer allows for no other units", func(s *situation) bool { return s.lengths2 == nil && !s.even }, chooseMethod},
	{"the user's", "the columns of A differ in length by at most a factor of 8", func(s *situation) bool { return s.even || !spread(s.lengths2, nil) }, chooseMethod},
	{"the user's", "the method solves the normal equations, which have a closed form in these units only", closedHere, chooseMethod},
	{"columns of about unit length", "the columns of A differ in length by more than a factor of 8", func(s *situation) bool { return s.units != nil }, newEquilibrated},
	{"the user's", "the columns of A differ in length, but the regularizer allows for no other units: subgradients are measured column by column", always, chooseMethod},
}

var methodRules = []rule{
	{"closed form", "the regularizer and the loss are quadratic", func(s *situation) bool { return s.e.Closed }, newPlain},
	{"a dual variable for K b", "r(K b) has no proximal operator of its own: that of r is used, and the duality gap decides when the solve is done", func(s *situation) bool { return s.p.K != nil }, newDualized},
	{"Newton steps on the loss", "the loss is not quadratic: near a point it is the squared loss of sqrt(l'') A, which the method solves", reweighs, newReweighted},
	{"iterates in factored form", "A picks entries of a matrix and r is its nuclear norm: solutions have low rank; the weight falls to lambda in steps, with Newton steps at the rank or, where it is large, for the factors", func(s *situation) bool { return completion(s) != nil }, newCompletion},
	{"iterates in factored form, without the sparse part", "A adds a tall matrix under a nuclear norm and one under an l1 norm: the latter is a function of the former, which has low rank", func(s *situation) bool { return besideSparse(s) != nil }, newRobust},
	{"active sets on columns in memory", "a product with A reads it from a disk: few passes find the columns that matter, and verify the solutions of several weights at once", passes, newScreened},
	{"active sets", "the loss is squared and r is a sum of |b_j|, b_j^2 and b_j >= 0: given the signs, the solution is that of a linear system", func(s *situation) bool { return onFaces(s) && prox.StructureOf(s.p.R).Sparse != nil }, newActiveSet},
	{"active sets of groups", "the loss is squared and r is a sum of norms of groups: given the groups that are not 0, the problem is smooth", onFaces, newActiveSet},
	{"iterations of fista", "the derivative of every iteration is wanted", func(s *situation) bool { return s.e.newton && s.o.Whole }, newPlain},
	{"a working set", "r splits over coordinates and A can be restricted to columns: solutions are sparse", splits, newWorkingSet},
	{"all coordinates", "r does not split over coordinates, or they are few: Newton steps find its manifold", func(s *situation) bool { return s.e.manifold && !s.o.Whole }, newPlain},
	{"all coordinates", "the derivative of every iteration is wanted", func(s *situation) bool { return s.o.Whole }, newPlain},
	{"all coordinates", "the problem has no structure that the method can use", always, newPlain},
}

// defaultRule is a row of the table of [Default].
type defaultRule struct {
	solver, reason string
	applies        func(p Problem) bool
}

var defaultRules = []defaultRule{
	{"direct", "r is a sum of squares, behind K or not, and A and K can be factorized together: one factorization is exact", closable},
	{"interior-point", "r stands behind differences of neighbours, and is a sum over coordinates, and A*A is diagonal: Newton steps take a banded matrix, and any condition of K", interiorPoint},
	{"interior-point", "r stands behind a sparse K, and is a sum over coordinates or of norms of groups, and A*A is a multiple of the identity: Newton steps take a sparse matrix, and any condition of K", sparseInterior},
	{"dual", "r stands behind an operator K, and A*A is a multiple of the identity: the dual has a simple gradient", func(p Problem) bool { return p.K != nil && p.Loss == nil && linops.StructureOf(p.A).Columns.Value > 0 }},
	{"active-set", "r stands behind a matrix K with no more rows than columns, and is a sum over coordinates, and A is a matrix: unless K's rows depend on each other it is a regression in K b", synthesizes},
	{"interior-point", "r stands behind a small operator K, and is a sum over coordinates: Newton steps take any condition of A and K", smallInterior},
	{"admm", "r stands behind an operator K: given K b, a step solves a linear system", func(p Problem) bool { return p.K != nil }},
	{"active-set", "near a point the loss is quadratic, the regularizer is a sum of |b_j|, b_j^2 and b_j >= 0, or of norms of groups, and A is a matrix whose columns are at hand", func(p Problem) bool { return !loss.Quadratic(p.Loss) && sparseRegression(p) }},
	{"newton", "near a point the loss is quadratic, r is partly smooth, and A is a small matrix", func(p Problem) bool { return !loss.Quadratic(p.Loss) && partlySmooth(p) }},
	{"fista", "the loss is not quadratic: a gradient step is never exact", func(p Problem) bool { return !loss.Quadratic(p.Loss) }},
	{"fista", "the regularizer is quadratic, but A has no matrix or too large a one", quadraticPenalty},
	{"ista", "A*A is a multiple of the identity: one step from any point is the solution", func(p Problem) bool { return p.Loss == nil && linops.StructureOf(p.A).Columns.Value > 0 }},
	{"active-set", "the regularizer is a sum of |b_j|, b_j^2 and b_j >= 0, or of norms of groups, and A is a matrix whose columns are at hand", sparseRegression},
	{"active-set", "the regularizer is a sum of |b_j|, b_j^2 and b_j >= 0, and A has few columns: those that matter are formed by products with it", fewColumns},
	{"newton", "r is partly smooth, and A is a small matrix: Newton steps on the manifold cost little, and converge for any columns", partlySmooth},
	{"fista", "it is the fastest of those that need no more than products with A and the prox", func(Problem) bool { return true }},
}

// Default is the name of the solver for a problem where nobody chooses one.
func Default(p Problem) string {
	i := slices.IndexFunc(defaultRules, func(r defaultRule) bool { return r.applies(p) })
	return defaultRules[i].solver
}

// without is the same where the solver of the given name does not serve.
func without(solver string, p Problem) Entry {
	i := slices.IndexFunc(defaultRules, func(r defaultRule) bool { return r.solver != solver && r.applies(p) })
	e, _ := Lookup(defaultRules[i].solver)
	return e
}

// quadraticPenalty reports that r(b) = c/2 ||b||^2.
func quadraticPenalty(p Problem) bool { return prox.StructureOf(p.R).Quadratic.Known }

// sparseRegression reports that active sets suit the problem. Where more coordinates become active
// than a Gram matrix is kept for, fista goes on.
func sparseRegression(p Problem) bool {
	a := linops.StructureOf(p.A)
	return activeSets(p.R) && a.Entries.Known && (a.Passes.Bytes == 0 || prox.StructureOf(p.R).Sparse != nil)
}

// mostFormed is the largest number of columns that active sets form by products: deblurring of 32 x 32 pixels
// takes half of fista's time that way, and of 64 x 64 one and a half times as much.
const mostFormed = 1024

// fewColumns reports that active sets suit a problem whose A is an operator.
func fewColumns(p Problem) bool {
	_, dim := p.A.Dims()
	return dim <= mostFormed && activeSets(p.R) && prox.StructureOf(p.R).Sparse != nil && linops.StructureOf(p.A).Passes.Bytes == 0
}

// partlySmooth reports that Newton steps on the model suit the problem.
func partlySmooth(p Problem) bool {
	d, dim := p.A.Dims()
	r := prox.StructureOf(p.R)
	most := mostManifold
	if r.Closure != nil {
		most = mostSplit
	}
	return r.Value != nil && r.Follow == nil && linops.StructureOf(p.A).Entries.Known && min(d, dim) <= most
}

// finisher is a method that goes on where active sets have come to an end before the tolerance:
// columns depend on each other but for rounding errors, or the working set is large.
type finisher struct {
	method         Entry
	chosen, reason string
	applies        func(s *situation) bool
}

var finishers = []finisher{
	{newtonEntry, "finished by proximal points", "Newton steps on groups came to an end before the tolerance: columns depend on each other but for rounding errors, which steps of proximal points allow for, or the working set is large",
		func(s *situation) bool { return prox.StructureOf(s.p.R).Groups != nil }},
	{accelerated, "finished by fista", "Newton steps came to an end before the tolerance: columns depend on each other but for rounding errors, or the working set is large",
		always},
}

// finishing applies the table.
func finishing(s *situation) (Entry, Choice) {
	f := finishers[slices.IndexFunc(finishers, func(f finisher) bool { return f.applies(s) })]
	return f.method, Choice{"method", f.chosen, f.reason}
}

// Sizes at which choices change.
const (
	// mostManifold is the smaller of d and p up to which Newton steps on the model are the default,
	// and mostSplit where the regularizer splits, as that of groups does.
	mostManifold = 1 << 7
	mostSplit    = 1 << 10
	// minWorking is the size of p below which working sets do not pay.
	minWorking = 256
)

// allTables are what solvers ask of the tables.
var allTables = tables{Rows: chooseRows, Loss: chooseLoss, Units: chooseUnits, Method: chooseMethod, Behind: admmEntry, Instead: without, Finish: finishing}

func always(*situation) bool { return true }

// decide applies a table.
func decide(ctx context.Context, s situation, part string, rules []rule) (Solver, error) {
	i := slices.IndexFunc(rules, func(r rule) bool { return r.applies(&s) })
	s.o = s.o.with(Choice{part, rules[i].chosen, rules[i].reason})
	return rules[i].build(ctx, s)
}

// build chooses the solver of a problem.
func build(ctx context.Context, e Entry, p Problem, o Options) (Solver, error) {
	s := situation{e: e, p: p, o: o, loss: p.Loss, quadratic: true, tables: &allTables}
	if p.Loss != nil {
		var w array.Batch
		if w, s.quadratic = p.Loss.Weights(); s.quadratic {
			if !w.IsZero() {
				s.weights = w.ToHost()
			}
			s.p.Loss = nil
		}
	}
	if d, _ := p.A.Dims(); s.weights != nil && len(s.weights) != d {
		return nil, fmt.Errorf("solve: %d weights of observations for an operator with %d rows", len(s.weights), d)
	}
	if p.Intercept && (s.weights != nil || !s.quadratic) {
		return nil, fmt.Errorf("solve: an intercept needs the squared loss: with weighted observations or another loss, subtracting the mean of y does not fit the intercept; drop the intercept or the weights")
	}
	if p.Effects != nil && (p.Intercept || !s.quadratic || p.Effects.Weighted() != (s.weights != nil)) {
		return nil, fmt.Errorf("solve: effects of rows and columns need the squared loss with their own weights, and no intercept")
	}
	switch {
	case p.K == nil || e.Closed: // a factorization does not depend on the units of K's rows
		return chooseLoss(ctx, s)
	case s.e.newton:
		return decide(ctx, s, "coordinates", coordinateRules)
	}
	return chooseRows(ctx, s)
}

// chooseRows applies the table of K's rows.
func chooseRows(ctx context.Context, s situation) (Solver, error) {
	if s.rowLengths2 == nil {
		s.rowLengths2 = rowLengths2(s.p)
	}
	s.rowUnits = rowUnits(s.p.R, s.rowLengths2)
	return decide(ctx, s, "rows", rowRules)
}

// chooseLoss applies the table of losses.
func chooseLoss(ctx context.Context, s situation) (Solver, error) {
	return decide(ctx, s, "loss", lossRules)
}

// chooseUnits applies the table of units.
func chooseUnits(ctx context.Context, s situation) (Solver, error) {
	s.kin, s.bound = new(family), nil
	if s.even = evenColumns(s.p.A); !s.e.Closed && !s.even && !s.tied() {
		s.lengths2 = columnLengths2(s.p)
		if !closedHere(&s) {
			s.units = s.unitsFor(s.p.R)
			estimateUnits(&s)
		}
	}
	if s.p.K == nil && !s.e.Closed && spread(s.lengths2, s.units) {
		s.o.shortness = inverseLengths(s.lengths2)
		for j, v := range s.units {
			s.o.shortness[j] /= v
		}
	}
	return decide(ctx, s, "units", unitRules)
}

// chooseMethod applies the table of methods, unless the method has a form of its own.
func chooseMethod(ctx context.Context, s situation) (Solver, error) {
	if s.e.Own != nil {
		if build, choice := s.e.Own(&s); build != nil {
			s.o = s.o.with(choice)
			return build(ctx, s)
		}
	}
	return decide(ctx, s, "method", methodRules)
}

// closedHere reports that the method's steps have a closed form that other units would lose: A is
// not a matrix, whose columns would be scaled in place.
func closedHere(s *situation) bool {
	known := linops.StructureOf(s.p.A)
	return s.e.Normal && known.SolveNormal != nil && known.ScaleColumns == nil && !known.Entries.Known
}

// reweighs reports whether the problem is solved by Newton steps on the loss.
func reweighs(s *situation) bool {
	return s.p.Loss != nil && (s.e.newton || s.e.manifold) && !s.o.Whole && prox.StructureOf(s.p.R).Value != nil
}

// splits reports whether the problem has working sets.
func splits(s *situation) bool {
	r := prox.StructureOf(s.p.R)
	_, dim := s.p.A.Dims()
	if !s.e.Sparse || r.Closure == nil || r.On == nil || dim < minWorking || s.o.Whole || s.p.Loss != nil {
		return false
	}
	none := confine(s.p.Device, s.p.A, nil)
	if none != nil {
		none.release()
	}
	return none != nil
}

// passes reports that a product with A is a pass over a matrix that is not in memory, and the
// solution is found on faces of the regularizer.
func passes(s *situation) bool {
	r := prox.StructureOf(s.p.R)
	return onFaces(s) && linops.StructureOf(s.p.A).Passes.Bytes > 0 && r.Sparse != nil && r.On != nil
}
