package prox

import (
	"surepipe/array"
	"surepipe/space"
)

// itself is the Closure of a regularizer that is a sum over coordinates.
func itself(s []int) []int { return s }

// subsetOf is the set of a space of vectors that are 0 outside a set; ok is false for any other
// space.
func subsetOf(t space.Space) (set []int, ok bool) {
	f := t.Form()
	return f.Set, f.Kind == space.Subset
}

// on returns p, which acts on vectors of any length.
func (p *l1) on(_ array.Device, t space.Space) (Prox, error) {
	if _, ok := subsetOf(t); !ok {
		return nil, nil
	}
	return p, nil
}

// on returns p, which acts on vectors of any length.
func (p *elasticNet) on(_ array.Device, t space.Space) (Prox, error) {
	if _, ok := subsetOf(t); !ok {
		return nil, nil
	}
	return p, nil
}

// on returns p, which acts on vectors of any length.
func (p *nonNegative) on(_ array.Device, t space.Space) (Prox, error) {
	if _, ok := subsetOf(t); !ok {
		return nil, nil
	}
	return p, nil
}

// gather lists x at the coordinates of s.
func gather(x []float64, s []int) []float64 {
	out := make([]float64, len(s))
	for i, j := range s {
		out[i] = x[j]
	}
	return out
}

// on gathers the weights of the set.
func (p *weightedL1) on(dev array.Device, t space.Space) (Prox, error) {
	s, ok := subsetOf(t)
	if !ok {
		return nil, nil
	}
	return NewWeightedL1(dev, 1, gather(p.wHost, s))
}

// on gathers the weights of the set.
func (p *weightedElasticNet) on(dev array.Device, t space.Space) (Prox, error) {
	s, ok := subsetOf(t)
	if !ok {
		return nil, nil
	}
	return newWeightedElasticNet(dev, gather(p.wHost, s), gather(p.qHost, s))
}

// closure adds to s all coordinates of the groups that it intersects.
func (p *groups) closure(s []int) []int {
	meets := make([]bool, p.n)
	for _, j := range s {
		meets[p.owner[j]] = true
	}
	var all []int
	for j, g := range p.owner {
		if meets[g] {
			all = append(all, j)
		}
	}
	return all
}

// within lists the groups of s, as places in s, and their weights.
func (p *groups) within(s []int) (members [][]int, w []float64) {
	place := make(map[int]int)
	for i, j := range s {
		g := p.owner[j]
		at, ok := place[g]
		if !ok {
			at = len(members)
			place[g] = at
			members = append(members, nil)
			w = append(w, p.wHost[g])
		}
		members[at] = append(members[at], i)
	}
	return members, w
}

// on is the penalty of the groups in the set.
func (p *groupL2) on(dev array.Device, t space.Space) (Prox, error) {
	s, ok := subsetOf(t)
	if !ok {
		return nil, nil
	}
	members, w := p.within(s)
	return NewGroupL2(dev, len(s), 1, members, w)
}

// on is the penalty of the groups in the set.
func (p *groupLinf) on(dev array.Device, t space.Space) (Prox, error) {
	s, ok := subsetOf(t)
	if !ok {
		return nil, nil
	}
	members, w := p.within(s)
	return NewGroupLinf(dev, len(s), 1, members, w)
}
