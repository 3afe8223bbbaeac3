package spec

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"surepipe/input"
	"surepipe/internal/dataio"
	"surepipe/internal/dataio/ndarray"
	"surepipe/internal/design"
	"surepipe/internal/lists"
	"surepipe/problems/internal/check"
)

// Layout describes the arrays of a named problem besides y.
type Layout struct {
	// Arrays lists the arrays with their shapes, for people.
	Arrays string
	// Design says that there is a design matrix X, with one row for each value of y. Only
	// these problems may have an intercept.
	Design bool
	// Selection says that y holds some entries of a matrix: indices are their places in
	// the row-major matrix, and shape is its shape.
	Selection bool
	// Groups says that each column of X has the label of a group.
	Groups bool
	// YRank is the number of axes of y, and YShape names them.
	YRank  int
	YShape string
	// Frames says that y may be the frames of a video, (f, h, w), read as the columns of a matrix.
	Frames bool
	// Gaps says that values of y may be missing: y then has the others, and Data.Indices their places in an array of
	// Data.Shape, which has YRank axes, or one more of an image in colours.
	Gaps bool
	// Rows says that y may have one more axis, and its rows are then separate sequences.
	Rows bool
	// Colours says that y may have one more axis, the channels of an image.
	Colours bool
	// Analysis says that there is a matrix D, behind which the regularizer stands.
	Analysis bool
	// Places says that Data.At are used.
	Places bool
	// Isotropic says that the penalty is of norms across differences along the axes, for which Data has
	// Anisotropic and Vectorial.
	Isotropic bool
	// Orders are those that Data.Order may have; the zero value stands for none.
	Orders Orders
}

// Orders are a range of orders of differences.
type Orders struct{ Least, Most int }

// Sequence reports whether y is a sequence, in the order of its index.
func (l Layout) Sequence() bool { return l.YRank == 1 && !l.Design && !l.Selection }

// OfAnyShape is the specification of an estimator that is none: its y is an array of any shape.
func OfAnyShape() *Spec {
	s, err := Parse([]byte("data: y\noperator: identity\nregularizer: zero\n"), "y")
	if err != nil {
		panic(err)
	}
	s.embedded, s.Layout = true, &Layout{}
	return s
}

// dataNames are the arrays that layouts have. Others are ignored.
var dataNames = slices.Concat([]string{"X", "y", "D", "groups", "indices", "shape", "at", "factors", "lower", "upper",
	"mu", "sigma2"}, (design.Beside{}).Options(), weightNames)

// named reads the arrays of the layout, in the order in which they are missed.
func (l *loader) named() (data Data, err error) {
	l.layout = *l.Layout
	if l.files.Sample != nil {
		l.held.Hold(*l.files.Sample)
	}
	for _, read := range []func(*Data) error{l.ask, l.observe, l.readX, l.readY, l.readPlaces, l.readMu, l.readBeside,
		l.readPenalty, l.scalars} {
		if err := read(&data); err != nil {
			return Data{}, err
		}
	}
	l.sequence(&data)
	data.Table, data.Entries, data.Depth = l.table, l.entries, l.depth
	if l.frames != nil {
		data.Frames = l.frames
	}
	data.Ignored = l.ignored()
	return data, l.checkUsed()
}

// ask asks for the response of a table with named columns, where nothing else says what X and y are.
func (l *loader) ask(*Data) error {
	o, path, series := l.tableOptions(), l.files.Data, l.layout.Sequence()
	if l.haveY() || l.files.X != "" || o.Response != "" || !dataio.IsTable(path) || !l.layout.Design && !series {
		return nil
	}
	t, err := dataio.OpenTable(path, dataio.TableOptions{Files: o.Files, NA: o.NA, Unnamed: true,
		Read: func(string) bool { return series }})
	switch {
	case err != nil:
		return nil // the file is read again as numbers, with the error of that
	case series:
		return l.in("y", design.CheckSequence(t))
	case t.Unnamed:
		return input.Errorf("%s: which column is the response? Expected --response NAME (the file has no header line "+
			"that names the columns), or --y FILE", path)
	}
	return input.Errorf("%s: which column is the response? Expected --response NAME, one of %s, or --y FILE", path,
		ndarray.Some(t.Names(), ndarray.MostListed))
}

// entries are observed entries of an array of a shape, at these places, as the arrays y, indices and shape.
func entries(y []float64, places, shape []int) []dataio.Array {
	return []dataio.Array{{Name: "y", Shape: []int{len(y)}, Data: y}, ndarray.OfIntegers("indices", places),
		ndarray.OfIntegers("shape", shape)}
}

// observe puts y, indices and shape in the place of a y in which NaN stands for a missing entry: a matrix, which must
// have some, or a sequence or an image where values may be missing.
func (l *loader) observe(*Data) error {
	l.axes = l.layout.YRank
	if l.layout.Selection {
		l.axes = 2
	}
	if l.mostAxes = l.axes; l.layout.Colours {
		l.mostAxes++
	}
	if (l.layout.Selection || l.layout.Gaps && l.gaps()) && !l.has("indices") && l.has("y") {
		if err := l.observed(); err != nil {
			return err
		}
	}
	if l.layout.Gaps && l.has("indices") {
		l.layout.YRank, l.layout.YShape, l.layout.Rows, l.layout.Colours = 1, "(d,)", false, false
	}
	return nil
}

