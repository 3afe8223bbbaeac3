package load

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/mat"

	"surepipe/internal/dataio"
	"surepipe/internal/dataio/ndarray"
	"surepipe/internal/design"
	"surepipe/internal/lists"
	"surepipe/problems"
	"surepipe/problems/spec"
	"surepipe/study"
)

// Contents is the content of data files.
type Contents struct {
	problems.Data
	Variance
	// Stack holds the samples where y has one more axis than the problem's y; it is nil where y is
	// a single sample. The samples share one array; Data.Y is the first.
	Stack [][]float64
	// Together are labels of the observations: those of one label are left out together. Nil where none were asked for.
	Together []int
	// Each is the number of columns of y where it has several for an observation, else 0.
	Each int
	// Simulated says that the file has no y, and that Y is Mu.
	Simulated bool
	// Response is the name of y where it is one of several responses, else "".
	Response string

	observed observations
}

// dataNames are the arrays that are read from a data file. Others are ignored.
var dataNames = slices.Concat([]string{"X", "y", "D", "groups", "indices", "shape", "at", "factors", "lower", "upper",
	"mu", "sigma2"}, (design.Beside{}).Options(), spec.WeightNames())

// arrays is a set of arrays whose errors say what they are for: those of a file, and others that take precedence.
type arrays struct {
	*dataio.Set
	named bool
	// x and d are X and D where they are sparse or stay in their files, and are not among the arrays.
	x, d spec.Matrix
	// several says that y may have several columns, for classes or responses, and joint that these are one fit: each
	// column of X then is a group where none are given.
	several, joint bool
	// gaps says that a sequence may have missing values, and sample that y is one of many samples.
	gaps, sample bool
	// command says that y is that of a command, of any shape.
	command bool
	// grouped says that the groups of columns have a file of their own.
	grouped bool
}

// LayoutOf is the layout of a named problem; known is false for other names.
func LayoutOf(problem string) (l problems.Layout, known bool) {
	n, known := problems.Lookup(problem)
	return n.Layout, known
}

// open is Set.Open; expected is the array's shape, for the error where it is missing.
func (a arrays) open(name, expected string) (*dataio.Reader, error) {
	switch {
	case a.Has(name):
		return a.Open(name)
	case a.named:
		return nil, a.Missing(name, expected, dataNames)
	}
	return nil, fmt.Errorf("array %q is missing, expected shape %s", name, expected)
}

// matrixOf is a matrix that a problem needs, where it does: the one that is known, or else an array.
func (a arrays) matrixOf(needed bool, known spec.Matrix, name, expected string) (mat.Matrix, error) {
	switch {
	case known != spec.Matrix{}:
		return known, nil
	case !needed:
		return nil, nil
	}
	m, err := a.matrix(name, expected)
	if err != nil {
		return nil, err
	}
	return m, nil
}

func (a arrays) matrix(name, expected string) (*mat.Dense, error) {
	m, err := a.open(name, expected)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	if len(m.Shape()) != 2 {
		return nil, m.ShapeError(expected)
	}
	v, err := m.Floats()
	if err != nil {
		return nil, err
	}
	return mat.NewDense(v.Shape[0], v.Shape[1], v.Data), nil
}

// MatrixIn reads a 2-d array of a set; expected is its shape, for the error where it has another one.
func MatrixIn(set *dataio.Set, name, expected string) (*mat.Dense, error) {
	return arrays{Set: set, named: true}.matrix(name, expected)
}

func (a arrays) openVector(name, expected string) (*dataio.Reader, error) {
	r, err := a.open(name, expected)
	if err != nil {
		return nil, err
	}
	if len(r.Shape()) != 1 {
		r.Close()
		return nil, r.ShapeError(expected)
	}
	return r, nil
}

// vectors are those of the names that there are; expected is their shape.
func (a arrays) vectors(expected string, names ...string) (map[string][]float64, error) {
	all := map[string][]float64{}
	for _, name := range names {
		if !a.Has(name) {
			continue
		}
		r, err := a.openVector(name, expected)
		if err != nil {
			return nil, err
		}
		v, err := r.Floats()
		if r.Close(); err != nil {
			return nil, err
		}
		all[name] = v.Data
	}
	return all, nil
}

func (a arrays) integers(name, expected string) ([]int, error) {
	r, err := a.openVector(name, expected)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	read, err := r.Ints()
	if err != nil {
		return nil, err
	}
	return ints(read)
}

