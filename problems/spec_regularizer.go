package problems

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat/distuv"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/prox"
)

// weightExpr is scale, or scale times the weight of that name.
type weightExpr struct {
	scale float64
	name  string
}

func (e weightExpr) value(weights map[string]float64) float64 {
	if e.name == "" {
		return e.scale
	}
	return e.scale * weights[e.name]
}

// weightUse is a weight in a regularizer, and which values it takes.
type weightUse struct {
	expr         weightExpr
	line         int
	zero, finite bool
}

// regularizerNode is a parsed regularizer.
type regularizerNode struct {
	specNode
	weights  []weightUse
	children []*regularizerNode
	build    func(b *specBuilder, in part, parts []part) ([]*penalty, error)
}

// uses lists the weights of the whole tree.
func (n *regularizerNode) uses() []weightUse {
	all := slices.Clone(n.weights)
	for _, c := range n.children {
		all = append(all, c.uses()...)
	}
	return all
}

// nuclear tells whether there is a nuclear norm in it.
func (n *regularizerNode) nuclear() bool {
	return n.kind == "nuclear" || slices.ContainsFunc(n.children, (*regularizerNode).nuclear)
}

// penalty is a regularizer of n consecutive coordinates of b.
type penalty struct {
	n, line int
	// factor multiplies it: scaled.
	factor float64
	// norm is the weight of the norm in it, and dual the norm's dual at a gradient:
	// b = 0 exactly where dual <= weight. Nil where there is none. free says that some
	// coordinates are held at 0 by no weight; if they bear no penalty at all, and only
	// they are free, unpenalized lists them.
	norm        weightExpr
	dual        func(g []float64) (float64, error)
	free        bool
	unpenalized []int
	make        func(weights map[string]float64) (prox.Prox, error)
}

// regularizerKinds is filled by init, for regularizers hold regularizers.
var regularizerKinds []specKind[regularizerNode]

func init() {
	regularizerKinds = []specKind[regularizerNode]{
		{"zero", "zero                                0", parseZero},
		{"l1", "l1: {weight: W, weights: w, unpenalized: [0] or averages}   W sum_j w_j |b_j|", parseL1},
		{"squared-l2", "squared-l2: W                       W/2 ||b||^2", parseSquaredL2},
		{"elastic-net", "elastic-net: {weight: W, weight2: W2}   W ||b||_1 + W2/2 ||b||^2", parseElasticNet},
		{"l2", "l2: W                               W ||b||_2", parseL2},
		{"group-l2", "group-l2: {weight: W, groups: labels, weights: w}\ngroup-l2: {weight: W, size: k}      W sum_g w_g ||b_g||_2; a label for each entry of b, negative: in none;\nw by group, in the order of the labels (default: square roots of the sizes)", parseGroup(prox.NewGroupL2, norm2)},
		{"group-linf", "group-linf: ...                     the same with ||b_g||_inf", parseGroup(prox.NewGroupLinf, norm1)},
		{"sorted-l1", "sorted-l1: {weight: W, bh: q}       SLOPE, W sum_i s_i |b|_(i), s_i = Phi^-1(1 - i q / (2 p));\nsorted-l1: {weight: W, sequence: s} or s an array that does not increase", parseSortedL1},
		{"tv1d", "tv1d: W                             W sum_i |b_{i+1} - b_i|, of each row of a matrix", parseTV1D},
		{"nuclear", "nuclear: {weight: W, shape: [m, n]} W ||B||_*", parseNuclear},
		{"nonnegative", "nonnegative                         b >= 0", parseNonNegative},
		{"box", "box: {lo: a, hi: c}                 a <= b <= c, numbers or arrays", parseBox},
		{"linf-ball", "linf-ball: {radius: W}              ||b||_inf <= W", parseBall("linf-ball", "radius", func(n int, w float64) prox.Prox { return prox.NewLinfBall(n, w) })},
		{"l1-ball", "l1-ball: {radius: W}                ||b||_1 <= W", parseBall("l1-ball", "radius", func(n int, w float64) prox.Prox { return prox.NewL1Ball(n, w) })},
		{"simplex", "simplex: {sum: W}                   b >= 0, sum_j b_j = W", parseBall("simplex", "sum", func(n int, w float64) prox.Prox { return prox.NewSimplex(n, w) })},
		{"scaled", "scaled: {by: 2, regularizer: R}     a multiple", parseScaled},
		{"blocks", "blocks: [R1, R2, ...]               a regularizer for each block of b: those of hstack or blockdiag,\nor of sizes of their own, as - {l1: W, size: 10} or - {nuclear: W, shape: [m, n]}", parseBlocks},
	}
}

