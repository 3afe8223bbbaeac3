package solve

import (
	"context"
	"fmt"
	"slices"

	"surepipe/linops"
	"surepipe/loss"
	"surepipe/prox"
	"surepipe/solve/active"
	"surepipe/solve/direct"
	"surepipe/solve/engine"
	"surepipe/solve/gradient"
	"surepipe/solve/interior"
	"surepipe/solve/lowrank"
	"surepipe/solve/manifold"
	"surepipe/solve/restrict"
	"surepipe/solve/rewrite"
	"surepipe/solve/splitting"
)

// Choices between methods and between forms of a problem are made in this file; a method chooses among its own forms by
// a table beside it. A table is read from the top: the first rule that applies is taken, and recorded as a [Choice].
//
// The coordinates are chosen first, then the units of K's rows, the loss, the units of the columns, and the
// form of the method.

type rule[T any] struct {
	chosen, reason string
	applies        func(s *engine.Task) bool
	then           T
}

type builder = func(ctx context.Context, s engine.Task) (Solver, error)

func first[T any](rules []rule[T], part string, s *engine.Task) (T, Choice) {
	r := rules[slices.IndexFunc(rules, func(r rule[T]) bool { return r.applies(s) })]
	return r.then, Choice{Part: part, Chosen: r.chosen, Reason: r.reason}
}

var lossRules = []rule[builder]{
	{"squared",
		"the loss is 1/2 ||A b - y||^2",
		func(s *engine.Task) bool { return s.Weights == nil && s.Quadratic }, chooseUnits},
	{"whitened",
		"a weighted squared loss is the squared loss of sqrt(w) A and sqrt(w) y",
		func(s *engine.Task) bool { return s.Quadratic }, rewrite.ByWeights},
	{"its gradient", "the loss is not quadratic", always, chooseUnits},
}

// rowRules is for problems with r(K b).
var rowRules = []rule[builder]{
	{"the user's",
		"the lengths of K's rows are not known",
		func(s *engine.Task) bool { return s.RowLengths2 == nil }, chooseLoss},
	{"the user's",
		"the rows of K differ in length by at most a factor of 8",
		func(s *engine.Task) bool { return !engine.Spread(s.RowLengths2, nil) }, chooseLoss},
	{"rows of about unit length",
		"the rows of K differ in length by more than a factor of 8, and one step size is to suit them all",
		func(s *engine.Task) bool { return s.RowUnits != nil }, rewrite.ByRows},
	{"the user's",
		"the rows of K differ in length, but the regularizer allows for no other units",
		always, chooseLoss},
}

// coordinateRules is for problems with r(K b).
var coordinateRules = []rule[builder]{
	{"K b and a few of b's",
		"r is a sum over coordinates, A is a matrix and so is K, with no more rows than columns: unless " +
			"these depend on each other, the problem is a regression in K b, for active sets",
		rewrite.AsksForSynthesis, rewrite.ByCoordinates},
	{"b's",
		"a method with a dual variable for K b is asked for, or K b and a few of b's entries are no " +
			"coordinates for b",
		always, chooseRows},
}

var unitRules = []rule[builder]{
	{"the user's",
		"the factorization scales the columns itself",
		func(s *engine.Task) bool { return s.Entry.Closed }, chooseMethod},
	{"the user's",
		"r(K b) ties the columns of A together, and these are about equally long, or K has a structure that " +
			"other units would lose",
		func(s *engine.Task) bool { return s.Problem.K != nil && s.Units == nil }, chooseMethod},
	{"the user's",
		"the lengths of A's columns are not known, and differ little as far as products with it show, or the " +
			"regularizer allows for no other units",
		func(s *engine.Task) bool { return s.Lengths2 == nil && !s.Even }, chooseMethod},
	{"the user's",
		"the columns of A differ in length by at most a factor of 8",
		func(s *engine.Task) bool { return !s.Uneven }, chooseMethod},
	{"the user's",
		"the method solves the normal equations, which have a closed form in these units only",
		closedHere, chooseMethod},
	{"columns of about unit length",
		"the columns of A differ in length by more than a factor of 8",
		func(s *engine.Task) bool { return s.Units != nil }, rewrite.ByColumns},
	{"the user's",
		"the columns of A differ in length, but the regularizer allows for no other units: subgradients are " +
			"measured column by column",
		always, chooseMethod},
}

