package problems

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/internal/dataio"
	"surepipe/linops"
)

// operatorNode is a parsed operator.
type operatorNode struct {
	specNode
	// matrix is the array of dense and csr.
	matrix   *arrayRef
	children []*operatorNode
	// build makes the operator. rows and cols are the shapes of what it maps to and
	// from, where the place in the tree tells, and else nil.
	build func(b *specBuilder, rows, cols []int) (built, error)
}

// selects tells whether the operator's first factor picks entries.
func (n *operatorNode) selects() bool {
	return n.kind == "selection" || n.kind == "product" && n.children[0].selects()
}

// built is an operator with the shapes of its two sides.
type built struct {
	op         linops.Operator
	rows, cols []int
	// averages are the coordinates of b, or of A b, that a wavelet's coarsest
	// averages are; nil where there are none.
	rowAverages, colAverages []int
	// parts are the blocks of b, where there are several.
	parts []part
}

// part is a block of b.
type part struct {
	shape    []int
	averages []int
}

// specBuilder builds one problem of a specification.
type specBuilder struct {
	*Spec
	dev array.Device
	p   *Problem
}

func (b *specBuilder) array(ref *arrayRef) dataio.Array { return b.loaded[ref].Array }

// operator builds a node and holds it against the sizes that its place asks for.
func (b *specBuilder) operator(n *operatorNode, rows, cols []int) (built, error) {
	a, err := n.build(b, rows, cols)
	if err != nil {
		return built{}, b.at(n.line, err)
	}
	d, p := a.op.Dims()
	if rows != nil && d != length(rows) {
		return built{}, b.errorf(n.line, "%s has %d rows, expected %d, for what it gives has shape %s", n.kind, d, length(rows), formatShape(rows))
	}
	if cols != nil && p != length(cols) {
		return built{}, b.errorf(n.line, "%s has %d columns, expected %d, for what it is given has shape %s", n.kind, p, length(cols), formatShape(cols))
	}
	return a, nil
}

// operatorKinds is filled by init, for operators hold operators.
var operatorKinds []specKind[operatorNode]

func init() {
	operatorKinds = []specKind[operatorNode]{
		{"identity", "A b = b", parseIdentity},
		{"dense", "dense: X                            the matrix X, d x p", parseDense},
		{"csr", "csr: X                              the same, sparse: a Matrix Market file, or scipy's save_npz", parseCSR},
		{"selection", "selection: {indices: I, shape: S}   some entries, by their places in the row-major array of shape S (an array's name or [m, n]);\nselection: {where: mask}            or those where an array is not 0", parseSelection},
		{"diagonal", "diagonal: w                         entrywise weights, an array", parseDiagonal},
		{"difference", "difference: {shape: [m, n]}         b_{i+1} - b_i, of a sequence or of an image along both directions", parseDifference},
		{"convolution", "convolution: {kernel: h, boundary: circular}\nconvolution: {gaussian: 1.5, boundary: zero-padded}   a kernel by array, or a Gaussian of that standard deviation in pixels", parseConvolution},
		{"dct", "dct                                 the orthonormal cosine transform, signal to coefficients", parseDCT},
		{"wavelet", "wavelet: {family: db4, levels: 4}   the orthonormal wavelet transform, signal to coefficients; haar, db2 to db10, sym4 to sym8", parseWavelet},
		{"adjoint", "adjoint: OPERATOR                   A*; of dct and wavelet the inverse, coefficients to signal", parseAdjoint},
		{"scale", "scale: {by: 2, operator: OPERATOR}  a multiple", parseScale},
		{"product", "product: [A1, A2, ...]              A1 A2 ..., the last acts first", parseProduct},
		{"sum", "sum: [A1, A2, ...]                  A1 + A2 + ...", parseSum},
		{"hstack", "hstack: [A1, A2, ...]               [A1 A2 ...], b = (b1, b2, ...)", parseHStack},
		{"vstack", "vstack: [A1, A2, ...]               [A1; A2; ...]", parseVStack},
		{"blockdiag", "blockdiag: [A1, A2, ...]            each acts on a block of b of its own", parseBlockDiag},
	}
}

func (s *Spec) parseOperator(n *yaml.Node) (*operatorNode, error) {
	return parseNode(s, n, "operator", operatorKinds, func(n specNode) *operatorNode { return &operatorNode{specNode: n} })
}

// optionalShape reads the arguments of an operator that takes a shape at most, as
// "[m, n]", "n" or "shape: ...".
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

