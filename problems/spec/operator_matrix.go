package spec

import (
	"fmt"
	"math"

	"go.yaml.in/yaml/v3"
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/internal/dataio"
	"surepipe/internal/dataio/ndarray"
	"surepipe/internal/lists"
	"surepipe/internal/parallel"
	"surepipe/internal/stored"
	"surepipe/linops"
	"surepipe/linops/outofcore"
	"surepipe/problems/internal/check"
)

// Source is an operator made of an array: a matrix, or a selection with its places.
type Source struct {
	Operator interface {
		linops.Operator
		Release()
	}
	// Stored is the operator where its matrix is not in memory, else nil.
	Stored *outofcore.OutOfCore
	// Places are the entries that a selection picks, in the order of its rows; both are nil for a
	// matrix.
	Places    []int
	Selection *linops.Selection
}

func (b *builder) source(a linops.Operator) *Source {
	s, _ := lists.Find(b.sources, func(s *Source) bool { return s.Operator == a })
	return s
}

func (b *builder) keep(s *Source) linops.Operator {
	b.parts.Own(s.Operator.Release)
	b.sources = append(b.sources, s)
	return s.Operator
}

var (
	matrixOperator = matrixKind("matrix", anyForm, "the matrix X, d x p, dense or sparse as it is stored")
	denseOperator  = matrixKind("dense", denseForm, "the same, stored dense")
	csrOperator    = matrixKind("csr", sparseForm,
		"the same, stored sparse: a Matrix Market file, or one of scipy's save_npz")
)

func matrixKind(name string, form matrixForm, meaning string) operatorKind {
	return operatorKind{
		name: name, forms: []Form{{name + ": X", meaning}},
		parameters: []Parameter{{Read: func(c *Call, v *yaml.Node, what string) (any, error) {
			if form == sparseForm && v.Kind == yaml.SequenceNode {
				return nil, c.spec.Errorf(v.Line, "csr is a list, expected the name of a sparse matrix in data; or "+
					"dense in place of csr")
			}
			return c.spec.ref(v, what)
		}}},
		check: func(n *operatorNode) error {
			n.matrix = n.ref("")
			n.matrix.form = form
			return nil
		},
		build: func(a *operatorArguments, _, _ []int) (built, error) {
			loaded := a.loaded[a.node.matrix]
			x, err := loaded.matrix()
			if err != nil {
				return built{}, err
			}
			source, err := a.put(x, loaded.Name)
			if err != nil {
				return built{}, err
			}
			d, p := x.Dims()
			return built{op: a.keep(source), rows: []int{d}, cols: []int{p}}, nil
		},
	}
}

func (b *builder) put(x Matrix, name string) (*Source, error) {
	switch {
	case x.Stored != nil:
		op := outofcore.NewOutOfCore(x.Stored.Context(), linesOf(x.Stored), false)
		b.parts.Missing = x.Stored.Missing
		return &Source{Operator: op, Stored: op}, nil
	case x.Sparse != nil:
		op, err := newSparse(b.dev, x.Sparse, name)
		return &Source{Operator: op}, err
	case b.data.Shared != nil && b.data.Shared.Operator != nil: // the first of the problems has looked at it
		return &Source{Operator: linops.NewDense(b.dev, x.Dense)}, nil
	}
	op, err := newDense(b.dev, x.Dense, name)
	return &Source{Operator: op}, err
}

func linesOf(m *stored.Matrix) outofcore.Lines {
	l := outofcore.Lines{
		Rows: m.Rows, Cols: m.Cols, ByRows: m.ByRows, Size: m.Size, Block: m.Block(), Views: m.Views(),
		Read: m.Read, Pass: m.Pass, Guard: m.Guard, Drop: m.Drop, Products: m.Products, Nonzeros: m.Nonzeros(),
		Means: m.Means, Centered2: m.Centered2, Gram: m.Gram, Z: m.Z, Product: m.Product, Passes: 1,
	}
	if m.Sparse() {
		l.Entries = func(e *outofcore.LineEntries, from, to int) { m.Entries((*stored.Entries)(e), from, to) }
	}
	return l
}

