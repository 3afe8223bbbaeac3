package problems

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"

	"go.yaml.in/yaml/v3"
	"gonum.org/v1/gonum/mat"

	"surepipe/internal/dataio"
	"surepipe/internal/noise"
)

// dataSection is the data of a specification.
type dataSection struct {
	line     int
	file     string
	fileLine int
	column   string
	arrays   map[string]*arraySource
}

// arraySource says where an array comes from.
type arraySource struct {
	line                int
	file, array, column string
	where               *arrayRef
	inline              *dataio.Array
}

// arrayRef is a place in a specification that names an array, or holds one.
type arrayRef struct {
	name   string
	line   int
	sparse bool
	inline *dataio.Array
}

// loadedArray is what an arrayRef stands for.
type loadedArray struct {
	dataio.Array
	sparse *dataio.Sparse
}

func (s *Spec) parseData(n *yaml.Node) error {
	s.data = dataSection{line: n.Line, arrays: map[string]*arraySource{}}
	if n.Kind == yaml.ScalarNode && !isNull(n) {
		s.data.file, s.data.fileLine = n.Value, n.Line
		return s.plain(n)
	}
	if n.Kind != yaml.MappingNode {
		return s.errorf(n.Line, "data is %s, expected a file name, or a mapping with file, column, and arrays by name", describe(n))
	}
	for i := 0; i < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if err := s.plain(value); err != nil {
			return err
		}
		var err error
		switch key.Value {
		case "file":
			s.data.fileLine = value.Line
			s.data.file, err = s.text(value, "file")
		case "column":
			s.data.column, err = s.text(value, "column")
		case "sigma2", "lambda", "lambda2", "gamma":
			err = s.errorf(key.Line, "%s is no array of data: expected it at the left margin, beside data", key.Value)
		default:
			if s.data.arrays[key.Value] != nil {
				return s.errorf(key.Line, "array %q is there twice", key.Value)
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
			return nil, s.errorf(n.Line, "%s is empty, expected a file name, a list of numbers, or a mapping with file, array, column, where", what)
		}
		src.file = n.Value
		return src, nil
	case yaml.SequenceNode:
		inline, err := s.inline(n, what)
		src.inline = inline
		return src, err
	}
	f, err := s.fields(n, what, "file", "array", "column", "where")
	if err != nil {
		return nil, err
	}
	for _, key := range []struct {
		name string
		to   *string
	}{{"file", &src.file}, {"array", &src.array}, {"column", &src.column}} {
		if v := f.nodes[key.name]; v != nil {
			if *key.to, err = s.text(v, key.name); err != nil {
				return nil, err
			}
		}
	}
	if v := f.nodes["where"]; v != nil {
		src.where, err = s.ref(v, "where")
	}
	return src, err
}

// ref reads the name of an array, or a list of numbers.
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
			return nil, s.errorf(n.Line, "%s is %s, expected the name of an array in data, or a list of numbers", what, describe(n))
		}
		if name == "y" && what != "where" {
			return nil, s.errorf(n.Line, "%s is y: an estimator whose operator or penalty is made of y is not the one that SURE assumes; expected another array", what)
		}
		r.name = name
	}
	s.refs = append(s.refs, r)
	return r, nil
}

// inline reads a list of numbers, or of such lists of one length.
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
		return nil, s.errorf(n.Line, "%s is an empty list, expected numbers", what)
	}
	if n.Content[0].Kind != yaml.SequenceNode {
		a.Shape = []int{len(n.Content)}
		return a, row(n)
	}
	cols := len(n.Content[0].Content)
	for _, r := range n.Content {
		if r.Kind != yaml.SequenceNode || len(r.Content) != cols || cols == 0 {
			return nil, s.errorf(r.Line, "%s has rows of different lengths, expected %d numbers in each", what, cols)
		}
		if err := row(r); err != nil {
			return nil, err
		}
	}
	a.Shape = []int{len(n.Content), cols}
	return a, nil
}

