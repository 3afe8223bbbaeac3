package ndarray

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"surepipe/internal/lists"
)

type Array struct {
	Name string
	// Shape has one entry an axis and is empty for a scalar.
	Shape []int
	// Data holds the values in C order: the last axis varies fastest.
	Data []float64
	// Ints holds the values instead where they are integers; Data is then nil.
	Ints []int64
	// Texts holds the values instead where they are texts; Data and Ints are then nil.
	Texts []string
	// Labels name the rows and the columns of a table.
	Labels
	// Complex says that the values are complex numbers: the last axis of Shape, of 2 entries, is their
	// real and imaginary part.
	Complex bool
	// Single says that values are to be written as float32 to a numpy file. Reading does not set it.
	Single bool
	// Absent says that a NaN stands for a value that does not exist: a .csv file has an empty cell.
	Absent bool
	// Depth says how an image's file stores the values, and a numpy file unsigned integers of 8 or 16
	// bits, as which images are stored.
	Depth Depth
}

// Labels name the rows and the columns of a table, and the column of the rows' names; nil and empty where
// they have no names.
type Labels struct {
	RowNames, Columns []string
	Corner            string
}

// Expect returns an error that names the first value that is none of those that are expected, and its place.
func (a Array) Expect(expected string, is func(v float64) bool) error {
	for i, v := range a.Data {
		if !is(v) {
			return fmt.Errorf("array %q holds %g at %s, expected %s", a.Name, v, PlaceString(i, a.Shape), expected)
		}
	}
	return nil
}

// CheckFinite rejects NaN and Inf.
func (a Array) CheckFinite() error {
	return a.Expect("finite numbers", func(v float64) bool { return v-v == 0 })
}

// Column is the column of that name of a table, of shape (rows,).
func (a Array) Column(column string) (y Array, err error) {
	if len(a.Shape) != 2 || len(a.Columns) != a.Shape[1] {
		return y, fmt.Errorf("array %q has no column names, expected a table with a header line to take "+
			"column %q from", a.Name, column)
	}
	j := slices.Index(a.Columns, column)
	if j < 0 {
		return y, MissingColumn(column, a.Columns)
	}
	rows, cols := a.Shape[0], a.Shape[1]
	return Array{Name: column, Shape: []int{rows},
		Data: lists.Make(rows, func(i int) float64 { return a.Data[i*cols+j] })}, nil
}

// Frames returns an array of three axes, the f frames of a video of h x w pixels, as a matrix of
// h w rows, the pixels, and f columns; shape is (f, h, w). Other arrays are returned as they are, and
// shape is nil.
func (a Array) Frames() (matrix Array, shape []int) {
	if len(a.Shape) != 3 {
		return a, nil
	}
	frames, pixels := a.Shape[0], a.Shape[1]*a.Shape[2]
	matrix = a
	matrix.Shape, matrix.Data = []int{pixels, frames}, make([]float64, len(a.Data))
	for t := range frames {
		for q, v := range a.Data[t*pixels:][:pixels] {
			matrix.Data[q*frames+t] = v
		}
	}
	return matrix, a.Shape
}

// Integers are the values of an array of integers, or of floats that are integers.
func (a Array) Integers() ([]int64, error) {
	if a.Ints != nil {
		return a.Ints, nil
	}
	ints := make([]int64, len(a.Data))
	for i, v := range a.Data {
		// Beyond 2^53 a float no longer distinguishes neighbouring integers.
		if v != math.Trunc(v) || math.Abs(v) > 1<<53 {
			return nil, fmt.Errorf("array %q holds %g at %s, expected integers", a.Name, v, PlaceString(i, a.Shape))
		}
		ints[i] = int64(v)
	}
	return ints, nil
}

// OfIntegers is a vector of integers.
func OfIntegers(name string, values []int) Array {
	return Array{Name: name, Shape: []int{len(values)}, Ints: lists.Map(values, func(v int) int64 { return int64(v) })}
}

// Pick are the values at some places, in their order, as a vector.
func (a Array) Pick(places []int) Array {
	return Array{Name: a.Name, Shape: []int{len(places)}, Data: lists.Pick(a.Data, places)}
}

// ShapeString is a shape in Python's notation.
func ShapeString(shape []int) string {
	if len(shape) == 1 {
		return fmt.Sprintf("(%d,)", shape[0])
	}
	parts := lists.Map(shape, strconv.Itoa)
	return "(" + strings.Join(parts, ", ") + ")"
}

// PlaceString is the place of flat index i in an array of the given shape, as
// numpy indexes it.
func PlaceString(i int, shape []int) string {
	place := make([]string, len(shape))
	for axis := len(shape) - 1; axis >= 0; axis-- {
		place[axis] = strconv.Itoa(i % shape[axis])
		i /= shape[axis]
	}
	return "[" + strings.Join(place, ", ") + "]"
}

func (a Array) Parts() int {
	if a.Complex {
		return 2
	}
	return 1
}