func newDense(dev array.Device, x *mat.Dense, name string) (*linops.Dense, error) {
	d, p := x.Dims()
	most := make([]float64, d) // NaN or Inf where a row has one
	parallel.Ranges(d, parallel.Rows(p), func(from, to int) {
		for i := from; i < to; i++ {
			most[i] = lists.MaxAbs(x.RawRowView(i))
		}
	})
	largest := 0.0
	for i, v := range most {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, check.FiniteRow(name, x.RawRowView(i), i, []int{d, p})
		}
		largest = max(largest, v)
	}
	if err := check.Scale(name, largest); err != nil {
		return nil, err
	}
	return linops.NewDense(dev, x), nil
}

func newSparse(dev array.Device, x *dataio.Sparse, name string) (*linops.CSR, error) {
	if err := check.Scale(name, lists.MaxAbs(x.Values)); err != nil {
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
	forms: []Form{
		{"selection: {indices: I, shape: S}", "some entries, by their places in the row-major array of shape S " +
			"(an array's name or [m, n])"},
		{"selection: {where: mask}", "the entries where an array is not 0"},
	},
	parameters: []Parameter{{Name: "indices", Read: Numbers, Optional: true},
		{Name: "shape", Read: countsOf, Optional: true}, {Name: "where", Read: Numbers, Optional: true}},
	check: func(n *operatorNode) error {
		const expected = "{indices: I, shape: [m, n]} or {where: mask}"
		mask := n.ref("where")
		switch {
		case mask != nil && !n.Given("indices") && !n.Given("shape"):
			n.sampled = func(s *Spec) (places, shape []int, err error) {
				a := s.loaded[mask]
				places, err = maskPlaces(a.Array)
				return places, a.Shape, err
			}
			return nil
		case mask != nil || !n.Given("indices"):
			return n.Errorf("", "selection has other keys, expected %s", expected)
		case !n.Given("shape"):
			return n.Errorf("", "selection has no shape, expected that of the array to which indices refer: "+
				"shape: [m, n] or an array's name")
		}
		n.sampled = n.indexed
		return nil
	},
	build: func(a *operatorArguments, rows, _ []int) (built, error) {
		places, shape, err := a.node.sampled(a.builder.Spec)
		if err != nil {
			return built{}, err
		}
		if indices, ok := a.Array("indices"); ok && len(rows) == 1 && len(places) != rows[0] {
			return built{}, fmt.Errorf("array %q has %d values, expected %d, because the selection's output "+
				"has shape %s", indices.Name, len(places), rows[0], ndarray.ShapeString(rows))
		}
		op, err := linops.NewSelection(a.dev, lists.Product(shape), places)
		if err != nil {
			return built{}, Trim(err)
		}
		return built{op: a.keep(&Source{Operator: op, Places: places, Selection: op}), rows: []int{len(places)},
			cols: shape}, nil
	},
}

// indexed are the places and the shape that the arrays of a selection hold.
func (n *operatorNode) indexed(s *Spec) (places, shape []int, err error) {
	at, in := s.loaded[n.ref("indices")], s.loaded[n.ref("shape")]
	if in == nil || at == nil {
		return nil, nil, fmt.Errorf("selection has no indices or no shape")
	}
	if shape, err = in.integers(); err != nil {
		return nil, nil, err
	}
	if err := check.Dims(in.Name, shape); err != nil {
		return nil, nil, err
	}
	if places, err = at.integers(); err != nil {
		return nil, nil, err
	}
	return places, shape, check.Places(at.Name, places, shape)
}

// countsOf reads the name of an array, or a list of numbers; a single number is a list of one.
func countsOf(c *Call, v *yaml.Node, what string) (any, error) {
	if _, number := asNumber(v); number {
		v = &yaml.Node{Kind: yaml.SequenceNode, Line: v.Line, Content: []*yaml.Node{v}}
	}
	return c.spec.ref(v, what)
}

var diagonalOperator = operatorKind{
	name:       "diagonal",
	forms:      []Form{{"diagonal: w", "entrywise weights, an array"}},
	parameters: []Parameter{{Read: Numbers}},
	build: func(a *operatorArguments, rows, cols []int) (built, error) {
		w, _ := a.Array("")
		if err := w.CheckFinite(); err != nil {
			return built{}, err
		}
		shape := w.Shape
		if known, err := a.square(rows, cols); err == nil && lists.Product(known) == lists.Product(shape) {
			shape = known
		}
		op := linops.NewDiagonal(a.dev, w.Data)
		a.parts.Own(op.Release)
		return built{op: op, rows: shape, cols: shape}, nil
	},
}