// SpecFiles are files that replace those of a specification. Empty ones do not.
type SpecFiles struct {
	// Data replaces data's file, and Column its column.
	Data, Column string
	// X, Y and Mu are files of the arrays of these names.
	X, Y, Mu string
	// Sample is y itself, of the shape that it has.
	Sample *dataio.Array
	// Simulate says that y need not be there where mu is: it is mu then.
	Simulate bool
}

// Load reads the files of the specification, and returns the data to give to [New].
// Files are opened relative to the specification's folder, those of SpecFiles
// relative to the working directory. Load leaves s as it is.
func (s *Spec) Load(files SpecFiles) (Data, error) {
	l := &specLoader{Spec: s, files: files, sets: map[string]*dataio.Set{}}
	defer l.close()
	bound := *s
	bound.loaded = map[*arrayRef]*loadedArray{}
	data := Data{Spec: &bound, Sigma2: s.sigma2}
	mu, err := l.optional("mu")
	if err != nil {
		return Data{}, err
	}
	y := files.Sample
	if y == nil {
		if y, err = l.optional("y"); err != nil {
			return Data{}, err
		}
	} else {
		sample := *y
		y = &sample
	}
	if y == nil && files.Simulate {
		y = mu
	}
	if y == nil {
		return Data{}, l.missing("y", s.data.line)
	}
	vector := func(a *dataio.Array) *dataio.Array {
		if len(a.Shape) == 2 && a.Shape[0] == 1 && !l.image {
			a.Shape = a.Shape[1:]
		}
		return a
	}
	vector(y)
	data.Y, data.YShape = y.Data, y.Shape
	bound.images = l.image
	if mu != nil {
		if vector(mu); !slices.Equal(mu.Shape, y.Shape) {
			return Data{}, s.errorf(l.lineOf("mu"), "array \"mu\" has shape %s, expected %s as \"y\" has", formatShape(mu.Shape), formatShape(y.Shape))
		}
		data.Mu = mu.Data
	}
	for _, ref := range s.refs {
		if bound.loaded[ref], err = l.load(ref); err != nil {
			return Data{}, s.at(ref.line, err)
		}
	}
	if err := l.scalars(&data); err != nil {
		return Data{}, err
	}
	return data, l.checkUsed()
}

// Files are the files that the specification names, as [Spec.Load] opens them where
// nothing replaces them.
func (s *Spec) Files() []string {
	l := specLoader{Spec: s}
	var files []string
	if s.data.file != "" {
		files = append(files, l.local(s.data.file))
	}
	for _, name := range slices.Sorted(maps.Keys(s.data.arrays)) {
		if file := s.data.arrays[name].file; file != "" {
			files = append(files, l.local(file))
		}
	}
	return files
}