func (s *Spec) parseRegularizer(n *yaml.Node) (*regularizerNode, error) {
	return parseNode(s, n, "regularizer", regularizerKinds, func(n specNode) *regularizerNode { return &regularizerNode{specNode: n} })
}

// arguments reads the arguments of a regularizer: a mapping, or a single value that
// stands for the first key.
func (s *Spec) arguments(n *regularizerNode, args *yaml.Node, keys ...string) (section, error) {
	switch {
	case args == nil:
		return section{}, s.errorf(n.line, "%s has no arguments, expected %s: {%s: ...}", n.kind, n.kind, keys[0])
	case args.Kind == yaml.ScalarNode:
		return section{n.line, map[string]*yaml.Node{keys[0]: args}}, nil
	}
	f, err := s.fields(args, n.kind, keys...)
	if err == nil && f.nodes[keys[0]] == nil {
		err = s.errorf(n.line, "%s has no %s, expected %s: {%s: ...}", n.kind, keys[0], n.kind, keys[0])
	}
	return f, err
}

// weight reads a weight.
func (s *Spec) weight(n *regularizerNode, v *yaml.Node, what string, zero, finite bool) (weightExpr, error) {
	text, err := s.text(v, what)
	if err != nil {
		return weightExpr{}, err
	}
	bad := s.errorf(v.Line, "%s is %.40q, expected a positive number, lambda, lambda2 or gamma, or a multiple such as 0.5*lambda", what, text)
	e := weightExpr{scale: 1}
	factor, name, product := strings.Cut(text, "*")
	if !product {
		factor, name = "1", text
	}
	if name = strings.TrimSpace(name); slices.Contains(weightNames, name) {
		e.name = name
	} else if product {
		return e, bad
	} else {
		factor = text
	}
	if e.scale, err = parseNumber(strings.TrimSpace(factor)); err != nil {
		if strings.HasSuffix(text, "max") {
			bad = s.errorf(v.Line, "%s is %.40q, expected a name here, as lambda, and lambda: %s at the left margin", what, text, text)
		}
		return e, bad
	}
	if e.scale < 0 || e.scale == 0 && !(zero && e.name == "") || math.IsInf(e.scale, 0) && (finite || e.name != "") {
		return e, bad
	}
	n.weights = append(n.weights, weightUse{e, v.Line, zero, finite})
	return e, nil
}

// single is the list of one penalty.
func (n *regularizerNode) single(p penalty) []*penalty {
	p.line, p.factor = n.line, 1
	return []*penalty{&p}
}

func parseZero(s *Spec, n *regularizerNode, args *yaml.Node) error {
	n.build = func(_ *specBuilder, in part, _ []part) ([]*penalty, error) {
		p := penalty{n: length(in.shape), free: true, make: func(map[string]float64) (prox.Prox, error) { return prox.Zero(), nil }}
		for j := range p.n {
			p.unpenalized = append(p.unpenalized, j)
		}
		return n.single(p), nil
	}
	return s.noArguments(n, args)
}

func (s *Spec) noArguments(n *regularizerNode, args *yaml.Node) error {
	if args != nil && !(args.Kind == yaml.MappingNode && len(args.Content) == 0) {
		return s.errorf(args.Line, "%s has arguments, expected none", n.kind)
	}
	return nil
}

func parseL1(s *Spec, n *regularizerNode, args *yaml.Node) error {
	f, err := s.arguments(n, args, "weight", "weights", "unpenalized")
	if err != nil {
		return err
	}
	w, err := s.weight(n, f.nodes["weight"], "weight", false, false)
	if err != nil {
		return err
	}
	var weights, indices *arrayRef
	if v := f.nodes["weights"]; v != nil {
		if weights, err = s.ref(v, "weights"); err != nil {
			return err
		}
	}
	averages := false
	free := f.nodes["unpenalized"]
	if free != nil {
		if averages = free.Value == "averages"; !averages {
			if indices, err = s.ref(free, "unpenalized"); err != nil {
				return err
			}
		}
	}
	n.build = func(b *specBuilder, in part, _ []part) ([]*penalty, error) {
		p := penalty{n: length(in.shape), norm: w, dual: dualOfL1}
		if weights == nil && free == nil {
			p.make = func(v map[string]float64) (prox.Prox, error) { return prox.NewL1(w.value(v)), nil }
			return n.single(p), nil
		}
		each := slices.Repeat([]float64{1}, p.n)
		if weights != nil {
			a := b.array(weights)
			if len(a.Data) != p.n {
				return nil, b.errorf(weights.line, "weights have %d values, expected %d, one for each entry of b", len(a.Data), p.n)
			}
			copy(each, a.Data)
		}
		places := in.averages
		if indices != nil {
			var err error
			if places, err = integers(b.array(indices)); err != nil {
				return nil, b.at(indices.line, err)
			}
		} else if averages && places == nil {
			return nil, b.errorf(free.Line, "unpenalized is averages, but b is not the coefficients of a wavelet or dct: expected the operator, or synthesis, to end in adjoint: wavelet or adjoint: dct")
		}
		for _, j := range places {
			if j < 0 || j >= p.n {
				return nil, b.errorf(free.Line, "unpenalized holds %d, expected 0 to %d", j, p.n-1)
			}
			each[j] = 0
		}
		for j, w := range each {
			if w == 0 {
				p.unpenalized = append(p.unpenalized, j)
			}
		}
		p.free = p.unpenalized != nil
		p.dual = func(g []float64) (float64, error) {
			m := 0.0
			for j, x := range g {
				if each[j] > 0 {
					m = max(m, math.Abs(x)/each[j])
				}
			}
			return m, nil
		}
		var err error
		p.make, err = b.scalable(n.line, w, func(w float64) (prox.Prox, error) { return prox.NewWeightedL1(b.dev, w, each) })
		return n.single(p), err
	}
	return nil
}