func ints(a dataio.Array) ([]int, error) {
	all := make([]int, len(a.Ints))
	for i, v := range a.Ints {
		if all[i] = int(v); int64(all[i]) != v {
			return nil, fmt.Errorf("array %q holds %d at [%d], which is too large", a.Name, v, i)
		}
	}
	return all, nil
}

// readSet is readFile for an open set. Its errors do not name the file.
func readSet(a arrays, problem string, stacks bool) (data Contents, err error) {
	l, known := LayoutOf(problem)
	if a.command {
		if err := a.anyShape(&l, stacks); err != nil {
			return Contents{}, err
		}
	}
	if l.Selection || a.gaps && l.Sequence() {
		axes := 2
		if !l.Selection {
			axes = 1
		}
		if err := a.observe(stacks, axes); err != nil {
			return Contents{}, err
		}
	}
	if data.X, err = a.matrixOf(l.Design, a.x, "X", "(d, p)"); err != nil {
		return Contents{}, err
	}
	if known || a.command {
		if err := a.readY(&data, l, stacks); err != nil {
			return Contents{}, err
		}
	}
	if l.Selection || l.Sequence() && a.Has("indices") {
		if err := a.readPlaces(&data, l); err != nil {
			return Contents{}, err
		}
	}
	if l.Selection {
		given, err := a.vectors("(d,), a positive weight for each value of y", "weights")
		if err != nil {
			return Contents{}, err
		}
		data.Weights = given["weights"]
	}
	if l.Design {
		names := (design.Beside{}).Options()
		if data.observed, err = a.vectors("(d,), a number for each value of y", names...); err != nil {
			return Contents{}, err
		}
		each, err := a.vectors("(p,), a number for each column of X", "factors", "lower", "upper")
		if err != nil {
			return Contents{}, err
		}
		data.Coordinates = problems.Coordinates{Factors: each["factors"], Lower: each["lower"], Upper: each["upper"]}
	}
	if l.Places {
		given, err := a.vectors("(n,), the places of the values of a sequence", "at")
		if err != nil {
			return Contents{}, err
		}
		data.At = given["at"]
	}
	expected := "(q, p), the matrix behind which the penalty stands"
	if data.D, err = a.matrixOf(l.Analysis, a.d, "D", expected); err != nil {
		return Contents{}, err
	}
	if _, p := spec.MatrixOf(data.X).Dims(); l.Groups && a.joint && !a.Has("groups") {
		data.Groups = lists.Upto(p)
	} else if l.Groups && !a.grouped {
		if data.Groups, err = a.integers("groups", "(p,), a label for each column of X"); err != nil {
			return Contents{}, err
		}
	}
	weights := spec.WeightNames()
	if a.command { // it has its own
		weights = nil
	}
	return data, data.Settings(a.Set, weights...)
}

// anyShape takes the shape of a y for which any will do from the array, and that of a sample from mu.
func (a arrays) anyShape(l *problems.Layout, stacks bool) error {
	name, expected := "y", "(...), the observations, of any shape"
	if stacks {
		name, expected = "mu", "(...), the mean to simulate samples around, of any shape, or --y with a stack "+
			"of samples (N x ...)"
	}
	r, err := a.open(name, expected)
	if err != nil {
		return err
	}
	defer r.Close()
	l.YRank, l.YShape = len(r.Shape()), ndarray.ShapeString(r.Shape())
	y, _ := a.Held(name)
	return design.CheckArray(y)
}

// readPlaces reads the places of the values of y, and the shape of the whole, unless nothing is missing.
func (a arrays) readPlaces(data *Contents, l problems.Layout) (err error) {
	if data.Indices, err = a.integers("indices", "(d,), places in the row-major matrix"); err != nil {
		return err
	}
	expected := "(2,)"
	if !l.Selection {
		expected = "(1,)"
	}
	if data.Shape, err = a.integers("shape", expected); err != nil {
		return err
	}
	if ndarray.ShapeString([]int{len(data.Shape)}) != expected {
		return fmt.Errorf("array \"shape\" has shape (%d,), expected %s", len(data.Shape), expected)
	}
	if l.Sequence() && slices.Equal(data.Indices, upTo(data.Shape)) {
		data.Indices, data.Shape = nil, nil // there are no gaps
	}
	return nil
}

// upTo are the places of a sequence of the shape, nil for none.
func upTo(shape []int) (places []int) {
	for _, n := range shape {
		for i := range n {
			places = append(places, i)
		}
	}
	return places
}

