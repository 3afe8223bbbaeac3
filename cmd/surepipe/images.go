package main

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"surepipe/internal/dataio"
	"surepipe/problems"
)

// outFormats are the formats of --out by the name's extension; the first of a line is its name.
var outFormats = [][]string{{".npz"}, {".npy"}, {".csv"}, {".png"}, {".jpg", ".jpeg"}, {".tif", ".tiff"}}

// imageOut are those of images.
var imageOut = []string{".png", ".jpg", ".tif"}

// outFormat is the format of --out by the name's extension.
func outFormat(path string) (string, error) {
	ext := strings.ToLower(filepath.Ext(path))
	for _, names := range outFormats {
		if slices.Contains(names, ext) {
			return names[0], nil
		}
	}
	return "", usagef("--out is %q, expected a name that ends in .npz, .npy, .csv, .png, .jpg or .tif", path)
}

// isImageShape reports whether an array of the shape can be written as an image.
func isImageShape(shape []int) bool {
	return len(shape) == 2 || len(shape) == 3 && (shape[2] == 1 || shape[2] == 3)
}

// noteImage says what was taken for granted of the file of y.
func (f *estimatorFlags) noteImage(cmd *cobra.Command, depth dataio.Depth) {
	if depth.Scaled {
		f.note(cmd, noteScaled, "y is of type uint%d and is taken for an image: 0 to %d are the numbers 0 to 1", depth.Bits, uint64(1)<<depth.Bits-1)
	}
	if depth.Lossy {
		f.note(cmd, noteLossy, "y was compressed as JPEG, which removes a part of the noise and correlates the rest: sigma2 and SURE take it for white")
	}
}

// writeArray writes an array to a file of one array, with the depth of the file of y, or where that
// was no image's with the depth that the numbers y need. clamped counts the values that the depth
// cannot hold.
func writeArray(path, format string, a dataio.Array, depth dataio.Depth, y []float64) (clamped int, err error) {
	bits := depth.Bits
	if !depth.IsImage() {
		if bits = 16; eightBit(y) {
			bits = 8
		}
	}
	if bits < 8 {
		bits = 8
	}
	switch format {
	case ".npy":
		if depth.Scaled {
			return dataio.WriteNPYOfDepth(path, a, depth.Bits)
		}
		return 0, dataio.WriteNPY(path, a)
	case ".csv":
		return 0, dataio.WriteCSV(path, a)
	case ".jpg":
		return dataio.WriteJPEG(path, a)
	case ".tif":
		if !depth.IsImage() && bits > 8 {
			depth.Float, bits = true, 32
		}
		return dataio.WriteTIFF(path, a, dataio.Depth{Bits: bits, Float: depth.Float})
	}
	return dataio.WritePNG(path, a, min(bits, 16))
}

// presented is an array of the problem in the shape of the file: where y was read as frames, which
// are the columns of the problem's matrices, each matrix is frames again.
func presented(p *problems.Problem, a dataio.Array) dataio.Array {
	if p.Frames == nil {
		return a
	}
	frames, pixels := p.Frames[0], p.Frames[1]*p.Frames[2]
	shape := slices.Concat(a.Shape[:len(a.Shape)-2], p.Frames)
	data := make([]float64, len(a.Data))
	for at := 0; at < len(data); at += frames * pixels {
		from, to := a.Data[at:], data[at:]
		for q := range pixels {
			for t := range frames {
				to[t*pixels+q] = from[q*frames+t]
			}
		}
	}
	a.Shape, a.Data = shape, data
	return a
}

// shapeOut is the shape in which an array of the problem is presented.
func shapeOut(p *problems.Problem, shape []int) []int {
	if p.Frames == nil {
		return shape
	}
	return slices.Concat(shape[:len(shape)-2], p.Frames)
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
