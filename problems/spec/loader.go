package spec

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"surepipe/input"
	"surepipe/internal/dataio"
	"surepipe/internal/dataio/ndarray"
	"surepipe/internal/design"
	"surepipe/internal/stored"
)

// Disk has the files of the operating system by their paths, absolute ones and those from the working directory.
var Disk = dataio.Disk

// Files are files that replace those of a specification. Empty names replace nothing.
type Files struct {
	// Context ends the reading of files when it is done; nil stands for none.
	Context context.Context
	// FS has all files, those that the specification names and those below; nil has none. [Disk] has those of the
	// operating system.
	FS fs.FS
	// Data replaces the file of data, and the options of Table that are set those of its table.
	Data  string
	Table design.Options
	// X, Y, Mu and D are files with the arrays of these names.
	X, Y, Mu, D string
	// Sample, where it is not nil, is y itself.
	Sample *dataio.Array
	// Stored opens an array of the operator's matrix that is not to be in memory as float64; it returns
	// nil where it is. Nil stands for none.
	Stored func(set *dataio.Set, array string) (*stored.Matrix, error)
	// Parsed, if not nil, is the table of data, which has been read.
	Parsed *design.Data
	// Many says that y may have one more leading axis, a stack of samples, or be missing where mu is there to
	// simulate samples around.
	Many bool
	// Columns says that y may have a column for each of several classes or responses, and Joint that these are one
	// fit: each column of X then is a group where none are given. Grouped says that groups have a file of their own.
	Columns, Joint, Grouped bool
}

// Load reads the files of the specification, and returns the data for [New]. File names are
// relative to the specification's folder, those of Files to the root of the file system, which is the working
// directory of [Disk]. Load does not modify s.
func (s *Spec) Load(files Files) (Data, error) {
	if files.FS == nil {
		files.FS = dataio.NoFiles
	}
	files.Table.Files = dataio.Files{Context: files.Context, FS: files.FS}
	l := &loader{Spec: s, files: files, sets: map[string]*dataio.Set{}, held: dataio.HoldTable()}
	defer l.close()
	if s.Layout != nil {
		return l.named()
	}
	bound := *s
	bound.loaded = map[*arrayRef]*loadedArray{}
	data := Data{Spec: &bound, Sigma2: s.sigma2}
	mu, err := l.optional("mu")
	if err != nil {
		return Data{}, err
	}
	var y *dataio.Array
	if files.Sample != nil {
		y = new(*files.Sample)
	} else if y, err = l.optional("y"); err != nil {
		return Data{}, err
	}
	if y == nil && files.Many {
		y, data.Simulated = mu, true
	}
	if y == nil {
		return Data{}, l.missing("y", "", s.data.line)
	}
	l.flatten(y)
	if data.Complex, err = l.isComplex(y); err != nil {
		return Data{}, err
	}
	if s.Sequences() {
		if err := design.CheckArray(*y); err != nil {
			return Data{}, s.Errorf(l.lineOf("y"), "array \"y\": %w, or response: NAME in data", err)
		}
	}
	data.Y, data.YShape, data.Labels = y.Data, y.Shape, y.Labels
	l.sequence(&data)
	if y.Depth.Scaled || l.image {
		data.Depth = y.Depth
	}
	bound.images = l.image
	if mu != nil {
		if l.flatten(mu); !slices.Equal(mu.Shape, y.Shape) {
			return Data{}, s.Errorf(l.lineOf("mu"), "array \"mu\" has shape %s, expected %s, the shape of \"y\"",
				ndarray.ShapeString(mu.Shape), ndarray.ShapeString(y.Shape))
		}
		data.Mu = mu.Data
	}
	for _, ref := range s.refs {
		if bound.loaded[ref], err = l.load(ref); err != nil {
			return Data{}, s.At(ref.line, err)
		}
	}
	if ref := s.operator.matrix; ref != nil && bound.loaded[ref].Matrix.Stored != nil {
		data.X = bound.loaded[ref].Matrix
	}
	if err := l.scalars(&data); err != nil {
		return Data{}, err
	}
	data.Table, data.Intercept, data.Standardize, data.Effects = l.table, s.Intercept, s.Standardize, s.Effects
	if err := bound.whiten(&data); err != nil {
		return Data{}, err
	}
	data.Ignored = l.ignored()
	return data, l.checkUsed()
}

// flatten makes a vector of a matrix of one row or column that is no image.
func (l *loader) flatten(a *dataio.Array) {
	if len(a.Shape) == 2 && min(a.Shape[0], a.Shape[1]) == 1 && !l.image && !a.Complex {
		a.Shape = []int{len(a.Data)}
	}
}

// TrueSignal is the name of the array in which generated data have the signal that is looked for, for --truth.
const TrueSignal = "image"