func dualOfL1(g []float64) (float64, error) { return maxAbs(g), nil }

// scalable makes a regularizer that holds memory on the device once, and gives it
// any weight there.
func (b *specBuilder) scalable(line int, w weightExpr, newProx func(w float64) (prox.Prox, error)) (func(map[string]float64) (prox.Prox, error), error) {
	one, err := newProx(1)
	if one, err = b.kept(line, one, err); err != nil {
		return nil, err
	}
	return func(v map[string]float64) (prox.Prox, error) {
		if c := w.value(v); !math.IsInf(c, 1) {
			return prox.NewScaled(c, one), nil
		}
		r, err := newProx(math.Inf(1))
		return b.kept(line, r, err)
	}, nil
}

// kept hands a regularizer that holds device memory over to the problem.
func (b *specBuilder) kept(line int, r prox.Prox, err error) (prox.Prox, error) {
	if err != nil {
		return nil, b.at(line, trim(err))
	}
	b.p.own(r)
	return r, nil
}

func parseSquaredL2(s *Spec, n *regularizerNode, args *yaml.Node) error {
	f, err := s.arguments(n, args, "weight")
	if err != nil {
		return err
	}
	w, err := s.weight(n, f.nodes["weight"], "weight", false, true)
	n.build = func(_ *specBuilder, in part, _ []part) ([]*penalty, error) {
		return n.single(penalty{n: length(in.shape), free: true, make: func(v map[string]float64) (prox.Prox, error) { return prox.NewSquaredL2(w.value(v)), nil }}), nil
	}
	return err
}

func parseElasticNet(s *Spec, n *regularizerNode, args *yaml.Node) error {
	f, err := s.arguments(n, args, "weight", "weight2")
	if err != nil {
		return err
	}
	if f.nodes["weight2"] == nil {
		return s.errorf(n.line, "elastic-net has no weight2, expected elastic-net: {weight: lambda, weight2: lambda2}")
	}
	w, err := s.weight(n, f.nodes["weight"], "weight", false, false)
	if err != nil {
		return err
	}
	w2, err := s.weight(n, f.nodes["weight2"], "weight2", true, true)
	n.build = func(_ *specBuilder, in part, _ []part) ([]*penalty, error) {
		return n.single(penalty{n: length(in.shape), norm: w, dual: dualOfL1, make: func(v map[string]float64) (prox.Prox, error) {
			return prox.NewElasticNet(w.value(v), w2.value(v)), nil
		}}), nil
	}
	return err
}

func parseL2(s *Spec, n *regularizerNode, args *yaml.Node) error {
	f, err := s.arguments(n, args, "weight")
	if err != nil {
		return err
	}
	w, err := s.weight(n, f.nodes["weight"], "weight", false, false)
	n.build = func(_ *specBuilder, in part, _ []part) ([]*penalty, error) {
		return n.single(penalty{n: length(in.shape), norm: w,
			dual: func(g []float64) (float64, error) { return norm2(g), nil },
			make: func(v map[string]float64) (prox.Prox, error) { return prox.NewL2(w.value(v)), nil }}), nil
	}
	return err
}

func norm2(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v * v
	}
	return math.Sqrt(sum)
}

func norm1(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += math.Abs(v)
	}
	return sum
}

