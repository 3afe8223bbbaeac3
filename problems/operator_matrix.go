package problems

import (
	"fmt"

	"go.yaml.in/yaml/v3"
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/internal/dataio"
	"surepipe/linops"
	"surepipe/linops/outofcore"
)

// source is an operator made of an array: a matrix, or a selection with its places.
type source struct {
	op interface {
		linops.Operator
		Release()
	}
	// stored is the operator where its matrix is not in memory, else nil.
	stored *outofcore.OutOfCore
	// places are the entries that a selection picks, in the order of its rows; both are nil for a
	// matrix.
	places    []int
	selection *linops.Selection
}

// source returns the array of an operator that is an array, unchanged; nil for others.
func (b *specBuilder) source(a linops.Operator) *source {
	for i := range b.sources {
		if b.sources[i].op == a {
			return &b.sources[i]
		}
	}
	return nil
}

// keep hands an operator over to the problem, which releases it.
func (b *specBuilder) keep(s source) linops.Operator {
	b.p.own(s.op.Release)
	b.sources = append(b.sources, s)
	return s.op
}

var matrixOperator = operatorKind{
	name:  "matrix",
	forms: []form{{"matrix: X", "the matrix X, d x p, dense or sparse as it is stored"}},
	parse: parseMatrix(anyForm, "the name of a matrix, as in matrix: X"),
}

var denseOperator = operatorKind{
	name:  "dense",
	forms: []form{{"dense: X", "the same, stored dense"}},
	parse: parseMatrix(denseForm, "the name of an array, as in dense: X"),
}

var csrOperator = operatorKind{
	name:  "csr",
	forms: []form{{"csr: X", "the same, stored sparse: a Matrix Market file, or one of scipy's save_npz"}},
	parse: parseMatrix(sparseForm, "the name of a sparse matrix, as in csr: X"),
}

// parseMatrix parses an operator that is a matrix stored in the given form.
func parseMatrix(form matrixForm, expected string) func(*Spec, *operatorNode, *yaml.Node) (operatorBuild, error) {
	return func(s *Spec, n *operatorNode, args *yaml.Node) (operatorBuild, error) {
		if err := s.required(n.node, args, expected); err != nil {
			return nil, err
		}
		if form == sparseForm && args.Kind == yaml.SequenceNode {
			return nil, s.errorf(args.Line, "csr is a list, expected the name of a sparse matrix in data; or "+
				"dense in place of csr")
		}
		ref, err := s.ref(args, n.kind)
		if err != nil {
			return nil, err
		}
		ref.form, n.matrix = form, ref
		return func(b *specBuilder, _, _ []int) (built, error) {
			a := b.loaded[ref]
			if m := a.mapped; m != nil {
				op := outofcore.NewOutOfCore(m.Context(), linesOf(m), false)
				b.p.Missing = m.Missing
				return built{op: b.keep(source{op: op, stored: op}), rows: []int{m.Rows}, cols: []int{m.Cols}}, nil
			}
			if m := a.sparse; m != nil {
				op, err := newSparse(b.dev, m, a.Name)
				if err != nil {
					return built{}, err
				}
				return built{op: b.keep(source{op: op}), rows: []int{m.Rows}, cols: []int{m.Cols}}, nil
			}
			x, err := a.matrix()
			if err != nil {
				return built{}, err
			}
			op, err := newDense(b.dev, x, a.Name)
			if err != nil {
				return built{}, err
			}
			d, p := x.Dims()
			return built{op: b.keep(source{op: op}), rows: []int{d}, cols: []int{p}}, nil
		}, nil
	}
}

// matrixOf returns the function that forms the matrix of an operator on the host. It is nil where
// the operator has no matrix, or is not stored dense and has more than largest entries.
func matrixOf(a linops.Operator, largest int) func() *mat.Dense {
	d, p := a.Dims()
	known := linops.StructureOf(a)
	if known.Entries == linops.Known(float64(d*p)) || d*p <= largest {
		return known.Dense
	}
	return nil
}

// newDense puts a matrix on the device. It rejects a matrix that is not finite.
func newDense(dev array.Device, x *mat.Dense, name string) (*linops.Dense, error) {
	d, p := x.Dims()
	largest := 0.0
	for i := range d {
		if err := checkFiniteRow(name, x.RawRowView(i), i, []int{d, p}); err != nil {
			return nil, err
		}
		largest = max(largest, maxAbs(x.RawRowView(i)))
	}
	if err := checkScale(name, largest); err != nil {
		return nil, err
	}
	return linops.NewDense(dev, x), nil
}