func (l *loader) observed() error {
	return l.with("y", "(d,), or (m, n) with NaN for missing entries", func(r *dataio.Reader) error {
		shape := ndarray.ShapeString(r.Shape())
		switch named := l.dataSet != nil && l.dataSet.Named(); {
		case len(r.Shape()) == l.axes, len(r.Shape()) == l.mostAxes && !l.files.Many:
		case l.layout.Gaps || named:
			return nil // indices are missing, or there are several sequences
		default:
			return input.Errorf("the file holds a single array of shape %s, expected y, indices and shape, or a "+
				"matrix with NaN or a sparse matrix whose entries are the observations, or a table of entries and "+
				"--response", shape)
		}
		y, err := r.Floats()
		if err != nil {
			return err
		}
		places := lists.Places(len(y.Data), func(c int) bool { return !math.IsNaN(y.Data[c]) })
		switch whole := len(places) == len(y.Data); {
		case whole && (l.files.Many || l.layout.Gaps):
			return nil // samples of observed entries, or no gaps
		case whole:
			return input.Errorf("array \"y\" has shape %s and no NaN, which stands for a missing entry: expected "+
				"some, or y (d) with indices and shape; --problem svt denoises a whole matrix", shape)
		case places == nil:
			return errors.New("array \"y\" is NaN everywhere, expected some observed entries")
		}
		l.held.Hold(entries(y.Pick(places).Data, places, y.Shape)...)
		return nil
	})
}

func (l *loader) readX(data *Data) (err error) {
	if l.layout.Design {
		data.X, err = l.matrixOf("X", "(d, p)", l.files.Stored)
	}
	return err
}

// anyShape takes the shape of a y for which any will do from the array, and that of a sample from mu.
func (l *loader) anyShape() error {
	name, expected := "y", "(...), the observations, of any shape"
	if l.files.Many {
		name, expected = "mu", "(...), the mean to simulate samples around, of any shape, or --y with a stack of "+
			"samples (N x ...)"
	}
	return l.with(name, expected, func(r *dataio.Reader) error {
		l.layout.YRank, l.layout.YShape = len(r.Shape()), ndarray.ShapeString(r.Shape())
		y, _ := l.held.Held(name)
		return design.CheckArray(y)
	})
}

// readY reads y, unless samples are to be simulated around mu.
func (l *loader) readY(data *Data) error {
	if l.layout.YRank == 0 {
		if err := l.anyShape(); err != nil {
			return err
		}
	}
	if l.files.Many && l.has("mu") && !l.has("y") {
		return nil
	}
	return l.with("y", l.layout.YShape, func(r *dataio.Reader) error { return l.takeY(data, r) })
}

func (l *loader) takeY(data *Data, r *dataio.Reader) error {
	o, many, shape := l.layout, l.files.Many, r.Shape()
	axes := len(shape) - o.YRank // more than that of a y
	if o.Frames && !many && len(shape) == 3 {
		read, shape, err := r.Frames()
		data.Y, data.YShape, data.Frames = read.Data, read.Shape, shape
		return err
	}
	column := o.YRank == 1 && !many && len(shape) == 2 && shape[1] == 1
	coloured := o.Colours && axes > 0 && shape[len(shape)-1] == 3
	switch {
	case coloured && many && axes == 2, axes == 1 && many && !coloured:
		data.Stack = make([][]float64, shape[0])
	case coloured && many && axes == 1:
		return fmt.Errorf("array \"y\" has shape %s, which is one image in colours, expected a stack of N samples, "+
			"(N, m, n) or (N, m, n, 3); the mean of simulations is the array \"mu\"", ndarray.ShapeString(shape))
	case column, axes == 0, axes == 1 && (o.Rows || o.Colours || l.files.Columns):
	case many:
		return fmt.Errorf("array \"y\" has shape %s, expected %s or (N, %s, a stack of N samples",
			ndarray.ShapeString(shape), o.YShape, strings.Replace(o.YShape[1:], ",)", ")", 1))
	case axes == 1 && shape[o.YRank] != 1 && l.files.Sample == nil:
		volumes := ""
		if o.YRank == 3 {
			volumes = "a series of volumes is for surepipe denoise, "
		}
		return fmt.Errorf("array \"y\" has shape %s, expected %s: %sa stack of samples is for surepipe montecarlo",
			ndarray.ShapeString(shape), o.YShape, volumes)
	default: // a d x 1 array is a column, not a stack of samples
		return r.ShapeError(o.YShape)
	}
	read, err := r.Floats()
	if err != nil {
		return err
	}
	if i := slices.IndexFunc(read.Data, math.IsNaN); i >= 0 && o.Gaps && !many {
		hint := ", or --missing drop to estimate missing ones from the others"
		if l.gaps() {
			hint = ": --missing drop is for a single sequence or image"
		}
		return input.Errorf("array \"y\" holds NaN at %s, expected finite numbers%s",
			ndarray.PlaceString(i, read.Shape), hint)
	}
	if data.Y, data.YShape, data.Labels = read.Data, read.Shape, read.Labels; column {
		data.YShape = shape[:1]
	}
	if data.Stack == nil {
		return nil
	}
	// A Problem checks only the first sample.
	if err := read.CheckFinite(); err != nil {
		return err
	}
	data.YShape = shape[1:]
	n := len(read.Data) / shape[0]
	for i := range data.Stack {
		data.Stack[i] = read.Data[i*n : (i+1)*n : (i+1)*n]
	}
	data.Y = data.Stack[0]
	return nil
}