// square is the shape on both sides of a square operator: its own, or what its place
// in the tree says.
func square(n *operatorNode, own, rows, cols []int) ([]int, error) {
	// What does not fit is refused before it takes memory.
	for _, known := range [][]int{rows, cols} {
		if own != nil && known != nil && length(own) != length(known) {
			return nil, fmt.Errorf("%s has shape %s, expected %d entries as %s", n.kind, formatShape(own), length(known), formatShape(known))
		}
	}
	for _, shape := range [][]int{own, rows, cols} {
		if shape != nil {
			return shape, nil
		}
	}
	return nil, fmt.Errorf("the size of %s does not follow from its place, expected %s: {shape: [m, n]} or {shape: n}", n.kind, n.kind)
}

// grid is a shape as rows and columns; a sequence is one row.
func grid(n *operatorNode, shape []int) (rows, cols int, image bool, err error) {
	switch len(shape) {
	case 1:
		return 1, shape[0], false, nil
	case 2:
		return shape[0], shape[1], true, nil
	}
	return 0, 0, false, fmt.Errorf("%s of an array of shape %s, expected a sequence or an image", n.kind, formatShape(shape))
}

// squareGrid is the shape of square, also as rows and columns.
func squareGrid(n *operatorNode, own, rows, cols []int) (shape []int, m, k int, image bool, err error) {
	if shape, err = square(n, own, rows, cols); err == nil {
		m, k, image, err = grid(n, shape)
	}
	return shape, m, k, image, err
}

func parseIdentity(s *Spec, n *operatorNode, args *yaml.Node) error {
	own, err := s.optionalShape(n, args)
	n.build = func(_ *specBuilder, rows, cols []int) (built, error) {
		shape, err := square(n, own, rows, cols)
		if err != nil {
			return built{}, err
		}
		return built{op: linops.Identity(length(shape)), rows: shape, cols: shape}, nil
	}
	return err
}

func parseDense(s *Spec, n *operatorNode, args *yaml.Node) (err error) {
	if err := s.required(n.specNode, args, "the name of an array, as dense: X"); err != nil {
		return err
	}
	if n.matrix, err = s.ref(args, n.kind); err != nil {
		return err
	}
	n.build = func(b *specBuilder, _, _ []int) (built, error) {
		a := b.array(n.matrix)
		shape := a.Shape
		if len(shape) == 1 {
			shape = []int{shape[0], 1}
		}
		if len(shape) != 2 {
			return built{}, fmt.Errorf("array %q has shape %s, expected a matrix", a.Name, formatShape(a.Shape))
		}
		op, err := newDense(b.dev, mat.NewDense(shape[0], shape[1], a.Data), a.Name)
		if err != nil {
			return built{}, err
		}
		b.p.own(op)
		return built{op: op, rows: shape[:1], cols: shape[1:]}, nil
	}
	return nil
}

func parseCSR(s *Spec, n *operatorNode, args *yaml.Node) (err error) {
	if err := s.required(n.specNode, args, "the name of a sparse matrix, as csr: X"); err != nil {
		return err
	}
	if args.Kind == yaml.SequenceNode {
		return s.errorf(args.Line, "csr is a list, expected the name of a sparse matrix in data; or dense")
	}
	if n.matrix, err = s.ref(args, n.kind); err != nil {
		return err
	}
	n.matrix.sparse = true
	n.build = func(b *specBuilder, _, _ []int) (built, error) {
		m := b.loaded[n.matrix].sparse
		op, err := newSparse(b.dev, m)
		if err != nil {
			return built{}, err
		}
		b.p.own(op)
		return built{op: op, rows: []int{m.Rows}, cols: []int{m.Cols}}, nil
	}
	return nil
}

func parseSelection(s *Spec, n *operatorNode, args *yaml.Node) error {
	whole := func(f section) bool { return f.has("where") != f.has("indices") && !(f.has("where") && f.has("shape")) }
	f, err := s.keys(n.specNode, args, "{indices: I, shape: [m, n]} or {where: mask}", whole, "indices", "shape", "where")
	if err != nil {
		return err
	}
	if v := f.nodes["where"]; v != nil {
		mask, err := s.ref(v, "where")
		n.build = func(b *specBuilder, _, _ []int) (built, error) {
			a := b.array(mask)
			places, err := maskPlaces(a)
			if err != nil {
				return built{}, err
			}
			return b.selection(a.Shape, places)
		}
		return err
	}
	if f.nodes["shape"] == nil {
		return s.errorf(n.line, "selection has no shape, expected that of the array that indices refer to: shape: [m, n] or an array's name")
	}
	indices, err := s.ref(f.nodes["indices"], "indices")
	if err != nil {
		return err
	}
	shape, err := s.ref(listOf(f.nodes["shape"]), "shape")
	n.build = func(b *specBuilder, _, _ []int) (built, error) {
		places, err := integers(b.array(indices))
		if err != nil {
			return built{}, err
		}
		dims, err := integers(b.array(shape))
		if err != nil {
			return built{}, err
		}
		for _, k := range dims {
			if k < 1 || k > math.MaxInt32 || len(dims) > 2 || length(dims) > math.MaxInt32 {
				return built{}, fmt.Errorf("shape is %v, expected one or two positive integers", dims)
			}
		}
		return b.selection(dims, places)
	}
	return err
}

