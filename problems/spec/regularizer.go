package spec

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/prox"
)

// RegularizerKind is a kind of regularizer in specifications: a row of the table that help, parser and errors
// read. [RegisterRegularizer] adds one.
type RegularizerKind struct {
	Name string
	// Forms are how it is written, and what it means; W stands for a weight.
	Forms      []Form
	Parameters []Parameter
	// Check rejects arguments that do not belong together, when they are read; nil accepts all.
	Check func(c *Call) error
	// LowRank says that b is a matrix of low rank, and Sparse that most entries of b are 0. Sequences says that the
	// rows of a matrix b are sequences, and None that nothing is penalized.
	LowRank, Sparse, Sequences, None bool
	// Build makes the penalty of a block of b.
	Build func(a *Arguments, in Block) (Penalty, error)

	// list reads a list of regularizers in the place of parameters, and spread makes the penalties of a kind that has
	// others, in place of Build; parts are the blocks that the operator divides b into.
	list   func(n *regularizerNode, args *yaml.Node) error
	spread func(n *regularizerNode, a *Arguments, in Block, parts []Block) ([]*Penalty, error)
}

// Block is a block of b: its shape, and which of its coordinates are the coarsest averages of a wavelet or
// cosine transform, nil where there are none.
type Block struct {
	Shape    []int
	Averages []int
}

// Len is the number of its entries.
func (b Block) Len() int { return lists.Product(b.Shape) }

// Weights are the values of the weights by name.
type Weights map[string]float64

// Penalty is a regularizer of n consecutive coordinates of b.
type Penalty struct {
	// Make returns the regularizer at the given weights.
	Make func(w Weights) (prox.Prox, error)
	// Norm is the weight of the norm in the penalty, and Dual is the dual norm of a gradient: b = 0
	// exactly where Dual <= the weight. Dual is nil where there is no norm. DualAt is Dual of a
	// gradient with the given values at the given places and zeros elsewhere; nil where Dual does.
	Norm   Expr
	Dual   func(g []float64) (float64, error)
	DualAt func(dev array.Device, values []float64, places []int) (float64, error)
	// Unit is the weight that suits noise of the standard deviation sigma where A = I; nil where it is not known.
	Unit func(sigma float64) float64
	// Free says that no weight holds some coordinates at 0. If these have no penalty at all,
	// Unpenalized lists them.
	Free        bool
	Unpenalized []int

	// N is the number of coordinates, and Line where the regularizer stands; Factor multiplies it: see scaled.
	N, Line int
	Factor  float64
	// Direct says that it is a term without an operator.
	Direct bool
}

// Bears reports whether the penalty is a norm with the weight of that name.
func (p *Penalty) Bears(name string) bool { return p.Dual != nil && p.Norm.Name == name }

// Expr is Scale, or Scale times the weight of that name.
type Expr struct {
	Scale float64
	Name  string
}

// Value is its value at the given weights.
func (e Expr) Value(w Weights) float64 {
	if e.Name == "" {
		return e.Scale
	}
	return e.Scale * w[e.Name]
}

// Of is the function Make of a regularizer that depends on this weight alone.
func (e Expr) Of(r func(w float64) prox.Prox) func(Weights) (prox.Prox, error) {
	return func(w Weights) (prox.Prox, error) { return r(e.Value(w)), nil }
}

// Use is a weight in a regularizer, and whether it may be zero and must be finite.
type Use struct {
	Expr
	Line         int
	Zero, Finite bool
}

// The table is filled by init, because regularizers contain regularizers.
var regularizers = table[RegularizerKind]{what: "regularizer", name: func(k RegularizerKind) string { return k.Name }}

func init() {
	regularizers.rows = []RegularizerKind{
		zeroRegularizer, l1Regularizer, complexL1Regularizer, squaredL2Regularizer, elasticNetRegularizer,
		l2Regularizer, groupL2Regularizer,
		groupLinfRegularizer, jointL2Regularizer, sortedL1Regularizer, tv1dRegularizer,
		nuclearRegularizer, localLowRankRegularizer, shrinkageRegularizer, nonnegativeRegularizer, boxRegularizer,
		linfBallRegularizer, l1BallRegularizer, simplexRegularizer, l2BallRegularizer, equalRegularizer,
		secondOrderRegularizer, semidefiniteRegularizer, shiftedRegularizer, scaledRegularizer, blocksRegularizer,
	}
}

