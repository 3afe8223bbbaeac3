package hutch

import (
	"fmt"
	"math"
	"strings"

	"surepipe/internal/lists"
)

const (
	HutchPP    = "hutch++"
	Hutchinson = "hutchinson"
	Exact      = "exact"
)

// DefaultQueries is a number of queries that works well for Hutch++: 34 in each of its three
// phases.
const DefaultQueries = 102

// Estimator is one way to estimate a trace. Each is a type in a file of its own, and the table
// behind [Estimators] lists them. An estimator is a value without state.
type Estimator interface {
	// Name is one of the constants above.
	Name() string
	// First is the number of queries to begin with where probes are added until the trace's part of
	// an error is at most the given share of the rest of it. At a share of a tenth that is enough
	// residual probes, 24, to know their spread to 15%; at larger shares it is fewer in
	// proportion to the share's square, but 6, which know it to 32%. It is 0 for the exact trace.
	First(share float64) int

	// layout returns the phases for this number of queries, and what each needs. If the estimator
	// cannot use that number, reason is the rule that it breaks.
	layout(queries int) (l Layout, reason string)
}

// estimators is the table of all estimators.
var estimators = []Estimator{hutchPP{}, hutchinson{}, exact{}}

// Estimators lists the names that [NewPlan] knows.
func Estimators() []string {
	return lists.Map(estimators, Estimator.Name)
}

// ByName returns the estimator of that name, and whether there is one.
func ByName(name string) (Estimator, bool) {
	for _, e := range estimators {
		if e.Name() == name {
			return e, true
		}
	}
	return nil, false
}

// Basis says which vectors the projected phase applies M to.
type Basis int

const (
	// NoBasis: there is no projected phase.
	NoBasis Basis = iota
	// SketchBasis is an orthonormal basis of the span of the sketch's images.
	SketchBasis
	// UnitBasis is the d unit vectors: the trace is exact.
	UnitBasis
)

// Need says on which part of the images M v an estimate depends, so that an oracle that is an iterative method need
// not compute more.
type Need int

const (
	// Images: the images themselves are needed.
	Images Need = iota
	// Forms: the numbers <v, M v> are needed. They depend on the error of conjugate gradients to second
	// order.
	Forms
	// Span: the space that the images of the sketch span is needed, roughly.
	Span
)

// Accuracy is what is needed of images. Those of Forms are too small by at most Share ||v||^2/sqrt(2d): the
// estimate of the trace from random signs, or the sum over all unit vectors, then lacks at most Share sqrt(d/2).
type Accuracy struct {
	Need
	Share float64
}

// Layout describes which phases an estimate has and what each of them needs.
type Layout struct {
	// Sketch is the number of queries that sketch the range of M: probes 0 to Sketch-1.
	Sketch int
	// Basis is what the projected phase applies M to. A SketchBasis has up to Sketch vectors,
	// each of them one query more.
	Basis Basis
	// Residual is the number of sampled probes, those numbered Sketch to Sketch+Residual-1.
	Residual int
	// Needs is what is needed of the images of all vectors but the sketch's, of which the span is.
	Needs Need
}

// Plan is an estimator with its queries laid out for a matrix. [NewPlan] makes one.
type Plan struct {
	// Estimator is what will be computed. It is the exact trace even where a randomized one was
	// asked for, if the matrix is so small that the exact trace costs no more.
	Estimator Estimator
	// Dim is the size d of the matrix.
	Dim int
	Layout
}

// Exact reports whether the estimate is not random.
func (p Plan) Exact() bool { return p.Basis == UnitBasis }

// Vectors is the number of vectors in the largest phase, as far as the plan determines it.
func (p Plan) Vectors() int {
	if p.Exact() {
		return p.Dim
	}
	return max(p.Sketch, p.Residual)
}

// PlanError says which argument of [NewPlan] was refused, and why.
type PlanError struct {
	Argument string // "estimator", "queries" or "dimension"
	Value    any
	Reason   string
}

// Error is "queries 100: hutch++ takes ...".
func (e *PlanError) Error() string {
	return fmt.Sprintf("%s %v: %s", e.Argument, e.Value, e.Reason)
}

// NewPlan lays out the named estimator for a d x d matrix:
//
//	hutch++     a third of the queries each for sketch, basis and residual; queries
//	            must be a multiple of 3, at least 6
//	hutchinson  all queries for the residual; at least 2
//	exact       d queries, one for each unit vector, whatever queries is
//
// Two sampled probes are the fewest that have a standard error. If d <= queries, the plan is the
// exact trace. Errors are of type [*PlanError].
func NewPlan(estimator string, queries, d int) (Plan, error) {
	if d < 1 {
		return Plan{}, &PlanError{"dimension", d, "a matrix has at least one row"}
	}
	e, ok := ByName(estimator)
	if !ok {
		return Plan{}, &PlanError{"estimator", fmt.Sprintf("%q", estimator),
			"expected one of " + strings.Join(Estimators(), ", ")}
	}
	layout, reason := e.layout(queries)
	if reason != "" {
		return Plan{}, &PlanError{"queries", queries, reason}
	}
	if d <= queries {
		e = exact{}
		layout, _ = e.layout(d)
	}
	return Plan{e, d, layout}, nil
}

func firstProbes(share float64) int {
	const most, least, usual = 24, 6, 0.2
	if !(share > usual) {
		return most
	}
	return max(least, int(math.Ceil(most*(usual/share)*(usual/share))))
}
