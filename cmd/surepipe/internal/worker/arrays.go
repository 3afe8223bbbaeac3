package worker

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"math"
	"slices"

	"surepipe"
	"surepipe/internal/dataio"
	"surepipe/internal/dataio/ndarray"
	"surepipe/study"
)

const (
	// mostInline is the most bytes of an array that a frame holds.
	mostInline = 1 << 20
	mostAxes   = 32
	// mostSettings is the longest object of options: each of its keys takes memory of its own.
	mostSettings = 256 << 10
)

// Array is an array of numbers, row-major: its values in the frame, or the path of a .npy file.
type Array struct {
	Shape  []int     `json:"shape,omitempty" jsonschema:"its axes; without one the values are a vector"`
	Values []float64 `json:"values,omitempty" jsonschema:"the values as numbers"`
	Base64 []byte    `json:"base64,omitempty" jsonschema:"the values as float64, little-endian, which NaN may be among"`
	NPY    string    `json:"npy,omitempty" jsonschema:"a .npy file with all of it, for arrays of a megabyte and more"`
	// Complex numbers are pairs along the last axis.
	Complex bool `json:"complex,omitempty" jsonschema:"the last axis is the real and imaginary part"`
}

func (a *Array) read(name string) (none dataio.Array, err error) {
	given := 0
	for _, is := range []bool{a.Values != nil, a.Base64 != nil, a.NPY != ""} {
		if is {
			given++
		}
	}
	if given != 1 {
		return none, study.Errorf("--%s has %d of values, base64 and npy, expected one of them", name, given)
	}
	values := a.Values
	if a.Base64 != nil {
		if len(a.Base64)%8 != 0 {
			return none, study.Errorf("--%s has %d bytes in base64, expected 8 for each value", name, len(a.Base64))
		}
		values = make([]float64, len(a.Base64)/8)
		for i := range values {
			values[i] = math.Float64frombits(binary.LittleEndian.Uint64(a.Base64[8*i:]))
		}
	}
	shape := a.Shape
	if shape == nil {
		shape = []int{len(values)}
	}
	n := 1
	for _, k := range shape {
		if k < 1 || len(shape) > mostAxes || n > len(values) {
			n = -1
			break
		}
		n *= k
	}
	if n != len(values) {
		return none, study.Errorf("--%s has the shape %s and %d values, expected as many as the shape says", name,
			ndarray.ShapeString(shape[:min(len(shape), mostAxes)]), len(values))
	}
	if a.Complex {
		return none, study.Errorf("--%s is complex, expected real numbers, or a .npy file", name)
	}
	return dataio.Array{Name: name, Shape: shape, Data: values}, nil
}

func (a *Array) filed() bool { return a.NPY != "" && a.Values == nil && a.Base64 == nil }

// place sets the path of an array that has a file of its own, or gets one among the files.
func (a *Array) place(name string, path *string, files dataio.Memory) error {
	switch {
	case *path != "":
		return study.Errorf("--%s is given twice, as an array and as a file, expected one of them", name)
	case a.filed():
		*path = a.NPY
		return nil
	}
	read, err := a.read(name)
	*path, files[name] = name, dataio.HeldFile{Arrays: []dataio.Array{read}}
	return err
}

// integers turns an array of integers into one, as indices are.
func integers(a dataio.Array) dataio.Array {
	ints := make([]int64, len(a.Data))
	for i, v := range a.Data {
		if ints[i] = int64(v); float64(ints[i]) != v {
			return a // its reader says what is wrong with it
		}
	}
	a.Ints, a.Data = ints, nil
	return a
}

func (a *Array) vector(name string, whole bool) (read dataio.Array, err error) {
	if a.NPY == "" {
		read, err = a.read(name)
	} else if read.Data, err = a.values(name); err == nil {
		read.Name, read.Shape = name, []int{len(read.Data)}
	}
	if err == nil && whole {
		read = integers(read)
	}
	return read, err
}

// array is an array as a result has it: in the frame, or where it is large in a file.
func (w *worker) array(name string, a surepipe.Array) (Array, error) {
	if 8*len(a.Data) < mostInline {
		bytes := make([]byte, 0, 8*len(a.Data))
		for _, v := range a.Data {
			bytes = binary.LittleEndian.AppendUint64(bytes, math.Float64bits(v))
		}
		return Array{Shape: slices.Clone(a.Shape), Base64: bytes, Complex: a.Complex}, nil
	}
	path, err := w.path(name)
	if err != nil {
		return Array{}, err
	}
	err = dataio.WriteNPY(path, dataio.Array{Name: name, Shape: a.Shape, Data: a.Data, Complex: a.Complex})
	return Array{Shape: a.Shape, NPY: path, Complex: a.Complex}, err
}

func (a *Array) values(name string) ([]float64, error) {
	if !a.filed() {
		read, err := a.read(name)
		return read.Data, err
	}
	read, err := dataio.ReadOne(a.NPY, dataio.TableOptions{}, (*dataio.Set).Floats)
	if err != nil {
		return nil, study.Bad(err)
	}
	return read.Data, nil
}

// decode reads JSON, in which no key may be unknown. Its errors say where what was found.
func decode(text json.RawMessage, to any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	err := d.Decode(to)
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &kind) && kind.Field != "":
		return study.Errorf("%s is a JSON %s, expected %s", study.Option(kind.Field), kind.Value, expected(kind))
	case errors.As(err, &kind):
		return study.Errorf("params are a JSON %s, expected an object", kind.Value)
	case errors.Is(err, io.EOF):
		return study.Errorf("params are empty, expected an object")
	case err != nil:
		return study.Errorf("params: %w", err)
	}
	return nil
}

// expected is what a key expects, in words of JSON.
func expected(kind *json.UnmarshalTypeError) string {
	s, err := schemaOf(kind.Type, true)
	if err != nil || s.Type == "" {
		return "another value"
	}
	return s.Type
}