// RegisterRegularizer adds a kind of regularizer, which specifications, errors and help then have too. It is for
// init functions: nothing may read the table at the same time. It panics at a row without a name, forms or
// Build, and at a name that is taken.
func RegisterRegularizer(k RegularizerKind) {
	regularizers.add(k, k.Name != "" && len(k.Forms) > 0 && k.Build != nil)
}

// Regularizers lists the kinds of regularizers.
func Regularizers() []RegularizerKind { return slices.Clone(regularizers.rows) }

type regularizerNode struct {
	Call
	row      RegularizerKind
	children []*regularizerNode
	// sizes are those of blocks that have their own, one for each child.
	sizes []Block
}

func (s *Spec) parseRegularizer(at *yaml.Node) (*regularizerNode, error) {
	row, call, args, err := regularizers.find(s, at)
	if err != nil {
		return nil, err
	}
	n := &regularizerNode{Call: call, row: row}
	if row.list != nil {
		return n, row.list(n, args)
	}
	if err := n.read(args, row.Parameters, row.Forms[0].Syntax); err != nil {
		return nil, err
	}
	if child := argument[*regularizerNode](&n.Call, innerName, nil); child != nil {
		n.children = append(n.children, child)
	}
	if row.Check != nil {
		err = row.Check(&n.Call)
	}
	return n, err
}

func (b *builder) regularizer(n *regularizerNode, in Block, parts []Block) ([]*Penalty, error) {
	a := &Arguments{&n.Call, b}
	if n.row.spread != nil {
		ps, err := n.row.spread(n, a, in, parts)
		return ps, b.At(n.line, err)
	}
	p, err := n.row.Build(a, in)
	p.N, p.Line, p.Factor = in.Len(), n.line, 1
	return []*Penalty{&p}, b.At(n.line, err)
}

func (n *regularizerNode) uses() []Use {
	all := slices.Clone(n.Call.uses)
	for _, c := range n.children {
		all = append(all, c.uses()...)
	}
	return all
}

func (n *regularizerNode) has(is func(RegularizerKind) bool) bool {
	return is(n.row) || slices.ContainsFunc(n.children, func(c *regularizerNode) bool { return c.has(is) })
}

func (s *Spec) weight(v *yaml.Node, what string, zero, finite bool) (Expr, error) {
	text, err := s.text(v, what)
	if err != nil {
		return Expr{}, err
	}
	bad := s.Errorf(v.Line, "%s is %.40q, expected a positive number, lambda, lambda2 or gamma, or a multiple "+
		"such as 0.5*lambda", what, text)
	e := Expr{Scale: 1}
	factor, name, product := strings.Cut(text, "*")
	if !product {
		factor, name = "1", text
	}
	if name = strings.TrimSpace(name); slices.Contains(weightNames, name) {
		e.Name = name
	} else if product {
		return e, bad
	} else {
		factor = text
	}
	if e.Scale, err = parseNumber(strings.TrimSpace(factor)); err != nil {
		if strings.HasSuffix(text, "max") {
			bad = s.Errorf(v.Line, "%s is %.40q, expected a name here, such as lambda, and lambda: %s at the "+
				"left margin", what, text, text)
		}
		return e, bad
	}
	if e.Scale < 0 || e.Scale == 0 && !(zero && e.Name == "") || math.IsInf(e.Scale, 0) && (finite || e.Name != "") {
		return e, bad
	}
	return e, nil
}

// scalable is the function Make of a regularizer that holds device memory once, and is scaled to any weight.
func scalable(a *Arguments, w Expr, newProx func(w float64) (prox.Prox, error)) (func(Weights) (prox.Prox, error),
	error) {
	one, err := a.Keep(newProx(1))
	if err != nil {
		return nil, err
	}
	return func(v Weights) (prox.Prox, error) {
		if c := w.Value(v); !math.IsInf(c, 1) {
			return prox.NewScaled(c, one), nil
		}
		return a.Keep(newProx(math.Inf(1)))
	}, nil
}

func fixed(r prox.Prox) func(Weights) (prox.Prox, error) {
	return func(Weights) (prox.Prox, error) { return r, nil }
}

// innerName is the name of the parameter that is a regularizer itself.
const innerName = "regularizer"

var inner = Parameter{Name: innerName, Read: func(c *Call, v *yaml.Node, _ string) (any, error) {
	return c.spec.parseRegularizer(v)
}}

