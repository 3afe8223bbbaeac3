package spec

import (
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"
	"gonum.org/v1/gonum/mat"

	"surepipe/internal/dataio"
	"surepipe/internal/dataio/ndarray"
	"surepipe/internal/design"
	"surepipe/internal/lists"
)

// dataSection is the key data of a specification.
type dataSection struct {
	line     int
	file     string
	fileLine int
	table    design.Options
	arrays   map[string]*arraySource
}

// arraySource says where an array comes from.
type arraySource struct {
	line                int
	file, array, column string
	where               *arrayRef
	// inline is the array itself, nil where it has a name.
	inline *dataio.Array
}

// arrayRef is a place in a specification that names an array or contains one.
type arrayRef struct {
	name string
	line int
	form matrixForm
	// complex says that the array may hold complex numbers.
	complex bool
	inline  *dataio.Array
}

// matrixForm says how an array may be stored.
type matrixForm int

const (
	denseForm matrixForm = iota
	sparseForm
	anyForm
)

// loadedArray is the array of an arrayRef: numbers in Array; or Matrix, a matrix that is sparse, stays in its file or
// comes from a Data, or ints, integers from a Data.
type loadedArray struct {
	dataio.Array
	Matrix Matrix
	ints   []int
}

func (a *loadedArray) matrix() (Matrix, error) {
	switch rank := len(a.Shape); {
	case a.Matrix != Matrix{}:
		return a.Matrix, nil
	case rank == 2:
		return Matrix{Dense: mat.NewDense(a.Shape[0], a.Shape[1], a.Data)}, nil
	case rank == 1:
		return Matrix{Dense: mat.NewDense(a.Shape[0], 1, a.Data)}, nil
	}
	return Matrix{}, fmt.Errorf("array %q has shape %s, expected a matrix", a.Name, ndarray.ShapeString(a.Shape))
}

func (a *loadedArray) integers() ([]int, error) {
	if a.ints != nil {
		return a.ints, nil
	}
	values, err := a.Integers()
	out := lists.Map(values, func(v int64) int { return int(v) })
	return out, err
}

func (s *Spec) parseData(n *yaml.Node) error {
	s.data = dataSection{line: n.Line, arrays: map[string]*arraySource{}}
	if n.Kind == yaml.ScalarNode && !isNull(n) {
		s.data.file, s.data.fileLine = n.Value, n.Line
		return s.plain(n)
	}
	if n.Kind != yaml.MappingNode {
		return s.Errorf(n.Line, "data is %s, expected a file name, or a mapping with file, response, and "+
			"arrays by name", describe(n))
	}
	t := &s.data.table
	texts := map[string]*string{"file": &s.data.file, "response": &t.Response, "index": &t.Index}
	columns := map[string]*[]string{"drop": &t.Drop, "only": &t.Only, "categorical": &t.Categorical, "na": &t.NA}
	for i := 0; i < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if err := s.plain(value); err != nil {
			return err
		}
		var err error
		switch name := key.Value; {
		case texts[name] != nil:
			*texts[name], err = s.text(value, name)
			if name == "file" {
				s.data.fileLine = value.Line
			}
		case columns[name] != nil:
			*columns[name], err = s.names(value, name)
		case name == "missing":
			var missing string
			missing, err = s.choice(value, name, []string{string(design.Refuse), string(design.Drop),
				string(design.Mean)})
			t.Missing = design.Missing(missing)
		case name == "sigma2" || slices.Contains(weightNames, name):
			err = s.Errorf(key.Line, "%s is not an array of data: expected it at the left margin, at the "+
				"level of data", name)
		default:
			if s.data.arrays[key.Value] != nil {
				return s.Errorf(key.Line, "array %q occurs twice", key.Value)
			}
			s.data.arrays[key.Value], err = s.parseSource(value, key.Value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Spec) parseSource(n *yaml.Node, name string) (*arraySource, error) {
	what := fmt.Sprintf("array %q", name)
	src := &arraySource{line: n.Line}
	switch n.Kind {
	case yaml.ScalarNode:
		if isNull(n) {
			return nil, s.Errorf(n.Line, "%s is empty, expected a file name, a list of numbers, or a mapping with "+
				"file, array, column, where", what)
		}
		src.file = n.Value
		return src, nil
	case yaml.SequenceNode:
		inline, err := s.inline(n, what)
		src.inline = inline
		return src, err
	}
	c := newCall(s, what, n.Line)
	err := c.read(n, sourceParameters, "")
	src.file, src.array, src.column, src.where = c.Text("file", ""), c.Text("array", ""), c.Text("column", ""),
		c.ref("where")
	return src, err
}

// sourceParameters are the keys of an array of data.
var sourceParameters = []Parameter{
	{Name: "file", Read: Text, Optional: true}, {Name: "array", Read: Text, Optional: true},
	{Name: "column", Read: Text, Optional: true}, {Name: "where", Read: Numbers, Optional: true},
}

func (s *Spec) ref(n *yaml.Node, what string) (*arrayRef, error) {
	r := &arrayRef{line: n.Line}
	if n.Kind == yaml.SequenceNode {
		inline, err := s.inline(n, what)
		if err != nil {
			return nil, err
		}
		r.inline = inline
	} else {
		name, err := s.text(n, what)
		if err != nil {
			return nil, s.Errorf(n.Line, "%s is %s, expected the name of an array in data, or a list of numbers",
				what, describe(n))
		}
		if name == "y" && what != "where" {
			return nil, s.Errorf(n.Line, "%s is y: SURE assumes an estimator whose operator, penalty and weights "+
				"do not depend on y; expected another array", what)
		}
		r.name = name
	}
	s.refs = append(s.refs, r)
	return r, nil
}

// inline reads a list of numbers, or a list of such lists of equal length.
func (s *Spec) inline(n *yaml.Node, what string) (*dataio.Array, error) {
	a := &dataio.Array{Name: what}
	row := func(n *yaml.Node) error {
		for _, c := range n.Content {
			v, err := s.number(c, what)
			if err != nil {
				return err
			}
			a.Data = append(a.Data, v)
		}
		return nil
	}
	if len(n.Content) == 0 {
		return nil, s.Errorf(n.Line, "%s is an empty list, expected numbers", what)
	}
	if n.Content[0].Kind != yaml.SequenceNode {
		a.Shape = []int{len(n.Content)}
		return a, row(n)
	}
	cols := len(n.Content[0].Content)
	for _, r := range n.Content {
		if r.Kind != yaml.SequenceNode || len(r.Content) != cols || cols == 0 {
			return nil, s.Errorf(r.Line, "%s has rows of different lengths, expected %d numbers in each", what, cols)
		}
		if err := row(r); err != nil {
			return nil, err
		}
	}
	a.Shape = []int{len(n.Content), cols}
	return a, nil
}

func maskPlaces(mask dataio.Array) ([]int, error) {
	if err := mask.CheckFinite(); err != nil {
		return nil, err
	}
	places := lists.Places(len(mask.Data), func(i int) bool { return mask.Data[i] != 0 })
	if places == nil {
		return nil, fmt.Errorf("array %q is 0 everywhere, expected a mask that is not 0 where y is observed", mask.Name)
	}
	return places, nil
}
