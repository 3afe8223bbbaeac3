package prox

import (
	"fmt"
	"math"

	"surepipe/array"
)

// Rescaler is a Prox whose coordinates may be measured in other units: with c = b/s, entry
// by entry, r(b) is the regularizer c -> r(s ∘ c), whose proximal operator is known too.
type Rescaler interface {
	Prox
	// Units changes s, positive numbers, where Rescale would not take them: coordinates
	// that r treats together share one.
	Units(s []float64)
	// Rescale returns c -> r(s ∘ c) for an s that Units has seen. Where the result is a
	// [Releaser] it is the caller's to release.
	Rescale(dev array.Device, s []float64) (Prox, error)
}

// AsRescaler returns p, or what p wraps, as a Rescaler on vectors of length n, if it is one.
func AsRescaler(p Prox) (Rescaler, bool) {
	switch p := p.(type) {
	case Rescaler:
		return p, true
	case valued:
		return AsRescaler(p.Prox)
	case owned:
		return AsRescaler(p.Prox)
	case Block:
		return AsRescaler(p.Prox)
	case scaled:
		if r, ok := AsRescaler(p.p); ok {
			return scaledRescaler{p, r}, true
		}
	}
	return nil, false
}

// scaledRescaler is c r where r can be rescaled.
type scaledRescaler struct {
	scaled
	r Rescaler
}

func (p scaledRescaler) Units(s []float64) { p.r.Units(s) }

func (p scaledRescaler) Rescale(dev array.Device, s []float64) (Prox, error) {
	q, err := p.r.Rescale(dev, s)
	if err != nil {
		return nil, err
	}
	return own(NewScaled(p.c, q), q), nil
}

// product is c s, entry by entry.
func product(c float64, s []float64) []float64 {
	out := make([]float64, len(s))
	for j, v := range s {
		out[j] = times(c, v)
	}
	return out
}

// Units takes any.
func (p l1) Units([]float64) {}

// Rescale gives coordinate j the weight lambda s_j.
func (p l1) Rescale(dev array.Device, s []float64) (Prox, error) {
	return NewWeightedL1(dev, p.lambda, s)
}

// Units takes any.
func (p *weightedL1) Units([]float64) {}

// Rescale gives coordinate j the weight w_j s_j.
func (p *weightedL1) Rescale(dev array.Device, s []float64) (Prox, error) {
	w := make([]float64, len(s))
	for j := range w {
		w[j] = times(p.wHost[j], s[j])
	}
	return NewWeightedL1(dev, 1, w)
}

// Units takes any.
func (p elasticNet) Units([]float64) {}

// Rescale gives coordinate j the weights lambda s_j and lambda2 s_j^2.
func (p elasticNet) Rescale(dev array.Device, s []float64) (Prox, error) {
	return newWeightedElasticNet(dev, product(p.lambda, s), squares(p.lambda2, s))
}

// squares is c s^2, entry by entry.
func squares(c float64, s []float64) []float64 {
	out := product(c, s)
	for j, v := range s {
		out[j] = times(out[j], v)
	}
	return out
}

// Units takes any.
func (p *weightedElasticNet) Units([]float64) {}

// Rescale gives coordinate j the weights w_j s_j and q_j s_j^2.
func (p *weightedElasticNet) Rescale(dev array.Device, s []float64) (Prox, error) {
	w, q := make([]float64, len(s)), make([]float64, len(s))
	for j, v := range s {
		w[j], q[j] = times(p.wHost[j], v), times(times(p.qHost[j], v), v)
	}
	return newWeightedElasticNet(dev, w, q)
}

// Units takes any.
func (p squaredL2) Units([]float64) {}

// Rescale gives coordinate j the curvature lambda s_j^2.
func (p squaredL2) Rescale(dev array.Device, s []float64) (Prox, error) {
	if p.lambda == 0 {
		return p, nil
	}
	return newWeightedElasticNet(dev, make([]float64, len(s)), squares(p.lambda, s))
}

// Units takes any.
func (p nonNegative) Units([]float64) {}

// Rescale returns p: the constraint is a cone.
func (p nonNegative) Rescale(array.Device, []float64) (Prox, error) { return p, nil }

// Units takes any.
func (p *box) Units([]float64) {}

// Rescale divides the bounds.
func (p *box) Rescale(dev array.Device, s []float64) (Prox, error) {
	lo, hi := make([]float64, len(s)), make([]float64, len(s))
	for j, v := range s {
		lo[j], hi[j] = p.loHost[j]/v, p.hiHost[j]/v
	}
	return NewBox(dev, lo, hi)
}

// Units takes any.
func (p linfBall) Units([]float64) {}

// Rescale is the box between -c/s_j and c/s_j.
func (p linfBall) Rescale(dev array.Device, s []float64) (Prox, error) {
	lo, hi := make([]float64, len(s)), make([]float64, len(s))
	for j, v := range s {
		lo[j], hi[j] = -p.c/v, p.c/v
	}
	return NewBox(dev, lo, hi)
}

// Units gives the coordinates of a penalized group the geometric mean of theirs, rounded to
// a power of two.
func (p *groups) Units(s []float64) {
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
			return nil, nil, fmt.Errorf("prox: coordinates %d and %d of a group in units of %g and %g, want one unit a group", first, j, s[first], s[j])
		}
		w[g] = times(p.wHost[g], s[j])
	}
	return members, w, nil
}

// Rescale multiplies the weights.
func (p *groupL2) Rescale(dev array.Device, s []float64) (Prox, error) {
	members, w, err := p.inUnits(s)
	if err != nil {
		return nil, err
	}
	return NewGroupL2(dev, p.p, 1, members, w)
}

// Rescale multiplies the weights.
func (p *groupLinf) Rescale(dev array.Device, s []float64) (Prox, error) {
	members, w, err := p.inUnits(s)
	if err != nil {
		return nil, err
	}
	return NewGroupLinf(dev, p.p, 1, members, w)
}

// Units asks each block; one that cannot be rescaled keeps its units.
func (p *separable) Units(s []float64) {
	for i, q := range p.blocks {
		part := s[p.at[i]:p.at[i+1]]
		if r, ok := AsRescaler(q); ok {
			r.Units(part)
			continue
		}
		for j := range part {
			part[j] = 1
		}
	}
}

// Rescale rescales the blocks.
func (p *separable) Rescale(dev array.Device, s []float64) (Prox, error) {
	blocks := make([]Prox, len(p.blocks))
	var made []Prox
	for i, q := range p.blocks {
		blocks[i] = q
		r, ok := AsRescaler(q)
		if !ok {
			continue
		}
		block, err := r.Rescale(dev, s[p.at[i]:p.at[i+1]])
		if err != nil {
			if r, ok := own(p, made...).(Releaser); ok {
				r.Release()
			}
			return nil, err
		}
		made = append(made, block)
		blocks[i] = Block{block, q.Dim()}
	}
	return own(NewSeparable(blocks...), made...), nil
}
