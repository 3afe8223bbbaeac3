package problems

import (
	"math"
	"slices"

	"go.yaml.in/yaml/v3"

	"surepipe/linops"
)

var adjointOperator = operatorKind{
	name:  "adjoint",
	forms: []form{{"adjoint: OPERATOR", "A*; of dct and wavelet the inverse, from coefficients to the signal"}},
	parse: func(s *Spec, n *operatorNode, args *yaml.Node) (operatorBuild, error) {
		if err := s.required(n.node, args, "an operator"); err != nil {
			return nil, err
		}
		child, err := s.parseOperator(args)
		n.children = []*operatorNode{child}
		return func(b *specBuilder, rows, cols []int) (built, error) {
			a, err := b.operator(child, cols, rows)
			if err != nil {
				return built{}, err
			}
			return built{op: linops.Adjoint(a.op), rows: a.cols, cols: a.rows, rowAverages: a.colAverages,
				colAverages: a.rowAverages}, nil
		}, err
	},
}

var scaleOperator = operatorKind{
	name:  "scale",
	forms: []form{{"scale: {by: 2, operator: OPERATOR}", "a multiple"}},
	parse: func(s *Spec, n *operatorNode, args *yaml.Node) (operatorBuild, error) {
		complete := func(f section) bool { return f.has("by") && f.has("operator") }
		f, err := s.keys(n.node, args, "{by: 2, operator: OPERATOR}", complete, "by", "operator")
		if err != nil {
			return nil, err
		}
		by, err := s.number(f.nodes["by"], "by")
		if err != nil {
			return nil, err
		}
		if by == 0 || math.IsInf(by, 0) {
			return nil, s.errorf(f.nodes["by"].Line, "by is %g, expected a finite number that is not 0", by)
		}
		child, err := s.parseOperator(f.nodes["operator"])
		n.children = []*operatorNode{child}
		return func(b *specBuilder, rows, cols []int) (built, error) {
			a, err := b.operator(child, rows, cols)
			if err == nil {
				a.op = linops.Scale(by, a.op)
			}
			return a, err
		}, err
	},
}

// parseChildren reads a list of operators.
func (s *Spec) parseChildren(n *operatorNode, args *yaml.Node) error {
	if args == nil || args.Kind != yaml.SequenceNode || len(args.Content) == 0 {
		return s.errorf(n.line, "%s has no list of operators, expected %s: [A1, A2, ...]", n.kind, n.kind)
	}
	for _, c := range args.Content {
		child, err := s.parseOperator(c)
		if err != nil {
			return err
		}
		n.children = append(n.children, child)
	}
	return nil
}

// ofList is the parser of an operator whose arguments are a list of operators.
func ofList(build func(b *specBuilder, children []*operatorNode, rows, cols []int) (built, error)) func(*Spec,
	*operatorNode, *yaml.Node) (operatorBuild, error) {
	return func(s *Spec, n *operatorNode, args *yaml.Node) (operatorBuild, error) {
		return func(b *specBuilder, rows, cols []int) (built, error) {
			return build(b, n.children, rows, cols)
		}, s.parseChildren(n, args)
	}
}

func operators(parts []built) []linops.Operator {
	ops := make([]linops.Operator, len(parts))
	for i, a := range parts {
		ops[i] = a.op
	}
	return ops
}

var productOperator = operatorKind{
	name:  "product",
	forms: []form{{"product: [A1, A2, ...]", "A1 A2 ...; the last acts first"}},
	parse: ofList(func(b *specBuilder, nodes []*operatorNode, rows, cols []int) (built, error) {
		// Build from the side whose shape is known.
		parts := make([]built, len(nodes))
		var err error
		last := len(nodes) - 1
		if rows == nil && cols != nil {
			for i := last; i >= 0; i-- {
				if parts[i], err = b.operator(nodes[i], nil, cols); err != nil {
					return built{}, err
				}
				cols = parts[i].rows
			}
			return multiply(parts), nil
		}
		for i := range nodes {
			var right []int
			if i == last {
				right = cols
			}
			if parts[i], err = b.operator(nodes[i], rows, right); err != nil {
				return built{}, err
			}
			rows = parts[i].cols
		}
		return multiply(parts), nil
	}),
}

