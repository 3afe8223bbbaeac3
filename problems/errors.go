package problems

import "fmt"

// WeightError is the error for an invalid weight: its name, and what is wrong with it.
type WeightError struct {
	// Weight is "lambda", "lambda2" or "gamma".
	Weight string
	// Reason continues a sentence that begins with the weight: "is -1, expected a positive number".
	Reason string
}

// Error is the weight and the reason.
func (e *WeightError) Error() string { return e.Weight + " " + e.Reason }

// weightErrorf returns the error for a weight.
func weightErrorf(weight, format string, args ...any) error {
	return &WeightError{weight, fmt.Sprintf(format, args...)}
}