// parseGroup parses a sum of norms of groups, whose dual norm is given.
func parseGroup(newProx func(array.Device, int, float64, [][]int, []float64) (prox.Prox, error), dual func([]float64) float64) func(*Spec, *regularizerNode, *yaml.Node) error {
	return func(s *Spec, n *regularizerNode, args *yaml.Node) error {
		f, err := s.arguments(n, args, "weight", "groups", "size", "weights")
		if err != nil {
			return err
		}
		if (f.nodes["groups"] == nil) == (f.nodes["size"] == nil) {
			return s.errorf(n.line, "%s needs groups, an array with a label for each entry of b, or size, the length of consecutive groups", n.kind)
		}
		w, err := s.weight(n, f.nodes["weight"], "weight", false, false)
		if err != nil {
			return err
		}
		var labels, weights *arrayRef
		size := 0
		if v := f.nodes["groups"]; v != nil {
			if labels, err = s.ref(v, "groups"); err != nil {
				return err
			}
		} else if size, err = s.positive(f.nodes["size"], "size"); err != nil {
			return err
		}
		if v := f.nodes["weights"]; v != nil {
			if weights, err = s.ref(v, "weights"); err != nil {
				return err
			}
		}
		n.build = func(b *specBuilder, in part, _ []part) ([]*penalty, error) {
			p := penalty{n: length(in.shape), norm: w}
			groups, err := b.groups(labels, size, p.n)
			if err != nil {
				return nil, err
			}
			each := make([]float64, len(groups))
			for g, entries := range groups {
				each[g] = math.Sqrt(float64(len(entries)))
			}
			if weights != nil {
				a := b.array(weights)
				if len(a.Data) != len(groups) {
					return nil, b.errorf(weights.line, "weights have %d values, expected %d, one for each group", len(a.Data), len(groups))
				}
				each = a.Data
			}
			held := make([]bool, p.n)
			for g, entries := range groups {
				for _, j := range entries {
					held[j] = each[g] > 0
				}
			}
			for j, h := range held {
				if !h {
					p.unpenalized = append(p.unpenalized, j)
				}
			}
			p.free = p.unpenalized != nil
			p.dual = func(g []float64) (float64, error) {
				m := 0.0
				for i, entries := range groups {
					x := make([]float64, len(entries))
					for u, j := range entries {
						x[u] = g[j]
					}
					if each[i] > 0 {
						m = max(m, dual(x)/each[i])
					}
				}
				return m, nil
			}
			p.make, err = b.scalable(n.line, w, func(w float64) (prox.Prox, error) { return newProx(b.dev, p.n, w, groups, each) })
			return n.single(p), err
		}
		return nil
	}
}

// groups are the entries of each group, in the order of the labels.
func (b *specBuilder) groups(labels *arrayRef, size, p int) ([][]int, error) {
	if labels == nil {
		if p%size != 0 {
			return nil, fmt.Errorf("size is %d, expected a divisor of b's length %d", size, p)
		}
		groups := make([][]int, p/size)
		for j := range p {
			groups[j/size] = append(groups[j/size], j)
		}
		return groups, nil
	}
	label, err := integers(b.array(labels))
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
		return nil, b.errorf(labels.line, "groups have negative labels alone: no entry of b is in a group")
	}
	order := make([]int, 0, len(members))
	for g := range members {
		order = append(order, g)
	}
	slices.Sort(order)
	groups := make([][]int, len(order))
	for i, g := range order {
		groups[i] = members[g]
	}
	return groups, nil
}

func parseSortedL1(s *Spec, n *regularizerNode, args *yaml.Node) error {
	f, err := s.arguments(n, args, "weight", "bh", "sequence")
	if err != nil {
		return err
	}
	if (f.nodes["bh"] == nil) == (f.nodes["sequence"] == nil) {
		return s.errorf(n.line, "sorted-l1 needs bh, a level such as 0.1, or sequence, an array of weights that does not increase")
	}
	w, err := s.weight(n, f.nodes["weight"], "weight", false, true)
	if err != nil {
		return err
	}
	q := 0.0
	var sequence *arrayRef
	if v := f.nodes["bh"]; v != nil {
		if q, err = s.number(v, "bh"); err != nil {
			return err
		}
		if !(q > 0 && q < 1) {
			return s.errorf(v.Line, "bh is %g, expected a number between 0 and 1", q)
		}
	} else if sequence, err = s.ref(f.nodes["sequence"], "sequence"); err != nil {
		return err
	}
	n.build = func(b *specBuilder, in part, _ []part) ([]*penalty, error) {
		p := penalty{n: length(in.shape), norm: w}
		weights := make([]float64, p.n)
		if sequence == nil {
			for i := range weights {
				weights[i] = distuv.UnitNormal.Quantile(1 - float64(i+1)*q/(2*float64(p.n)))
			}
		} else if a := b.array(sequence); len(a.Data) != p.n {
			return nil, b.errorf(sequence.line, "sequence has %d values, expected %d, the length of b", len(a.Data), p.n)
		} else {
			copy(weights, a.Data)
		}
		if !(weights[0] > 0) || math.IsInf(weights[0], 0) {
			return nil, fmt.Errorf("sorted-l1 has a first weight of %g, expected a positive number", weights[0])
		}
		p.dual = func(g []float64) (float64, error) {
			// b = 0 exactly where every partial sum of |g| in decreasing order is at most
			// that of the weights.
			size := make([]float64, len(g))
			for j, x := range g {
				size[j] = math.Abs(x)
			}
			slices.SortFunc(size, func(a, b float64) int { return cmp.Compare(b, a) })
			m, above, below := 0.0, 0.0, 0.0
			for i, x := range size {
				above += x
				below += weights[i]
				m = max(m, above/below)
			}
			return m, nil
		}
		p.make = func(v map[string]float64) (prox.Prox, error) {
			scaled := make([]float64, p.n)
			for i, x := range weights {
				scaled[i] = w.value(v) * x
			}
			r, err := prox.NewSortedL1(scaled)
			return b.kept(n.line, r, err)
		}
		return n.single(p), nil
	}
	return nil
}

