package request

import (
	"errors"
	"math"
	"strconv"

	"surepipe/hutch"
	"surepipe/pipeline"
	"surepipe/study"
)

// Trace says how the divergence is estimated.
type Trace struct {
	Estimator string
	Queries   Queries
	// Error is the share of SURE's own error that the trace may add, with automatic queries.
	Error float64
	Seed  uint64
	// ALO makes sure of leave-one-out.
	ALO bool
}

func defaultTrace() Trace {
	return Trace{Estimator: pipeline.Auto, Queries: Queries{hutch.DefaultQueries, true},
		Error: pipeline.DefaultTraceError}
}

// check rejects numbers of probes that the estimator cannot take.
func (t *Trace) check(given func(string) bool) error {
	if err := checkValues(chosen("trace", t.Estimator, append([]string{pipeline.Auto}, hutch.Estimators()...)...),
		value{"queries", t.Queries.N, t.Estimator != pipeline.Auto || t.Queries.N >= 2, "2 or more, or auto"},
	); err != nil {
		return err
	}
	estimator := t.Estimator
	if estimator == pipeline.Auto {
		estimator = hutch.Hutchinson
	}
	if _, err := hutch.NewPlan(estimator, t.Queries.N, math.MaxInt32); err != nil {
		return study.PlanError(err)
	}
	if !t.Queries.Auto && given("trace-error") {
		return study.Errorf("--trace-error is for --queries auto, found --queries %s", &t.Queries)
	}
	return checkValues(value{"trace-error", t.Error, !t.Queries.Auto || positive(t.Error), "a positive number"})
}

// Options sets the estimator and its probes.
func (t *Trace) Options(o *pipeline.Options) {
	o.Estimator, o.Queries, o.Seed, o.ALO = t.Estimator, t.Queries.N, t.Seed, t.ALO
	if t.Queries.Auto {
		o.Queries, o.TraceError = 0, t.Error
	}
}

// Queries is the number of probes; with Auto the trace error decides, and N is the least.
type Queries struct {
	N    int
	Auto bool
}

// Set reads a number or "auto", which leaves n at its default.
func (q *Queries) Set(text string) error {
	if text == "auto" {
		*q = Queries{hutch.DefaultQueries, true}
		return nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return errors.New("expected a number or auto")
	}
	*q = Queries{n, false}
	return nil
}

func (q *Queries) String() string {
	if q.Auto {
		return "auto"
	}
	return strconv.Itoa(q.N)
}

func (q *Queries) Type() string { return "int|auto" }