// Hash identifies the specification's text and the arrays that [Spec.Load] read for
// its operator and regularizer, which are no part of Data's other fields.
func (s *Spec) Hash() [sha256.Size]byte {
	h := sha256.New()
	var buf []byte
	word := func(v uint64) { buf = binary.LittleEndian.AppendUint64(buf, v) }
	ints := func(v ...int) {
		word(uint64(len(v)))
		for _, x := range v {
			word(uint64(x))
		}
	}
	floats := func(v []float64) {
		ints(len(v))
		for _, x := range v {
			word(math.Float64bits(x))
		}
	}
	h.Write(s.source)
	for _, ref := range s.refs {
		a := s.loaded[ref]
		if a == nil {
			continue
		}
		if m := a.sparse; m != nil {
			ints(m.Rows, m.Cols)
			ints(m.IndPtr...)
			ints(m.Indices...)
			floats(m.Values)
		} else {
			ints(a.Shape...)
			floats(a.Data)
		}
		h.Write(buf)
		buf = buf[:0]
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// specLoader reads the files of a specification, each once.
type specLoader struct {
	*Spec
	files SpecFiles
	sets  map[string]*dataio.Set
	// image says that y is one.
	image bool
	// used are the flags that gave an array.
	used struct{ data, column, x bool }
}

// checkUsed refuses files that no array comes from.
func (l *specLoader) checkUsed() error {
	switch {
	case l.files.Data != "" && !l.used.data:
		return l.errorf(l.data.line, "--data is %q, but every array of the specification has a file of its own", l.files.Data)
	case l.files.Column != "" && !l.used.column:
		return l.errorf(l.data.line, "--column is %q, but data has no table (.csv with a header line) that y and X come from", l.files.Column)
	case l.files.X != "" && !l.used.x:
		return l.errorf(l.data.line, "--X is %q, but the specification has no array of that name", l.files.X)
	}
	return nil
}

func (l *specLoader) close() {
	for _, set := range l.sets {
		set.Close()
	}
}

// open opens a file. Its errors name it.
func (l *specLoader) open(path string) (*dataio.Set, error) {
	if set := l.sets[path]; set != nil {
		return set, nil
	}
	set, err := dataio.Open(path)
	if err != nil {
		return nil, err
	}
	l.sets[path] = set
	return set, nil
}

// local is a file of the specification's folder.
func (l *specLoader) local(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(l.Path), path)
}

// dataFile is the file that arrays without one of their own come from, or "".
func (l *specLoader) dataFile() (path string, line int) {
	switch {
	case l.files.Data != "":
		return l.files.Data, l.data.line
	case l.data.file != "":
		return l.local(l.data.file), l.data.fileLine
	}
	return "", l.data.line
}

func (l *specLoader) columnName() string {
	if l.files.Column != "" {
		return l.files.Column
	}
	return l.data.column
}

// override is the file that a flag gives for an array, or "".
func (l *specLoader) override(name string) string {
	return map[string]string{"X": l.files.X, "y": l.files.Y, "mu": l.files.Mu}[name]
}

func (l *specLoader) lineOf(name string) int {
	if src := l.data.arrays[name]; src != nil {
		return src.line
	}
	_, line := l.dataFile()
	return line
}

// place is a named array in an open file.
type place struct {
	set    *dataio.Set
	path   string
	name   string // "" for the file's only one
	column string // of a table: one column
	rest   string // of a table: all but that column
}

// find tells where an array is; a nil set where it is nowhere.
func (l *specLoader) find(name string) (place, error) {
	if path := l.override(name); path != "" {
		l.used.x = l.used.x || name == "X"
		set, err := l.open(path)
		if err != nil || set.IsSparse() || !set.Has(name) {
			return place{set: set, path: path}, err
		}
		return place{set: set, path: path, name: name}, nil
	}
	src := l.data.arrays[name]
	if src != nil && src.inline == nil && src.file != "" {
		path := l.local(src.file)
		set, err := l.open(path)
		return place{set: set, path: path, name: src.array, column: src.column}, l.at(src.line, err)
	}
	path, line := l.dataFile()
	if path == "" {
		return place{}, nil
	}
	set, err := l.open(path)
	if err != nil {
		return place{}, l.at(line, err)
	}
	column := l.columnName()
	switch {
	case src != nil:
		p := place{set: set, path: path, name: src.array, column: src.column}
		if p.name == "" && set.Has(name) {
			p.name = name
		}
		l.used.data = true
		return p, nil
	case set.IsSparse():
		if name == "X" {
			l.used.data = true
			return place{set: set, path: path}, nil
		}
	case set.Format() == "csv" && column != "":
		l.used.data, l.used.column = true, true
		switch name {
		case "y":
			return place{set: set, path: path, column: column}, nil
		case "X":
			return place{set: set, path: path, rest: column}, nil
		}
	case set.Format() == "npz":
		if set.Has(name) {
			l.used.data = true
			return place{set: set, path: path, name: name}, nil
		}
	case name == "y":
		l.used.data = true
		return place{set: set, path: path}, nil
	}
	return place{}, nil
}

// missing is the error of an array that is nowhere.
func (l *specLoader) missing(name string, line int) error {
	path, _ := l.dataFile()
	if path == "" {
		return l.errorf(line, "array %q is missing, expected it in data, or data to have a file that holds it", name)
	}
	set, err := l.open(path)
	if err != nil {
		return l.at(line, err)
	}
	if set.Format() == "npz" && !set.IsSparse() {
		return l.errorf(line, "%s: %w", path, set.Missing(name, "", nil))
	}
	return l.errorf(line, "array %q is missing: %s holds a single array, which is \"%s\"; expected %q in data", name, path, map[bool]string{true: "X", false: "y"}[set.IsSparse()], name)
}

// optional reads y or mu, nil where it is nowhere.
func (l *specLoader) optional(name string) (*dataio.Array, error) {
	a, err := l.named(name)
	if err == nil && a == nil && l.data.arrays[name] != nil {
		err = l.missing(name, l.data.arrays[name].line)
	}
	return a, err
}

// named reads an array by its name; nil where it is nowhere.
func (l *specLoader) named(name string) (*dataio.Array, error) {
	src := l.data.arrays[name]
	overridden := l.override(name) != ""
	if src != nil && src.inline != nil && !overridden {
		a := *src.inline
		return &a, nil
	}
	p, err := l.find(name)
	if err != nil || p.set == nil {
		return nil, err
	}
	line := l.lineOf(name)
	if p.set.IsSparse() {
		return nil, l.errorf(line, "%s: array %q is a sparse matrix, expected a dense array", p.path, name)
	}
	a, err := p.read()
	if err != nil {
		return nil, l.errorf(line, "%s: %w", p.path, err)
	}
	if name == "y" && p.set.Format() == "png" {
		l.image = true
	}
	var where *arrayRef
	if src != nil {
		where = src.where
	} else if y := l.data.arrays["y"]; name == "mu" && y != nil {
		// The true mean is observed where y is.
		where = y.where
	}
	if where == nil {
		return &a, nil
	}
	mask, err := l.load(where)
	if err != nil {
		return nil, l.at(where.line, err)
	}
	places, err := maskPlaces(mask.Array)
	if err != nil {
		return nil, l.at(where.line, err)
	}
	if len(mask.Data) != len(a.Data) {
		if len(places) == len(a.Data) {
			// The file holds the selected entries alone.
			return &a, nil
		}
		return nil, l.errorf(line, "array %q has shape %s, expected %s as \"where\" has", name, formatShape(a.Shape), formatShape(mask.Shape))
	}
	picked := dataio.Array{Name: name, Shape: []int{len(places)}, Data: make([]float64, len(places))}
	for i, c := range places {
		picked.Data[i] = a.Data[c]
	}
	l.image = false
	return &picked, nil
}

// read reads the array. A column of n x 1 of a text file is a vector.
func (p place) read() (a dataio.Array, err error) {
	name := p.name
	if name == "" {
		if name, err = p.set.Only(); err != nil {
			return a, err
		}
	}
	if a, err = p.set.Floats(name); err != nil {
		return a, err
	}
	if column := p.column + p.rest; column != "" {
		y, rest, err := a.Split(column)
		if err != nil {
			return a, err
		}
		if p.column != "" {
			return y, nil
		}
		return rest, nil
	}
	if len(a.Shape) == 0 {
		a.Shape = []int{1}
	}
	if f := p.set.Format(); (f == "csv" || f == "mtx") && len(a.Shape) == 2 && a.Shape[1] == 1 {
		a.Shape = a.Shape[:1]
	}
	return a, nil
}

// load reads what a reference stands for.
func (l *specLoader) load(ref *arrayRef) (*loadedArray, error) {
	if ref.inline != nil {
		return &loadedArray{Array: *ref.inline}, nil
	}
	if ref.sparse {
		p, err := l.find(ref.name)
		switch {
		case err != nil:
			return nil, err
		case p.set == nil:
			return nil, l.missing(ref.name, ref.line)
		case !p.set.IsSparse():
			return nil, fmt.Errorf("%s: array %q is dense, expected a sparse matrix; or dense in place of csr", p.path, ref.name)
		}
		m, err := p.set.Sparse()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.path, err)
		}
		return &loadedArray{sparse: m}, nil
	}
	a, err := l.named(ref.name)
	if err != nil {
		return nil, err
	}
	if a == nil {
		return nil, l.missing(ref.name, ref.line)
	}
	a.Name = ref.name
	return &loadedArray{Array: *a}, nil
}