func parseTV1D(s *Spec, n *regularizerNode, args *yaml.Node) error {
	f, err := s.arguments(n, args, "weight")
	if err != nil {
		return err
	}
	w, err := s.weight(n, f.nodes["weight"], "weight", false, false)
	n.build = func(_ *specBuilder, in part, _ []part) ([]*penalty, error) {
		k := in.shape[len(in.shape)-1]
		p := penalty{n: length(in.shape), norm: w, free: true}
		p.dual = func(g []float64) (float64, error) { return maxVariation(g, k), nil }
		p.make = func(v map[string]float64) (prox.Prox, error) { return newTV1D(p.n/k, k, w.value(v)), nil }
		return n.single(p), nil
	}
	return err
}

func parseNuclear(s *Spec, n *regularizerNode, args *yaml.Node) error {
	f, err := s.arguments(n, args, "weight", "shape")
	if err != nil {
		return err
	}
	w, err := s.weight(n, f.nodes["weight"], "weight", false, false)
	if err != nil {
		return err
	}
	own, err := s.ownShape(f)
	if err != nil {
		return err
	}
	n.build = func(b *specBuilder, in part, _ []part) ([]*penalty, error) {
		shape := in.shape
		if own != nil {
			shape = own
		}
		if len(shape) != 2 || length(shape) != length(in.shape) {
			return nil, fmt.Errorf("nuclear of an array of shape %s, expected a matrix with %d entries, as nuclear: {weight: lambda, shape: [m, n]}", formatShape(shape), length(in.shape))
		}
		matrix := array.Shape{Rows: shape[0], Cols: shape[1]}
		return n.single(penalty{n: length(shape), norm: w,
			dual: func(g []float64) (float64, error) { return spectralNorm(g, matrix) },
			make: func(v map[string]float64) (prox.Prox, error) { return prox.NewNuclear(matrix, w.value(v)), nil }}), nil
	}
	return nil
}

func parseNonNegative(s *Spec, n *regularizerNode, args *yaml.Node) error {
	n.build = func(_ *specBuilder, in part, _ []part) ([]*penalty, error) {
		return n.single(penalty{n: length(in.shape), free: true, make: func(map[string]float64) (prox.Prox, error) { return prox.NonNegative(), nil }}), nil
	}
	return s.noArguments(n, args)
}

func parseBox(s *Spec, n *regularizerNode, args *yaml.Node) error {
	if args == nil || args.Kind != yaml.MappingNode {
		return s.errorf(n.line, "box has no bounds, expected box: {lo: 0, hi: 1}")
	}
	f, err := s.fields(args, n.kind, "lo", "hi")
	if err != nil {
		return err
	}
	bound := func(key string, none float64) (func(b *specBuilder, p int) ([]float64, error), error) {
		v := f.nodes[key]
		if v == nil {
			return func(_ *specBuilder, p int) ([]float64, error) { return slices.Repeat([]float64{none}, p), nil }, nil
		}
		if v.Kind == yaml.ScalarNode {
			if x, err := parseNumber(v.Value); err == nil {
				return func(_ *specBuilder, p int) ([]float64, error) { return slices.Repeat([]float64{x}, p), nil }, nil
			}
		}
		r, err := s.ref(v, key)
		return func(b *specBuilder, p int) ([]float64, error) {
			a := b.array(r)
			if len(a.Data) != p {
				return nil, b.errorf(v.Line, "%s has %d values, expected %d, one for each entry of b", key, len(a.Data), p)
			}
			return a.Data, nil
		}, err
	}
	lo, err := bound("lo", math.Inf(-1))
	if err != nil {
		return err
	}
	hi, err := bound("hi", math.Inf(1))
	if err != nil {
		return err
	}
	n.build = func(b *specBuilder, in part, _ []part) ([]*penalty, error) {
		p := penalty{n: length(in.shape), free: true}
		low, err := lo(b, p.n)
		if err != nil {
			return nil, err
		}
		high, err := hi(b, p.n)
		if err != nil {
			return nil, err
		}
		r, err := prox.NewBox(b.dev, low, high)
		if r, err = b.kept(n.line, r, err); err != nil {
			return nil, err
		}
		p.make = func(map[string]float64) (prox.Prox, error) { return r, nil }
		return n.single(p), nil
	}
	return nil
}

