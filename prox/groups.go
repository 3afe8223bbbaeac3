package prox

import (
	"fmt"
	"math"
	"slices"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/prox/internal/vector"
	"surepipe/space"
)

// groups are r(b) = sum_g w_g norm(b_g) for disjoint groups of entries, with a norm and its dual. The weights include
// lambda. Entries that are in no group form one more group, of weight 0.
type groups struct {
	p          int
	entries    [][]int
	w          []float64
	owner      []int // each entry's group
	norm, dual func([]float64) float64
	make       func(dev array.Device, p int, lambda float64, groups [][]int, w []float64) (Prox, error)
	Known
}

// newGroups checks groups and their weights, as [NewGroupL2] takes them. name is that of the penalty.
func newGroups(name string, p int, lambda float64, members [][]int, w []float64) (*groups, error) {
	vector.CheckLambda("the "+name+" penalty's lambda", lambda)
	if p <= 0 {
		return nil, fmt.Errorf("prox: %s: dimension %d, want > 0", name, p)
	}
	if w != nil && len(w) != len(members) {
		return nil, fmt.Errorf("prox: %s: %d weights for %d groups", name, len(w), len(members))
	}
	q := &groups{p: p, owner: slices.Repeat([]int{-1}, p)}
	q.Is = Structure{Free: q.free, Closure: q.closure, On: q.on, Units: q.units, Rescale: q.rescale,
		DualScale: q.dualScale, FenchelGap: q.fenchelGap}
	for g, group := range members {
		if len(group) == 0 {
			return nil, fmt.Errorf("prox: %s: group %d is empty", name, g)
		}
		for _, j := range group {
			if j < 0 || j >= p {
				return nil, fmt.Errorf("prox: %s: group %d has entry %d, want 0 to %d", name, g, j, p-1)
			}
			if q.owner[j] >= 0 {
				return nil, fmt.Errorf("prox: %s: entry %d is in group %d and in group %d, want disjoint groups",
					name, j, q.owner[j], g)
			}
			q.owner[j] = g
		}
		wg := 1.0
		if w != nil {
			wg = w[g]
		}
		if !(wg >= 0) {
			return nil, fmt.Errorf("prox: %s: weight %d is %v, want >= 0", name, g, wg)
		}
		q.entries, q.w = append(q.entries, slices.Clone(group)), append(q.w, vector.Times(lambda, wg))
	}
	if rest := where(p, func(j int) bool { return q.owner[j] < 0 }); len(rest) > 0 {
		for _, j := range rest {
			q.owner[j] = len(members)
		}
		q.entries, q.w = append(q.entries, rest), append(q.w, 0)
	}
	return q, nil
}

func (p *groups) Dim() int { return p.p }

func (p *groups) free(n int) []int {
	return where(n, func(j int) bool { return p.w[p.owner[j]] == 0 })
}

// closure adds to s all coordinates of the groups that it intersects.
func (p *groups) closure(s []int) []int {
	meets := make([]bool, len(p.w))
	for _, j := range s {
		meets[p.owner[j]] = true
	}
	return where(p.p, func(j int) bool { return meets[p.owner[j]] })
}

func (p *groups) on(dev array.Device, t space.Space) (Prox, error) {
	set, ok := subsetOf(t)
	if !ok {
		return nil, nil
	}
	var members [][]int // places in set
	var w []float64
	number := make(map[int]int)
	for i, j := range set {
		g := p.owner[j]
		at, seen := number[g]
		if !seen {
			at = len(members)
			number[g], members, w = at, append(members, nil), append(w, p.w[g])
		}
		members[at] = append(members[at], i)
	}
	return p.make(dev, len(set), 1, members, w)
}

// units replaces the units in a penalized group by their geometric mean, rounded to a power of two.
func (p *groups) units(s []float64) {
	for g, group := range p.entries {
		if p.w[g] == 0 {
			continue
		}
		sum := 0.0
		for _, j := range group {
			sum += math.Log2(s[j])
		}
		for _, j := range group {
			s[j] = math.Exp2(math.Round(sum / float64(len(group))))
		}
	}
}

// rescale multiplies the weights by the units of the groups.
func (p *groups) rescale(dev array.Device, s []float64) (Prox, error) {
	w := make([]float64, len(p.w))
	for g, group := range p.entries {
		for _, j := range group {
			if first := group[0]; s[first] != s[j] && p.w[g] > 0 {
				return nil, fmt.Errorf("prox: coordinates %d and %d of a group in units of %g and %g, want one "+
					"unit a group", first, j, s[first], s[j])
			}
		}
		w[g] = vector.Times(p.w[g], s[group[0]])
	}
	return p.make(dev, p.p, 1, p.entries, w)
}

func (p *groups) dualScale(_, g array.Batch, _ float64) float64 {
	t, h := 1.0, g.Read()
	for i, group := range p.entries {
		t = min(t, vector.Ratio(p.w[i], p.dual(lists.Pick(h, group))))
	}
	return t
}

func (p *groups) fenchelGap(b, g array.Batch, t, _ float64) float64 {
	sum, x, h := 0.0, b.Read(), g.Read()
	for i, group := range p.entries {
		at := lists.Pick(x, group)
		sum += vector.Surplus(vector.Times(p.w[i], p.norm(at)), t*vector.Inner(at, lists.Pick(h, group)))
	}
	return sum
}
