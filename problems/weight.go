package problems

import (
	"fmt"
	"math"
	"strings"
)

// Weight is the weight of a regularizer: a number, or a multiple of the smallest weight at which
// the estimate is zero, such as lambda_max. The zero Weight stands for one that is not given.
type Weight struct {
	value    float64
	relative bool
	given    bool
}

// Absolute is the weight w.
func Absolute(w float64) Weight { return Weight{value: w, given: true} }

// OfMax is w times the maximum of the weight at the data's y.
func OfMax(w float64) Weight { return Weight{value: w, relative: true, given: true} }

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

// or is w where it is given, and else the file's value.
func (w Weight) or(file *float64) Weight {
	if !w.given && file != nil {
		return Absolute(*file)
	}
	return w
}

// weight resolves a weight that must be positive. maximum computes the smallest weight at which the
// estimate is zero; it is nil where there is none.
func (p *Problem) weight(name string, w Weight, maximum func() (float64, error)) (float64, error) {
	if !w.given {
		return 0, weightErrorf(name, "is missing: neither given nor in the data")
	}
	v := w.value
	if w.relative {
		if maximum == nil {
			return 0, weightErrorf(name, "is %gmax, but this weight has no maximum, a smallest value at which the "+
				"estimate is 0: expected a number", w.value)
		}
		top, err := maximum()
		if err != nil {
			return 0, err
		}
		if top == 0 {
			return 0, weightErrorf(name, "is %gmax, but its maximum is 0 at this y: expected a number", w.value)
		}
		v *= top
		p.Relative = true
	}
	if !(v > 0) {
		return 0, weightErrorf(name, "is %g, expected a positive number", v)
	}
	return v, nil
}
