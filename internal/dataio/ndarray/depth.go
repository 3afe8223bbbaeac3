package ndarray

import "math"

// Depth says how a file stores the values of an image. The zero Depth stands for values that are
// not an image's.
type Depth struct {
	// Bits are those of a value, 1 to 64, and Float says that the values are not scaled.
	Bits  int
	Float bool
	// Lossy says that the file's compression changed the values, and Scaled that they are integers
	// of a numpy file which [Array.ScaleToUnit] divided by their type's largest.
	Lossy, Scaled bool
}

func (d Depth) IsImage() bool { return d.Bits > 0 }

// Quantizer turns numbers in [0, 1] into integers up to most, rounded to nearest, and counts those
// that fall outside after rounding, which are clamped.
type Quantizer struct {
	most    float64
	Clamped int
}

// NewQuantizer is for integers of so many bits.
func NewQuantizer(bits int) *Quantizer {
	return &Quantizer{most: float64(uint64(1)<<bits - 1)}
}

func (q *Quantizer) Level(v float64) float64 {
	v = math.Round(v * q.most)
	if v < 0 || v > q.most {
		q.Clamped++
		return min(max(v, 0), q.most)
	}
	return v
}

// PixelBits is the number of bits of pixels: that of the file of y, or where that was no image's what the
// values of y need.
func (d Depth) PixelBits(eight bool) int {
	switch {
	case d.IsImage():
		return max(d.Bits, 8)
	case eight:
		return 8
	}
	return 16
}