var methodRules = []rule[builder]{
	{"closed form",
		"the regularizer and the loss are quadratic",
		func(s *engine.Task) bool { return s.Entry.Closed }, engine.NewPlain},
	{"a dual variable for K b",
		"r(K b) has no proximal operator of its own: that of r is used, and the duality gap decides when the " +
			"solve is done",
		func(s *engine.Task) bool { return s.Problem.K != nil }, engine.NewDualized},
	{"active sets on columns in memory",
		"A has many columns, or is read from a disk: few products with all of it find the columns that matter, and " +
			"verify the solutions of several weights at once",
		passes, active.NewScreened},
	{"Newton steps on the loss",
		"the loss is not quadratic: near a point it is the squared loss of sqrt(l'') A, which the method " +
			"solves",
		reweighs, active.NewReweighted},
	{"iterates in factored form",
		"A picks entries of a matrix and r is its nuclear norm: solutions have low rank; the weight falls to " +
			"lambda in steps, with Newton steps at the rank or, where it is large, for the factors",
		func(s *engine.Task) bool { return lowrank.Completion(s) != nil }, lowrank.NewCompletion},
	{"iterates in factored form, without the sparse part",
		"A adds a tall matrix under a nuclear norm and one under an l1 norm: the latter is a function of the " +
			"former, which has low rank",
		func(s *engine.Task) bool { return lowrank.BesideSparse(s) != nil }, lowrank.NewRobust},
	{"active sets, with the Gram matrix of all columns",
		"the loss is squared, r is a sum over coordinates or of norms of groups, and A has many more rows than " +
			"columns: gradients take products with the Gram matrix, which all weights share",
		active.Tall, active.NewTall},
	{"active sets",
		"the loss is squared and r is a sum of |b_j|, b_j^2 and b_j >= 0: given the signs, the solution is " +
			"that of a linear system",
		func(s *engine.Task) bool { return active.OnFaces(s) && prox.StructureOf(s.Problem.R).Sparse != nil },
		active.New},
	{"active sets of groups",
		"the loss is squared and r is a sum of norms of groups: given the groups that are not 0, the problem " +
			"is smooth",
		active.OnFaces, active.New},
	{"iterations of fista",
		"the derivative of every iteration is wanted",
		func(s *engine.Task) bool { return s.Entry.ActiveSet && s.Options.Whole }, engine.NewPlain},
	{"a working set",
		"r splits over coordinates and A can be restricted to columns: solutions are sparse",
		splits, gradient.NewWorkingSet},
	{"all coordinates",
		"r does not split over coordinates, or they are few: Newton steps find its manifold",
		func(s *engine.Task) bool { return s.Entry.Manifold && !s.Options.Whole }, engine.NewPlain},
	{"all coordinates",
		"the derivative of every iteration is wanted",
		func(s *engine.Task) bool { return s.Options.Whole }, engine.NewPlain},
	{"all coordinates", "the problem has no structure that the method can use", always, engine.NewPlain},
}

type defaultRule struct {
	method  Entry
	reason  string
	applies func(p Problem) bool
}

