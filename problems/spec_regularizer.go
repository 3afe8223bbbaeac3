package problems

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"surepipe/array"
	"surepipe/prox"
)

// regularizerNode is a parsed regularizer.
type regularizerNode struct {
	node
	weights  []weightUse
	children []*regularizerNode
	build    regularizerBuild
}

// regularizerBuild makes the penalties of a node. in is the block of b that the node penalizes, and
// parts are the blocks that the operator divides it into, where there are several.
type regularizerBuild func(b *specBuilder, in part, parts []part) ([]*penalty, error)

type regularizerKind = kind[regularizerNode, regularizerBuild]

// regularizerKinds is the table of regularizers. It is filled by init, because regularizers contain
// regularizers.
var regularizerKinds []regularizerKind

func init() {
	regularizerKinds = []regularizerKind{
		zeroRegularizer,
		l1Regularizer,
		complexL1Regularizer,
		squaredL2Regularizer,
		elasticNetRegularizer,
		l2Regularizer,
		groupL2Regularizer,
		groupLinfRegularizer,
		jointL2Regularizer,
		sortedL1Regularizer,
		tv1dRegularizer,
		nuclearRegularizer,
		localLowRankRegularizer,
		shrinkageRegularizer,
		nonnegativeRegularizer,
		boxRegularizer,
		linfBallRegularizer,
		l1BallRegularizer,
		simplexRegularizer,
		l2BallRegularizer,
		equalRegularizer,
		secondOrderRegularizer,
		semidefiniteRegularizer,
		shiftedRegularizer,
		scaledRegularizer,
		blocksRegularizer,
	}
}

func (s *Spec) parseRegularizer(at *yaml.Node) (*regularizerNode, error) {
	n, build, err := parseNode(s, at, "regularizer", regularizerKinds,
		func(n node) *regularizerNode { return &regularizerNode{node: n} })
	if err != nil {
		return nil, err
	}
	n.build = build
	return n, nil
}

// regularizer builds a node.
func (b *specBuilder) regularizer(n *regularizerNode, in part, parts []part) ([]*penalty, error) {
	ps, err := n.build(b, in, parts)
	return ps, b.at(n.line, err)
}

// uses lists the weights of the whole tree.
func (n *regularizerNode) uses() []weightUse {
	all := slices.Clone(n.weights)
	for _, c := range n.children {
		all = append(all, c.uses()...)
	}
	return all
}

// nuclear reports whether the tree contains a nuclear norm.
func (n *regularizerNode) nuclear() bool {
	return n.kind == "nuclear" || slices.ContainsFunc(n.children, (*regularizerNode).nuclear)
}

// besideSparse reports whether the tree has a nuclear norm and an l1 norm for different blocks.
func (n *regularizerNode) besideSparse() bool {
	isSparse := func(c *regularizerNode) bool { return c.kind == "l1" }
	return n.kind == "blocks" && slices.ContainsFunc(n.children, (*regularizerNode).nuclear) &&
		slices.ContainsFunc(n.children, isSparse)
}

// penalty is a regularizer of n consecutive coordinates of b.
type penalty struct {
	n, line int
	// factor multiplies the penalty: see scaled.
	factor float64
	// norm is the weight of the norm in the penalty, and dual is the dual norm of a gradient: b = 0
	// exactly where dual <= weight. dual is nil where there is no norm. dualAt is dual of a
	// gradient with the given values at the given places and zeros elsewhere; nil where dual does.
	norm   weightExpr
	dual   func(g []float64) (float64, error)
	dualAt func(dev array.Device, values []float64, places []int) (float64, error)
	// free says that no weight holds some coordinates at 0. If these have no penalty at all,
	// unpenalized lists them.
	free        bool
	unpenalized []int
	// direct says that it is a term without an operator.
	direct bool
	// make returns the regularizer at the given weights.
	make func(weights map[string]float64) (prox.Prox, error)
}

// single is the list of one penalty.
func (n *regularizerNode) single(p penalty) []*penalty {
	p.line, p.factor = n.line, 1
	return []*penalty{&p}
}

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

// weightUse is a weight in a regularizer, and whether it may be zero and must be finite.
type weightUse struct {
	expr         weightExpr
	line         int
	zero, finite bool
}

