package draw

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"surepipe/internal/figure"
	"surepipe/internal/lists"
)

// view is an array seen as images: frames of rows x cols pixels with some channels, each a number or
// a complex one.
type view struct {
	frames, rows, cols, channels int
	complex                      bool
}

// newView is the view of an array of the shape, nil where it has no images. Of complex numbers the
// last axis is the real and the imaginary part.
func newView(shape []int, isComplex bool) *view {
	if isComplex {
		shape = shape[:len(shape)-1]
	}
	v := &view{frames: 1, channels: 1, complex: isComplex}
	if n := len(shape); n > 2 && shape[n-1] == 3 || n == 3 && shape[2] == 1 {
		v.channels, shape = shape[n-1], shape[:n-1]
	}
	n := len(shape)
	if n < 2 || slices.Min(shape) < 1 {
		return nil
	}
	v.rows, v.cols = shape[n-2], shape[n-1]
	v.frames = lists.Product(shape[:n-2])
	return v
}

func (v *view) frame(asked int) int {
	if asked < 0 || asked >= v.frames {
		return v.frames / 2
	}
	return asked
}

// take is a frame of an array, complex numbers by their absolute values.
func (v *view) take(x []float64, frame int, caption string) figure.Image {
	m := figure.Image{Caption: caption, Rows: v.rows, Cols: v.cols, Channels: v.channels}
	n := v.rows * v.cols * v.channels
	if !v.complex {
		m.Pixels = x[frame*n : (frame+1)*n]
		return m
	}
	for i := frame * n; i < (frame+1)*n; i++ {
		m.Pixels = append(m.Pixels, math.Hypot(x[2*i], x[2*i+1]))
	}
	return m
}

// difference is a - b of a frame, complex numbers by the absolute values of their differences. That
// of colours is the mean over the channels.
func (v *view) difference(a, b []float64, frame int, caption string) figure.Image {
	m := v.take(floats.SubTo(make([]float64, len(a)), a, b), frame, caption)
	m.Channels, m.Pixels = 0, MeanOfChannels(m.Pixels, v.channels)
	return m
}

// MeanOfChannels is the mean over the channels of each pixel.
func MeanOfChannels(pixels []float64, channels int) []float64 {
	one := make([]float64, len(pixels)/channels)
	for i, x := range pixels {
		one[i/channels] += x / float64(channels)
	}
	return one
}

// compare are rows of images: y, the estimate and the truth on one scale, and the residual and the
// error on another. y and the truth may be nil. Three images are one row, more are two.
func (v *view) compare(asked int, name string, y, estimate, truth []float64) [][]figure.Panel {
	at := v.frame(asked)
	kind, of := "", ""
	if v.complex {
		kind = ", absolute values"
	}
	if v.channels == 3 {
		of = ", mean of the channels"
	}
	var images, maps []figure.Image
	if y != nil {
		images = append(images, v.take(y, at, "y"+kind))
	}
	images = append(images, v.take(estimate, at, name+kind))
	if truth != nil {
		images = append(images, v.take(truth, at, "truth"+kind))
	}
	if y != nil {
		maps = append(maps, v.difference(y, estimate, at, "residual: y − "+name+of))
	}
	if truth != nil {
		maps = append(maps, v.difference(estimate, truth, at, "error: "+name+" − truth"+of))
	}
	// y, which is noisy, does not set the scale of the images.
	settled := images
	if y != nil {
		settled = images[1:]
	}
	first := panels(images, v.imageScale(settled))
	second := panels(maps, v.mapScale(maps))
	if len(first)+len(second) <= 3 {
		return [][]figure.Panel{slices.Concat(first, second)}
	}
	return [][]figure.Panel{first, second}
}

func panels(images []figure.Image, s *figure.Scale) []figure.Panel {
	return lists.Map(images, func(m figure.Image) figure.Panel { return figure.Panel{Image: m, Scale: s} })
}

// imageScale is the gray scale of images, from the 0.1% to the 99.9% quantile of their values. Colours
// have none: they are between 0 and 1, and divided by their largest value where that is more than 1.5.
func (v *view) imageScale(images []figure.Image) *figure.Scale {
	low, high := quantiles(images, 0.001)
	if v.channels == 3 {
		return nil
	}
	if !(high > low) {
		low, high = low-0.5*max(math.Abs(low), 1), high+0.5*max(math.Abs(high), 1)
	}
	return &figure.Scale{Low: low, High: high}
}

// mapScale is the scale of differences: around 0, up to the 99.5% quantile of their absolute values.
func (v *view) mapScale(maps []figure.Image) *figure.Scale {
	if len(maps) == 0 {
		return nil
	}
	low, high := quantiles(maps, 0.005)
	if high = max(-low, high); !(high > 0) {
		high = 1
	}
	if v.complex {
		return &figure.Scale{Map: figure.Sequential, High: high}
	}
	return &figure.Scale{Map: figure.Diverging, Low: -high, High: high}
}

func quantiles(images []figure.Image, share float64) (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, m := range images {
		sorted := slices.Sorted(slices.Values(m.Pixels))
		k := int(share * float64(len(sorted)))
		low, high = min(low, sorted[k]), max(high, sorted[len(sorted)-1-k])
	}
	return low, high
}

// Middle are the pixels of an array of the shape, or of the image in the middle of a series, row by row, complex
// numbers by their absolute values; ok is false where it has none.
func Middle(shape []int, isComplex bool, x []float64) (rows, cols, channels int, pixels []float64, ok bool) {
	v := newView(shape, isComplex)
	if v == nil {
		return 0, 0, 0, nil, false
	}
	return v.rows, v.cols, v.channels, v.take(x, v.frame(NoFrame), "").Pixels, true
}
