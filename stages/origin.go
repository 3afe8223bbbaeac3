package stages

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"surepipe/array"
	"surepipe/solve/engine"
	"surepipe/vjp"
)

// A solver's problem may have been made from another one by a rewriting, its Origin. A job solves and differentiates
// the problem as it is; its results are those of the other one.

// Observations puts on dev the y that a solver of the problem is given, by those of the problem that was asked for.
// The caller frees it, and does not modify it: it may be the slice itself.
func Observations(dev array.Device, p vjp.Problem, values []float64) array.Batch {
	y := dev.Put(values, 1, len(values))
	z, own := p.Rewriting().Data(y)
	if own {
		y.Free()
	}
	return z
}

func (j *Job) asked(c engine.Closed) engine.Closed { return j.problem.Rewriting().Closed(c) }

func (j *Job) rewritten() bool { return j.problem.Origin != nil }

func (j *Job) deliver(muHat []float64) error {
	dev := j.view
	mu, y := dev.Alloc(1, len(muHat)), dev.Put(j.Y, 1, len(j.Y))
	defer array.Free(mu, y)
	dev.Upload(mu, muHat)
	if err := j.problem.Rewriting().Deliver(array.Batch{}, mu, y); err != nil {
		return err
	}
	dev.Download(muHat, mu)
	return dev.Err()
}

// diagonalOf is the diagonal by that of the solver's derivative, with 0 for determined observations.
func (j *Job) diagonalOf(inner []float64) []float64 {
	if !j.rewritten() {
		return inner
	}
	c := j.asked(engine.Closed{Diagonal: slices.Clone(inner)})
	j.clear(c.Diagonal)
	return c.Diagonal
}

// determined marks the observations without which something in the fit is not known: leave-one-out is about the
// others. It is nil where there are none.
func (j *Job) determined() []bool { return j.asked(engine.Closed{}).Determined }

func (j *Job) notLeftOut() (n int) {
	for _, v := range j.determined() {
		if v {
			n++
		}
	}
	return n
}

// forLeaving makes residuals those for leave-one-out. Those of determined observations are 0, and the squares of the
// others are scaled such that means over all observations are means over the others.
func (j *Job) forLeaving(residuals []float64) []float64 {
	if n := j.notLeftOut(); n > 0 {
		d := float64(len(residuals))
		floats.Scale(math.Sqrt(d/(d-float64(n))), residuals)
		j.clear(residuals)
	}
	return residuals
}

func (j *Job) clear(values []float64) {
	for i, v := range j.determined() {
		if v {
			values[i] = 0
		}
	}
}