// scalars reads the data file's own sigma2 and weights, where the specification
// does not give them.
func (l *specLoader) scalars(data *Data) error {
	path, line := l.dataFile()
	if path == "" {
		return nil
	}
	set, err := l.open(path)
	if err != nil {
		return l.at(line, err)
	}
	if set.Format() != "npz" || set.IsSparse() {
		return nil
	}
	for _, v := range []struct {
		name string
		dst  **float64
	}{{"sigma2", &data.Sigma2}, {"lambda", &data.Lambda}, {"lambda2", &data.Lambda2}, {"gamma", &data.Gamma}} {
		if !set.Has(v.name) || *v.dst != nil {
			continue
		}
		x, err := set.Scalar(v.name)
		if err != nil {
			return l.errorf(line, "%s: %w", path, err)
		}
		*v.dst = &x
	}
	return nil
}

// maskPlaces are the places of a mask's entries that are not 0.
func maskPlaces(mask dataio.Array) ([]int, error) {
	var places []int
	for i, v := range mask.Data {
		switch {
		case math.IsNaN(v) || math.IsInf(v, 0):
			return nil, fmt.Errorf("array %q holds %g at %s, expected finite numbers", mask.Name, v, formatPlace(i, mask.Shape))
		case v != 0:
			places = append(places, i)
		}
	}
	if places == nil {
		return nil, fmt.Errorf("array %q is 0 everywhere, expected a mask that is not 0 where y is observed", mask.Name)
	}
	return places, nil
}

