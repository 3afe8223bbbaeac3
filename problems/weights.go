package problems

import (
	"errors"
	"fmt"
	"math"

	"surepipe/problems/spec"
	"surepipe/prox"
)

// Hyper holds the weights of the regularizer. The zero Weight stands for one that is not given.
type Hyper struct {
	Lambda, Lambda2, Gamma Weight
}

// A problem has the weights lambda, lambda2 and gamma, in the order of [spec.WeightNames]; those that it does not
// have are NaN.
func (p *Problem) values() []*float64 { return []*float64{&p.Lambda, &p.Lambda2, &p.Gamma} }

func (h Hyper) values() []Weight { return []Weight{h.Lambda, h.Lambda2, h.Gamma} }

// Unset lists the weights that a problem has, and neither its specification nor the data.
func Unset(name string, data Data) (unset []string) {
	s, _, err := specification(name, data)
	if err != nil {
		return nil
	}
	for i, file := range []*float64{data.Lambda, data.Lambda2, data.Gamma} {
		weight := spec.WeightNames()[i]
		_, used := s.Use(weight)
		if _, line := s.Weight(weight); used && line == 0 && file == nil {
			unset = append(unset, weight)
		}
	}
	return unset
}

func (a *assembly) weights(m *maximizer, hyper Hyper) error {
	file := []*float64{a.data.Lambda, a.data.Lambda2, a.data.Gamma}
	for i, name := range spec.WeightNames() {
		use, used := a.Use(name)
		if !used {
			continue
		}
		given := hyper.values()[i]
		weight, line := given, use.Line
		if own, at := a.Weight(name); at > 0 && !given.Given {
			weight, line = own, at
		}
		weight = weight.Or(file[i])
		to := a.p.values()[i]
		var err error
		switch {
		case !weight.Given && !a.named:
			err = fmt.Errorf("%s has no value: expected %s: NUMBER in the specification, the flag --%s, or %s in "+
				"the data file", name, name, name, name)
		case weight == Absolute(0) && use.Zero:
			*to = 0
		default:
			*to, err = a.p.weight(name, weight, m.positive(m.of(name)))
			if err == nil && use.Finite && math.IsInf(*to, 0) {
				err = spec.WeightErrorf(name, "is infinite, expected a finite number")
			}
		}
		if err != nil {
			if given.Given {
				return err
			}
			return a.At(line, err)
		}
	}
	return nil
}

// ofMax is a multiple of the maximum as it is written.
func ofMax(share float64) string {
	if share == 1 {
		return "max"
	}
	return fmt.Sprintf("%gmax", share)
}

// weight resolves a weight that must be positive. maximum computes the smallest weight at which the
// estimate is zero; it is nil where there is none.
func (p *Problem) weight(name string, w Weight, maximum func() (float64, error)) (float64, error) {
	if !w.Given {
		return 0, spec.WeightErrorf(name, "is missing: neither given nor in the data")
	}
	v := w.Value
	if w.OfMax {
		if maximum == nil {
			return 0, spec.WeightErrorf(name, "is %s, but this weight has no maximum, a smallest value at which "+
				"the estimate is 0: expected a number", ofMax(w.Value))
		}
		top, err := maximum()
		if zero := (*zeroMaximum)(nil); errors.As(err, &zero) {
			return 0, spec.WeightErrorf(name, "is %s, but %v", ofMax(w.Value), zero)
		}
		if err != nil {
			return 0, err
		}
		v *= top
		p.Relative = true
	}
	if !(v > 0) {
		return 0, spec.WeightErrorf(name, "is %g, expected a positive number", v)
	}
	return v, nil
}

func (a *assembly) combine(penalties []*spec.Penalty, weights spec.Weights) (prox.Prox, error) {
	if err := a.CheckUses(weights); err != nil {
		return nil, err
	}
	blocks := make([]prox.Prox, len(penalties))
	for i, p := range penalties {
		r, err := p.Make(weights)
		if err != nil {
			return nil, err
		}
		if p.Factor != 1 {
			r = prox.NewScaled(p.Factor, r)
		}
		if len(penalties) == 1 {
			return r, nil
		}
		blocks[i] = prox.Block{Prox: r, N: p.N}
	}
	return prox.NewSeparable(blocks...), nil
}

func (p *Problem) checkUsed(hyper Hyper) error {
	for i, name := range spec.WeightNames() {
		if hyper.values()[i].Given && math.IsNaN(*p.values()[i]) {
			return spec.WeightErrorf(name, "is given, but %s has no such weight", p.Name)
		}
	}
	return nil
}

// Reweighted returns the problem's regularizer with other weights. Weights that the problem does
// not have are ignored. The problem owns the device memory that the regularizer holds.
func (p *Problem) Reweighted(lambda, lambda2, gamma float64) (prox.Prox, error) {
	some := false
	for i, w := range []float64{lambda, lambda2, gamma} {
		if math.IsNaN(*p.values()[i]) {
			continue
		}
		some = true
		// An infinite weight removes its part of the regularizer, where the problem allows it.
		name := spec.WeightNames()[i]
		if zero := w == 0 && name == "lambda2"; !(w > 0) && !zero {
			return nil, spec.WeightErrorf(name, "is %g, expected a positive number", w)
		}
	}
	if !some {
		return nil, fmt.Errorf("%s has no weight to change", p.Name)
	}
	return p.reweigh(lambda, lambda2, gamma)
}
