package stages

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"surepipe/array"
	"surepipe/risk"
	"surepipe/vjp"
)

// unpenalized is the projection Pi on the part of the fit that has no penalty and no place in the
// solver's problem: the intercept, or effects of rows and columns. With
//
//	mu_hat(y) = Pi y + m((I - Pi) y),
//
// m being the solver's estimate, residuals are the solver's, and the Jacobian grows by Pi.
type unpenalized interface {
	// rank is that of Pi.
	rank() int
	// split returns (I - Pi) y and what adds Pi y to a vector.
	split(y []float64) (rest []float64, add func(mu []float64))
	// diagonal is that of Pi.
	diagonal(i int) float64
	// determined marks the observations at which Pi_ii is 1; nil where there are none.
	determined() []bool
	// named says what the part is, and where the columns of A have something of it why, for errors.
	named() (part, why string)
}

// unpenalizedOf is that of a problem, nil where there is none.
func unpenalizedOf(p vjp.Problem) unpenalized {
	switch {
	case p.Effects != nil:
		return effects{p}
	case p.Intercept:
		d, _ := p.A.Dims()
		return intercept{d}
	}
	return nil
}

// intercept is the projection on the constants.
type intercept struct{ d int }

func (intercept) rank() int              { return 1 }
func (p intercept) diagonal(int) float64 { return 1 / float64(p.d) }
func (intercept) determined() []bool     { return nil }

func (intercept) named() (part, why string) {
	return "intercept", "the columns of A are not centered"
}

func (intercept) split(y []float64) ([]float64, func([]float64)) {
	mean := stat.Mean(y, nil)
	rest := slices.Clone(y)
	floats.AddConst(-mean, rest)
	return rest, func(mu []float64) { floats.AddConst(mean, mu) }
}

// effects is the projection on those of rows and columns.
type effects struct{ p vjp.Problem }

func (e effects) rank() int              { return e.p.Effects.Rank() }
func (e effects) diagonal(i int) float64 { return e.p.Effects.Diagonal()[i] }
func (e effects) determined() []bool     { return e.p.Effects.Determined() }

func (effects) named() (part, why string) {
	return "effects of rows and columns", "the columns of A are not those without the effects"
}

func (e effects) split(y []float64) ([]float64, func([]float64)) {
	dev := e.p.Device.Request()
	z := dev.Alloc(1, len(y))
	defer z.Free()
	dev.Upload(z, y)
	e.p.Effects.Remove(z)
	rest := z.ToHost()
	fit := make([]float64, len(y))
	floats.SubTo(fit, y, rest)
	return rest, func(mu []float64) { floats.Add(mu, fit) }
}

// Observations puts the y that a solver of the problem is given on dev: without the part of the fit
// that has no penalty, the mean where the problem has an intercept and the fit of the effects where it
// has these. add adds that part to an estimate; it is nil where there is none. The caller frees y, and
// does not modify it: it may be the slice itself.
func Observations(dev array.Device, p vjp.Problem, values []float64) (y array.Batch, add func(mu []float64)) {
	if u := unpenalizedOf(p); u != nil {
		values, add = u.split(values)
	}
	return dev.Put(values, 1, len(values)), add
}

// addUnpenalized adds the part without a penalty to the solver's estimate, in which there must be
// nothing of it.
func (j *Job) addUnpenalized(muHat []float64) error {
	const most = 1e-6
	u := unpenalizedOf(j.problem)
	rest, _ := u.split(muHat)
	if part := floats.Distance(rest, muHat, 2); part > most*(floats.Norm(muHat, 2)+math.Sqrt(j.residual)) {
		of, why := u.named()
		return fmt.Errorf("the estimate has a part of size %g that belongs to the %s, expected none: %s", part, of, why)
	}
	j.add(muHat)
	return nil
}

// withUnpenalized is the diagonal of D mu_hat by that of the solver's part. Observations that determine
// an effect keep 0, and are not left out: see forLeaving.
func (j *Job) withUnpenalized(diagonal []float64) []float64 {
	u := unpenalizedOf(j.problem)
	if u == nil {
		return diagonal
	}
	if j.problem.Effects == nil {
		return risk.InterceptDiagonal(diagonal)
	}
	with := slices.Clone(diagonal)
	for i := range with {
		with[i] += share(u, i)
	}
	return with
}

// share is the part of Pi in the leverage of observation i.
func share(u unpenalized, i int) float64 {
	if d := u.determined(); d != nil && d[i] {
		return 0
	}
	return u.diagonal(i)
}

// notLeftOut is the number of observations that determine an effect alone: without one of them its
// effect is not known, and leave-one-out is about the others.
func (j *Job) notLeftOut() (n int) {
	if u := unpenalizedOf(j.problem); u != nil {
		for _, v := range u.determined() {
			if v {
				n++
			}
		}
	}
	return n
}

// forLeaving are residuals for leave-one-out. Those of observations that determine an effect are 0,
// and the squares of the others are scaled such that means over all observations are means over the
// others.
func (j *Job) forLeaving(residuals []float64) []float64 {
	n := j.notLeftOut()
	if n == 0 {
		return residuals
	}
	d := float64(len(residuals))
	floats.Scale(math.Sqrt(d/(d-float64(n))), residuals)
	for i, v := range unpenalizedOf(j.problem).determined() {
		if v {
			residuals[i] = 0
		}
	}
	return residuals
}
