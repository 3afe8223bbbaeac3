package spec

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"surepipe/internal/dataio/ndarray"
	"surepipe/internal/lists"
	"surepipe/linops"
)

// operatorKind is a kind of operator in specifications: a row of the table that help, parser and errors read.
type operatorKind struct {
	name       string
	forms      []Form
	parameters []Parameter
	// check rejects arguments that do not belong together, and sets what the node says of itself; nil for none.
	check func(n *operatorNode) error
	list  bool
	// target says what risks are about where the operator hides something from y, and unordered why neighbours in
	// y need not be alike. placed says that the operator depends on the places of a sequence, and curved that its y
	// are an image of lines that bend from row to row, even where the signal is flat.
	target    Targets
	unordered string
	placed    bool
	curved    bool
	// identity says that A b = b, and adds that A b is the sum of the blocks of b.
	identity, adds bool
	// complex says that both sides are arrays of complex numbers, and swaps that the sides are those of the
	// operator in the arguments, swapped.
	complex, swaps bool
	build          func(a *operatorArguments, rows, cols []int) (built, error)
}

type operatorArguments struct {
	Arguments
	node *operatorNode
}

func (a *operatorArguments) child(i int, rows, cols []int) (built, error) {
	return a.operator(a.node.children[i], rows, cols)
}

type operatorNode struct {
	Call
	row      operatorKind
	children []*operatorNode
	// matrix is the array of matrix, dense and csr, nil for other operators.
	matrix *arrayRef
	// sampled returns the places that a selection picks, and the shape of the array that they are
	// places in; nil for other operators.
	sampled func(s *Spec) (places, shape []int, err error)
	// first is the factor of a product that acts last, nil elsewhere.
	first *operatorNode
	// realIn says that the input of a complex operator is real.
	realIn bool
}

// The table is filled by init, because operators contain operators.
var operatorKinds = table[operatorKind]{what: "operator", name: func(k operatorKind) string { return k.name }}

func init() {
	operatorKinds.rows = []operatorKind{
		identityOperator, matrixOperator, denseOperator, csrOperator, selectionOperator, diagonalOperator,
		differenceOperator, gradientOperator, trendOperator, differencesOperator, convolutionOperator, dctOperator,
		waveletOperator, projectionOperator, fourierOperator, coilsOperator, complexOperator, eachChannelOperator,
		adjointOperator, scaleOperator, productOperator, sumOperator, hstackOperator, vstackOperator, blockdiagOperator,
	}
}

// Operators are the names of the operators.
func Operators() []string {
	return lists.Map(operatorKinds.rows, func(k operatorKind) string { return k.name })
}

func (s *Spec) parseOperator(at *yaml.Node) (*operatorNode, error) {
	row, call, args, err := operatorKinds.find(s, at)
	if err != nil {
		return nil, err
	}
	n := &operatorNode{Call: call, row: row}
	if row.list {
		err = n.readList(args)
	} else if err = n.read(args, row.parameters, row.forms[0].Syntax); err == nil {
		n.children = argument(&n.Call, operand, n.children)
	}
	if err == nil && row.check != nil {
		err = row.check(n)
	}
	return n, err
}

// operand is the name of an argument that is an operator, and operatorValue its reader.
const operand = "operator"

func operatorValue(c *Call, v *yaml.Node, _ string) (any, error) {
	child, err := c.spec.parseOperator(v)
	c.values[operand] = []*operatorNode{child}
	return []*operatorNode{child}, err
}

func (n *operatorNode) readList(args *yaml.Node) error {
	if args == nil || args.Kind != yaml.SequenceNode || len(args.Content) == 0 {
		return n.spec.Errorf(n.line, "%s has no list of operators, expected %s: [A1, A2, ...]", n.name, n.name)
	}
	for _, c := range args.Content {
		child, err := n.spec.parseOperator(c)
		if err != nil {
			return err
		}
		n.children = append(n.children, child)
	}
	return nil
}

// selects reports whether the operator's first factor picks entries.
func (n *operatorNode) selects() bool { return n.sampled != nil || n.first != nil && n.first.selects() }

func (n *operatorNode) each(f func(*operatorNode)) {
	f(n)
	for _, c := range n.children {
		c.each(f)
	}
}

// complexSides reports whether the output and the input are arrays of complex numbers.
func (n *operatorNode) complexSides() (out, in bool) {
	if len(n.children) == 0 || n.row.complex {
		return n.row.complex, n.row.complex && !n.realIn
	}
	out, in = n.children[0].complexSides()
	if last := n.children[len(n.children)-1]; last != n.children[0] {
		_, in = last.complexSides()
	}
	if n.row.swaps {
		out, in = in, out
	}
	return out, in
}