// parseBall parses a constraint with one positive number.
func parseBall(kind, key string, newProx func(n int, w float64) prox.Prox) func(*Spec, *regularizerNode, *yaml.Node) error {
	return func(s *Spec, n *regularizerNode, args *yaml.Node) error {
		f, err := s.arguments(n, args, key)
		if err != nil {
			return err
		}
		w, err := s.weight(n, f.nodes[key], key, false, true)
		n.build = func(_ *specBuilder, in part, _ []part) ([]*penalty, error) {
			p := penalty{n: length(in.shape), free: true}
			p.make = func(v map[string]float64) (prox.Prox, error) { return newProx(p.n, w.value(v)), nil }
			return n.single(p), nil
		}
		return err
	}
}

func parseScaled(s *Spec, n *regularizerNode, args *yaml.Node) error {
	const expected = "{by: 2, regularizer: R}"
	if args == nil || args.Kind != yaml.MappingNode {
		return s.errorf(n.line, "scaled has no arguments, expected scaled: %s", expected)
	}
	whole := func(f section) bool { return f.has("by") && f.has("regularizer") }
	f, err := s.keys(n.specNode, args, expected, whole, "by", "regularizer")
	if err != nil {
		return err
	}
	by, err := s.number(f.nodes["by"], "by")
	if err != nil {
		return err
	}
	if !(by > 0) || math.IsInf(by, 0) {
		return s.errorf(f.nodes["by"].Line, "by is %g, expected a positive finite number", by)
	}
	child, err := s.parseRegularizer(f.nodes["regularizer"])
	if err != nil {
		return err
	}
	n.children = []*regularizerNode{child}
	n.build = func(b *specBuilder, in part, parts []part) ([]*penalty, error) {
		ps, err := b.regularizer(child, in, parts)
		for _, p := range ps {
			p.factor *= by
		}
		return ps, err
	}
	return nil
}

// block is one entry of blocks, and the shape that it gives itself.
type block struct {
	node *regularizerNode
	own  []int
	line int
}

func parseBlocks(s *Spec, n *regularizerNode, args *yaml.Node) error {
	if args == nil || args.Kind != yaml.SequenceNode || len(args.Content) == 0 {
		return s.errorf(n.line, "blocks has no list of regularizers, expected blocks: [R1, R2, ...]")
	}
	var list []block
	for _, c := range args.Content {
		e := block{line: c.Line}
		// A block's own size stands beside its regularizer.
		rest := *c
		if c.Kind == yaml.MappingNode {
			rest.Content = nil
			for i := 0; i < len(c.Content); i += 2 {
				if key := c.Content[i]; key.Value == "shape" || key.Value == "size" {
					if e.own != nil {
						return s.errorf(key.Line, "a block has size and shape, expected one of them")
					}
					var err error
					if e.own, err = s.shape(c.Content[i+1], key.Value); err != nil {
						return err
					}
					continue
				}
				rest.Content = append(rest.Content, c.Content[i], c.Content[i+1])
			}
		}
		var err error
		if e.node, err = s.parseRegularizer(&rest); err != nil {
			return err
		}
		list = append(list, e)
		n.children = append(n.children, e.node)
	}
	n.build = func(b *specBuilder, in part, parts []part) ([]*penalty, error) {
		var all []*penalty
		left := length(in.shape)
		for i, e := range list {
			at := part{shape: e.own}
			switch {
			case e.own != nil:
			case len(parts) == len(list):
				at = parts[i]
			default:
				return nil, b.errorf(e.line, "the size of block %d does not follow from the operator, which has %s; expected size: n or shape: [m, n] in the block", i+1, blockCount(len(parts)))
			}
			if left -= length(at.shape); left < 0 {
				break
			}
			ps, err := b.regularizer(e.node, at, nil)
			if err != nil {
				return nil, err
			}
			all = append(all, ps...)
		}
		if left != 0 {
			return nil, fmt.Errorf("blocks have %d entries, expected %d, the length of b", length(in.shape)-left, length(in.shape))
		}
		return all, nil
	}
	return nil
}

