package spec

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"gonum.org/v1/gonum/mat"

	"surepipe/input"
	"surepipe/internal/dataio"
	"surepipe/internal/dataio/ndarray"
	"surepipe/internal/design"
	"surepipe/internal/lists"
	"surepipe/internal/stored"
)

// StoredOrSparse is the matrix of an array of a file where open leaves it there, or where it is sparse; the zero
// Matrix where it is dense. open may be nil, and returns nil for a matrix that is to be in memory.
func StoredOrSparse(set *dataio.Set, array string,
	open func(set *dataio.Set, array string) (*stored.Matrix, error)) (m Matrix, err error) {
	if open != nil {
		if m.Stored, err = open(set, array); m.Stored != nil || err != nil {
			return m, err
		}
	}
	if set.IsSparse() {
		m.Sparse, err = set.Sparse()
	}
	return m, err
}

// matrix reads a matrix that is sparse, or is not to be in memory; nil where it is dense, or missing, and the
// reference allows that.
func (l *loader) matrix(ref *arrayRef) (*loadedArray, error) {
	src, open := l.data.arrays[ref.name], l.files.Stored
	own := src != nil && l.override(ref.name) == ""
	if ref != l.operator.matrix {
		open = nil
	}
	if ref.form != sparseForm && (own && src.inline != nil || ref.form == denseForm && open == nil) {
		return nil, nil
	}
	p, err := l.find(ref.name)
	switch {
	case err != nil:
		return nil, err
	case p.set == nil && ref.form == sparseForm:
		return nil, l.missing(ref.name, "", ref.line)
	case p.set == nil || p.set.IsSparse() && ref.form == denseForm:
		return nil, nil
	case !p.set.IsSparse() && ref.form == sparseForm:
		return nil, fmt.Errorf("%s: array %q is dense, expected a sparse matrix; or dense or matrix in place of csr",
			p.path, ref.name)
	}
	if !p.set.IsSparse() && (open == nil || p.column != "" || own && src.where != nil) {
		return nil, nil
	}
	m, err := l.kept(ref.name, p, open)
	if err != nil || m == (Matrix{}) {
		return nil, err
	}
	return &loadedArray{Array: dataio.Array{Name: ref.name}, Matrix: m}, nil
}

// With is the specification with arrays of the data, by the names of their fields.
func (s *Spec) With(d Data) *Spec {
	bound := *s
	bound.loaded = map[*arrayRef]*loadedArray{}
	matrices := map[string]mat.Matrix{"X": d.X, "D": d.D}
	integers := map[string][]int{"indices": d.Indices, "groups": d.Groups, "shape": d.Shape}
	for _, ref := range s.refs {
		a := &loadedArray{Array: dataio.Array{Name: ref.name}, ints: integers[ref.name]}
		if x := matrices[ref.name]; x != nil {
			a.Matrix = MatrixOf(x)
		}
		if a.ints != nil {
			a.Shape = []int{len(a.ints)}
		}
		if a.ints != nil || a.Matrix != (Matrix{}) {
			bound.loaded[ref] = a
		}
	}
	return &bound
}

// isComplex reports whether y holds complex numbers: a file has them, or real numbers whose last axis
// is the real and imaginary part.
func (l *loader) isComplex(y *dataio.Array) (bool, error) {
	out, _ := l.operator.complexSides()
	if y.Complex && !out {
		return false, l.Errorf(l.lineOf("y"), "array \"y\" holds complex numbers, but the operator's output is "+
			"real: expected fourier, coils or complex, or real numbers")
	}
	n := len(y.Shape)
	return y.Complex || out && n > 0 && y.Shape[n-1] == 2, nil
}

// pickComplex takes the complex numbers at the places of a mask that are not 0, from an array of the
// mask's shape or from each of several. An array that holds only these is returned as it is.
func pickComplex(a, mask dataio.Array, places []int) (dataio.Array, error) {
	rank := len(a.Shape) - 1
	from := rank - len(mask.Shape)
	if from < 0 || !slices.Equal(a.Shape[from:rank], mask.Shape) {
		if rank >= 1 && a.Shape[rank-1] == len(places) {
			return a, nil
		}
		return a, fmt.Errorf("array %q has shape %s, expected %s, the shape of \"where\", or several of these",
			a.Name, ndarray.ShapeString(a.Shape[:rank]), ndarray.ShapeString(mask.Shape))
	}
	whole := lists.Product(mask.Shape)
	picked := a
	picked.Shape = append(slices.Clone(a.Shape[:from]), len(places), 2)
	picked.Data = make([]float64, 0, lists.Product(picked.Shape))
	for at := 0; at < len(a.Data); at += 2 * whole {
		for _, c := range places {
			picked.Data = append(picked.Data, a.Data[at+2*c], a.Data[at+2*c+1])
		}
	}
	return picked, nil
}