var scaledRegularizer = RegularizerKind{
	Name:       "scaled",
	Forms:      []Form{{"scaled: {by: 2, regularizer: R}", "a multiple"}},
	Parameters: []Parameter{{Name: "by", Read: Positive}, inner},
	spread: func(n *regularizerNode, a *Arguments, in Block, parts []Block) ([]*Penalty, error) {
		ps, err := a.regularizer(n.children[0], in, parts)
		for _, p := range ps {
			p.Factor *= a.Number("by", 1)
		}
		return ps, err
	},
}

var shiftedRegularizer = RegularizerKind{
	Name: "shifted",
	Forms: []Form{{"shifted: {to: c, regularizer: R}",
		"R(b - c): a ball around c, or the constraint b - c in a cone;\nc is a number or an array"}},
	Parameters: []Parameter{{Name: "to", Read: NumberOr(Numbers)}, inner},
	spread: func(n *regularizerNode, a *Arguments, in Block, parts []Block) ([]*Penalty, error) {
		c, err := a.Repeated("to", in.Len(), 0)
		if err != nil {
			return nil, err
		}
		ps, err := a.regularizer(n.children[0], in, parts)
		for _, p := range ps {
			own, unshifted := slices.Clone(c[:p.N]), p.Make
			c = c[p.N:]
			// Where c is not 0 no weight leads to 0.
			p.Dual, p.DualAt, p.Norm, p.Free = nil, nil, Expr{}, true
			p.Make = func(w Weights) (prox.Prox, error) {
				inner, err := unshifted(w)
				if err != nil {
					return nil, err
				}
				return a.Keep(prox.NewShifted(a.dev, inner, own))
			}
		}
		return ps, err
	},
}

var blocksRegularizer = RegularizerKind{
	Name: "blocks",
	Forms: []Form{{"blocks: [R1, R2, ...]", "a regularizer for each block of b: those of hstack or blockdiag,\n" +
		"or with sizes of their own, such as - {l1: W, size: 10} or - {nuclear: W, shape: [m, n]}"}},
	list: func(n *regularizerNode, args *yaml.Node) error {
		if args == nil || args.Kind != yaml.SequenceNode || len(args.Content) == 0 {
			return n.Errorf("", "blocks has no list of regularizers, expected blocks: [R1, R2, ...]")
		}
		for _, c := range args.Content {
			if err := n.block(c); err != nil {
				return err
			}
		}
		return nil
	},
	spread: spreadBlocks,
}

// block reads an entry of blocks: a regularizer, with the block's own size or shape beside it.
func (n *regularizerNode) block(c *yaml.Node) (err error) {
	var own []int
	rest := *c
	if c.Kind == yaml.MappingNode {
		rest.Content = nil
		for i := 0; i < len(c.Content); i += 2 {
			key, value := c.Content[i], c.Content[i+1]
			if key.Value != "shape" && key.Value != "size" {
				rest.Content = append(rest.Content, key, value)
				continue
			}
			if own != nil {
				return n.spec.Errorf(key.Line, "a block has size and shape, expected one of them")
			}
			if own, err = n.spec.shape(value, key.Value); err != nil {
				return err
			}
		}
	}
	child, err := n.spec.parseRegularizer(&rest)
	n.children, n.sizes = append(n.children, child), append(n.sizes, Block{Shape: own})
	return err
}

func spreadBlocks(n *regularizerNode, a *Arguments, in Block, parts []Block) ([]*Penalty, error) {
	var all []*Penalty
	left := in.Len()
	for i, child := range n.children {
		at := n.sizes[i]
		switch {
		case at.Shape != nil:
		case len(parts) == len(n.children):
			at = parts[i]
		default:
			count := "no blocks"
			if len(parts) > 1 {
				count = fmt.Sprintf("%d blocks", len(parts))
			}
			return nil, a.spec.Errorf(child.line,
				"the size of block %d does not follow from the operator, which has %s; expected size: n "+
					"or shape: [m, n] in the block", i+1, count)
		}
		if left -= at.Len(); left < 0 {
			break
		}
		ps, err := a.regularizer(child, at, nil)
		if err != nil {
			return nil, err
		}
		all = append(all, ps...)
	}
	if left != 0 {
		return nil, fmt.Errorf("blocks have %d entries, expected %d, the length of b", in.Len()-left, in.Len())
	}
	return all, nil
}
