package hutch

import (
	"fmt"
	"strings"
)

// The names of the estimators.
const (
	HutchPP    = "hutch++"
	XTrace     = "xtrace"
	XNysTrace  = "xnystrace"
	NAHutchPP  = "na-hutch++"
	Hutchinson = "hutchinson"
	Exact      = "exact"
)

// DefaultQueries is the number of queries that serves Hutch++ well: 34 in each
// of its three phases.
const DefaultQueries = 102

// Estimators lists the names that [NewPlan] knows.
func Estimators() []string {
	return []string{HutchPP, XTrace, XNysTrace, NAHutchPP, Hutchinson, Exact}
}

// Adaptive says that probes can be added to the named estimator's until its error is
// small enough: its estimate is a mean over independent probes.
func Adaptive(estimator string) bool { return estimator == HutchPP || estimator == Hutchinson }

// Plan is an estimator with its queries laid out. [NewPlan] makes one.
type Plan struct {
	// Estimator is the name of what will be computed: that of the exact trace
	// also where a randomized one was asked for and the matrix is so small that
	// the exact one costs no more.
	Estimator string
	// Dim is the size d of the matrix.
	Dim int
	// Sketch is the number of queries that look for the range of M: probes 0 to
	// Sketch-1. Where the estimator [Plan.NeedsBasis] there are up to as many queries
	// again, one for each vector of the basis found.
	Sketch int
	// Residual is the number of sampled probes, those numbered Sketch to
	// Sketch+Residual-1.
	Residual int
	// Exact says that the basis is the d unit vectors; then Sketch and
	// Residual are 0.
	Exact bool
}

// NeedsBasis says that M is applied to an orthonormal basis of the sketch.
func (p Plan) NeedsBasis() bool { return p.Estimator == HutchPP || p.Estimator == XTrace }

// Combines says that the estimate takes products of all images with each other,
// [Combine], and that sketch, basis and the images of the basis have to be kept until
// then. The estimates of the other plans are sums over vectors, which a [Tally] adds up.
func (p Plan) Combines() bool {
	return p.Estimator == XTrace || p.Estimator == XNysTrace || p.Estimator == NAHutchPP
}

// SpanOnly says that of the sketch's images only the span matters.
func (p Plan) SpanOnly() bool { return p.Estimator == HutchPP }

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
//	xtrace      half of the queries for the sketch, half for the basis; an even
//	            number, at least 4
//	xnystrace   all queries for the sketch; at least 2
//	na-hutch++  all queries for the sketch; a multiple of 6
//	hutchinson  all queries for the residual; at least 2
//	exact       d queries, one a unit vector, whatever queries is
//
// Two sampled probes are the fewest that have a standard error. With d <=
// queries each is the exact trace. Errors are of type [*PlanError].
func NewPlan(estimator string, queries, d int) (Plan, error) {
	var plan Plan
	switch {
	case d < 1:
		return Plan{}, &PlanError{"dimension", d, "a matrix has at least one row"}
	case estimator == HutchPP:
		if queries < 6 || queries%3 != 0 {
			return Plan{}, &PlanError{"queries", queries, hutchPPReason(queries)}
		}
		plan = Plan{Estimator: HutchPP, Dim: d, Sketch: queries / 3, Residual: queries / 3}
	case estimator == XTrace:
		if queries < 4 || queries%2 != 0 {
			return Plan{}, &PlanError{"queries", queries, "xtrace takes an even number (half for the sketch, half for its basis), at least 4"}
		}
		plan = Plan{Estimator: XTrace, Dim: d, Sketch: queries / 2}
	case estimator == XNysTrace:
		if queries < 2 {
			return Plan{}, &PlanError{"queries", queries, "xnystrace takes 2 or more: fewer have no standard error"}
		}
		plan = Plan{Estimator: XNysTrace, Dim: d, Sketch: queries}
	case estimator == NAHutchPP:
		if queries < 6 || queries%6 != 0 {
			return Plan{}, &PlanError{"queries", queries, "na-hutch++ takes a multiple of 6 (it splits its probes 1:2:3), at least 6"}
		}
		plan = Plan{Estimator: NAHutchPP, Dim: d, Sketch: queries}
	case estimator == Hutchinson:
		if queries < 2 {
			return Plan{}, &PlanError{"queries", queries, "hutchinson takes 2 or more: fewer have no standard error"}
		}
		plan = Plan{Estimator: Hutchinson, Dim: d, Residual: queries}
	case estimator == Exact:
		queries = d
	default:
		return Plan{}, &PlanError{"estimator", fmt.Sprintf("%q", estimator), "expected one of " + strings.Join(Estimators(), ", ")}
	}
	if d <= queries {
		plan = Plan{Estimator: Exact, Dim: d, Exact: true}
	}
	return plan, nil
}

func hutchPPReason(queries int) string {
	if queries < 6 {
		return "hutch++ takes a multiple of 3 (it has three phases of equal size), at least 6"
	}
	below := queries / 3 * 3
	return fmt.Sprintf("hutch++ takes a multiple of 3 (it has three phases of equal size), such as %d or %d", below, below+3)
}
