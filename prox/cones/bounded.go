package cones

import (
	"math"
	"sync"

	"surepipe/array"
	"surepipe/prox"
	"surepipe/prox/internal/vector"
)

// onTheSet is the relative error allowed in a sum that a constraint fixes or bounds, when a
// regularizer decides whether b is in its domain.
const onTheSet = 1e-9

// bounded is the indicator of a convex set of a size, such as a ball of a radius, which computes on the host: its
// support function is size times that of the set of size 1.
type bounded struct {
	name   string
	n      int
	size   float64
	work   sync.Pool // of *vector.BallWork
	unit   func(g []float64) float64
	inside func(b array.Batch) bool
	// project sets w.X to its projection, and reports whether it was outside.
	project func(w *vector.BallWork) (outside bool)
	margin  func(v array.Batch) float64
	prox.Known
}

// The gap is t (support(g) - <b, g>).
func (p *bounded) know() {
	p.Is = prox.Structure{
		Value: func(b array.Batch) float64 {
			vector.CheckValue(p.name, p.n, b)
			if !p.inside(b) {
				return math.Inf(1)
			}
			return 0
		},
		DualScale: func(_, _ array.Batch, _ float64) float64 {
			if math.IsInf(p.size, 1) {
				return 0
			}
			return 1
		},
		FenchelGap: func(b, g array.Batch, t, _ float64) float64 {
			h := g.Read()
			return t * vector.Surplus(p.size*p.unit(h), vector.Inner(b.Read(), h))
		},
		Support: func(g array.Batch) float64 {
			return vector.Supported(g, func(g []float64) float64 {
				if math.IsInf(p.size, 1) {
					clear(g)
					return 0
				}
				return p.size * p.unit(g)
			})
		},
	}
}

func (p *bounded) Dim() int { return p.n }

func (p *bounded) Eval(dst, v array.Batch, t float64) error {
	vector.CheckEval(p.name, p.n, dst, v, t)
	w := vector.GetBallWork(&p.work, v.N())
	defer p.work.Put(w)
	return vector.OnEach(p.name, dst, v, w.X, func() { p.project(w) })
}

func (p *bounded) Linearize(dst, v array.Batch, t float64) (prox.Derivative, error) {
	vector.CheckLinearize(p.name, p.n, dst, v, t)
	w := vector.GetBallWork(&p.work, v.N())
	defer p.work.Put(w)
	outside := false
	if err := vector.OnEach(p.name, dst, v, w.X, func() { outside = p.project(w) }); err != nil {
		return nil, err
	}
	if !outside {
		return prox.NewMultiple(1, v, p.margin), nil
	}
	return face(v, w.X, p.margin), nil
}
