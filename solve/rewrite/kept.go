package rewrite

import (
	"gonum.org/v1/gonum/floats"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/loss"
	"surepipe/prox"
	"surepipe/solve/engine"
)

// Kept is a problem in which only some of the observations are fitted,
//
//	min_b  sum_(i in rows) l_i((A b)_i; y_i) + share r(K b),   share = |rows|/d,
//
// with those of its terms without a penalty that these determine. The share of r leaves the two parts in the proportion
// that they have with all observations.
type Kept struct {
	problem engine.Problem
	rows    []int
	share   float64
	whole   linops.Operator
	terms   func(z []float64) []float64 // nil for none
	frees   []func()
}

// Keep keeps the observations at increasing places.
func Keep(p engine.Problem, rows []int) (_ *Kept, err error) {
	d, _ := p.A.Dims()
	k := &Kept{problem: p, rows: rows, share: float64(len(rows)) / float64(d), whole: p.A}
	defer func() {
		if err != nil {
			k.Release()
		}
	}()
	own := func(free func()) { k.frees = append(k.frees, free) }
	var free func()
	if k.problem.Loss, free, err = loss.Pick(p.Device, p.Loss, rows); err != nil {
		return nil, err
	}
	own(free)
	k.problem.Origin = nil
	if from, ok := p.Origin.(*projected); ok {
		some, err := from.pi.Pick(p.Device, p.A, rows)
		if err != nil {
			return nil, err
		}
		own(some.Release)
		k.problem.A, k.whole, k.terms = some.A, some.Whole, some.Terms
		k.problem, err = Project(k.problem, some.Pi)
		return k, err
	}
	k.problem.A, free, err = linops.Pick(p.Device, p.A, rows)
	if err == nil {
		own(free)
	}
	return k, err
}

// Problem is the problem, by the regularizer r of that of all observations.
func (k *Kept) Problem(r prox.Prox) engine.Problem {
	p := k.problem
	p.R = k.Regularizer(r)
	return p
}

// Regularizer is share r, which refers to r.
func (k *Kept) Regularizer(r prox.Prox) prox.Prox {
	if k.share == 1 {
		return r
	}
	return prox.NewScaled(k.share, r)
}

// Observations are the values of y that are fitted.
func (k *Kept) Observations(y []float64) []float64 {
	some := make([]float64, len(k.rows))
	for i, at := range k.rows {
		some[i] = y[at]
	}
	return some
}

// Predict is the estimate of all observations by a solution b of the problem, in the memory of dev, or by its factors,
// which may be nil. y are all observations, of which the kept ones determine the terms.
func (k *Kept) Predict(dev array.Device, b array.Batch, factors *engine.Factors, y []float64) []float64 {
	d, _ := k.whole.Dims()
	var mu []float64
	if places, ok := linops.Picks(k.whole); ok && factors != nil {
		mu = factors.Places(places)
	} else {
		on := dev.Alloc(1, d)
		k.whole.Forward(on, b)
		mu = on.ToHost()
		on.Free()
	}
	if k.terms != nil {
		z := k.Observations(y)
		floats.Sub(z, k.Observations(mu))
		floats.Add(mu, k.terms(z))
	}
	return mu
}

// Release frees what it holds.
func (k *Kept) Release() {
	for _, f := range k.frees {
		f()
	}
	k.frees = nil
}
