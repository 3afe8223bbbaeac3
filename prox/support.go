package prox

import (
	"math"
	"slices"

	"surepipe/array"
)

// This file has the support functions of the constraints' sets, for [Structure].Support.

// supported lets f move the numbers of g, on the host, and returns its result.
func supported(g array.Batch, f func(g []float64) float64) float64 {
	host := g.ToHost()
	s := f(host)
	g.Device().Upload(g, host)
	return s
}

// support of b >= 0 is 0 where g <= 0.
func (*nonNegative) support(g array.Batch) float64 {
	return supported(g, func(g []float64) float64 {
		for j, h := range g {
			g[j] = math.Min(h, 0)
		}
		return 0
	})
}

// interval is the support function of an interval, which moves g to 0 where it is infinite.
func interval(g *float64, lo, hi float64) float64 {
	bound := hi
	if *g < 0 {
		bound = lo
	}
	if math.IsInf(bound, 0) {
		*g = 0
	}
	return times(*g, bound)
}

// support is sum_j max(lo_j g_j, hi_j g_j).
func (p *box) support(g array.Batch) float64 {
	return supported(g, func(g []float64) float64 {
		sum := 0.0
		for j := range g {
			sum += interval(&g[j], p.loHost[j], p.hiHost[j])
		}
		return sum
	})
}

// support is c ||g||_1.
func (p *linfBall) support(g array.Batch) float64 {
	return supported(g, func(g []float64) float64 {
		sum := 0.0
		for j := range g {
			sum += interval(&g[j], -p.c, p.c)
		}
		return sum
	})
}

// radial is c times the dual norm, which moves g to 0 where c is infinite.
func radial(g array.Batch, c float64, dual func(g []float64) float64) float64 {
	return supported(g, func(g []float64) float64 {
		if math.IsInf(c, 1) {
			clear(g)
			return 0
		}
		return c * dual(g)
	})
}

// support is c ||g||.
func (p *l2Ball) support(g array.Batch) float64 { return radial(g, p.c, euclid) }

// support is s ||g||_inf.
func (p *l1Ball) support(g array.Batch) float64 { return radial(g, p.s, largest) }

// support is s max_j g_j.
func (p *simplex) support(g array.Batch) float64 {
	return supported(g, func(g []float64) float64 { return p.s * slices.Max(g) })
}

// polar moves g to its projection on the polar cone, g - P(g), where the support function of a cone is
// 0. Where P(g) cannot be computed g becomes 0.
func polar(p Prox, g array.Batch) float64 {
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

func (p *secondOrder) support(g array.Batch) float64  { return polar(p, g) }
func (p *semidefinite) support(g array.Batch) float64 { return polar(p, g) }

// support is that of the blocks: 0 where a block is finite everywhere, and moves g to 0 there.
func (s *blocks) support(g array.Batch) float64 {
	sum := 0.0
	for i, r := range s.parts {
		part := s.of(i, g)
		if r.Support == nil {
			part.Device().Fill(part, 0)
			continue
		}
		sum += r.Support(part)
	}
	return sum
}
