// Package check has the checks of arrays that problems share: shapes, finite values of a size that can be squared,
// and places.
package check

import (
	"fmt"
	"math"
	"slices"

	"surepipe/internal/dataio/ndarray"
	"surepipe/internal/lists"
)

// Vector rejects a missing, empty or non-finite array, and one whose values do not fill its
// shape or whose shape has not rank axes.
func Vector(name string, v []float64, shape []int, rank int, expected string) error {
	switch {
	case shape == nil:
		return fmt.Errorf("array %q is missing, expected %s", name, expected)
	case len(shape) != rank:
		return fmt.Errorf("array %q has shape %s, expected %s", name, ndarray.ShapeString(shape), expected)
	case len(v) == 0:
		return fmt.Errorf("array %q is empty (shape %s), expected %s", name, ndarray.ShapeString(shape), expected)
	}
	size := 1
	for _, n := range shape {
		size *= max(n, 0)
	}
	if len(v) != size {
		return fmt.Errorf("array %q has %d values, expected %d for its shape %s", name, len(v), size,
			ndarray.ShapeString(shape))
	}
	if err := Finite(name, v, shape); err != nil {
		return err
	}
	return Scale(name, lists.MaxAbs(v))
}

// The largest entry of an array lies between these bounds, or is 0. Its square, and sums and
// differences of such squares, then neither underflow nor overflow: the solvers measure their
// progress by norms.
const (
	tooSmall = 1e-140
	tooLarge = 1e140
)

// Scale rejects an array whose largest entry in absolute value is out of bounds.
func Scale(name string, largest float64) error {
	switch {
	case largest > 0 && largest < tooSmall:
		return fmt.Errorf("array %q has no entry above %.3g in size, expected some above %g, because squares "+
			"would underflow: multiply it by a constant", name, largest, float64(tooSmall))
	case largest > tooLarge:
		return fmt.Errorf("array %q has an entry of size %.3g, expected none above %g, because squares would "+
			"overflow: divide it by a constant", name, largest, float64(tooLarge))
	}
	return nil
}

// Finite rejects NaN and Inf.
func Finite(name string, v []float64, shape []int) error {
	return ndarray.Array{Name: name, Shape: shape, Data: v}.CheckFinite()
}

func FiniteRow(name string, row []float64, i int, shape []int) error {
	for j, x := range row {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return fmt.Errorf("array %q holds %g at %s, expected finite numbers", name, x,
				ndarray.PlaceString(i*len(row)+j, shape))
		}
	}
	return nil
}

// Places rejects places of a selection that lie outside the array of the given shape, or occur
// twice.
func Places(name string, places, shape []int) error {
	total := lists.Product(shape)
	for i, c := range places {
		if c < 0 || c >= total {
			return fmt.Errorf("array %q holds %d at [%d], expected 0 to %d for %s", name, c, i, total-1, extent(shape))
		}
	}
	sorted := places
	if !slices.IsSorted(places) {
		sorted = slices.Clone(places)
		slices.Sort(sorted)
	}
	for e := 1; e < len(sorted); e++ {
		if c := sorted[e]; c == sorted[e-1] {
			j := slices.Index(places, c)
			return fmt.Errorf("array %q holds %d twice, at [%d] and [%d]", name, c, j,
				j+1+slices.Index(places[j+1:], c))
		}
	}
	return nil
}

// extent describes an array of the shape.
func extent(shape []int) string {
	switch len(shape) {
	case 1:
		return fmt.Sprintf("a sequence of %d", shape[0])
	case 2:
		return fmt.Sprintf("a %d x %d matrix", shape[0], shape[1])
	}
	return fmt.Sprintf("an array of shape %s", ndarray.ShapeString(shape))
}

// mostPlaces is the largest number of entries of an array of which some are observed: the places are
// exact as float64 too. Vectors of that Length are not formed.
const mostPlaces = 1 << 53

// Dims rejects integers that are not the shape of an array with one to three axes, of which some
// entries are observed.
func Dims(name string, dims []int) error {
	total := 1.0
	for _, k := range dims {
		if k < 1 {
			total = math.NaN()
		}
		total *= float64(k)
	}
	if len(dims) < 1 || len(dims) > 3 || !(total <= mostPlaces) || slices.Max(dims) > math.MaxInt32 {
		return fmt.Errorf("array %q is %v, expected one to three positive integers of at most %d with a product "+
			"of at most %d", name, dims, math.MaxInt32, mostPlaces)
	}
	return nil
}
