package prox

import (
	"fmt"
	"math"
	"slices"
)

// Series is a series of images, frames x rows x cols, row-major, in patches of Patch x Patch pixels:
// every patch is a matrix of frames x pixels. The patches of one tiling are disjoint and cover the
// images; those at the borders may be smaller. There are (Patch/Stride)^2 tilings, shifted against
// one another by Stride pixels.
type Series struct {
	Frames, Rows, Cols int
	Patch, Stride      int
}

// Len is the number of values.
func (s Series) Len() int { return s.Frames * s.Rows * s.Cols }

// Check returns an error unless the stride divides the side of the patches and there is something to
// cover.
func (s Series) Check() error {
	switch {
	case s.Frames < 1 || s.Rows < 1 || s.Cols < 1:
		return fmt.Errorf("prox: a series of %d images of %d x %d pixels, expected some", s.Frames, s.Rows, s.Cols)
	case s.Patch < 1 || s.Patch > max(s.Rows, s.Cols):
		return fmt.Errorf("prox: patches of %d x %d pixels of images of %d x %d, expected a side of 1 to %d", s.Patch,
			s.Patch, s.Rows, s.Cols, max(s.Rows, s.Cols))
	case s.Stride < 1 || s.Patch%s.Stride != 0:
		return fmt.Errorf("prox: patches of side %d at a stride of %d, expected a divisor of the side", s.Patch,
			s.Stride)
	}
	return nil
}

// Patch is a rectangle of pixels of all images.
type Patch struct {
	// Top to Bottom-1 are its rows, and Left to Right-1 its columns.
	Top, Bottom, Left, Right int
	// Scale multiplies the threshold: see [denoise.NewLocalLowRank].
	Scale float64
}

// Pixels is the number of pixels.
func (p Patch) Pixels() int { return (p.Bottom - p.Top) * (p.Right - p.Left) }

// Patches lists the patches of all tilings.
func (s Series) Patches() []Patch { return slices.Concat(s.Tilings()...) }

// Tilings lists the patches of every tiling.
func (s Series) Tilings() [][]Patch {
	var all [][]Patch
	scale := func(pixels int) float64 { return math.Sqrt(float64(s.Frames)) + math.Sqrt(float64(pixels)) }
	full := scale(min(s.Patch, s.Rows) * min(s.Patch, s.Cols))
	for down := 0; down < s.Patch; down += s.Stride {
		for along := 0; along < s.Patch; along += s.Stride {
			var tiling []Patch
			for from := down - s.Patch*min(down, 1); from < s.Rows; from += s.Patch {
				for left := along - s.Patch*min(along, 1); left < s.Cols; left += s.Patch {
					p := Patch{Top: max(from, 0), Bottom: min(from+s.Patch, s.Rows), Left: max(left, 0),
						Right: min(left+s.Patch, s.Cols)}
					if p.Top < p.Bottom && p.Left < p.Right {
						p.Scale = scale(p.Pixels()) / full
						tiling = append(tiling, p)
					}
				}
			}
			all = append(all, tiling)
		}
	}
	return all
}

// Visit calls f with every value of the patch: its frame, its pixel within the patch, and its place.
func (p Patch) Visit(s Series, f func(frame, pixel, at int)) {
	for frame := range s.Frames {
		pixel := 0
		for r := p.Top; r < p.Bottom; r++ {
			start := (frame*s.Rows + r) * s.Cols
			for c := p.Left; c < p.Right; c++ {
				f(frame, pixel, start+c)
				pixel++
			}
		}
	}
}