var defaultRules = []defaultRule{
	{direct.Entry,
		"r is a sum of squares, behind K or not, and A and K can be factorized together: one factorization " +
			"is exact",
		direct.Closable},
	{interior.Entry,
		"r stands behind differences of neighbours, and is a sum over coordinates, and A*A is diagonal: " +
			"Newton steps take a banded matrix, and any condition of K",
		interior.Sequence},
	{interior.Entry,
		"r stands behind a sparse K, and is a sum over coordinates or of norms of groups, and A*A is a " +
			"multiple of the identity: Newton steps take a sparse matrix, and any condition of K",
		interior.Sparse},
	{splitting.Dual,
		"r stands behind an operator K, and A*A is a multiple of the identity: the dual has a simple gradient",
		func(p Problem) bool {
			return p.K != nil && p.Loss == nil && linops.StructureOf(p.A).Columns.Value > 0
		}},
	{active.Entry,
		"r stands behind a matrix K with no more rows than columns, and is a sum over coordinates, and A is " +
			"a matrix: unless K's rows depend on each other it is a regression in K b",
		rewrite.Synthesizes},
	{interior.Entry,
		"r stands behind a small operator K, and is a sum over coordinates: Newton steps take any condition " +
			"of A and K",
		interior.Small},
	{interior.Entry,
		"r stands behind differences of the pixels of an image, and A is an operator: where ADMM does not end soon, " +
			"Newton steps do, with a sparse matrix where A picks pixels, and else by conjugate gradients that it " +
			"preconditions",
		interior.Iterated},
	{interior.Entry,
		"r stands behind a sparse K, and is a sum over coordinates or of norms of groups, and A is a matrix of at " +
			"most 4096 columns: Newton steps take any condition of A and K",
		interior.Matrix},
	{splitting.ADMM,
		"r stands behind an operator K: given K b, a step solves a linear system",
		func(p Problem) bool { return p.K != nil }},
	{active.Entry,
		"near a point the loss is quadratic, the regularizer is a sum of |b_j|, b_j^2 and b_j >= 0, or of " +
			"norms of groups, and A is a matrix whose columns are at hand",
		func(p Problem) bool { return !loss.Quadratic(p.Loss) && sparseRegression(p) }},
	{manifold.Entry,
		"near a point the loss is quadratic, r is partly smooth, and A is a small matrix",
		func(p Problem) bool { return !loss.Quadratic(p.Loss) && partlySmooth(p) }},
	{gradient.FISTA,
		"the loss is not quadratic: a gradient step is never exact",
		func(p Problem) bool { return !loss.Quadratic(p.Loss) }},
	{gradient.FISTA, "the regularizer is quadratic, but A has no matrix or too large a one", quadraticPenalty},
	{gradient.ISTA,
		"A*A is a multiple of the identity: one step from any point is the solution",
		func(p Problem) bool { return p.Loss == nil && linops.StructureOf(p.A).Columns.Value > 0 }},
	{active.Entry,
		"the regularizer is a sum of |b_j|, b_j^2 and b_j >= 0, or of norms of groups, and A is a matrix " +
			"whose columns are at hand",
		sparseRegression},
	{active.Entry,
		"the regularizer is a sum of |b_j|, b_j^2 and b_j >= 0, and A has few columns: those that matter are " +
			"formed by products with it",
		fewColumns},
	{manifold.Entry,
		"r is partly smooth, and A is a small matrix: Newton steps on the manifold cost little, and converge " +
			"for any columns",
		partlySmooth},
	{gradient.FISTA,
		"it is the fastest of those that need no more than products with A and the prox",
		func(Problem) bool { return true }},
}

// Default is the name of the solver for a problem where nobody chooses one.
func Default(p Problem) string {
	i := slices.IndexFunc(defaultRules, func(r defaultRule) bool { return r.applies(p) })
	return defaultRules[i].method.Name
}

// without is the same where the solver of the given name does not serve.
func without(solver string, p Problem) Entry {
	i := slices.IndexFunc(defaultRules, func(r defaultRule) bool { return r.method.Name != solver && r.applies(p) })
	return defaultRules[i].method
}

func quadraticPenalty(p Problem) bool { return prox.StructureOf(p.R).Quadratic.Known }

// sparseRegression reports that active sets suit the problem. Where more coordinates become active
// than a Gram matrix is kept for, fista goes on.
func sparseRegression(p Problem) bool {
	a := linops.StructureOf(p.A)
	return active.Serves(p.R) && a.Entries.Known
}

// mostFormed is the largest number of columns that active sets form by products.
const mostFormed = 1024

// fewColumns reports that active sets suit a problem whose A is an operator.
func fewColumns(p Problem) bool {
	_, dim := p.A.Dims()
	return dim <= mostFormed && active.Serves(p.R) && prox.StructureOf(p.R).Sparse != nil &&
		linops.StructureOf(p.A).Passes.Bytes == 0
}

func partlySmooth(p Problem) bool {
	d, dim := p.A.Dims()
	r := prox.StructureOf(p.R)
	most := mostManifold
	if r.Closure != nil {
		most = mostSplit
	}
	return r.Value != nil && r.Follow == nil && linops.StructureOf(p.A).Entries.Known && min(d, dim) <= most
}

// finishers go on where active sets have come to an end before the tolerance: columns depend on each other but for
// rounding errors, or the working set is large.
var finishers = []rule[Entry]{
	{"finished by proximal points",
		"Newton steps on groups came to an end before the tolerance: columns depend on each other but for " +
			"rounding errors, which steps of proximal points allow for, or the working set is large",
		func(s *engine.Task) bool { return prox.StructureOf(s.Problem.R).Groups != nil }, manifold.Entry},
	{"finished by fista",
		"Newton steps came to an end before the tolerance: columns depend on each other but for rounding " +
			"errors, or the working set is large",
		always, gradient.FISTA},
}

func finishing(s *engine.Task) (Entry, Choice) { return first(finishers, "method", s) }

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
var allTables = engine.Tables{Rows: chooseRows, Loss: chooseLoss, Units: chooseUnits, Method: chooseMethod,
	Behind: splitting.ADMM, Instead: without, Finish: finishing}