// listOf makes a list of a single number, so that "shape: 10" may stand for [10].
func listOf(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.ScalarNode {
		if _, err := parseNumber(n.Value); err == nil {
			return &yaml.Node{Kind: yaml.SequenceNode, Line: n.Line, Content: []*yaml.Node{n}}
		}
	}
	return n
}

func (b *specBuilder) selection(shape, places []int) (built, error) {
	op, err := linops.NewSelection(b.dev, length(shape), places)
	if err != nil {
		return built{}, trim(err)
	}
	b.p.own(op)
	return built{op: op, rows: []int{len(places)}, cols: shape}, nil
}

// trim takes the package's name off an error that a user reads.
func trim(err error) error {
	for _, prefix := range []string{"linops: ", "prox: "} {
		if text, ok := strings.CutPrefix(err.Error(), prefix); ok {
			return fmt.Errorf("%s", text)
		}
	}
	return err
}

func parseDiagonal(s *Spec, n *operatorNode, args *yaml.Node) error {
	if err := s.required(n.specNode, args, "the name of an array, as diagonal: w, or a list of numbers"); err != nil {
		return err
	}
	w, err := s.ref(args, n.kind)
	n.build = func(b *specBuilder, rows, cols []int) (built, error) {
		a := b.array(w)
		if err := checkFinite(a.Name, a.Data, a.Shape); err != nil {
			return built{}, err
		}
		shape := a.Shape
		if known, err := square(n, nil, rows, cols); err == nil && length(known) == length(shape) {
			shape = known
		}
		op := linops.NewDiagonal(b.dev, a.Data)
		b.p.own(op)
		return built{op: op, rows: shape, cols: shape}, nil
	}
	return err
}

func parseDifference(s *Spec, n *operatorNode, args *yaml.Node) error {
	own, err := s.optionalShape(n, args)
	n.build = func(_ *specBuilder, rows, cols []int) (built, error) {
		shape := own
		switch {
		case shape != nil:
		case cols != nil:
			shape = cols
		case len(rows) == 1:
			shape = []int{rows[0] + 1}
		default:
			return built{}, fmt.Errorf("the size of difference does not follow from its place, expected difference: {shape: [m, n]} or {shape: n}")
		}
		m, k, image, err := grid(n, shape)
		if err != nil {
			return built{}, err
		}
		op := linops.NewDifference1D(k)
		if image {
			op = linops.NewDifference2D(m, k)
		}
		d, _ := op.Dims()
		if d == 0 {
			return built{}, fmt.Errorf("difference of an array of shape %s, which has no neighbours", formatShape(shape))
		}
		return built{op: op, rows: []int{d}, cols: shape}, nil
	}
	return err
}

func parseConvolution(s *Spec, n *operatorNode, args *yaml.Node) error {
	whole := func(f section) bool { return f.has("kernel") != f.has("gaussian") && f.has("boundary") }
	f, err := s.keys(n.specNode, args, "{kernel: h, boundary: circular} or {gaussian: 1.5, boundary: zero-padded}", whole, "kernel", "gaussian", "boundary", "shape")
	if err != nil {
		return err
	}
	name, err := s.choice(f.nodes["boundary"], "boundary", []string{linops.Circular.String(), linops.ZeroPadded.String()})
	if err != nil {
		return err
	}
	boundary := linops.Circular
	if name != boundary.String() {
		boundary = linops.ZeroPadded
	}
	own, err := s.ownShape(f)
	if err != nil {
		return err
	}
	var kernel *arrayRef
	width := 0.0
	if v := f.nodes["kernel"]; v != nil {
		if kernel, err = s.ref(v, "kernel"); err != nil {
			return err
		}
	} else {
		if width, err = s.number(f.nodes["gaussian"], "gaussian"); err != nil {
			return err
		}
		if !(width > 0) {
			return s.errorf(f.nodes["gaussian"].Line, "gaussian is %g, expected a standard deviation in pixels, a positive number", width)
		}
	}
	n.build = func(b *specBuilder, rows, cols []int) (built, error) {
		shape, m, k, image, err := squareGrid(n, own, rows, cols)
		if err != nil {
			return built{}, err
		}
		h := dataio.Array{Name: "kernel"}
		if kernel != nil {
			h = b.array(kernel)
		} else {
			if most := max(m, k); width > float64(most) {
				return built{}, fmt.Errorf("gaussian is %g, expected a standard deviation in pixels of at most %d, the size of what is blurred", width, most)
			}
			h.Data = gaussian(width)
			h.Shape = []int{len(h.Data)}
			if image {
				h = outer(h)
			}
		}
		if len(h.Shape) != len(shape) {
			return built{}, fmt.Errorf("array %q has shape %s, expected a kernel with %d axes for an array of shape %s", h.Name, formatShape(h.Shape), len(shape), formatShape(shape))
		}
		var op *linops.Convolution
		if image {
			op, err = linops.NewConvolution2D(m, k, mat.NewDense(h.Shape[0], h.Shape[1], h.Data), boundary)
		} else {
			op, err = linops.NewConvolution1D(k, h.Data, boundary)
		}
		if err != nil {
			return built{}, trim(err)
		}
		return built{op: op, rows: shape, cols: shape}, nil
	}
	return nil
}