// built is an operator with the shapes of its two sides.
type built struct {
	op         linops.Operator
	rows, cols []int
	// rowAverages and colAverages are the coordinates of A b, and of b, that are the coarsest
	// averages of a wavelet or cosine transform; nil where there are none.
	rowAverages, colAverages []int
	// parts are the blocks of b, where there are several.
	parts []Block
}

// operator builds a node, and checks its size against the one that its position in the tree
// requires.
func (b *builder) operator(n *operatorNode, rows, cols []int) (built, error) {
	a, err := n.row.build(&operatorArguments{Arguments{&n.Call, b}, n}, rows, cols)
	if err != nil {
		return built{}, b.At(n.line, err)
	}
	d, p := a.op.Dims()
	if rows != nil && d != lists.Product(rows) {
		return built{}, b.Errorf(n.line, "%s has %d rows, expected %d, because its output has shape %s", n.name, d,
			lists.Product(rows), ndarray.ShapeString(rows))
	}
	if cols != nil && p != lists.Product(cols) {
		return built{}, b.Errorf(n.line, "%s has %d columns, expected %d, because its input has shape %s", n.name, p,
			lists.Product(cols), ndarray.ShapeString(cols))
	}
	return a, nil
}

// ownShape is the first parameter of operators that may say which shape they act on.
var ownShape = Parameter{Name: "shape", Read: Shape, Optional: true}

// input is the shape on which an operator acts, its own or the one that its position in the tree gives.
func (a *operatorArguments) input(cols []int) ([]int, error) {
	if own := a.Shape("shape"); own != nil {
		return own, nil
	}
	if cols == nil {
		return nil, fmt.Errorf("the size of %s does not follow from its position, expected %s: {shape: [m, n]}",
			a.name, a.name)
	}
	return cols, nil
}

// square is the shape of both sides of a square operator: its own, or the one that its position in
// the tree gives.
func (a *operatorArguments) square(rows, cols []int) ([]int, error) {
	own := a.Shape("shape")
	// A shape that does not fit is rejected before memory is allocated for it.
	for _, known := range [][]int{rows, cols} {
		if own != nil && known != nil && lists.Product(own) != lists.Product(known) {
			return nil, fmt.Errorf("%s has shape %s, expected %d entries as in shape %s", a.name,
				ndarray.ShapeString(own), lists.Product(known), ndarray.ShapeString(known))
		}
	}
	for _, shape := range [][]int{own, rows, cols} {
		if shape != nil {
			return shape, nil
		}
	}
	return nil, fmt.Errorf("the size of %s does not follow from its position, expected %s: {shape: [m, n]} "+
		"or {shape: n}", a.name, a.name)
}

func (a *operatorArguments) grid(shape []int) (rows, cols int, image bool, err error) {
	switch len(shape) {
	case 1:
		return 1, shape[0], false, nil
	case 2:
		return shape[0], shape[1], true, nil
	}
	if len(shape) == 3 && shape[2] <= MostChannels {
		return 0, 0, false, fmt.Errorf("%s of an array of shape %s, expected a sequence or an image; of an image "+
			"in colours, each-channel: {%s: ...}", a.name, ndarray.ShapeString(shape), a.name)
	}
	return 0, 0, false, fmt.Errorf("%s of an array of shape %s, expected a sequence or an image", a.name,
		ndarray.ShapeString(shape))
}

func (a *operatorArguments) squareGrid(rows, cols []int) (shape []int, m, k int, image bool, err error) {
	if shape, err = a.square(rows, cols); err == nil {
		m, k, image, err = a.grid(shape)
	}
	return shape, m, k, image, err
}

// Trim removes the package's name from an error that a user reads.
func Trim(err error) error {
	for _, prefix := range []string{"linops: ", "prox: ", "loss: "} {
		if text, ok := strings.CutPrefix(err.Error(), prefix); ok {
			return fmt.Errorf("%s", text)
		}
	}
	return err
}

var identityOperator = operatorKind{
	name:       "identity",
	identity:   true,
	forms:      []Form{{"identity", "A b = b"}},
	parameters: []Parameter{ownShape},
	build: func(a *operatorArguments, rows, cols []int) (built, error) {
		shape, err := a.square(rows, cols)
		return built{op: linops.Identity(lists.Product(shape)), rows: shape, cols: shape}, err
	},
}