func blockCount(n int) string {
	if n < 2 {
		return "no blocks"
	}
	return fmt.Sprintf("%d blocks", n)
}

// regularizer builds a node.
func (b *specBuilder) regularizer(n *regularizerNode, in part, parts []part) ([]*penalty, error) {
	ps, err := n.build(b, in, parts)
	return ps, b.at(n.line, err)
}

// build is the specification as a problem.
func (s *Spec) build(p *Problem, data Data, hyper Hyper) error {
	if err := checkVector("y", data.Y, data.YShape, len(data.YShape), "an array"); err != nil {
		return s.at(s.data.line, err)
	}
	if err := checkMu(data); err != nil {
		return s.at(s.data.line, err)
	}
	b := &specBuilder{s, p.dev, p}
	a, err := b.operator(s.operator, data.YShape, nil)
	if err != nil {
		return err
	}
	if s.synthesis != nil {
		w, err := b.operator(s.synthesis, a.cols, nil)
		if err != nil {
			return err
		}
		p.Signal, p.SignalShape = w.op, a.cols
		a = multiply([]built{a, w})
	}
	p.Operator, p.MuShape, p.BShape = a.op, data.YShape, a.cols
	p.D, p.P = a.op.Dims()
	if data.Intercept {
		if s.synthesis != nil {
			return s.errorf(s.synthesis.line, "an intercept is asked for, but the signal of a synthesis has none")
		}
		p.center()
		data.Y = data.fitted()
	}
	penalties, err := b.regularizer(s.regularizer, part{a.cols, a.colAverages}, a.parts)
	if err != nil {
		return err
	}
	if err := b.weights(penalties, data, hyper); err != nil {
		return err
	}
	p.reweigh = func(lambda, lambda2, gamma float64) (prox.Prox, error) {
		return b.combine(penalties, map[string]float64{"lambda": lambda, "lambda2": lambda2, "gamma": gamma})
	}
	if p.Regularizer, err = p.reweigh(p.Lambda, p.Lambda2, p.Gamma); err != nil {
		return err
	}
	p.DefaultSolver = b.solver()
	return nil
}

// combine is the sum of the penalties at the given weights.
func (b *specBuilder) combine(penalties []*penalty, weights map[string]float64) (prox.Prox, error) {
	for _, u := range b.Spec.regularizer.uses() {
		// A multiple may overflow, or vanish, where its name does not.
		if v := u.expr.value(weights); !(v > 0 || u.zero && v == 0) || u.finite && math.IsInf(v, 0) {
			return nil, b.errorf(u.line, "a weight is %g, expected a positive number", v)
		}
	}
	blocks := make([]prox.Prox, len(penalties))
	for i, p := range penalties {
		r, err := p.make(weights)
		if err != nil {
			return nil, err
		}
		if p.factor != 1 {
			r = prox.NewScaled(p.factor, r)
		}
		if len(penalties) == 1 {
			return r, nil
		}
		blocks[i] = prox.Block{Prox: r, N: p.n}
	}
	return prox.NewSeparable(blocks...), nil
}

// solver is the solver that suits the problem.
func (b *specBuilder) solver() string {
	if prox.StructureOf(b.p.Regularizer).Quadratic.Known {
		return quadraticSolver(b.p.Operator)
	}
	if linops.StructureOf(b.p.Operator).Columns.Value > 0 {
		// One step from anywhere is the solution.
		return "ista"
	}
	return "fista"
}

// weights sets the values of lambda, lambda2 and gamma.
func (b *specBuilder) weights(penalties []*penalty, data Data, hyper Hyper) error {
	p := b.p
	uses := b.Spec.regularizer.uses()
	var gradient []float64
	for _, w := range []struct {
		name string
		flag Weight
		file *float64
		to   *float64
	}{{"lambda", hyper.Lambda, data.Lambda, &p.Lambda}, {"lambda2", hyper.Lambda2, data.Lambda2, &p.Lambda2}, {"gamma", hyper.Gamma, data.Gamma, &p.Gamma}} {
		i := slices.IndexFunc(uses, func(u weightUse) bool { return u.expr.name == w.name })
		if i < 0 {
			continue
		}
		line, zero, finite := uses[i].line, true, false
		for _, u := range uses {
			if u.expr.name == w.name {
				zero, finite = zero && u.zero, finite || u.finite
			}
		}
		weight := w.flag
		if own := b.Spec.weights[w.name]; own != nil && !weight.given {
			line, weight = own.line, own.weight
		}
		weight = weight.or(w.file)
		var err error
		switch {
		case !weight.given:
			err = fmt.Errorf("%s has no value: expected %s: NUMBER in the specification, the flag --%s, or %s in the data file", w.name, w.name, w.name, w.name)
		case weight == Absolute(0) && zero:
			*w.to = 0
		default:
			*w.to, err = p.weight(w.name, weight, b.maximum(w.name, penalties, data, &gradient))
			if err == nil && finite && math.IsInf(*w.to, 0) {
				err = fmt.Errorf("%s is infinite, expected a finite number", w.name)
			}
		}
		if w.flag.given && err != nil {
			return err
		}
		if err != nil {
			return b.at(line, err)
		}
	}
	return nil
}

