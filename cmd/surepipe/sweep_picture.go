package main

import (
	"surepipe/internal/dataio"
	"surepipe/internal/figure"
	"surepipe/study"
)

// picture puts the images of a denoised image before the curve: y, the estimate r.best, and the
// truth where it is known. Other curves remain as they are.
func (r *sweepReport) picture(curve figure.Sweep) figure.Figure {
	if r.job == nil || !r.f.depth.IsImage() || !isImageShape(r.job.Problem.MuShape) {
		return curve
	}
	p, best := r.job.Problem, r.best
	estimate := dataio.Array{Shape: p.MuShape, Data: best.MuHat}
	if p.Signal != nil {
		if !best.HasB() || !isImageShape(p.SignalShape) {
			return curve
		}
		signal, err := study.Synthesize(p, best.DenseB())
		if err != nil {
			return curve
		}
		estimate = signal
	}
	show := func(caption string, shape []int, pixels []float64) figure.Panel {
		m := figure.Image{Caption: caption, Rows: shape[0], Cols: shape[1], Pixels: pixels}
		if len(shape) == 3 {
			m.Channels = shape[2]
		}
		return figure.Panel{Image: m}
	}
	images := []figure.Panel{show("y", p.MuShape, r.data.Y), show("the estimate", estimate.Shape, estimate.Data)}
	if r.data.Mu != nil {
		images = append(images, show("the truth", p.MuShape, r.data.Mu))
	}
	title := curve.Title
	curve.Title = ""
	return figure.Images{Title: title, Rows: [][]figure.Panel{images}, Curve: &curve}
}
