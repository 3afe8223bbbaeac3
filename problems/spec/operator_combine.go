package spec

import (
	"slices"

	"surepipe/internal/lists"
	"surepipe/linops"
)

var adjointOperator = operatorKind{
	name:       "adjoint",
	forms:      []Form{{"adjoint: OPERATOR", "A*; of dct and wavelet the inverse, from coefficients to the signal"}},
	parameters: []Parameter{{Read: operatorValue}},
	swaps:      true,
	build: func(a *operatorArguments, rows, cols []int) (built, error) {
		of, err := a.child(0, cols, rows)
		if err != nil {
			return built{}, err
		}
		return built{op: linops.Adjoint(of.op), rows: of.cols, cols: of.rows, rowAverages: of.colAverages,
			colAverages: of.rowAverages}, nil
	},
}

var scaleOperator = operatorKind{
	name:       "scale",
	forms:      []Form{{"scale: {by: 2, operator: OPERATOR}", "a multiple"}},
	parameters: []Parameter{{Name: "by", Read: notZero}, {Name: operand, Read: operatorValue}},
	build: func(a *operatorArguments, rows, cols []int) (built, error) {
		of, err := a.child(0, rows, cols)
		if err == nil {
			of.op = linops.Scale(a.Number("by", 1), of.op)
		}
		return of, err
	},
}

func operators(parts []built) []linops.Operator {
	return lists.Map(parts, func(a built) linops.Operator { return a.op })
}

var productOperator = operatorKind{
	name:  "product",
	forms: []Form{{"product: [A1, A2, ...]", "A1 A2 ...; the last acts first"}},
	check: func(n *operatorNode) error {
		n.first = n.children[0]
		return nil
	},
	list: true,
	build: func(a *operatorArguments, rows, cols []int) (built, error) {
		nodes := a.node.children
		// Build from the side whose shape is known.
		parts := make([]built, len(nodes))
		var err error
		last := len(nodes) - 1
		if rows == nil && cols != nil {
			for i := last; i >= 0; i-- {
				if parts[i], err = a.child(i, nil, cols); err != nil {
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
			if parts[i], err = a.child(i, rows, right); err != nil {
				return built{}, err
			}
			rows = parts[i].cols
		}
		return multiply(parts), nil
	},
}

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

// all builds a list of operators, of the given sides where these are known; one says that all have the same side.
func (a *operatorArguments) all(rows, cols []int, oneRows, oneCols bool) (parts []built, err error) {
	for i := range a.node.children {
		part, err := a.child(i, rows, cols)
		if err != nil {
			return nil, err
		}
		if parts = append(parts, part); oneRows {
			rows = part.rows
		}
		if oneCols {
			cols = part.cols
		}
	}
	return parts, nil
}

var sumOperator = operatorKind{
	name:  "sum",
	forms: []Form{{"sum: [A1, A2, ...]", "A1 + A2 + ..."}},
	list:  true,
	build: func(a *operatorArguments, rows, cols []int) (built, error) {
		parts, err := a.all(rows, cols, true, true)
		if err != nil {
			return built{}, err
		}
		return built{op: linops.Sum(operators(parts)...), rows: parts[0].rows, cols: parts[0].cols}, nil
	},
}

// side is the shape of a stack's side: (k, m, n) for k parts of equal shape (m, n), else one axis.
func side(shapes [][]int) []int {
	total, equal := 0, true
	for _, shape := range shapes {
		total += lists.Product(shape)
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

func blocks(parts []built) (cols []int, ps []Block) {
	shapes := make([][]int, len(parts))
	for i, a := range parts {
		shapes[i] = a.cols
		ps = append(ps, Block{a.cols, a.colAverages})
	}
	return side(shapes), ps
}

func stackedRows(parts []built) []int {
	shapes := lists.Map(parts, func(a built) []int { return a.rows })
	return side(shapes)
}

var hstackOperator = operatorKind{
	name:  "hstack",
	adds:  true,
	forms: []Form{{"hstack: [A1, A2, ...]", "[A1 A2 ...], b = (b1, b2, ...)"}},
	list:  true,
	build: func(a *operatorArguments, rows, _ []int) (built, error) {
		parts, err := a.all(rows, nil, true, false)
		if err != nil {
			return built{}, err
		}
		cols, ps := blocks(parts)
		return built{op: linops.HStack(operators(parts)...), rows: parts[0].rows, cols: cols, parts: ps}, nil
	},
}

var vstackOperator = operatorKind{
	name:  "vstack",
	forms: []Form{{"vstack: [A1, A2, ...]", "[A1; A2; ...]"}},
	list:  true,
	build: func(a *operatorArguments, _, cols []int) (built, error) {
		parts, err := a.all(nil, cols, false, true)
		if err != nil {
			return built{}, err
		}
		first := parts[0]
		return built{op: linops.VStack(operators(parts)...), rows: stackedRows(parts), cols: first.cols,
			colAverages: first.colAverages, parts: first.parts}, nil
	},
}

var blockdiagOperator = operatorKind{
	name:  "blockdiag",
	forms: []Form{{"blockdiag: [A1, A2, ...]", "each acts on a block of b of its own"}},
	list:  true,
	build: func(a *operatorArguments, _, _ []int) (built, error) {
		parts, err := a.all(nil, nil, false, false)
		if err != nil {
			return built{}, err
		}
		cols, ps := blocks(parts)
		return built{op: linops.BlockDiag(operators(parts)...), rows: stackedRows(parts), cols: cols, parts: ps}, nil
	},
}
