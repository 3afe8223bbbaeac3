package pipeline

import (
	"context"
	"fmt"

	"surepipe/hutch"
	"surepipe/stages"
)

// Division divides the probes of one sample: see [Pipeline.EstimateDivided].
type Division = stages.Division

// DividedProbe are the values of one probe of a [Division].
type DividedProbe = stages.DividedProbe

// Fit has hashes of a solution.
type Fit = stages.Fit

// NewDivision divides total probes ([Pipeline.Probes]), of which first to end-1 are computed by the
// calls that share it.
func NewDivision(first, end, total int) *Division { return stages.NewDivision(first, end, total) }

// Probes is the number of probes of a sample, as far as they can be divided: the estimator must be
// hutch.Hutchinson with a fixed number of queries, or hutch.Exact. The error says why they cannot.
func (p *Pipeline) Probes() (int, error) {
	switch {
	case p.closed:
		return 0, refuse("Estimator", p.o.Estimator,
			"the trace is taken in closed form where there is one, so that the number of probes is not known "+
				"before the solve: choose %s with a number of queries, or %s", hutch.Hutchinson, hutch.Exact)
	case !p.plan.Divisible():
		return 0, refuse("Estimator", p.o.Estimator,
			"the probes of %s depend on each other and cannot be divided: choose %s or %s", p.o.Estimator,
			hutch.Hutchinson, hutch.Exact)
	case p.o.TraceError > 0 && p.plan.Residual > 0:
		return 0, refuse("TraceError", p.o.TraceError,
			"the number of probes follows from their spread and is not known before: give a number of queries")
	}
	return p.plan.Vectors(), nil
}

// EstimateDivided is [Pipeline.Estimate] with the probes divided: among other calls that share d, of
// pipelines with the same estimator and options on the same or another device; and, where d is a part
// of the probes, among processes. Each call solves the problem, and computes probes that no other has
// claimed. The result has the bits of Estimate, for any division; each call returns it. If d
// is a part, the values of its probes go to d.Taken, and the result has only Index, D, Convergence,
// Derivative and Solve; it is not verified.
//
// A call that fails gives its probes up to the others.
func (p *Pipeline) EstimateDivided(ctx context.Context, y []float64, d *Division) (Risk, error) {
	if !p.plan.Divisible() {
		_, err := p.Probes()
		return Risk{}, err
	}
	if n := d.Total(); n < p.plan.Vectors() {
		return Risk{}, fmt.Errorf("pipeline: a division of %d probes, expected %d", n, p.plan.Vectors())
	}
	divided := &Pipeline{solver: p.solver, dev: p.dev, d: p.d, o: p.o, plan: p.plan, closed: p.closed,
		workers: p.workers}
	divided.o.division = d
	if !d.Whole() {
		divided.o.Verify = nil
	}
	return divided.Estimate(ctx, y)
}
