package prox

import (
	"fmt"
	"math"
	"slices"

	"surepipe/array"
	"surepipe/prox/internal/vector"
	"surepipe/space"
)

// groups are r(b) = sum_g w_g norm(b_g) for disjoint groups of entries, with a norm and its dual. The
// weights, on the device and on the host, include lambda. Entries that are in no group form one more
// group, of weight 0.
type groups struct {
	p          int
	n          int       // how many there are
	member     array.CSR // n x p, 1 where the entry is in the group
	spread     array.CSR // its transpose
	w          array.Batch
	wHost      []float64
	owner      []int // each entry's group
	norm, dual func([]float64) float64
	make       func(dev array.Device, p int, lambda float64, groups [][]int, w []float64) (Prox, error)
	Known
}

// newGroups checks groups and their weights, as [NewGroupL2] takes them, and copies them to the
// device. name is that of the penalty.
func newGroups(name string, dev array.Device, p int, lambda float64, members [][]int, w []float64) (*groups, error) {
	vector.CheckLambda("the "+name+" penalty's lambda", lambda)
	if p <= 0 {
		return nil, fmt.Errorf("prox: %s: dimension %d, want > 0", name, p)
	}
	if w != nil && len(w) != len(members) {
		return nil, fmt.Errorf("prox: %s: %d weights for %d groups", name, len(w), len(members))
	}
	owner := slices.Repeat([]int{-1}, p)
	indptr := make([]int, 1, len(members)+2)
	indices := make([]int, 0, p)
	weights := make([]float64, 0, len(members)+1)
	for g, group := range members {
		if len(group) == 0 {
			return nil, fmt.Errorf("prox: %s: group %d is empty", name, g)
		}
		for _, j := range group {
			if j < 0 || j >= p {
				return nil, fmt.Errorf("prox: %s: group %d has entry %d, want 0 to %d", name, g, j, p-1)
			}
			if owner[j] >= 0 {
				return nil, fmt.Errorf("prox: %s: entry %d is in group %d and in group %d, want disjoint groups",
					name, j, owner[j], g)
			}
			owner[j] = g
			indices = append(indices, j)
		}
		indptr = append(indptr, len(indices))
		wg := 1.0
		if w != nil {
			wg = w[g]
		}
		if !(wg >= 0) {
			return nil, fmt.Errorf("prox: %s: weight %d is %v, want >= 0", name, g, wg)
		}
		weights = append(weights, vector.Times(lambda, wg))
	}
	if len(indices) < p {
		for j, g := range owner {
			if g < 0 {
				owner[j] = len(members)
				indices = append(indices, j)
			}
		}
		indptr = append(indptr, len(indices))
		weights = append(weights, 0)
	}

	ones := make([]float64, p)
	rows := make([]int, p+1)
	for j := range ones {
		ones[j], rows[j+1] = 1, j+1
	}
	n := len(weights)
	q := &groups{p: p, n: n, wHost: weights, owner: owner}
	q.Is = Structure{Free: q.free, Closure: q.closure, On: q.on, Units: q.units, Rescale: q.rescale,
		DualScale: q.dualScale, FenchelGap: q.fenchelGap, Release: q.Release}
	q.member = dev.NewCSR(n, p, indptr, indices, ones)
	q.spread = dev.NewCSR(p, n, rows, owner, ones)
	q.w = dev.Alloc(1, n)
	dev.Upload(q.w, weights)
	if err := dev.Err(); err != nil {
		q.Release()
		return nil, fmt.Errorf("prox: %s: %w", name, err)
	}
	return q, nil
}

func (p *groups) Dim() int { return p.p }

func (p *groups) Release() {
	p.member.Free()
	p.spread.Free()
	p.w.Free()
}

func (p *groups) free(n int) []int {
	return where(n, func(j int) bool { return p.wHost[p.owner[j]] == 0 })
}

// closure adds to s all coordinates of the groups that it intersects.
func (p *groups) closure(s []int) []int {
	meets := make([]bool, p.n)
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
			number[g], members, w = at, append(members, nil), append(w, p.wHost[g])
		}
		members[at] = append(members[at], i)
	}
	return p.make(dev, len(set), 1, members, w)
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

// rescale multiplies the weights by the units of the groups.
func (p *groups) rescale(dev array.Device, s []float64) (Prox, error) {
	members := make([][]int, p.n)
	w := make([]float64, p.n)
	for j, g := range p.owner {
		members[g] = append(members[g], j)
		if first := members[g][0]; s[first] != s[j] && p.wHost[g] > 0 {
			return nil, fmt.Errorf("prox: coordinates %d and %d of a group in units of %g and %g, want one "+
				"unit a group", first, j, s[first], s[j])
		}
		w[g] = vector.Times(p.wHost[g], s[j])
	}
	return p.make(dev, p.p, 1, members, w)
}

// byGroup calls f with b's and g's entries in every group.
func (p *groups) byGroup(b, g array.Batch, f func(w float64, b, g []float64)) {
	x, h := vector.OnHost(b), vector.OnHost(g)
	bs, gs := make([][]float64, p.n), make([][]float64, p.n)
	for j, o := range p.owner {
		bs[o], gs[o] = append(bs[o], x[j]), append(gs[o], h[j])
	}
	for o, w := range p.wHost {
		f(w, bs[o], gs[o])
	}
}

func (p *groups) dualScale(b, g array.Batch, _ float64) float64 {
	t := 1.0
	p.byGroup(b, g, func(w float64, _, g []float64) { t = min(t, vector.Ratio(w, p.dual(g))) })
	return t
}

func (p *groups) fenchelGap(b, g array.Batch, t, _ float64) float64 {
	sum := 0.0
	p.byGroup(b, g, func(w float64, b, g []float64) {
		sum += vector.Surplus(vector.Times(w, p.norm(b)), t*vector.Inner(b, g))
	})
	return sum
}