// readPlaces reads the places of the values of y, and the shape of the whole, unless nothing is missing.
func (l *loader) readPlaces(data *Data) (err error) {
	if !l.layout.Selection && !(l.layout.Gaps && l.has("indices")) {
		return nil
	}
	expected := fmt.Sprintf("(%d,)", l.axes)
	if l.mostAxes > l.axes {
		expected += fmt.Sprintf(" or (%d,), the axes of an image in colours", l.mostAxes)
	}
	if data.Indices, err = l.integers("indices", "(d,), places in the row-major matrix"); err != nil {
		return err
	}
	if data.Shape, err = l.integers("shape", expected); err != nil {
		return err
	}
	if n := len(data.Shape); n < l.axes || n > l.mostAxes {
		return l.in("shape", fmt.Errorf("array \"shape\" has shape (%d,), expected %s", n, expected))
	}
	n := len(data.Indices)
	if l.axes == 1 && data.Shape[0] == n && slices.Equal(data.Indices, lists.Upto(n)) {
		data.Indices, data.Shape = nil, nil // there are no gaps
	}
	return nil
}

// readMu reads the true mean, which must have the shape of a sample, or that of the whole of which y are entries.
func (l *loader) readMu(data *Data) error {
	if !l.has("mu") {
		return nil
	}
	return l.with("mu", l.layout.YShape, func(r *dataio.Reader) error { return l.takeMu(data, r) })
}

func (l *loader) takeMu(data *Data, r *dataio.Reader) error {
	o, shape, which := l.layout, r.Shape(), "\"y\""
	switch {
	case data.Stack != nil:
		which = "each sample of \"y\""
	case l.files.Sample != nil:
		which = "each sample"
	}
	if data.Frames != nil && slices.Equal(shape, data.Frames) {
		read, _, err := r.Frames()
		data.Mu = read.Data
		return err
	}
	whole := data.Indices != nil && slices.Equal(shape, data.Shape) && !slices.Equal(shape, []int{len(data.Indices)})
	switch {
	case whole || len(data.YShape) == 1 && slices.Equal(shape, []int{data.YShape[0], 1}):
	case data.YShape == nil && o.Colours && len(shape) == o.YRank+1:
	case data.YShape == nil && len(shape) != o.YRank:
		return r.ShapeError(o.YShape)
	case data.YShape != nil && !slices.Equal(shape, data.YShape):
		return r.ShapeError(fmt.Sprintf("%s as %s has", ndarray.ShapeString(data.YShape), which))
	}
	read, err := r.Floats()
	if whole && err == nil {
		if err = check.Places("indices", data.Indices, data.Shape); err == nil {
			read = read.Pick(data.Indices)
		}
	}
	if data.Mu = read.Data; data.YShape == nil {
		data.Y, data.YShape, data.Simulated = read.Data, read.Shape, true
	}
	return err
}

// readBeside reads numbers for each value of y, and for each column of X.
func (l *loader) readBeside(data *Data) (err error) {
	switch {
	case l.layout.Selection:
		given, err := l.vectors("(d,), a positive weight for each value of y", "weights")
		data.Weights = given["weights"]
		return err
	case l.layout.Places:
		given, err := l.vectors("(n,), the places of the values of a sequence", "at")
		data.At = given["at"]
		return err
	case !l.layout.Design:
		return nil
	}
	beside := (design.Beside{}).Options()
	if data.Observed, err = l.vectors("(d,), a number for each value of y", beside...); err != nil {
		return err
	}
	each, err := l.vectors("(p,), a number for each column of X", "factors", "lower", "upper")
	data.Coordinates = Coordinates{Factors: each["factors"], Lower: each["lower"], Upper: each["upper"]}
	return err
}

// readPenalty reads the matrix behind which the penalty stands, and the groups of the columns of X: where y has several
// columns in one fit, each column of X is one.
func (l *loader) readPenalty(data *Data) (err error) {
	if l.layout.Analysis {
		if data.D, err = l.matrixOf("D", "(q, p), the matrix behind which the penalty stands", nil); err != nil {
			return err
		}
	}
	switch {
	case !l.layout.Groups:
	case l.files.Joint && !l.has("groups"):
		_, p := data.X.Dims()
		data.Groups = lists.Upto(p)
	case !l.files.Grouped:
		data.Groups, err = l.integers("groups", "(p,), a label for each column of X")
	}
	return err
}
