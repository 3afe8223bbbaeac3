package spec

import (
	"fmt"
	"math"
	"strings"
)

// Weight is the weight of a regularizer: a number, or a multiple of the smallest weight at which
// the estimate is zero, such as lambda_max. The zero Weight stands for one that is not given.
type Weight struct {
	// Value is the number, or with OfMax the factor of the maximum at the data's y.
	Value        float64
	OfMax, Given bool
}

// ParseWeight reads "3.5", "inf", or "0.25max" for a multiple of the maximum.
func ParseWeight(s string) (Weight, error) {
	number, relative := strings.CutSuffix(strings.TrimSpace(s), "max")
	if relative && number == "" {
		number = "1"
	}
	v, err := parseNumber(strings.TrimSpace(number))
	if err != nil || v < 0 || relative && math.IsInf(v, 0) {
		return Weight{}, fmt.Errorf("%q, expected a positive number, inf, or a multiple such as 0.25max", s)
	}
	return Weight{v, relative, true}, nil
}

// Or is w where it is given, and else the file's value, if there is one.
func (w Weight) Or(file *float64) Weight {
	if !w.Given && file != nil {
		return Weight{Value: *file, Given: true}
	}
	return w
}

// WeightError is the error for an invalid weight: its name, and what is wrong with it.
type WeightError struct {
	// Weight is "lambda", "lambda2" or "gamma".
	Weight string
	// Reason continues a sentence that begins with the weight: "is -1, expected a positive number".
	Reason string
}

func (e *WeightError) Error() string { return e.Weight + " " + e.Reason }

// WeightErrorf returns the error for a weight.
func WeightErrorf(weight, format string, args ...any) error {
	return &WeightError{weight, fmt.Sprintf(format, args...)}
}
