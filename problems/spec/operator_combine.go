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

// combined is an operator of several. They share the shape of the output where oneRows says so, and that of the input
// where oneCols does; else the blocks of that side lie one after the other.
func combined(name, meaning string, oneRows, oneCols bool,
	combine func(...linops.Operator) linops.Operator) operatorKind {
	return operatorKind{
		name: name, adds: oneRows && !oneCols, list: true,
		forms: []Form{{name + ": [A1, A2, ...]", meaning}},
		build: func(a *operatorArguments, rows, cols []int) (all built, err error) {
			if !oneRows {
				rows = nil
			}
			if !oneCols {
				cols = nil
			}
			var parts []built
			for i := range a.node.children {
				part, err := a.child(i, rows, cols)
				if err != nil {
					return all, err
				}
				if parts = append(parts, part); oneRows {
					rows = part.rows
				}
				if oneCols {
					cols = part.cols
				}
			}
			all.op, all.rows, all.cols = combine(operators(parts)...), parts[0].rows, parts[0].cols
			if !oneRows {
				all.rows = side(lists.Map(parts, func(p built) []int { return p.rows }))
			}
			switch {
			case !oneCols:
				all.cols = side(lists.Map(parts, func(p built) []int { return p.cols }))
				all.parts = lists.Map(parts, func(p built) Block { return Block{p.cols, p.colAverages} })
			case !oneRows:
				all.colAverages, all.parts = parts[0].colAverages, parts[0].parts
			}
			return all, nil
		},
	}
}

var (
	sumOperator       = combined("sum", "A1 + A2 + ...", true, true, linops.Sum)
	hstackOperator    = combined("hstack", "[A1 A2 ...], b = (b1, b2, ...)", true, false, linops.HStack)
	vstackOperator    = combined("vstack", "[A1; A2; ...]", false, true, linops.VStack)
	blockdiagOperator = combined("blockdiag", "each acts on a block of b of its own", false, false, linops.BlockDiag)
)

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