// So many columns of A, and so many of their values, are projected on for a maximum:
// some seconds, and 128 MiB.
const (
	maxUnpenalized       = 256
	maxUnpenalizedValues = 1 << 24
)

// maximum computes the smallest weight of that name at which what bears it is 0.
func (b *specBuilder) maximum(name string, penalties []*penalty, data Data, gradient *[]float64) func() (float64, error) {
	found := false
	for _, p := range penalties {
		found = found || p.dual != nil && p.norm.name == name
	}
	if !found {
		return nil
	}
	return func() (float64, error) {
		if *gradient == nil {
			var unpenalized []int
			if !linops.StructureOf(b.p.Operator).Columns.Known {
				at := 0
				for _, p := range penalties {
					if p.free && p.unpenalized == nil || p.norm.name == "" && len(p.unpenalized) < p.n {
						return 0, fmt.Errorf("%s is given as a multiple of its maximum, which is not known: the penalty at line %d leaves coordinates of b free at %s's maximum, and the operator's columns are not orthogonal; expected a number", name, p.line, name)
					}
					for _, j := range p.unpenalized {
						unpenalized = append(unpenalized, at+j)
					}
					at += p.n
				}
			}
			if n := len(unpenalized); n > maxUnpenalized || n*b.p.D > maxUnpenalizedValues {
				return 0, fmt.Errorf("%s is given as a multiple of its maximum, which is not known for %d coordinates of b without a penalty and %d values in y: expected a number, or at most %d such coordinates", name, n, b.p.D, min(maxUnpenalized, maxUnpenalizedValues/b.p.D))
			}
			*gradient = b.gradient(b.residual(data.Y, unpenalized))
		}
		top, at := 0.0, 0
		for _, p := range penalties {
			g := (*gradient)[at:][:p.n]
			if at += p.n; p.dual == nil || p.norm.name != name {
				continue
			}
			m, err := p.dual(g)
			if err != nil {
				return 0, err
			}
			top = max(top, m/(p.factor*p.norm.scale))
		}
		return top, nil
	}
}

// residual is y - P y, where P projects on the span of some columns of A: what is left
// where their coordinates of b fit and the others are 0. The columns are made
// orthonormal one by one (Gram-Schmidt, twice); one that depends on those before it adds nothing.
func (b *specBuilder) residual(y []float64, columns []int) []float64 {
	if len(columns) == 0 {
		return y
	}
	const eps = 1e-13
	d, p := b.p.D, b.p.P
	left, norm := slices.Clone(y), norm2(y)
	remove := func(x, q []float64) {
		c := floats.Dot(q, x)
		floats.AddScaled(x, -c, q)
	}
	var basis [][]float64
	unit, image := b.dev.Alloc(1, p), b.dev.Alloc(1, d)
	defer unit.Free()
	defer image.Free()
	e := make([]float64, p)
	for _, j := range columns {
		e[j] = 1
		b.dev.Upload(unit, e)
		e[j] = 0
		b.p.Operator.Forward(image, unit)
		x := image.ToHost()
		size := norm2(x)
		for range 2 {
			for _, q := range basis {
				remove(x, q)
			}
		}
		if rest := norm2(x); rest > eps*size {
			floats.Scale(1/rest, x)
			basis = append(basis, x)
			remove(left, x)
		}
	}
	// Rounding that is left of a y in the span is no maximum.
	if norm2(left) <= eps*norm {
		clear(left)
	}
	return left
}

// gradient is A*y.
func (b *specBuilder) gradient(y []float64) []float64 {
	z, g := b.dev.Alloc(1, len(y)), b.dev.Alloc(1, b.p.P)
	defer z.Free()
	defer g.Free()
	b.dev.Upload(z, y)
	b.p.Operator.Adjoint(g, z)
	return g.ToHost()
}
