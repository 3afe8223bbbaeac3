package imaging

import (
	"math"

	"surepipe/array"
	"surepipe/linops"
)

func (g *Gradient) cosines() linops.Spectrum {
	rows, cols := g.n/g.line, g.line
	image, sequence := len(g.shape) == 2 && len(g.axes) == 2, len(g.shape) == 1 && g.edge == Open
	if !g.edge.mirrors() || !image && !sequence {
		return linops.Spectrum{}
	}
	return linops.Spectrum{Shape: array.Shape{Rows: rows, Cols: cols}, Values: func() []float64 {
		return outerSums(pathSpectrum(rows), pathSpectrum(cols))
	}}
}

// waves are the eigenvalues of D*D with periodic differences of one image: sums of 4 sin(pi k/n)^2.
func (g *Gradient) waves() linops.Spectrum {
	if g.edge != Periodic || len(g.shape) > 2 {
		return linops.Spectrum{}
	}
	shape := array.Shape{Rows: g.n / g.line, Cols: g.line}
	return linops.Spectrum{Shape: shape, Values: func() []float64 {
		values := make([]float64, g.n)
		for a, n := range g.length {
			for i := range values {
				s := math.Sin(math.Pi * float64(i/g.inner[a]%n) / float64(n))
				values[i] += 4 * s * s
			}
		}
		return values
	}}
}
