package spec

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"surepipe/array"
	"surepipe/internal/dataio/ndarray"
	"surepipe/internal/lists"
	"surepipe/prox"
)

var groupL2Regularizer = group("group-l2", prox.NewGroupL2, norm2, []Form{
	{"group-l2: {weight: W, groups: labels, weights: w}", ""},
	{"group-l2: {weight: W, size: k}", "W sum_g w_g ||b_g||_2; a label for each entry of b, negative: in " +
		"no group;\n" +
		"w has a number for each group, in the order of the labels (default: square roots of the sizes)"},
})

var groupLinfRegularizer = group("group-linf", prox.NewGroupLinf, norm1, []Form{
	{"group-linf: ...", "the same with ||b_g||_inf"},
})

// groupNorm makes a sum of norms of groups with weights, in n coordinates.
type groupNorm func(dev array.Device, n int, weight float64, groups [][]int, weights []float64) (prox.Prox, error)

// overGroups is the penalty of a sum of norms of groups with weights, of n coordinates. dual is the dual norm of one
// group.
func (a *Arguments) overGroups(n int, groups [][]int, weights []float64, norm groupNorm,
	dual func([]float64) float64) (p Penalty, err error) {
	p.Norm = a.Weight("weight")
	p.Unpenalized = outside(groups, weights, n)
	p.Free = p.Unpenalized != nil
	p.Dual = func(g []float64) (float64, error) { return dualOfGroups(g, groups, weights, dual), nil }
	p.Make, err = scalable(a, p.Norm, func(w float64) (prox.Prox, error) {
		return norm(a.dev, n, w, groups, weights)
	})
	return p, err
}

// group is a sum of norms of groups. dual is the dual norm of one group.
func group(name string, newProx groupNorm, dual func([]float64) float64, forms []Form) RegularizerKind {
	return RegularizerKind{
		Name: name, Forms: forms,
		Parameters: []Parameter{weight, {Name: "groups", Read: Numbers, Optional: true},
			{Name: "size", Read: Count, Optional: true}, {Name: "weights", Read: Numbers, Optional: true}},
		Check: func(c *Call) error {
			if c.Given("groups") == c.Given("size") {
				return c.Errorf("", "%s needs groups, an array with a label for each entry of b, or size, the "+
					"length of consecutive groups", name)
			}
			return nil
		},
		Build: func(a *Arguments, in Block) (p Penalty, err error) {
			n := in.Len()
			groups, err := a.groups(n)
			if err != nil {
				return p, err
			}
			each := lists.Map(groups, func(entries []int) float64 { return math.Sqrt(float64(len(entries))) })
			if a.Given("weights") {
				if each, err = a.Each("weights", "weights have", len(groups), "group"); err != nil {
					return p, err
				}
			}
			return a.overGroups(n, groups, each, newProx, dual)
		},
	}
}

// outside lists the entries of b that are in no group with a positive weight.
func outside(groups [][]int, weights []float64, p int) []int {
	held := make([]bool, p)
	for g, entries := range groups {
		for _, j := range entries {
			held[j] = weights[g] > 0
		}
	}
	return lists.Places(p, func(j int) bool { return !held[j] })
}

func dualOfGroups(g []float64, groups [][]int, weights []float64, dual func([]float64) float64) float64 {
	m := 0.0
	for i, entries := range groups {
		x := lists.Pick(g, entries)
		if weights[i] > 0 {
			m = max(m, dual(x)/weights[i])
		}
	}
	return m
}

// groups lists the entries of each group of p entries: of equal size, or of each label that is not negative, in
// the order of the labels.
func (a *Arguments) groups(p int) ([][]int, error) {
	if size := a.Count("size", 0); size > 0 {
		if p%size != 0 {
			return nil, fmt.Errorf("size is %d, expected a divisor of b's length %d", size, p)
		}
		groups := make([][]int, p/size)
		for j := range p {
			groups[j/size] = append(groups[j/size], j)
		}
		return groups, nil
	}
	label, err := a.Integers("groups")
	if err != nil {
		return nil, err
	}
	if k := p / max(len(label), 1); k > 1 && len(label)*k == p && a.outcomes() == k {
		all := make([]int, 0, p) // the coefficients of a column are in its group
		for _, g := range label {
			all = append(all, slices.Repeat([]int{g}, k)...)
		}
		label = all
	}
	if len(label) != p {
		return nil, a.Errorf("groups", "groups have %d labels, expected %d, one for each entry of b", len(label),
			p/max(a.outcomes(), 1))
	}
	members := map[int][]int{}
	for j, g := range label {
		if g >= 0 {
			members[g] = append(members[g], j)
		}
	}
	if len(members) == 0 {
		return nil, a.Errorf("groups", "groups have only negative labels: no entry of b is in a group")
	}
	return lists.Map(slices.Sorted(maps.Keys(members)), func(g int) []int { return members[g] }), nil
}

var jointL2Regularizer = RegularizerKind{
	Name: "joint-l2",
	Forms: []Form{{"joint-l2: {weight: W, planes: k, vectorial: true}",
		"W sum_i ||(b_i, b_{n+i}, b_{2n+i}, ...)||_2 across k arrays of n numbers,\none after the other; " +
			"of a gradient isotropic total variation (default: the first axis).\nvectorial: the channels of a " +
			"pixel, or the parts of a complex number, in\none norm too: vectorial total variation (Bresson " +
			"and Chan 2008)"}},
	Parameters: []Parameter{weight, {Name: "planes", Read: Count, Optional: true},
		{Name: "vectorial", Read: Truth, Optional: true}},
	Build: func(a *Arguments, in Block) (Penalty, error) {
		w, all, planes := a.Weight("weight"), in.Len(), a.Count("planes", in.Shape[0])
		if all%planes != 0 {
			return Penalty{}, fmt.Errorf("joint-l2 across %d arrays, expected a divisor of the number of entries, %d",
				planes, all)
		}
		if a.builder.data.Anisotropic {
			return Penalty{Norm: w, Dual: dualOfL1, Make: w.Of(prox.NewL1)}, nil
		}
		channels, vectorial := 1, a.Truth("vectorial")
		if last := len(in.Shape) - 1; last >= 3 && in.Shape[last] <= MostChannels {
			if vectorial || a.builder.data.Vectorial {
				channels = in.Shape[last]
			}
		} else if vectorial {
			return Penalty{}, fmt.Errorf("vectorial is for an image in colours or of complex numbers, whose last "+
				"axis are channels, but the shape is %s", ndarray.ShapeString(in.Shape))
		}
		size := all / planes / channels
		return Penalty{
			Norm: w,
			Dual: func(g []float64) (float64, error) { return dualOfJoint(g, size, channels), nil },
			Make: w.Of(func(w float64) prox.Prox { return prox.NewVectorialL2(size, planes, channels, w) }),
		}, nil
	},
}

// dualOfJoint is the largest norm across arrays of n pixels with some channels.
func dualOfJoint(g []float64, n, channels int) float64 {
	most := 0.0
	for i := range n {
		sum := 0.0
		for at := i * channels; at < len(g); at += n * channels {
			for _, v := range g[at : at+channels] {
				sum += v * v
			}
		}
		most = math.Max(most, sum)
	}
	return math.Sqrt(most)
}