// pixels makes numbers in [0, 1] of y or mu where these are integers of an image or, in a numpy file,
// of an image's size; other arrays remain. Counts with Poisson noise stay the counts that they are.
func (l *loader) pixels(name string, p place, a *dataio.Array, line int) error {
	if name != "y" && name != "mu" {
		return nil
	}
	switch {
	case name == "y" && p.set.IsImage() && a.Depth.Bits == 1:
		return l.Errorf(line, "%s: is an image of 1 bit, expected at least 8: black and white are no numbers with "+
			"normal noise", p.path)
	case l.Counts():
		if p.set.IsImage() {
			a.Levels()
		}
		a.Depth = dataio.Depth{}
		return nil
	}
	p.set.Image(a)
	if name == "y" && (p.set.IsImage() || a.Depth.Scaled) {
		l.image = true
	}
	return nil
}

func (s *Spec) names(n *yaml.Node, what string) ([]string, error) {
	if n.Kind != yaml.SequenceNode {
		name, err := s.text(n, what)
		return []string{name}, err
	}
	var names []string
	for _, c := range n.Content {
		name, err := s.text(c, what)
		if err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	if names == nil {
		return nil, s.Errorf(n.Line, "%s is an empty list, expected names of columns", what)
	}
	return names, nil
}

func (l *loader) tableOptions() design.Options {
	o, own := l.files.Table, l.data.table
	o.Response, o.Index = cmp.Or(o.Response, own.Response), cmp.Or(o.Index, own.Index)
	o.Missing = cmp.Or(o.Missing, own.Missing)
	for _, list := range []struct{ to, own *[]string }{{&o.Only, &own.Only}, {&o.Drop, &own.Drop},
		{&o.Categorical, &own.Categorical}, {&o.NA, &own.NA}} {
		if *list.to == nil {
			*list.to = *list.own
		}
	}
	o.Reference, o.Binary = l.Unpenalized(), o.Binary || l.Intercept
	o.NoX = !slices.ContainsFunc(l.refs, func(r *arrayRef) bool { return r.name == "X" || r.name == "groups" })
	return o
}

// openData opens the data file: the arrays X, y and groups of a table, if one of its columns is the
// response, or the observed entries of a matrix.
func (l *loader) openData(path string) (*dataio.Set, error) {
	if l.dataSet != nil {
		return l.dataSet, nil
	}
	set, err := l.arraysOf(path)
	l.dataSet = set
	return set, err
}

func (l *loader) arraysOf(path string) (_ *dataio.Set, err error) {
	o, table := l.tableOptions(), dataio.IsTable(path)
	switch {
	case table && l.layout.Selection:
		open := design.OpenEntries
		if o.Response == "" {
			open = design.OpenMatrix
		}
		if l.entries, err = open(path, o); err != nil {
			return nil, err
		}
		e := l.entries
		arrays := entries(e.Y, e.Places, []int{len(e.Rows), len(e.Columns)})
		if e.Weights != nil {
			arrays = append(arrays, dataio.Array{Name: "weights", Shape: []int{len(e.Weights)}, Data: e.Weights})
		}
		return dataio.HoldTable(arrays...), nil
	case table && o.Response != "":
		if l.table = l.files.Parsed; l.table == nil {
			if l.table, err = design.Open(path, o); err != nil {
				return nil, err
			}
		}
		return dataio.HoldTable(l.table.Arrays()...), nil
	}
	set, err := l.open(path)
	if err != nil || !l.layout.Selection || !set.IsSparse() {
		return set, err
	}
	m, err := set.Triplets()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	places, values, duplicates := m.Entries()
	if duplicates > 0 {
		return nil, fmt.Errorf("%s: %d entries repeat a place: expected each place to be observed once", path,
			duplicates)
	}
	return dataio.HoldTable(entries(values, places, []int{m.Rows, m.Cols})...), nil
}

// gaps says that values of a sequence may be missing.
func (l *loader) gaps() bool { return l.tableOptions().Missing == design.Drop }

func (l *loader) sequence(data *Data) {
	if l.table == nil || l.table.Sequence == nil {
		return
	}
	sequence, observed := l.table.Sequence, l.Layout == nil && !l.Selects()
	data.Labels = sequence.Labelled(l.table.Design.Response, observed)
	if l.Layout == nil || l.Layout.Places {
		data.At = sequence.Places(observed)
	}
}

func (l *loader) checkUsed() error {
	switch unused := l.files.Data != "" && !l.used.data; {
	case unused && l.Layout != nil:
		return l.unused()
	case unused:
		return l.Errorf(l.data.line, "--data is %q, but every array of the specification has a file of its own",
			l.files.Data)
	case l.files.Table.Response != "" && !l.used.table:
		return l.Errorf(l.data.line, "--response is %q, but data has no table (.csv with a header line) that y "+
			"and X come from", l.files.Table.Response)
	case l.files.X != "" && !l.used.x:
		return l.Errorf(l.data.line, "--X is %q, but the specification has no array of that name", l.files.X)
	}
	return nil
}

// unused rejects a file of data of which nothing is used, also no scalar, where there is a layout.
func (l *loader) unused() error {
	f, names, name := &l.files, l.dataSet.Names(), l.single()
	switch ignored := l.ignored(); {
	case !l.dataSet.Named():
		return input.Errorf("--data is %q and %s %q: both hold %s, expected one of them", f.Data, input.Option(name),
			l.override(name), name)
	case len(ignored) == len(names):
		return input.Errorf("--data is %q, of which nothing is used: it holds %s", f.Data, strings.Join(ignored, ", "))
	}
	return nil
}