// FromColumns puts values, whose first axis varies fastest, in C order. Shape does not have the axis
// of the parts of complex numbers.
func (a Array) FromColumns() Array {
	parts := a.Parts()
	if len(a.Shape) < 2 {
		return a
	}
	out := make([]float64, len(a.Data))
	strides := make([]int, len(a.Shape))
	stride := parts
	for axis := len(a.Shape) - 1; axis >= 0; axis-- {
		strides[axis] = stride
		stride *= a.Shape[axis]
	}
	place := Places(a.Shape, strides, 0)
	for from := 0; from < len(a.Data); from += parts {
		copy(out[place():][:parts], a.Data[from:])
	}
	a.Data = out
	return a
}

// Places returns, one a call, the places of the entries of an array in the order in which its first axis varies
// fastest: at the first one, and strides apart along the axes.
func Places(shape, strides []int, first int) func() int {
	index, next := make([]int, len(shape)), first
	return func() int {
		at := next
		for axis, n := range shape {
			next += strides[axis]
			if index[axis]++; index[axis] < n {
				break
			}
			next -= strides[axis] * n
			index[axis] = 0
		}
		return at
	}
}

// WithoutUnitAxes makes a vector of a matrix with one row or one column, and a scalar of a matrix with
// one entry: MATLAB has no others.
func (a Array) WithoutUnitAxes() Array {
	if len(a.Shape) != 2 || min(a.Shape[0], a.Shape[1]) != 1 {
		return a
	}
	if n := max(a.Shape[0], a.Shape[1]); n > 1 {
		a.Shape = []int{n}
	} else {
		a.Shape = nil
	}
	return a
}

// WithPairs checks that the values fill the shape, and adds the axis of the parts of complex numbers.
func (a Array) WithPairs() (Array, error) {
	if a.Parts()*lists.Product(a.Shape) != len(a.Data) {
		return a, fmt.Errorf("is truncated or corrupt (%d values of shape %s)", len(a.Data)/a.Parts(),
			ShapeString(a.Shape))
	}
	if a.Complex {
		a.Shape = append(a.Shape[:len(a.Shape):len(a.Shape)], 2)
	}
	return a, nil
}

// WithImaginary is an array of real numbers as complex numbers: their imaginary parts are 0.
func (a Array) WithImaginary() Array {
	data := make([]float64, 2*len(a.Data))
	for i, v := range a.Data {
		data[2*i] = v
	}
	a.Shape, a.Data, a.Complex = append(a.Shape[:len(a.Shape):len(a.Shape)], 2), data, true
	return a
}

// Check panics where the shape does not fit the values.
func (a Array) Check() {
	n := len(a.Data)
	if a.Ints != nil {
		n = len(a.Ints)
	}
	if a.Texts != nil {
		n = len(a.Texts)
	}
	if a.Complex && (len(a.Data) != n || len(a.Shape) == 0 || a.Shape[len(a.Shape)-1] != 2) {
		panic(fmt.Sprintf("dataio: array %q of complex numbers has shape %s, expected a last axis of 2", a.Name,
			ShapeString(a.Shape)))
	}
	if lists.Product(a.Shape) != n {
		panic(fmt.Sprintf("dataio: array %q has %d values, expected shape %s", a.Name, n, ShapeString(a.Shape)))
	}
}

// Pixels is the size of an image, and an error where the array is none.
func (a Array) Pixels() (rows, cols, channels int, err error) {
	switch {
	case len(a.Data) == 0:
	case len(a.Shape) == 2:
		return a.Shape[0], a.Shape[1], 1, nil
	case len(a.Shape) == 3 && (a.Shape[2] == 1 || a.Shape[2] == 3):
		return a.Shape[0], a.Shape[1], a.Shape[2], nil
	}
	return 0, 0, 0, fmt.Errorf("array %q has shape %s, expected (rows, columns) of an image, or (rows, columns, "+
		"3) of a colour image", a.Name, ShapeString(a.Shape))
}

// ScaleToUnit divides an array of unsigned integers of 8 or 16 bits, as numpy stores images, by the
// largest value of its type, in place; others remain.
func (a *Array) ScaleToUnit() {
	if !a.Depth.IsImage() || a.Depth.Float || a.Depth.Scaled {
		return
	}
	most := float64(uint64(1)<<a.Depth.Bits - 1)
	for i := range a.Data {
		a.Data[i] /= most
	}
	a.Depth.Scaled = true
}

// Levels undoes the scaling of integers that an image file or ScaleToUnit divided by their type's
// largest, in place: the values are counts again, and no image's. Others remain.
func (a *Array) Levels() {
	integers := a.Depth.IsImage() && !a.Depth.Float
	if most := float64(uint64(1)<<a.Depth.Bits - 1); integers {
		for i := range a.Data {
			a.Data[i] = math.Round(a.Data[i] * most)
		}
	}
	a.Depth = Depth{}
}