func always(*engine.Task) bool { return true }

func decide(ctx context.Context, s engine.Task, part string, rules []rule[builder]) (Solver, error) {
	build, choice := first(rules, part, &s)
	s.Options = s.Options.With(choice)
	return build(ctx, s)
}

func build(ctx context.Context, e Entry, p Problem, o Options) (Solver, error) {
	s := engine.Task{Entry: e, Problem: p, Options: o, Loss: p.Loss, Weights: loss.Weighing(p.Loss),
		Quadratic: loss.Quadratic(p.Loss), Tables: &allTables}
	if s.Quadratic {
		s.Problem.Loss = nil
	} else {
		s.Options.Sigma2 = 0 // a likelihood has no noise but its own
	}
	if d, _ := p.A.Dims(); s.Weights != nil && len(s.Weights) != d {
		return nil, fmt.Errorf("solve: %d weights of observations for an operator with %d rows", len(s.Weights), d)
	}
	switch {
	case p.K == nil || e.Closed: // a factorization does not depend on the units of K's rows
		return chooseLoss(ctx, s)
	case s.Entry.ActiveSet:
		return decide(ctx, s, "coordinates", coordinateRules)
	}
	return chooseRows(ctx, s)
}

func chooseRows(ctx context.Context, s engine.Task) (Solver, error) {
	if s.RowLengths2 == nil {
		s.RowLengths2 = rewrite.RowLengths2(s.Problem)
	}
	s.RowUnits = rewrite.RowUnits(s.Problem.R, s.RowLengths2)
	return decide(ctx, s, "rows", rowRules)
}

func chooseLoss(ctx context.Context, s engine.Task) (Solver, error) {
	return decide(ctx, s, "loss", lossRules)
}

func chooseUnits(ctx context.Context, s engine.Task) (Solver, error) {
	s.Family, s.Bound = new(engine.Family), nil
	if s.Even = engine.EvenColumns(s.Problem.A); !s.Entry.Closed && !s.Even && !s.Tied() {
		s.Lengths2 = engine.ColumnLengths2(s.Problem)
		s.Uneven = engine.Spread(s.Lengths2, nil)
		if !closedHere(&s) {
			s.Units = s.UnitsFor(s.Problem.R)
			rewrite.EstimateUnits(&s)
		}
	}
	if s.Problem.K == nil && !s.Entry.Closed && engine.Spread(s.Lengths2, s.Units) {
		s.Options.InverseLengths = engine.InverseLengths(s.Lengths2)
		for j, v := range s.Units {
			s.Options.InverseLengths[j] /= v
		}
	}
	return decide(ctx, s, "units", unitRules)
}

func chooseMethod(ctx context.Context, s engine.Task) (Solver, error) {
	if s.Entry.Own != nil {
		if build, choice := s.Entry.Own(&s); build != nil {
			s.Options = s.Options.With(choice)
			return build(ctx, s)
		}
	}
	return decide(ctx, s, "method", methodRules)
}

// closedHere reports that the method's steps have a closed form that other units would lose: A is
// not a matrix, whose columns would be scaled in place.
func closedHere(s *engine.Task) bool {
	known := linops.StructureOf(s.Problem.A)
	return s.Entry.Normal && known.SolveNormal != nil && known.ScaleColumns == nil && !known.Entries.Known
}

func reweighs(s *engine.Task) bool {
	return s.Problem.Loss != nil && (s.Entry.ActiveSet || s.Entry.Manifold) && !s.Options.Whole &&
		prox.StructureOf(s.Problem.R).Value != nil
}

func splits(s *engine.Task) bool {
	r := prox.StructureOf(s.Problem.R)
	_, dim := s.Problem.A.Dims()
	if !s.Entry.Sparse || r.Closure == nil || r.On == nil || r.Quadratic.Known || dim < minWorking || s.Options.Whole ||
		s.Problem.Loss != nil {
		return false
	}
	none := restrict.Confine(s.Problem.Device, s.Problem.A, nil)
	if none != nil {
		none.Release()
	}
	return none != nil
}

// passes reports that a product with A is a pass over a matrix that is not in memory or wide, and the
// solution is found on faces of the regularizer.
func passes(s *engine.Task) bool {
	r := prox.StructureOf(s.Problem.R)
	return s.Entry.ActiveSet && !s.Options.Whole && active.Serves(s.Problem.R) && active.Wide(s.Problem.A) &&
		r.On != nil && (s.Problem.Loss == nil || r.Value != nil)
}