// weight reads a weight.
func (s *Spec) weight(n *regularizerNode, v *yaml.Node, what string, zero, finite bool) (weightExpr, error) {
	text, err := s.text(v, what)
	if err != nil {
		return weightExpr{}, err
	}
	bad := s.errorf(v.Line, "%s is %.40q, expected a positive number, lambda, lambda2 or gamma, or a multiple "+
		"such as 0.5*lambda", what, text)
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
			bad = s.errorf(v.Line, "%s is %.40q, expected a name here, such as lambda, and lambda: %s at the "+
				"left margin", what, text, text)
		}
		return e, bad
	}
	if e.scale < 0 || e.scale == 0 && !(zero && e.name == "") || math.IsInf(e.scale, 0) && (finite || e.name != "") {
		return e, bad
	}
	n.weights = append(n.weights, weightUse{e, v.Line, zero, finite})
	return e, nil
}

// weighted reads the arguments of a regularizer whose first key, weight, is a positive weight, which may be
// inf.
func (s *Spec) weighted(n *regularizerNode, args *yaml.Node, keys ...string) (f section, w weightExpr, err error) {
	if f, err = s.arguments(n, args, keys...); err != nil {
		return section{}, weightExpr{}, err
	}
	w, err = s.weight(n, f.nodes["weight"], "weight", false, false)
	return f, w, err
}

// arguments reads the arguments of a regularizer: a mapping, or a single value, which stands for
// the first key.
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

func (s *Spec) noArguments(n *regularizerNode, args *yaml.Node) error {
	if args != nil && !(args.Kind == yaml.MappingNode && len(args.Content) == 0) {
		return s.errorf(args.Line, "%s has arguments, expected none", n.kind)
	}
	return nil
}

// weighted is the parser of a regularizer whose only argument is a weight, which may be infinite
// unless finite is set. build makes its penalty on a block of b.
func weighted(key string, finite bool, build func(w weightExpr, in part) penalty) func(*Spec, *regularizerNode,
	*yaml.Node) (regularizerBuild, error) {
	return func(s *Spec, n *regularizerNode, args *yaml.Node) (regularizerBuild, error) {
		f, err := s.arguments(n, args, key)
		if err != nil {
			return nil, err
		}
		w, err := s.weight(n, f.nodes[key], key, false, finite)
		return func(_ *specBuilder, in part, _ []part) ([]*penalty, error) {
			p := build(w, in)
			p.n = length(in.shape)
			return n.single(p), nil
		}, err
	}
}

// at returns the function make of a regularizer that depends on one weight.
func (e weightExpr) at(r func(w float64) prox.Prox) func(map[string]float64) (prox.Prox, error) {
	return func(v map[string]float64) (prox.Prox, error) { return r(e.value(v)), nil }
}

