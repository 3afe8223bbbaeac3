package prox

import (
	"fmt"
	"slices"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/prox/internal/vector"
	"surepipe/space"
)

// NewGroupL2 returns the group LASSO penalty
//
//	r(b) = lambda sum_g w_g ||b_g||_2
//
// on vectors of length p, where b_g are the entries of b that groups[g] lists. The groups are
// disjoint; entries that are in none are not penalized. w has one weight a group, nil for ones; the
// customary square root of the group's size must be given by the caller. With s_g = max(1 - t
// lambda w_g/||v_g||, 0),
//
//	prox_{t r}(v)_g = s_g v_g,
//	(J z)_g = s_g z_g + t lambda w_g/||v_g||^3 v_g <v_g, z_g>   where s_g > 0, else 0.
//
// A group of weight 0 is not penalized, for any lambda; one of weight +Inf is held at 0, unless
// lambda = 0. The groups are copied to dev, where they stay until [Release]. An empty group, an
// entry out of range or in two groups, and a negative or NaN weight are errors. It panics if lambda
// is negative or NaN. Norms are taken by squaring: values beyond 1e150 overflow.
func NewGroupL2(dev array.Device, p int, lambda float64, groups [][]int, w []float64) (Prox, error) {
	g, err := newGroups("group l2", p, lambda, groups, w)
	if err != nil {
		return nil, err
	}
	g.norm, g.dual, g.make = vector.Euclid, vector.Euclid, NewGroupL2
	by, memory := &groupLists{p: p, entries: g.entries}, new(array.Held)
	q := &euclidean{name: "group l2", p: p, by: by, w: listed(dev, g.w), Known: g.Known}
	by.load(dev, memory)
	memory.Hold(q.w.on)
	q.Is.Value, q.Is.Release = q.value, memory.Release
	q.Is.Groups = func() (owner []int, w []float64) { return g.owner, g.w }
	if err := dev.Err(); err != nil {
		memory.Release()
		return nil, fmt.Errorf("prox: group l2: %w", err)
	}
	return q, nil
}

// groupLists are the groups of p coordinates, each of which is in one.
type groupLists struct {
	p            int
	entries      [][]int
	member, owns array.CSR // 1 where the coordinate of the column is in the group of the row, and the transpose
}

func (l *groupLists) groups() int                    { return len(l.entries) }
func (l *groupLists) sums() int                      { return len(l.entries) }
func (l *groupLists) at(g int) int                   { return g }
func (l *groupLists) members(_ []int, g int) []int   { return l.entries[g] }
func (l *groupLists) spread(sums, numbers []float64) { copy(sums, numbers) }

func (l *groupLists) load(dev array.Device, memory *array.Held) {
	rows := space.Rows{Indptr: []int{0}, Indices: slices.Concat(l.entries...), Values: slices.Repeat([]float64{1}, l.p)}
	for g, group := range l.entries {
		rows.Indptr = append(rows.Indptr, rows.Indptr[g]+len(group))
	}
	l.member, l.owns = rows.BothWays(dev, l.p)
	memory.Hold(l.member, l.owns)
}

func (l *groupLists) some(active []int) ([]int, partition) {
	of, place := &groupLists{}, make([]int, l.p)
	var set []int
	for _, g := range active {
		set = append(set, l.entries[g]...)
	}
	slices.Sort(set)
	for i, j := range set {
		place[j] = i
	}
	for _, g := range active {
		of.entries = append(of.entries, lists.Pick(place, l.entries[g]))
	}
	of.p = len(set)
	return set, of
}

func (l *groupLists) inner(dst, a, b array.Batch) {
	dev := dst.Device()
	t := dev.Alloc(dst.K(), l.p)
	defer t.Free()
	dev.Mul(t, a, b)
	dev.MulCSR(dst, l.member, t)
}

func (l *groupLists) scale(dst, v, s array.Batch) {
	dev := dst.Device()
	t := dev.Alloc(s.K(), l.p)
	defer t.Free()
	dev.MulCSR(t, l.owns, s)
	dev.Mul(dst, t, v)
}

func (l *groupLists) scaleAlong(dst, z, s, c, u array.Batch) {
	dev := dst.Device()
	along, t := dev.Alloc(z.K(), l.sums()), dev.Alloc(z.K(), l.p)
	defer array.Free(along, t)
	l.inner(along, z, u)
	dev.Mul(along, along, c)
	dev.MulCSR(t, l.owns, along)
	dev.Mul(t, t, u)
	l.scale(dst, z, s)
	dev.Lin(dst, 1, dst, 1, t)
}
