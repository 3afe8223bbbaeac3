package cones

import (
	"surepipe/array"
	"surepipe/prox"
)

// polar moves g to its projection on the polar cone, g - P(g), where the support function of a cone is
// 0. Where P(g) cannot be computed g becomes 0.
func polar(p prox.Prox, g array.Batch) float64 {
	dev := g.Device()
	t := dev.Alloc(1, g.N())
	defer t.Free()
	if err := p.Eval(t, g, 1); err != nil {
		dev.Fill(g, 0)
		return 0
	}
	dev.Lin(g, 1, g, -1, t)
	return 0
}
