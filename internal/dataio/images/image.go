package images

import (
	"image"
	"image/color"
	"math"

	"surepipe/internal/dataio/ndarray"
)

func picture(a ndarray.Array, bits int) (im image.Image, clamped int, err error) {
	rows, cols, channels, err := a.Pixels()
	if err != nil {
		return nil, 0, err
	}
	a.Check()
	if err := a.CheckFinite(); err != nil {
		return nil, 0, err
	}
	q := ndarray.NewQuantizer(bits)
	at := func(i, j, k int) float64 { return q.Level(a.Data[(i*cols+j)*channels+k]) }
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
			to.SetRGBA64(j, i, color.RGBA64{uint16(at(i, j, 0)), uint16(at(i, j, 1)), uint16(at(i, j, 2)),
				math.MaxUint16})
		}
	}
	for i := range rows {
		for j := range cols {
			set(i, j)
		}
	}
	return im, q.Clamped, nil
}

// imageArray is an array for an image of rows x cols pixels of a number of channels, of the shape
// (rows, cols) or (rows, cols, channels).
func imageArray(rows, cols, channels int, depth ndarray.Depth) ndarray.Array {
	a := ndarray.Array{Shape: []int{rows, cols}, Data: make([]float64, rows*cols*channels), Depth: depth}
	if channels > 1 {
		a.Shape = append(a.Shape, channels)
	}
	return a
}