func (a arrays) readY(data *Contents, l problems.Layout, stacks bool) error {
	if a.Has("y") || !stacks || !a.Has("mu") {
		y, err := a.open("y", l.YShape)
		if err != nil {
			return err
		}
		defer y.Close()
		if l.Frames && !stacks && len(y.Shape()) == 3 {
			read, shape, err := y.Frames()
			if err != nil {
				return err
			}
			data.Y, data.YShape, data.Frames = read.Data, read.Shape, shape
			return a.readMu(data, l, "\"y\"")
		}
		column := l.YRank == 1 && !stacks && len(y.Shape()) == 2 && y.Shape()[1] == 1
		switch stacked, coloured := len(y.Shape()) == l.YRank+1, l.Colours && y.Shape()[len(y.Shape())-1] == 3; {
		case coloured && stacks && len(y.Shape()) == l.YRank+2:
			data.Stack = make([][]float64, y.Shape()[0])
		case coloured && stacks && stacked:
			return fmt.Errorf("array \"y\" has shape %s, which is one image in colours, expected a stack of N "+
				"samples, (N, m, n) or (N, m, n, 3); the mean of simulations is the array \"mu\"",
				ndarray.ShapeString(y.Shape()))
		case column || len(y.Shape()) == l.YRank || stacked && (l.Rows || l.Colours || a.several) && !stacks:
		case stacked && stacks:
			data.Stack = make([][]float64, y.Shape()[0])
		case stacked && y.Shape()[len(y.Shape())-1] != 1:
			volumes := ""
			if l.YRank == 3 {
				volumes = "a series of volumes is for surepipe denoise, "
			}
			return fmt.Errorf("array \"y\" has shape %s, expected %s: %sa stack of samples is for surepipe montecarlo",
				ndarray.ShapeString(y.Shape()), l.YShape, volumes)
		case stacks:
			return fmt.Errorf("array \"y\" has shape %s, expected %s or (N, %s, a stack of N samples",
				ndarray.ShapeString(y.Shape()), l.YShape, strings.Replace(l.YShape[1:], ",)", ")", 1))
		default:
			// A d x 1 array is a column, not a stack of samples.
			return y.ShapeError(l.YShape)
		}
		read, err := y.Floats()
		if err != nil {
			return err
		}
		if i := slices.IndexFunc(read.Data, math.IsNaN); i >= 0 && l.Sequence() && !stacks {
			return study.Errorf("array \"y\" holds NaN at %s, expected finite numbers, or --missing drop to "+
				"estimate missing ones from the others", ndarray.PlaceString(i, read.Shape))
		}
		data.Y, data.YShape, data.Labels = read.Data, read.Shape, read.Labels
		if column {
			data.YShape = data.YShape[:1]
		}
		if data.Stack != nil {
			// A Problem checks only the first sample.
			if err := read.CheckFinite(); err != nil {
				return err
			}
			data.YShape = read.Shape[1:]
			n := len(read.Data) / read.Shape[0]
			for i := range data.Stack {
				data.Stack[i] = read.Data[i*n : (i+1)*n : (i+1)*n]
			}
			data.Y = data.Stack[0]
			return a.readMu(data, l, "each sample of \"y\"")
		}
	}
	if a.sample {
		return a.readMu(data, l, "each sample")
	}
	return a.readMu(data, l, "\"y\"")
}

// readMu reads the true mean, which must have the shape of a sample; which names that in errors.
func (a arrays) readMu(data *Contents, l problems.Layout, which string) error {
	if !a.Has("mu") {
		return nil
	}
	mu, err := a.open("mu", l.YShape)
	if err != nil {
		return err
	}
	defer mu.Close()
	column := len(data.YShape) == 1 && slices.Equal(mu.Shape(), []int{data.YShape[0], 1})
	if data.Frames != nil && slices.Equal(mu.Shape(), data.Frames) {
		read, _, err := mu.Frames()
		data.Mu = read.Data
		return err
	}
	switch {
	case column:
	case data.YShape == nil && l.Colours && len(mu.Shape()) == l.YRank+1:
	case data.YShape == nil && len(mu.Shape()) != l.YRank:
		return mu.ShapeError(l.YShape)
	case data.YShape != nil && !slices.Equal(mu.Shape(), data.YShape):
		return mu.ShapeError(fmt.Sprintf("%s as %s has", ndarray.ShapeString(data.YShape), which))
	}
	read, err := mu.Floats()
	if err != nil {
		return err
	}
	data.Mu = read.Data
	if data.YShape == nil {
		data.Y, data.YShape, data.Simulated = data.Mu, mu.Shape(), true
	}
	return nil
}