// scalable builds a regularizer that holds device memory once, and scales it to any weight.
func (b *specBuilder) scalable(line int, w weightExpr,
	newProx func(w float64) (prox.Prox, error)) (func(map[string]float64) (prox.Prox, error), error) {
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

// kept hands a regularizer that may hold device memory over to the problem.
func (b *specBuilder) kept(line int, r prox.Prox, err error) (prox.Prox, error) {
	if err != nil {
		return nil, b.at(line, trim(err))
	}
	b.p.own(func() { prox.Release(r) })
	return r, nil
}

// each returns an array of one number for each of n things.
func (b *specBuilder) each(ref *arrayRef, what string, n int, thing string) ([]float64, error) {
	a := b.array(ref)
	if len(a.Data) != n {
		return nil, b.errorf(ref.line, "%s %d values, expected %d, one for each %s", what, len(a.Data), n, thing)
	}
	return a.Data, nil
}

var zeroRegularizer = regularizerKind{
	name:  "zero",
	forms: []form{{"zero", "0"}},
	parse: func(s *Spec, n *regularizerNode, args *yaml.Node) (regularizerBuild, error) {
		return func(_ *specBuilder, in part, _ []part) ([]*penalty, error) {
			p := penalty{n: length(in.shape), free: true, make: func(map[string]float64) (prox.Prox,
				error) {
				return prox.Zero(), nil
			}}
			for j := range p.n {
				p.unpenalized = append(p.unpenalized, j)
			}
			return n.single(p), nil
		}, s.noArguments(n, args)
	},
}

var scaledRegularizer = regularizerKind{
	name:  "scaled",
	forms: []form{{"scaled: {by: 2, regularizer: R}", "a multiple"}},
	parse: func(s *Spec, n *regularizerNode, args *yaml.Node) (regularizerBuild, error) {
		const expected = "{by: 2, regularizer: R}"
		if args == nil || args.Kind != yaml.MappingNode {
			return nil, s.errorf(n.line, "scaled has no arguments, expected scaled: %s", expected)
		}
		complete := func(f section) bool { return f.has("by") && f.has("regularizer") }
		f, err := s.keys(n.node, args, expected, complete, "by", "regularizer")
		if err != nil {
			return nil, err
		}
		by, err := s.number(f.nodes["by"], "by")
		if err != nil {
			return nil, err
		}
		if !(by > 0) || math.IsInf(by, 0) {
			return nil, s.errorf(f.nodes["by"].Line, "by is %g, expected a positive finite number", by)
		}
		child, err := s.parseRegularizer(f.nodes["regularizer"])
		if err != nil {
			return nil, err
		}
		n.children = []*regularizerNode{child}
		return func(b *specBuilder, in part, parts []part) ([]*penalty, error) {
			ps, err := b.regularizer(child, in, parts)
			for _, p := range ps {
				p.factor *= by
			}
			return ps, err
		}, nil
	},
}

// block is one entry of blocks, with its own shape if it has one.
type block struct {
	node *regularizerNode
	own  []int
	line int
}

var blocksRegularizer = regularizerKind{
	name: "blocks",
	forms: []form{{"blocks: [R1, R2, ...]", "a regularizer for each block of b: those of hstack or blockdiag,\n" +
		"or with sizes of their own, such as - {l1: W, size: 10} or - {nuclear: W, shape: [m, n]}"}},
	parse: func(s *Spec, n *regularizerNode, args *yaml.Node) (regularizerBuild, error) {
		if args == nil || args.Kind != yaml.SequenceNode || len(args.Content) == 0 {
			return nil, s.errorf(n.line, "blocks has no list of regularizers, expected blocks: [R1, R2, ...]")
		}
		var list []block
		for _, c := range args.Content {
			e, err := s.parseBlock(c)
			if err != nil {
				return nil, err
			}
			list = append(list, e)
			n.children = append(n.children, e.node)
		}
		return func(b *specBuilder, in part, parts []part) ([]*penalty, error) {
			var all []*penalty
			left := length(in.shape)
			for i, e := range list {
				at := part{shape: e.own}
				switch {
				case e.own != nil:
				case len(parts) == len(list):
					at = parts[i]
				default:
					return nil, b.errorf(e.line,
						"the size of block %d does not follow from the operator, which has %s; expected size: n "+
							"or shape: [m, n] in the block", i+1, blockCount(len(parts)))
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
				return nil, fmt.Errorf("blocks have %d entries, expected %d, the length of b", length(in.shape)-left,
					length(in.shape))
			}
			return all, nil
		}, nil
	},
}

// parseBlock reads an entry of blocks: a regularizer, with the block's own size or shape beside it.
func (s *Spec) parseBlock(c *yaml.Node) (e block, err error) {
	e.line = c.Line
	rest := *c
	if c.Kind == yaml.MappingNode {
		rest.Content = nil
		for i := 0; i < len(c.Content); i += 2 {
			key, value := c.Content[i], c.Content[i+1]
			if key.Value != "shape" && key.Value != "size" {
				rest.Content = append(rest.Content, key, value)
				continue
			}
			if e.own != nil {
				return e, s.errorf(key.Line, "a block has size and shape, expected one of them")
			}
			if e.own, err = s.shape(value, key.Value); err != nil {
				return e, err
			}
		}
	}
	e.node, err = s.parseRegularizer(&rest)
	return e, err
}

func blockCount(n int) string {
	if n < 2 {
		return "no blocks"
	}
	return fmt.Sprintf("%d blocks", n)
}