// newSparse puts a sparse matrix on the device.
func newSparse(dev array.Device, x *dataio.Sparse, name string) (*linops.CSR, error) {
	if err := checkScale(name, maxAbs(x.Values)); err != nil {
		return nil, err
	}
	a, err := linops.NewCSR(dev, x.Rows, x.Cols, x.IndPtr, x.Indices, x.Values)
	if err != nil {
		return nil, fmt.Errorf("the sparse matrix of %d x %d: %w", x.Rows, x.Cols, err)
	}
	return a, nil
}

var selectionOperator = operatorKind{
	name: "selection",
	forms: []form{
		{"selection: {indices: I, shape: S}", "some entries, by their places in the row-major array of shape S " +
			"(an array's name or [m, n])"},
		{"selection: {where: mask}", "the entries where an array is not 0"},
	},
	parse: func(s *Spec, n *operatorNode, args *yaml.Node) (operatorBuild, error) {
		complete := func(f section) bool {
			return f.has("where") != f.has("indices") && !(f.has("where") && f.has("shape"))
		}
		f, err := s.keys(n.node, args, "{indices: I, shape: [m, n]} or {where: mask}", complete, "indices", "shape",
			"where")
		if err != nil {
			return nil, err
		}
		name := ""
		if v := f.nodes["where"]; v != nil {
			mask, err := s.ref(v, "where")
			if err != nil {
				return nil, err
			}
			n.sampled = func(s *Spec) (places, shape []int, err error) {
				a := s.loaded[mask]
				places, err = maskPlaces(a.Array)
				return places, a.Shape, err
			}
		} else {
			if name, err = s.parseIndices(n, f); err != nil {
				return nil, err
			}
		}
		return func(b *specBuilder, rows, _ []int) (built, error) {
			places, shape, err := n.sampled(b.Spec)
			if err != nil {
				return built{}, err
			}
			if name != "" && len(rows) == 1 && len(places) != rows[0] {
				return built{}, fmt.Errorf("array %q has %d values, expected %d, because the selection's output "+
					"has shape %s", name, len(places), rows[0], formatShape(rows))
			}
			op, err := linops.NewSelection(b.dev, length(shape), places)
			if err != nil {
				return built{}, trim(err)
			}
			return built{op: b.keep(source{op: op, places: places, selection: op}), rows: []int{len(places)},
				cols: shape}, nil
		}, nil
	},
}

// parseIndices reads the indices and the shape of a selection, and returns the array of the
// indices' name.
func (s *Spec) parseIndices(n *operatorNode, f section) (name string, err error) {
	if f.nodes["shape"] == nil {
		return "", s.errorf(n.line, "selection has no shape, expected that of the array to which indices refer: "+
			"shape: [m, n] or an array's name")
	}
	indices, err := s.ref(f.nodes["indices"], "indices")
	if err != nil {
		return "", err
	}
	dims, err := s.ref(listOf(f.nodes["shape"]), "shape")
	if err != nil {
		return "", err
	}
	n.sampled = func(s *Spec) (places, shape []int, err error) {
		in, at := s.loaded[dims], s.loaded[indices]
		if in == nil || at == nil {
			return nil, nil, fmt.Errorf("selection has no indices or no shape")
		}
		if shape, err = in.integers(); err != nil {
			return nil, nil, err
		}
		if err := checkDims(in.Name, shape); err != nil {
			return nil, nil, err
		}
		if places, err = at.integers(); err != nil {
			return nil, nil, err
		}
		return places, shape, checkPlaces(at.Name, places, shape)
	}
	if indices.name != "" {
		return indices.name, nil
	}
	return "indices", nil
}

// listOf turns a single number into a list, so that "shape: 10" may stand for "shape: [10]".
func listOf(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.ScalarNode {
		if _, err := parseNumber(n.Value); err == nil {
			return &yaml.Node{Kind: yaml.SequenceNode, Line: n.Line, Content: []*yaml.Node{n}}
		}
	}
	return n
}

var diagonalOperator = operatorKind{
	name:  "diagonal",
	forms: []form{{"diagonal: w", "entrywise weights, an array"}},
	parse: func(s *Spec, n *operatorNode, args *yaml.Node) (operatorBuild, error) {
		err := s.required(n.node, args, "the name of an array, as in diagonal: w, or a list of numbers")
		if err != nil {
			return nil, err
		}
		w, err := s.ref(args, n.kind)
		return func(b *specBuilder, rows, cols []int) (built, error) {
			a := b.array(w)
			if err := checkFinite(a.Name, a.Data, a.Shape); err != nil {
				return built{}, err
			}
			shape := a.Shape
			if known, err := square(n, nil, rows, cols); err == nil && length(known) == length(shape) {
				shape = known
			}
			op := linops.NewDiagonal(b.dev, a.Data)
			b.p.own(op.Release)
			return built{op: op, rows: shape, cols: shape}, nil
		}, err
	},
}
