package rewrite

import (
	"fmt"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"surepipe/array"
	"surepipe/internal/lists"
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
	means   []float64                   // additive.Picked.Means
	has     func(i int) bool            // additive.Picked.Determines
	frees   []func()
}

// Keep keeps the observations of a problem at increasing places.
func Keep(p engine.Problem, rows []int) (_ *Kept, err error) {
	d, _ := p.A.Dims()
	kept := &Kept{problem: p, rows: rows, share: float64(len(rows)) / float64(d), whole: p.A}
	defer func() {
		if err != nil {
			kept.Release()
		}
	}()
	own := func(free func()) { kept.frees = append(kept.frees, free) }
	var free func()
	if kept.problem.Loss, free, err = loss.Pick(p.Device, p.Loss, rows); err != nil {
		return nil, err
	}
	own(free)
	kept.problem.Origin = nil
	if from, ok := p.Origin.(*projected); ok {
		some, err := from.pi.Pick(p.Device, p.A, rows)
		if err != nil {
			return nil, err
		}
		own(some.Release)
		kept.problem.A, kept.whole, kept.terms, kept.means = some.A, some.Whole, some.Terms, some.Means
		kept.has = some.Determines
		kept.problem, err = Project(kept.problem, some.Pi)
		return kept, err
	}
	if p.Origin != nil {
		return nil, fmt.Errorf("solve: how to refit a problem that %T has made is not known", p.Origin)
	}
	kept.problem.A, free, err = linops.Pick(p.Device, p.A, rows)
	if err == nil {
		own(free)
	}
	return kept, err
}

// Problem is the problem, without its regularizer.
func (k *Kept) Problem() engine.Problem { return k.problem }

// Regularizer is share r, which refers to r, for the regularizer r of the problem of all observations.
func (k *Kept) Regularizer(r prox.Prox) prox.Prox {
	if k.share == 1 {
		return r
	}
	return prox.NewScaled(k.share, r)
}

// Observations are the values of y that are fitted.
func (k *Kept) Observations(y []float64) []float64 { return lists.Pick(y, k.rows) }

// Determines says whether the observations that are kept determine all terms without a penalty of observation i.
func (k *Kept) Determines(i int) bool { return k.has == nil || k.has(i) }

// Predict is the estimate of the observations at some places by a solution b of the problem, in the memory of dev, or
// by its factors, which may be nil. y are all observations, of which the kept ones determine the terms.
func (k *Kept) Predict(dev array.Device, b array.Batch, factors *engine.Factors, y []float64, at []int) []float64 {
	if x := linops.StructureOf(k.whole); (k.terms == nil || k.means != nil) && x.Dense != nil && !x.Stored.IsZero() {
		return k.predictRows(x.Dense().RawRowView, b.ToHost(), y, at)
	}
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
	return lists.Pick(mu, at)
}

func (k *Kept) predictRows(row func(i int) []float64, b, y []float64, at []int) []float64 {
	var set []int
	intercept := 0.0
	for j, v := range b {
		if v != 0 {
			set = append(set, j)
		}
	}
	if k.means != nil {
		intercept = stat.Mean(k.Observations(y), nil)
		for _, j := range set {
			intercept -= k.means[j] * b[j]
		}
	}
	mu := make([]float64, len(at))
	for i, place := range at {
		mu[i] = intercept
		x := row(place)
		for _, j := range set {
			mu[i] += x[j] * b[j]
		}
	}
	return mu
}

func (k *Kept) Release() {
	for _, f := range k.frees {
		f()
	}
	k.frees = nil
}
