package draw

import (
	"fmt"
	"math"
	"slices"

	"surepipe/internal/dataio"
	"surepipe/internal/dataio/ndarray"
	"surepipe/study"
)

// CheckShape rejects a format of the file of an array that cannot hold its shape. frames says that the shape is
// that of a series of images, and isComplex that the numbers are complex.
func CheckShape(f dataio.Format, path, name string, shape []int, frames, isComplex bool) error {
	switch {
	case f.Pages && !isComplex && HasImages(shape):
	case f.Image && (frames || !IsImage(shape)):
		return study.Errorf("--out is %q, but %s has shape %s: an image is a matrix, or (rows, columns, 3)", path, name,
			ndarray.ShapeString(shape))
	case f.Axes > 0 && len(shape) > f.Axes:
		return study.Errorf("--out is %q, but %s has shape %s: expected at most %d axes in a %s file", path, name,
			ndarray.ShapeString(shape), f.Axes, f.Extensions[0])
	}
	return nil
}

// EightBit reports whether all values are 8-bit pixels.
func EightBit(y []float64) bool {
	return !slices.ContainsFunc(y, func(v float64) bool {
		x := 255 * v
		return math.Abs(x-math.Round(x)) > 1e-9 || v < 0 || v > 1
	})
}

// ClampedText is the note on values that an image cannot hold.
func ClampedText(path string, clamped, n int) string {
	return fmt.Sprintf("%s: %d of %d pixels were outside [0, 1] and have been clamped", path, clamped, n)
}
