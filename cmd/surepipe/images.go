package main

import (
	"fmt"
	"math"

	"github.com/spf13/cobra"

	"surepipe/internal/dataio"
	"surepipe/internal/dataio/ndarray"
	"surepipe/study"
)

// outFormat is the format of --out by the name's extension.
func outFormat(path string) (dataio.Format, error) {
	f, ok := dataio.FormatFor(path)
	if !ok {
		return f, usagef("--out is %q, expected a name that ends in %s", path, dataio.Extensions(dataio.Written()))
	}
	return f, nil
}

// outExtensions are those of --out, without their periods.
func outExtensions() []string {
	var names []string
	for _, f := range dataio.Written() {
		for _, e := range f.Extensions {
			names = append(names, e[1:])
		}
	}
	return names
}

// checkShape rejects a format of --out that cannot hold an array of the shape. frames says that the shape is that of a
// series of images, and complex that the numbers are.
func checkShape(f dataio.Format, path, name string, shape []int, frames, isComplex bool) error {
	switch {
	case f.Pages && !isComplex && newView(shape, false) != nil:
	case f.Image && (frames || !isImageShape(shape)):
		return usagef("--out is %q, but %s has shape %s: an image is a matrix, or (rows, columns, 3)", path, name,
			ndarray.ShapeString(shape))
	case f.Axes > 0 && len(shape) > f.Axes:
		return usagef("--out is %q, but %s has shape %s: expected at most %d axes in a %s file", path, name,
			ndarray.ShapeString(shape), f.Axes, f.Extensions[0])
	}
	return nil
}

// isImageShape reports whether an array of the shape can be written as an image.
func isImageShape(shape []int) bool {
	return len(shape) == 2 || len(shape) == 3 && (shape[2] == 1 || shape[2] == 3)
}

// noteImage says what was taken for granted of the file of y.
func (f *estimatorFlags) noteImage(cmd *cobra.Command, depth dataio.Depth) {
	if depth.Scaled {
		f.note(cmd, study.NoteScaled,
			"y is of type uint%d and is taken for an image: 0 to %d are the numbers 0 to 1", depth.Bits,
			uint64(1)<<depth.Bits-1)
	}
	if depth.Lossy {
		f.note(cmd, study.NoteLossy, "y was compressed as JPEG, which removes a part of the noise and correlates "+
			"the rest: sigma2 and SURE take it for white")
	}
}

// eightBit reports whether all values are 8-bit pixels.
func eightBit(y []float64) bool {
	for _, v := range y {
		if x := 255 * v; math.Abs(x-math.Round(x)) > 1e-9 || v < 0 || v > 1 {
			return false
		}
	}
	return true
}

// clampedText is the note on values that an image cannot hold.
func clampedText(path string, clamped, n int) string {
	return fmt.Sprintf("%s: %d of %d pixels were outside [0, 1] and have been clamped", path, clamped, n)
}
