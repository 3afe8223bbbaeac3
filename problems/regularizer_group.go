package problems

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"go.yaml.in/yaml/v3"

	"surepipe/array"
	"surepipe/prox"
)

var groupL2Regularizer = regularizerKind{
	name: "group-l2",
	forms: []form{
		{"group-l2: {weight: W, groups: labels, weights: w}", ""},
		{"group-l2: {weight: W, size: k}", "W sum_g w_g ||b_g||_2; a label for each entry of b, negative: in " +
			"no group;\n" +
			"w has a number for each group, in the order of the labels (default: square roots of the sizes)"},
	},
	parse: parseGroup(prox.NewGroupL2, norm2),
}

var groupLinfRegularizer = regularizerKind{
	name:  "group-linf",
	forms: []form{{"group-linf: ...", "the same with ||b_g||_inf"}},
	parse: parseGroup(prox.NewGroupLinf, norm1),
}

// parseGroup is the parser of a sum of norms of groups. dual is the dual norm of one group.
func parseGroup(newProx func(array.Device, int, float64, [][]int, []float64) (prox.Prox, error),
	dual func([]float64) float64) func(*Spec, *regularizerNode, *yaml.Node) (regularizerBuild, error) {
	return func(s *Spec, n *regularizerNode, args *yaml.Node) (regularizerBuild, error) {
		f, w, err := s.weighted(n, args, "weight", "groups", "size", "weights")
		if err != nil {
			return nil, err
		}
		members, err := s.parseMembers(n, f)
		if err != nil {
			return nil, err
		}
		var weights *arrayRef
		if v := f.nodes["weights"]; v != nil {
			if weights, err = s.ref(v, "weights"); err != nil {
				return nil, err
			}
		}
		return func(b *specBuilder, in part, _ []part) ([]*penalty, error) {
			p := penalty{n: length(in.shape), norm: w}
			groups, err := members(b, p.n)
			if err != nil {
				return nil, err
			}
			each := make([]float64, len(groups))
			for g, entries := range groups {
				each[g] = math.Sqrt(float64(len(entries)))
			}
			if weights != nil {
				if each, err = b.each(weights, "weights have", len(groups), "group"); err != nil {
					return nil, err
				}
			}
			p.unpenalized = outside(groups, each, p.n)
			p.free = p.unpenalized != nil
			p.dual = func(g []float64) (float64, error) { return dualOfGroups(g, groups, each, dual), nil }
			p.make, err = b.scalable(n.line, w, func(w float64) (prox.Prox,
				error) {
				return newProx(b.dev, p.n, w, groups, each)
			})
			return n.single(p), err
		}, nil
	}
}

// outside lists the entries of b that are in no group with a positive weight.
func outside(groups [][]int, weights []float64, p int) (free []int) {
	held := make([]bool, p)
	for g, entries := range groups {
		for _, j := range entries {
			held[j] = weights[g] > 0
		}
	}
	for j, h := range held {
		if !h {
			free = append(free, j)
		}
	}
	return free
}

// dualOfGroups is the largest dual norm of a group, each divided by the group's weight.
func dualOfGroups(g []float64, groups [][]int, weights []float64, dual func([]float64) float64) float64 {
	m := 0.0
	for i, entries := range groups {
		x := make([]float64, len(entries))
		for u, j := range entries {
			x[u] = g[j]
		}
		if weights[i] > 0 {
			m = max(m, dual(x)/weights[i])
		}
	}
	return m
}

// parseMembers reads the groups, by the labels of their entries or by their common size. It returns
// a function that lists the entries of each group, in the order of the labels.
func (s *Spec) parseMembers(n *regularizerNode, f section) (func(b *specBuilder, p int) ([][]int, error), error) {
	if (f.nodes["groups"] == nil) == (f.nodes["size"] == nil) {
		return nil, s.errorf(n.line, "%s needs groups, an array with a label for each entry of b, or size, the "+
			"length of consecutive groups", n.kind)
	}
	if v := f.nodes["groups"]; v != nil {
		labels, err := s.ref(v, "groups")
		return func(b *specBuilder, p int) ([][]int, error) { return b.labelled(labels, p) }, err
	}
	size, err := s.positive(f.nodes["size"], "size")
	return func(_ *specBuilder, p int) ([][]int, error) {
		if p%size != 0 {
			return nil, fmt.Errorf("size is %d, expected a divisor of b's length %d", size, p)
		}
		groups := make([][]int, p/size)
		for j := range p {
			groups[j/size] = append(groups[j/size], j)
		}
		return groups, nil
	}, err
}

// labelled lists the entries of each label that is not negative.
func (b *specBuilder) labelled(labels *arrayRef, p int) ([][]int, error) {
	label, err := b.loaded[labels].integers()
	if err != nil {
		return nil, b.at(labels.line, err)
	}
	if len(label) != p {
		return nil, b.errorf(labels.line, "groups have %d labels, expected %d, one for each entry of b", len(label), p)
	}
	members := map[int][]int{}
	for j, g := range label {
		if g >= 0 {
			members[g] = append(members[g], j)
		}
	}
	if len(members) == 0 {
		return nil, b.errorf(labels.line, "groups have only negative labels: no entry of b is in a group")
	}
	groups := make([][]int, 0, len(members))
	for _, g := range slices.Sorted(maps.Keys(members)) {
		groups = append(groups, members[g])
	}
	return groups, nil
}
