package study

import (
	"encoding/json"
	"fmt"
	"math"

	"surepipe/internal/digits"
)

// Number is a float64 that may be infinite, as a regularization weight may be: in JSON infinities
// are the strings "inf" and "-inf".
type Number float64

// Defined is nil for NaN and infinities.
func Defined(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

func positive(v float64) *float64 {
	if v == 0 {
		return nil
	}
	return &v
}

func valueOr(v *float64) float64 {
	if v == nil {
		return math.NaN()
	}
	return *v
}

func (x Number) MarshalJSON() ([]byte, error) {
	switch v := float64(x); {
	case math.IsInf(v, 1):
		return []byte(`"inf"`), nil
	case math.IsInf(v, -1):
		return []byte(`"-inf"`), nil
	default:
		return json.Marshal(v)
	}
}

// Weight is nil for NaN, which stands for a weight that the problem does not have.
func Weight(v float64) *Number {
	if math.IsNaN(v) {
		return nil
	}
	return new(Number(v))
}

func (x *Number) UnmarshalJSON(text []byte) error {
	switch string(text) {
	case `"inf"`:
		*x = Number(math.Inf(1))
	case `"-inf"`:
		*x = Number(math.Inf(-1))
	default:
		return json.Unmarshal(text, (*float64)(x))
	}
	return nil
}

// PlusMinus is a value with its standard error, where it has them, as text.
func PlusMinus(value, stdErr float64) string {
	switch {
	case math.IsNaN(value):
		return Unknown
	case math.IsNaN(stdErr):
		return fmt.Sprintf("%.6g", value)
	}
	return digits.PlusMinus(value, stdErr)
}

// Unknown stands for a value that is not defined, or cannot be known.
const Unknown = "not known"

// Array is an array of numbers, row-major; with Complex the last axis is the real and imaginary part.
type Array struct {
	Shape   []int
	Data    []float64
	Complex bool
}