// gaussian is a kernel of sum 1, cut off at three standard deviations.
func gaussian(width float64) []float64 {
	m := int(math.Ceil(3 * width))
	h := make([]float64, 2*m+1)
	sum := 0.0
	for i := range h {
		x := float64(i-m) / width
		h[i] = math.Exp(-x * x / 2)
		sum += h[i]
	}
	for i := range h {
		h[i] /= sum
	}
	return h
}

// outer is h h*.
func outer(h dataio.Array) dataio.Array {
	k := len(h.Data)
	a := dataio.Array{Name: h.Name, Shape: []int{k, k}}
	for _, x := range h.Data {
		for _, y := range h.Data {
			a.Data = append(a.Data, x*y)
		}
	}
	return a
}

func parseDCT(s *Spec, n *operatorNode, args *yaml.Node) error {
	own, err := s.optionalShape(n, args)
	n.build = func(_ *specBuilder, rows, cols []int) (built, error) {
		shape, m, k, image, err := squareGrid(n, own, rows, cols)
		if err != nil {
			return built{}, err
		}
		op := linops.NewDCT(k)
		if image {
			op = linops.NewDCT2D(m, k)
		}
		return built{op: op, rows: shape, cols: shape, rowAverages: []int{0}}, nil
	}
	return err
}

func parseWavelet(s *Spec, n *operatorNode, args *yaml.Node) error {
	whole := func(f section) bool { return f.has("family") && f.has("levels") }
	f, err := s.keys(n.specNode, args, "{family: db4, levels: 4}", whole, "family", "levels", "shape")
	if err != nil {
		return err
	}
	family, err := s.text(f.nodes["family"], "family")
	if err != nil {
		return err
	}
	levels, err := s.positive(f.nodes["levels"], "levels")
	if err != nil {
		return err
	}
	own, err := s.ownShape(f)
	if err != nil {
		return err
	}
	n.build = func(_ *specBuilder, rows, cols []int) (built, error) {
		shape, m, k, image, err := squareGrid(n, own, rows, cols)
		if err != nil {
			return built{}, err
		}
		var op *linops.Wavelet
		if image {
			op, err = linops.NewWavelet2D(m, k, family, levels)
		} else {
			op, err = linops.NewWavelet1D(k, family, levels)
		}
		if err != nil {
			return built{}, trim(err)
		}
		return built{op: op, rows: shape, cols: shape, rowAverages: op.Averages()}, nil
	}
	return nil
}

func parseAdjoint(s *Spec, n *operatorNode, args *yaml.Node) error {
	if err := s.required(n.specNode, args, "an operator"); err != nil {
		return err
	}
	child, err := s.parseOperator(args)
	n.children = []*operatorNode{child}
	n.build = func(b *specBuilder, rows, cols []int) (built, error) {
		a, err := b.operator(child, cols, rows)
		if err != nil {
			return built{}, err
		}
		return built{op: linops.Adjoint(a.op), rows: a.cols, cols: a.rows, rowAverages: a.colAverages, colAverages: a.rowAverages}, nil
	}
	return err
}