// multiply is the product of operators of matching sizes.
func multiply(parts []built) built {
	a := parts[len(parts)-1]
	a.rows, a.rowAverages = parts[0].rows, parts[0].rowAverages
	// A factor of identity would hide the structure of the other factors.
	ops := slices.DeleteFunc(operators(parts), func(op linops.Operator) bool {
		return linops.StructureOf(op).Identity
	})
	if len(ops) > 0 {
		a.op = linops.Compose(ops...)
	}
	return a
}

var sumOperator = operatorKind{
	name:  "sum",
	forms: []form{{"sum: [A1, A2, ...]", "A1 + A2 + ..."}},
	parse: ofList(func(b *specBuilder, nodes []*operatorNode, rows, cols []int) (built, error) {
		parts := make([]built, len(nodes))
		var err error
		for i, c := range nodes {
			if parts[i], err = b.operator(c, rows, cols); err != nil {
				return built{}, err
			}
			rows, cols = parts[i].rows, parts[i].cols
		}
		return built{op: linops.Sum(operators(parts)...), rows: rows, cols: cols}, nil
	}),
}

// side is the shape of a stack's side: (k, m, n) for k parts of equal shape (m, n), else one axis.
func side(shapes [][]int) []int {
	total, equal := 0, true
	for _, shape := range shapes {
		total += length(shape)
		equal = equal && slices.Equal(shape, shapes[0])
	}
	if equal && len(shapes) > 1 {
		return append([]int{len(shapes)}, shapes[0]...)
	}
	if len(shapes) == 1 {
		return shapes[0]
	}
	return []int{total}
}

// blocks returns the shape of b, and its parts, one for each column block.
func blocks(parts []built) (cols []int, ps []part) {
	shapes := make([][]int, len(parts))
	for i, a := range parts {
		shapes[i] = a.cols
		ps = append(ps, part{a.cols, a.colAverages})
	}
	return side(shapes), ps
}

var hstackOperator = operatorKind{
	name:  "hstack",
	forms: []form{{"hstack: [A1, A2, ...]", "[A1 A2 ...], b = (b1, b2, ...)"}},
	parse: ofList(func(b *specBuilder, nodes []*operatorNode, rows, _ []int) (built, error) {
		parts := make([]built, len(nodes))
		var err error
		for i, c := range nodes {
			if parts[i], err = b.operator(c, rows, nil); err != nil {
				return built{}, err
			}
			rows = parts[i].rows
		}
		cols, ps := blocks(parts)
		return built{op: linops.HStack(operators(parts)...), rows: rows, cols: cols, parts: ps}, nil
	}),
}

var vstackOperator = operatorKind{
	name:  "vstack",
	forms: []form{{"vstack: [A1, A2, ...]", "[A1; A2; ...]"}},
	parse: ofList(func(b *specBuilder, nodes []*operatorNode, _, cols []int) (built, error) {
		parts := make([]built, len(nodes))
		shapes := make([][]int, len(parts))
		var err error
		for i, c := range nodes {
			if parts[i], err = b.operator(c, nil, cols); err != nil {
				return built{}, err
			}
			cols, shapes[i] = parts[i].cols, parts[i].rows
		}
		a := parts[0]
		return built{op: linops.VStack(operators(parts)...), rows: side(shapes), cols: cols,
			colAverages: a.colAverages, parts: a.parts}, nil
	}),
}

var blockdiagOperator = operatorKind{
	name:  "blockdiag",
	forms: []form{{"blockdiag: [A1, A2, ...]", "each acts on a block of b of its own"}},
	parse: ofList(func(b *specBuilder, nodes []*operatorNode, _, _ []int) (built, error) {
		parts := make([]built, len(nodes))
		shapes := make([][]int, len(parts))
		var err error
		for i, c := range nodes {
			if parts[i], err = b.operator(c, nil, nil); err != nil {
				return built{}, err
			}
			shapes[i] = parts[i].rows
		}
		cols, ps := blocks(parts)
		return built{op: linops.BlockDiag(operators(parts)...), rows: side(shapes), cols: cols, parts: ps}, nil
	}),
}
