package surepipe

import (
	"context"
	"io"
	"io/fs"
	"reflect"
	"strings"

	"gonum.org/v1/gonum/mat"

	"surepipe/internal/dataio"
	"surepipe/internal/dataio/ndarray"
	"surepipe/internal/lists"
	"surepipe/study"
	"surepipe/study/request"
)

// Data are observations in one or several files of any format that the command reads: a table, arrays, an image, a
// sparse matrix. The zero value has none.
type Data struct {
	files            fs.FS
	data, x, y, d, m string
	na               []string
}

// Missing are the data with texts that stand for missing values of a table, for [Fit.Predict]: by default those of the
// fit. [Table].NA are those of [Open].
func (d Data) Missing(na ...string) Data {
	d.na = na
	return d
}

// Read takes what a reader holds, until its end, for a file of the name: its extension says what it is where the
// beginning does not, as of table.csv.
func Read(ctx context.Context, name string, r io.Reader) (Data, error) {
	if r == nil {
		return Data{}, study.Errorf("the reader of %q is nil, expected one", name)
	}
	return call(ctx, func() (Data, error) {
		files, err := dataio.ReadFile(ctx, name, r)
		if err != nil {
			return Data{}, study.Bad(err)
		}
		return Data{files: files, data: name}, nil
	}, nil)
}

// File is a file of the operating system, by its path; a matrix that is larger than memory stays there.
func File(path string) Data { return Data{files: dataio.Disk, data: path} }

// In is a file of a file system, by its name. A specification opens the files that it names there, and no others.
func In(files fs.FS, name string) Data { return Data{files: files, data: name} }

// Arrays are arrays in memory, of which no copy is made: they must not be modified while an estimator is open. The name
// of a field, but for Shape, is in lower case that of the array in a file, of X and D as it is.
type Arrays struct {
	// X is the design matrix of a regression, and D that of a generalized LASSO.
	X, D mat.Matrix
	// Y are the observations, of the shape Shape, row-major; nil stands for a vector. Of a completion they are the
	// entries at Indices, places in a row-major matrix of that shape. With the multinomial loss they are the class of
	// each row of X, any numbers, or of shape (d, K) a column for each class.
	Y       []float64
	Shape   []int
	Indices []int
	// Mu is the true mean, where it is known, for the loss.
	Mu []float64
	// Weights are those of the observations, of a regression or of the entries of a matrix, Groups the labels of the
	// columns of X, At the places of a sequence.
	Weights []float64
	Groups  []int
	At      []float64
	// Of a regression: Offset is what the linear predictor has besides X b, Exposure that whose logarithm is one, and
	// Trials are the numbers of trials of which Y are the successes.
	Offset, Exposure, Trials []float64
	// Of events, with the Cox losses, of which Y says whether there was one: their Time, and Start and Strata where
	// there are such.
	Time, Start, Strata []float64
	// Of the columns of X: Factors of their penalties, and bounds of their coefficients.
	Factors, Lower, Upper []float64
}

// Sparse is a sparse matrix by its entries: X of [Arrays], or in the place of [Data] for a completion the observed
// ones.
type Sparse struct{ dataio.Triplets }

func (s *Sparse) Dims() (rows, cols int) { return s.Rows, s.Cols }

func (s *Sparse) At(i, j int) (v float64) {
	for k := range s.Values {
		if s.Row[k] == i && s.Col[k] == j {
			v += s.Values[k]
		}
	}
	return v
}

func (s *Sparse) T() mat.Matrix { return mat.Transpose{Matrix: s} }

// Data are the arrays as data.
func (a Arrays) Data() (Data, error) {
	d := Data{data: "arrays"}
	files := dataio.Memory{}
	var all []dataio.Array
	add := func(name string, shape []int, values []float64) error {
		if n := lists.Product(shape); n != len(values) {
			return study.Errorf("array %q has %d values, expected %d, those of the shape %v", name, len(values), n,
				shape)
		}
		all = append(all, dataio.Array{Name: name, Shape: shape, Data: values})
		return nil
	}
	integers := func(name string, values []int) {
		if values != nil {
			all = append(all, ndarray.OfIntegers(name, values))
		}
	}
	shape := a.Shape
	if shape == nil || a.Indices != nil {
		shape = []int{len(a.Y)}
	}
	if a.Y != nil {
		if err := add("y", shape, a.Y); err != nil {
			return Data{}, err
		}
	}
	if a.Mu != nil {
		if err := add("mu", shape, a.Mu); err != nil {
			return Data{}, err
		}
	}
	if a.Indices != nil {
		integers("indices", a.Indices)
		integers("shape", a.Shape)
	}
	for field, value := range reflect.ValueOf(a).Fields() {
		name := strings.ToLower(field.Name)
		if values, is := value.Interface().([]float64); is && values != nil && name != "y" && name != "mu" {
			all = append(all, dataio.Array{Name: name, Shape: []int{len(values)}, Data: values})
		}
	}
	integers("groups", a.Groups)
	for _, m := range []struct {
		name string
		of   mat.Matrix
		file *string
	}{{"X", a.X, &d.x}, {"D", a.D, &d.d}} {
		switch x := m.of.(type) {
		case nil:
		case *Sparse:
			*m.file, files[m.name] = m.name, dataio.HeldFile{Sparse: &x.Triplets}
		default:
			if err := matrix(m.name, x, add); err != nil {
				return Data{}, err
			}
		}
	}
	files[d.data], d.files = dataio.HeldFile{Arrays: all}, files
	return d, nil
}

// matrix adds a dense matrix, without a copy of one whose rows are contiguous.
func matrix(name string, m mat.Matrix, add func(string, []int, []float64) error) error {
	dense, ok := m.(*mat.Dense)
	if !ok || dense.RawMatrix().Stride != dense.RawMatrix().Cols {
		if rows, cols := m.Dims(); rows == 0 || cols == 0 {
			return study.Errorf("array %q is %d x %d, expected rows and columns", name, rows, cols)
		}
		dense = mat.DenseCopyOf(m)
	}
	raw := dense.RawMatrix()
	return add(name, []int{raw.Rows, raw.Cols}, raw.Data[:raw.Rows*raw.Cols])
}

func (d Data) of(r *request.Request) {
	r.Files, r.Data, r.X, r.Y, r.D, r.Mu = d.files, d.data, d.x, d.y, d.d, d.m
}
