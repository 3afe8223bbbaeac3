package problems

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"surepipe/linops"
)

// operatorNode is a parsed operator.
type operatorNode struct {
	node
	// matrix is the array of matrix, dense and csr, nil for other operators.
	matrix *arrayRef
	// sampled returns the places that a selection picks, and the shape of the array that they are
	// places in; nil for other operators.
	sampled  func(s *Spec) (places, shape []int, err error)
	children []*operatorNode
	build    operatorBuild
	// complexOut and complexIn say that the output and the input are arrays of complex numbers, whose
	// last axis is their real and imaginary part: see complexSides.
	complexOut, complexIn bool
}

// operatorBuild makes the operator of a node. rows and cols are the shapes of its output and input,
// nil where the node's position in the tree does not determine them.
type operatorBuild func(b *specBuilder, rows, cols []int) (built, error)

type operatorKind = kind[operatorNode, operatorBuild]

// operatorKinds is the table of operators. It is filled by init, because operators contain
// operators.
var operatorKinds []operatorKind

func init() {
	operatorKinds = []operatorKind{
		identityOperator,
		matrixOperator,
		denseOperator,
		csrOperator,
		selectionOperator,
		diagonalOperator,
		differenceOperator,
		gradientOperator,
		trendOperator,
		differencesOperator,
		convolutionOperator,
		dctOperator,
		waveletOperator,
		projectionOperator,
		fourierOperator,
		coilsOperator,
		complexOperator,
		eachChannelOperator,
		adjointOperator,
		scaleOperator,
		productOperator,
		sumOperator,
		hstackOperator,
		vstackOperator,
		blockdiagOperator,
	}
}

func (s *Spec) parseOperator(at *yaml.Node) (*operatorNode, error) {
	n, build, err := parseNode(s, at, "operator", operatorKinds,
		func(n node) *operatorNode { return &operatorNode{node: n} })
	if err != nil {
		return nil, err
	}
	n.build = build
	return n, nil
}

// selects reports whether the operator's first factor picks entries.
func (n *operatorNode) selects() bool {
	return n.sampled != nil || n.kind == "product" && n.children[0].selects()
}

// built is an operator with the shapes of its two sides.
type built struct {
	op         linops.Operator
	rows, cols []int
	// rowAverages and colAverages are the coordinates of A b, and of b, that are the coarsest
	// averages of a wavelet or cosine transform; nil where there are none.
	rowAverages, colAverages []int
	// parts are the blocks of b, where there are several.
	parts []part
}

// part is a block of b.
type part struct {
	shape    []int
	averages []int
}

// operator builds a node, and checks its size against the one that its position in the tree
// requires.
func (b *specBuilder) operator(n *operatorNode, rows, cols []int) (built, error) {
	a, err := n.build(b, rows, cols)
	if err != nil {
		return built{}, b.at(n.line, err)
	}
	d, p := a.op.Dims()
	if rows != nil && d != length(rows) {
		return built{}, b.errorf(n.line, "%s has %d rows, expected %d, because its output has shape %s", n.kind, d,
			length(rows), formatShape(rows))
	}
	if cols != nil && p != length(cols) {
		return built{}, b.errorf(n.line, "%s has %d columns, expected %d, because its input has shape %s", n.kind, p,
			length(cols), formatShape(cols))
	}
	return a, nil
}

// optionalShape reads the arguments of an operator whose only argument is an optional shape,
// written as "[m, n]", "n" or "shape: ...".
func (s *Spec) optionalShape(n *operatorNode, args *yaml.Node) ([]int, error) {
	if args == nil {
		return nil, nil
	}
	if args.Kind != yaml.MappingNode {
		return s.shape(args, n.kind)
	}
	f, err := s.fields(args, n.kind, "shape")
	if err != nil {
		return nil, err
	}
	return s.ownShape(f)
}

// square is the shape of both sides of a square operator: its own, or the one that its position in
// the tree gives.
func square(n *operatorNode, own, rows, cols []int) ([]int, error) {
	// A shape that does not fit is rejected before memory is allocated for it.
	for _, known := range [][]int{rows, cols} {
		if own != nil && known != nil && length(own) != length(known) {
			return nil, fmt.Errorf("%s has shape %s, expected %d entries as in shape %s", n.kind, formatShape(own),
				length(known), formatShape(known))
		}
	}
	for _, shape := range [][]int{own, rows, cols} {
		if shape != nil {
			return shape, nil
		}
	}
	return nil, fmt.Errorf("the size of %s does not follow from its position, expected %s: {shape: [m, n]} "+
		"or {shape: n}", n.kind, n.kind)
}

// grid returns a shape as rows and columns. A sequence is one row.
func grid(n *operatorNode, shape []int) (rows, cols int, image bool, err error) {
	switch len(shape) {
	case 1:
		return 1, shape[0], false, nil
	case 2:
		return shape[0], shape[1], true, nil
	}
	if len(shape) == 3 && shape[2] <= mostChannels {
		return 0, 0, false, fmt.Errorf("%s of an array of shape %s, expected a sequence or an image; of an image "+
			"in colours, each-channel: {%s: ...}", n.kind, formatShape(shape), n.kind)
	}
	return 0, 0, false, fmt.Errorf("%s of an array of shape %s, expected a sequence or an image", n.kind,
		formatShape(shape))
}

// squareGrid is square, and also returns the shape as rows and columns.
func squareGrid(n *operatorNode, own, rows, cols []int) (shape []int, m, k int, image bool, err error) {
	if shape, err = square(n, own, rows, cols); err == nil {
		m, k, image, err = grid(n, shape)
	}
	return shape, m, k, image, err
}

// trim removes the package's name from an error that a user reads.
func trim(err error) error {
	for _, prefix := range []string{"linops: ", "prox: ", "loss: "} {
		if text, ok := strings.CutPrefix(err.Error(), prefix); ok {
			return fmt.Errorf("%s", text)
		}
	}
	return err
}

var identityOperator = operatorKind{
	name:  "identity",
	forms: []form{{"identity", "A b = b"}},
	parse: func(s *Spec, n *operatorNode, args *yaml.Node) (operatorBuild, error) {
		own, err := s.optionalShape(n, args)
		return func(_ *specBuilder, rows, cols []int) (built, error) {
			shape, err := square(n, own, rows, cols)
			if err != nil {
				return built{}, err
			}
			return built{op: linops.Identity(length(shape)), rows: shape, cols: shape}, nil
		}, err
	},
}