func (l *loader) ignored() []string {
	path, _ := l.dataFile()
	set := l.sets[path]
	if set == nil || !set.Archive() {
		return nil
	}
	return slices.DeleteFunc(set.Unread(), func(name string) bool {
		return l.override(name) != "" || name == "y" && l.haveY() || name == TrueSignal
	})
}

// Files lists the files that the specification names, as [Spec.Load] opens them where no Files
// replace them.
func (s *Spec) Files() []string {
	l := loader{Spec: s}
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

// Hashed are the specification's text and the arrays that [Spec.Load] read for its operator, its regularizer and its
// weights, which are not in the other fields of Data, for a hash of the data.
func (s *Spec) Hashed() []any {
	all := []any{string(s.source)}
	for _, ref := range s.refs {
		if a := s.loaded[ref]; a != nil {
			all = append(all, a.Matrix.Sparse, a.Shape, a.Data)
		}
	}
	return all
}

// loader reads the files of a specification, each once.
type loader struct {
	*Spec
	files Files
	sets  map[string]*dataio.Set
	image bool
	// used records which flags gave an array.
	used struct{ data, table, x bool }
	// dataSet are the arrays of the file of data: those of table or entries where it is a table of a response, or of a
	// matrix of which some entries are missing. held are arrays that take the place of those of files.
	dataSet *dataio.Set
	table   *design.Data
	entries *design.Entries
	held    *dataio.Set
	// Of a layout: that for this y, the axes of an array of which y are entries, at least and at most, and of a file
	// of y alone its depth, and its shape where it holds frames of a video.
	layout         Layout
	axes, mostAxes int
	depth          dataio.Depth
	frames         []int
}

func (l *loader) close() {
	for _, set := range l.sets {
		set.Close()
	}
}

func (l *loader) open(path string) (*dataio.Set, error) {
	if set := l.sets[path]; set != nil {
		return set, nil
	}
	if isBED(path) {
		return new(dataio.Set), nil
	}
	set, err := dataio.OpenAs(path, dataio.TableOptions{Files: l.files.Table.Files, NA: l.tableOptions().NA,
		Missing: l.gaps()})
	var missing *dataio.MissingCellError
	switch {
	case err == nil:
	case errors.As(err, &missing) && l.layout.Gaps:
		return nil, input.Errorf("%w; --missing drop estimates missing values from the others", err)
	case errors.As(err, &missing) && l.Layout != nil && !l.layout.Design:
		return nil, input.Errorf("%w; --problem matrix-completion takes a matrix of which some entries are missing",
			err)
	default:
		return nil, err
	}
	l.sets[path] = set
	return set, nil
}

// local returns the path of a file that is relative to the specification's folder.
func (l *loader) local(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	path = filepath.Join(filepath.Dir(l.Path), path)
	if l.files.FS != dataio.Disk {
		path = filepath.ToSlash(path)
	}
	return path
}

func (l *loader) dataFile() (path string, line int) {
	switch {
	case l.files.Data != "":
		return l.files.Data, l.data.line
	case l.data.file != "" && l.Layout == nil:
		return l.local(l.data.file), l.data.fileLine
	}
	return "", l.data.line
}

func (l *loader) override(name string) string {
	switch name {
	case "X":
		return l.files.X
	case "y":
		return l.files.Y
	case "mu":
		return l.files.Mu
	case "D":
		return l.files.D
	}
	return ""
}

func (l *loader) lineOf(name string) int {
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
	name   string // "" for the file's only array
	column string // of a table: the column to take
}

// find finds an array. The set is nil where there is no such array.
func (l *loader) find(name string) (place, error) {
	if l.held.Has(name) {
		return place{set: l.held, name: name}, nil
	}
	if path := l.override(name); path != "" {
		l.used.x = l.used.x || name == "X"
		set, err := l.open(path)
		if err != nil || !set.Named() || !set.Has(name) {
			return place{set: set, path: path}, err
		}
		return place{set: set, path: path, name: name}, nil
	}
	src := l.data.arrays[name]
	if src != nil && src.inline == nil && src.file != "" {
		path := l.local(src.file)
		set, err := l.open(path)
		return place{set: set, path: path, name: src.array, column: src.column}, l.At(src.line, err)
	}
	path, line := l.dataFile()
	if path == "" {
		return place{}, nil
	}
	open := l.openData
	if src != nil && src.column != "" {
		open = l.open
	}
	set, err := open(path)
	if err != nil {
		return place{}, l.At(line, err)
	}
	switch {
	case src != nil:
		p := place{set: set, path: path, name: src.array, column: src.column}
		if p.name == "" && set.Has(name) {
			p.name = name
		}
		l.used.data = true
		return p, nil
	case set.IsSparse():
		if l.Layout != nil && !l.layout.Design {
			return place{}, fmt.Errorf("%s: the file holds a sparse matrix, which %s cannot use; expected a dense "+
				"array", path, l.Name)
		}
		if name == "X" {
			l.used.data = true
			return place{set: set, path: path}, nil
		}
	case set.Named() && !l.alone(set):
		if set.Has(name) {
			l.used.data, l.used.table = true, l.table != nil || l.entries != nil
			return place{set: set, path: path, name: name}, nil
		}
	case name == l.single():
		l.used.data = true
		return place{set: set, path: path}, nil
	}
	return place{}, nil
}

// missing is the error for an array that is not there; expected is its shape, if that is known.
func (l *loader) missing(name, expected string, line int) error {
	path, _ := l.dataFile()
	switch {
	case path == "" && l.Layout == nil:
		return l.Errorf(line, "array %q is missing, expected it in data, or data to have a file that holds it", name)
	case path == "":
		return l.in(name, fmt.Errorf("array %q is missing, expected shape %s", name, expected))
	}
	set, err := l.openData(path)
	switch {
	case err != nil:
		return l.At(line, err)
	case set.Named():
		var used []string
		if l.Layout != nil {
			used = dataNames
		}
		return l.Errorf(line, "%s: %w", path, set.Missing(name, expected, used))
	case l.Layout != nil && name == "X":
		return input.Errorf("%s: the file holds a single array, expected X and y: give the other with --X or --y", path)
	}
	return l.Errorf(line, "array %q is missing: %s holds a single array, which is \"%s\"; expected %q in data", name,
		path, l.single(), name)
}

func (l *loader) optional(name string) (*dataio.Array, error) {
	a, err := l.read(name)
	if err == nil && a == nil && l.data.arrays[name] != nil {
		err = l.missing(name, "", l.data.arrays[name].line)
	}
	return a, err
}

func (l *loader) read(name string) (*dataio.Array, error) {
	src := l.data.arrays[name]
	overridden := l.override(name) != ""
	if src != nil && src.inline != nil && !overridden {
		return new(*src.inline), nil
	}
	p, err := l.find(name)
	if err != nil || p.set == nil {
		return nil, err
	}
	line := l.lineOf(name)
	if p.set.IsSparse() {
		return nil, l.Errorf(line, "%s: array %q is a sparse matrix, expected a dense array", p.path, name)
	}
	a, err := p.read()
	if err != nil {
		return nil, l.Errorf(line, "%s: %w", p.path, err)
	}
	if err := l.pixels(name, p, &a, line); err != nil {
		return nil, err
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
		return nil, l.At(where.line, err)
	}
	places, err := maskPlaces(mask.Array)
	if err != nil {
		return nil, l.At(where.line, err)
	}
	if a.Complex {
		picked, err := pickComplex(a, mask.Array, places)
		return &picked, l.At(line, err)
	}
	if len(mask.Data) != len(a.Data) {
		if len(places) == len(a.Data) {
			// The file holds only the selected entries.
			return &a, nil
		}
		return nil, l.Errorf(line, "array %q has shape %s, expected %s, the shape of \"where\"", name,
			ndarray.ShapeString(a.Shape), ndarray.ShapeString(mask.Shape))
	}
	picked := a.Pick(places)
	picked.Name = name
	l.image = false
	return &picked, nil
}

// read reads the array. An n x 1 array of a text file is a vector.
func (p place) read() (a dataio.Array, err error) {
	name := p.name
	if name == "" {
		if name, err = p.set.Only(); err != nil {
			return a, err
		}
	}
	if a, err = p.set.Numbers(name); err != nil {
		return a, err
	}
	if p.column != "" {
		return a.Column(p.column)
	}
	if len(a.Shape) == 0 {
		a.Shape = []int{1}
	}
	if len(a.Shape) == 2 && a.Shape[1] == 1 && !p.set.IsImage() {
		a = p.set.Vector(a)
	}
	return a, nil
}

func (l *loader) load(ref *arrayRef) (*loadedArray, error) {
	if ref.inline != nil {
		return &loadedArray{Array: *ref.inline}, nil
	}
	if a, err := l.matrix(ref); a != nil || err != nil {
		return a, err
	}
	a, err := l.read(ref.name)
	if err != nil {
		return nil, err
	}
	if a == nil {
		return nil, l.missing(ref.name, "", ref.line)
	}
	a.Name = ref.name
	if a.Complex && !ref.complex {
		return nil, fmt.Errorf("array %q holds complex numbers, expected real ones", ref.name)
	}
	return &loadedArray{Array: *a}, nil
}

// scalars reads the data file's own sigma2 and weights, where the specification does not give
// them.
func (l *loader) scalars(data *Data) error {
	path, line := l.dataFile()
	if path == "" {
		return nil
	}
	set, err := l.openData(path)
	if err != nil {
		return l.At(line, err)
	}
	if !set.Named() {
		return nil
	}
	weights := weightNames
	if l.Layout != nil && *l.Layout == (Layout{}) { // it has its own
		weights = nil
	}
	if err := data.Settings(set, weights...); err != nil {
		return l.Errorf(line, "%s: %w", path, err)
	}
	return nil
}
