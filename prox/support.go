package prox

import (
	"math"

	"surepipe/array"
	"surepipe/prox/internal/vector"
)

// This file has the support functions of the constraints' sets, for [Structure].Support.

// support of b >= 0 is 0 where g <= 0.
func (*nonNegative) support(g array.Batch) float64 {
	return vector.Supported(g, func(g []float64) float64 {
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
	return vector.Times(*g, bound)
}

// support is sum_j max(lo_j g_j, hi_j g_j).
func (p *box) support(g array.Batch) float64 {
	return vector.Supported(g, func(g []float64) float64 {
		sum := 0.0
		for j := range g {
			sum += interval(&g[j], p.loHost[j], p.hiHost[j])
		}
		return sum
	})
}

// support is c ||g||_1.
func (p *linfBall) support(g array.Batch) float64 {
	return vector.Supported(g, func(g []float64) float64 {
		sum := 0.0
		for j := range g {
			sum += interval(&g[j], -p.c, p.c)
		}
		return sum
	})
}

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