// integers are the values of an array of integers.
func integers(a dataio.Array) ([]int, error) {
	out := make([]int, len(a.Data))
	for i, v := range a.Data {
		if v != math.Trunc(v) || math.Abs(v) > 1<<53 {
			return nil, fmt.Errorf("array %q holds %g at %s, expected integers", a.Name, v, formatPlace(i, a.Shape))
		}
		out[i] = int(v)
	}
	return out, nil
}

// design is the matrix of an operator that is one.
func (s *Spec) design() (*mat.Dense, *dataio.Sparse) {
	if s.operator.matrix == nil || s.synthesis != nil {
		return nil, nil
	}
	a := s.loaded[s.operator.matrix]
	switch {
	case a.sparse != nil:
		return nil, a.sparse
	case len(a.Shape) == 2:
		return mat.NewDense(a.Shape[0], a.Shape[1], slices.Clone(a.Data)), nil
	case len(a.Shape) == 1:
		return mat.NewDense(a.Shape[0], 1, slices.Clone(a.Data)), nil
	}
	return nil, nil
}

// sigma2Method is the method that suits the specification: see EstimateSigma2.
func (s *Spec) sigma2Method(data Data) (string, error) {
	switch {
	case s.operator.matrix != nil && s.synthesis == nil:
		return noise.MethodOLSResidual, nil
	case s.operator.selects():
		return "", &noise.Refusal{Method: MethodAuto, Reason: "y is a selection of entries, neither a signal nor a matrix"}
	case len(data.YShape) == 2 && !s.images && s.regularizer.nuclear():
		return noise.MethodMedianSingularValue, nil
	}
	return noise.MethodMAD, nil
}
