package prox

import (
	"fmt"
	"math"

	"surepipe/array"
	"surepipe/prox/internal/vector"
)

// anyUnits is the Units of a regularizer that can be rescaled to any units.
func anyUnits([]float64) {}

// product is c s, entry by entry.
func product(c float64, s []float64) []float64 {
	out := make([]float64, len(s))
	for j, v := range s {
		out[j] = vector.Times(c, v)
	}
	return out
}

// rescale gives coordinate j the weight lambda s_j.
func (p *l1) rescale(dev array.Device, s []float64) (Prox, error) {
	return NewWeightedL1(dev, p.lambda, s)
}

// rescale gives coordinate j the weight w_j s_j.
func (p *weightedL1) rescale(dev array.Device, s []float64) (Prox, error) {
	w := make([]float64, len(s))
	for j := range w {
		w[j] = vector.Times(p.wHost[j], s[j])
	}
	return NewWeightedL1(dev, 1, w)
}

// rescale gives coordinate j the weights lambda s_j and lambda2 s_j^2.
func (p *elasticNet) rescale(dev array.Device, s []float64) (Prox, error) {
	return newWeightedElasticNet(dev, product(p.lambda, s), squares(p.lambda2, s))
}

// squares is c s^2, entry by entry.
func squares(c float64, s []float64) []float64 {
	out := product(c, s)
	for j, v := range s {
		out[j] = vector.Times(out[j], v)
	}
	return out
}

// rescale gives coordinate j the weights w_j s_j and q_j s_j^2.
func (p *weightedElasticNet) rescale(dev array.Device, s []float64) (Prox, error) {
	w, q := make([]float64, len(s)), make([]float64, len(s))
	for j, v := range s {
		w[j], q[j] = vector.Times(p.wHost[j], v), vector.Times(vector.Times(p.qHost[j], v), v)
	}
	return newWeightedElasticNet(dev, w, q)
}

// rescale gives coordinate j the curvature lambda s_j^2.
func (p *squaredL2) rescale(dev array.Device, s []float64) (Prox, error) {
	if p.lambda == 0 {
		return p, nil
	}
	return newWeightedElasticNet(dev, make([]float64, len(s)), squares(p.lambda, s))
}

// rescale returns p: the constraint is a cone.
func (p *nonNegative) rescale(array.Device, []float64) (Prox, error) { return p, nil }

// rescale divides the bounds.
func (p *box) rescale(dev array.Device, s []float64) (Prox, error) {
	lo, hi := make([]float64, len(s)), make([]float64, len(s))
	for j, v := range s {
		lo[j], hi[j] = p.loHost[j]/v, p.hiHost[j]/v
	}
	return NewBox(dev, lo, hi)
}

// rescale is the box between -c/s_j and c/s_j.
func (p *linfBall) rescale(dev array.Device, s []float64) (Prox, error) {
	lo, hi := make([]float64, len(s)), make([]float64, len(s))
	for j, v := range s {
		lo[j], hi[j] = -p.c/v, p.c/v
	}
	return NewBox(dev, lo, hi)
}

// units replaces the units in a penalized group by their geometric mean, rounded to a power of two.
func (p *groups) units(s []float64) {
	sum, size := make([]float64, p.n), make([]float64, p.n)
	for j, g := range p.owner {
		sum[g] += math.Log2(s[j])
		size[g]++
	}
	for j, g := range p.owner {
		if p.wHost[g] > 0 {
			s[j] = math.Exp2(math.Round(sum[g] / size[g]))
		}
	}
}

// inUnits lists all groups and their weights times their units.
func (p *groups) inUnits(s []float64) (members [][]int, w []float64, err error) {
	members = make([][]int, p.n)
	w = make([]float64, p.n)
	for j, g := range p.owner {
		members[g] = append(members[g], j)
		if first := members[g][0]; s[first] != s[j] && p.wHost[g] > 0 {
			return nil, nil, fmt.Errorf("prox: coordinates %d and %d of a group in units of %g and %g, want one "+
				"unit a group", first, j, s[first], s[j])
		}
		w[g] = vector.Times(p.wHost[g], s[j])
	}
	return members, w, nil
}

// rescale multiplies the weights.
func (p *groupL2) rescale(dev array.Device, s []float64) (Prox, error) {
	members, w, err := p.inUnits(s)
	if err != nil {
		return nil, err
	}
	return NewGroupL2(dev, p.p, 1, members, w)
}

// rescale multiplies the weights.
func (p *groupLinf) rescale(dev array.Device, s []float64) (Prox, error) {
	members, w, err := p.inUnits(s)
	if err != nil {
		return nil, err
	}
	return NewGroupLinf(dev, p.p, 1, members, w)
}