func parseScale(s *Spec, n *operatorNode, args *yaml.Node) error {
	whole := func(f section) bool { return f.has("by") && f.has("operator") }
	f, err := s.keys(n.specNode, args, "{by: 2, operator: OPERATOR}", whole, "by", "operator")
	if err != nil {
		return err
	}
	by, err := s.number(f.nodes["by"], "by")
	if err != nil {
		return err
	}
	if by == 0 || math.IsInf(by, 0) {
		return s.errorf(f.nodes["by"].Line, "by is %g, expected a finite number that is not 0", by)
	}
	child, err := s.parseOperator(f.nodes["operator"])
	n.children = []*operatorNode{child}
	n.build = func(b *specBuilder, rows, cols []int) (built, error) {
		a, err := b.operator(child, rows, cols)
		if err == nil {
			a.op = linops.Scale(by, a.op)
		}
		return a, err
	}
	return err
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

func operators(parts []built) []linops.Operator {
	ops := make([]linops.Operator, len(parts))
	for i, a := range parts {
		ops[i] = a.op
	}
	return ops
}

func parseProduct(s *Spec, n *operatorNode, args *yaml.Node) error {
	n.build = func(b *specBuilder, rows, cols []int) (built, error) {
		return b.product(n.children, rows, cols)
	}
	return s.parseChildren(n, args)
}

// product builds A1 A2 ...: from the side whose shape is known.
func (b *specBuilder) product(nodes []*operatorNode, rows, cols []int) (built, error) {
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
	} else {
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
	}
	return multiply(parts), nil
}

// multiply is the product of operators that fit together.
func multiply(parts []built) built {
	a := parts[len(parts)-1]
	a.rows, a.rowAverages = parts[0].rows, parts[0].rowAverages
	// A factor of identity would hide what the others know of themselves.
	ops := slices.DeleteFunc(operators(parts), func(op linops.Operator) bool {
		d, _ := op.Dims()
		return op == linops.Identity(d)
	})
	if len(ops) > 0 {
		a.op = linops.Compose(ops...)
	}
	return a
}

func parseSum(s *Spec, n *operatorNode, args *yaml.Node) error {
	n.build = func(b *specBuilder, rows, cols []int) (built, error) {
		parts := make([]built, len(n.children))
		var err error
		for i, c := range n.children {
			if parts[i], err = b.operator(c, rows, cols); err != nil {
				return built{}, err
			}
			rows, cols = parts[i].rows, parts[i].cols
		}
		return built{op: linops.Sum(operators(parts)...), rows: rows, cols: cols}, nil
	}
	return s.parseChildren(n, args)
}

// side is a stack's side: (k, m, n) for k equal parts, else one axis.
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

// blocks are the parts of b, one a column block.
func blocks(parts []built) (cols []int, ps []part) {
	shapes := make([][]int, len(parts))
	for i, a := range parts {
		shapes[i] = a.cols
		ps = append(ps, part{a.cols, a.colAverages})
	}
	return side(shapes), ps
}

func parseHStack(s *Spec, n *operatorNode, args *yaml.Node) error {
	n.build = func(b *specBuilder, rows, _ []int) (built, error) {
		parts := make([]built, len(n.children))
		var err error
		for i, c := range n.children {
			if parts[i], err = b.operator(c, rows, nil); err != nil {
				return built{}, err
			}
			rows = parts[i].rows
		}
		cols, ps := blocks(parts)
		return built{op: linops.HStack(operators(parts)...), rows: rows, cols: cols, parts: ps}, nil
	}
	return s.parseChildren(n, args)
}

func parseVStack(s *Spec, n *operatorNode, args *yaml.Node) error {
	n.build = func(b *specBuilder, rows, cols []int) (built, error) {
		parts := make([]built, len(n.children))
		shapes := make([][]int, len(parts))
		var err error
		for i, c := range n.children {
			if parts[i], err = b.operator(c, nil, cols); err != nil {
				return built{}, err
			}
			cols, shapes[i] = parts[i].cols, parts[i].rows
		}
		a := parts[0]
		return built{op: linops.VStack(operators(parts)...), rows: side(shapes), cols: cols, colAverages: a.colAverages, parts: a.parts}, nil
	}
	return s.parseChildren(n, args)
}

func parseBlockDiag(s *Spec, n *operatorNode, args *yaml.Node) error {
	n.build = func(b *specBuilder, _, _ []int) (built, error) {
		parts := make([]built, len(n.children))
		shapes := make([][]int, len(parts))
		var err error
		for i, c := range n.children {
			if parts[i], err = b.operator(c, nil, nil); err != nil {
				return built{}, err
			}
			shapes[i] = parts[i].rows
		}
		cols, ps := blocks(parts)
		return built{op: linops.BlockDiag(operators(parts)...), rows: side(shapes), cols: cols, parts: ps}, nil
	}
	return s.parseChildren(n, args)
}
