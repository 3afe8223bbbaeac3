package dataio

import (
	"fmt"
	"image"
	"image/color"
	"math"
)

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

// IsImage reports whether the values are an image's.
func (d Depth) IsImage() bool { return d.Bits > 0 }

// IsImage reports whether the file is an image.
func (s *Set) IsImage() bool { return s.row().Image }

// imageArray is an array for an image of rows x cols pixels of a number of channels, of the shape
// (rows, cols) or (rows, cols, channels).
func imageArray(rows, cols, channels int, depth Depth) Array {
	a := Array{Shape: []int{rows, cols}, Data: make([]float64, rows*cols*channels), Depth: depth}
	if channels > 1 {
		a.Shape = append(a.Shape, channels)
	}
	return a
}

// pixels is the size of an image, and an error where the array is none.
func (a Array) pixels() (rows, cols, channels int, err error) {
	switch {
	case len(a.Data) == 0:
	case len(a.Shape) == 2:
		return a.Shape[0], a.Shape[1], 1, nil
	case len(a.Shape) == 3 && (a.Shape[2] == 1 || a.Shape[2] == 3):
		return a.Shape[0], a.Shape[1], a.Shape[2], nil
	}
	return 0, 0, 0, fmt.Errorf("array %q has shape %s, expected (rows, columns) of an image, or (rows, columns, 3) of a colour image", a.Name, ShapeString(a.Shape))
}

// ScaleToUnit divides an array of unsigned integers of 8 or 16 bits, as numpy stores images, by the
// largest value of its type, in place; others remain.
func (a *Array) ScaleToUnit() {
	if !a.Depth.IsImage() || a.Depth.Float || a.Depth.Scaled {
		return
	}
	most := float64(uint64(1)<<a.Depth.Bits - 1)
	for i := range a.Data {
		a.Data[i] /= most
	}
	a.Depth.Scaled = true
}

// Levels undoes the scaling of integers that an image file or ScaleToUnit divided by their type's
// largest, in place: the values are counts again, and no image's. Others remain.
func (a *Array) Levels() {
	integers := a.Depth.IsImage() && !a.Depth.Float
	if most := float64(uint64(1)<<a.Depth.Bits - 1); integers {
		for i := range a.Data {
			a.Data[i] = math.Round(a.Data[i] * most)
		}
	}
	a.Depth = Depth{}
}

// quantizer turns numbers in [0, 1] into integers up to most, rounded to nearest, and counts those
// that fall outside after rounding, which are clamped.
type quantizer struct {
	most    float64
	clamped int
}

func newQuantizer(bits int) *quantizer {
	return &quantizer{most: float64(uint64(1)<<bits - 1)}
}

func (q *quantizer) level(v float64) float64 {
	v = math.Round(v * q.most)
	if v < 0 || v > q.most {
		q.clamped++
		return min(max(v, 0), q.most)
	}
	return v
}

// picture is the image of an array, of 8 or 16 bits.
func (a Array) picture(bits int) (im image.Image, clamped int, err error) {
	rows, cols, channels, err := a.pixels()
	if err != nil {
		return nil, 0, err
	}
	a.check()
	if err := a.CheckFinite(); err != nil {
		return nil, 0, err
	}
	q := newQuantizer(bits)
	at := func(i, j, k int) float64 { return q.level(a.Data[(i*cols+j)*channels+k]) }
	bounds := image.Rect(0, 0, cols, rows)
	var set func(i, j int)
	switch {
	case channels == 1 && bits == 8:
		to := image.NewGray(bounds)
		im, set = to, func(i, j int) { to.SetGray(j, i, color.Gray{Y: uint8(at(i, j, 0))}) }
	case channels == 1:
		to := image.NewGray16(bounds)
		im, set = to, func(i, j int) { to.SetGray16(j, i, color.Gray16{Y: uint16(at(i, j, 0))}) }
	case bits == 8:
		to := image.NewRGBA(bounds)
		im, set = to, func(i, j int) {
			to.SetRGBA(j, i, color.RGBA{uint8(at(i, j, 0)), uint8(at(i, j, 1)), uint8(at(i, j, 2)), math.MaxUint8})
		}
	default:
		to := image.NewRGBA64(bounds)
		im, set = to, func(i, j int) {
			to.SetRGBA64(j, i, color.RGBA64{uint16(at(i, j, 0)), uint16(at(i, j, 1)), uint16(at(i, j, 2)), math.MaxUint16})
		}
	}
	for i := range rows {
		for j := range cols {
			set(i, j)
		}
	}
	return im, q.clamped, nil
}
