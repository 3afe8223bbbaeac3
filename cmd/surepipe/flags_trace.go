package main

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"surepipe/hutch"
	"surepipe/internal/dataio/ndarray"
	"surepipe/pipeline"
)

// traceFlags say how the divergence is estimated.
type traceFlags struct {
	trace      string
	queries    queryCount
	traceError float64
	seed       uint64
	alo        bool
}

func (f *traceFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.trace, "trace", pipeline.Auto, "estimator of the divergence: auto (exact where there is a "+
		"closed form, else hutchinson), "+strings.Join(hutch.Estimators(), ", "))
	f.queries = queryCount{hutch.DefaultQueries, true}
	flags.Var(&f.queries, "queries", "products with the Jacobian that the trace estimator may use, or auto: as "+
		"many as --trace-error requires, 24 or more where it is 0.1 and 6 or more from 0.2 on (hutchinson and "+
		"hutch++ only; the other estimators take 102 by default)")
	flags.Float64Var(&f.traceError, "trace-error", pipeline.DefaultTraceError,
		"with --queries auto: stop when the trace's contribution to SURE's standard error is this share of "+
			"SURE's own; where sigma2 is unknown, sigma2_df stands in for it")
	flags.Uint64Var(&f.seed, "seed", 0, "seed of the trace estimator's probes")
	flags.BoolVar(&f.alo, "alo", false, "make sure of alo, the error of predicting an observation that is left "+
		"out, without refits, also where the divergence takes no probes: by the exact diagonal of the derivative "+
		"where that is cheap or with --trace exact, else by 48 probes")
}

// check rejects numbers of probes that the estimator cannot take.
func (f *traceFlags) check(changed func(flag string) bool) error {
	switch {
	case f.trace != pipeline.Auto && !slices.Contains(hutch.Estimators(), f.trace):
		return usagef("--trace is %q, expected auto or one of %s%s",
			f.trace, strings.Join(hutch.Estimators(), ", "), ndarray.Meant(f.trace, hutch.Estimators()))
	case f.trace == pipeline.Auto && f.queries.n < 2:
		return usagef("--queries is %d, expected 2 or more, or auto", f.queries.n)
	}
	estimator := f.trace
	if estimator == pipeline.Auto {
		estimator = hutch.Hutchinson
	}
	adaptive := f.trace == hutch.Exact
	if e, ok := hutch.ByName(estimator); ok && e.First(f.traceError) > 0 {
		adaptive = true
	}
	if !adaptive && !changed("queries") {
		f.queries.auto = false
	}
	if _, err := hutch.NewPlan(estimator, f.queries.n, math.MaxInt32); err != nil {
		return planError(err)
	}
	switch {
	case !f.queries.auto && changed("trace-error"):
		return usagef("--trace-error is for --queries auto, found --queries %s", &f.queries)
	case f.queries.auto && (!(f.traceError > 0) || math.IsInf(f.traceError, 0)):
		return usagef("--trace-error is %g, expected a positive number", f.traceError)
	case f.queries.auto && !adaptive:
		return usagef("--queries is auto, but %s takes a fixed number: expected a number, or --trace hutch++ or "+
			"hutchinson",
			f.trace)
	}
	return nil
}

// options sets the estimator and its probes.
func (f *traceFlags) options(o *pipeline.Options) {
	o.Estimator, o.Queries, o.Seed, o.ALO = f.trace, f.queries.n, f.seed, f.alo
	if f.queries.auto {
		o.Queries, o.TraceError = 0, f.traceError
	}
}

// queryCount is the value of --queries.
type queryCount struct {
	n    int
	auto bool
}

// Set reads a number or "auto", which leaves n at its default.
func (q *queryCount) Set(text string) error {
	if text == "auto" {
		*q = queryCount{hutch.DefaultQueries, true}
		return nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return errors.New("expected a number or auto")
	}
	*q = queryCount{n, false}
	return nil
}

func (q *queryCount) String() string {
	if q.auto {
		return "auto"
	}
	return strconv.Itoa(q.n)
}

// Type is its name in the help.
func (q *queryCount) Type() string { return "int|auto" }

// planError names the flag of the argument that a trace estimator rejects.
func planError(err error) error {
	var refused *hutch.PlanError
	if !errors.As(err, &refused) {
		return err
	}
	flag := map[string]string{"estimator": "--trace", "queries": "--queries"}[refused.Argument]
	return usagef("%s is %v: %s", flag, refused.Value, refused.Reason)
}
