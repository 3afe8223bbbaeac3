package cones

import (
	"fmt"
	"math"
	"slices"
	"sync"

	"surepipe/array"
	"surepipe/prox"
	"surepipe/prox/internal/vector"
)

// onTheSet is the relative error allowed in a sum that a constraint fixes or bounds, when a
// regularizer decides whether b is in its domain.
const onTheSet = 1e-9

// simplex is the indicator of b >= 0, sum b = s.
type simplex struct {
	n    int
	s    float64
	work sync.Pool // of *BallWork
	prox.Known
}

// NewSimplex returns the constraint b >= 0, sum_j b_j = s: r(b) = 0 there and +Inf elsewhere, on
// vectors of length n, or of any length if n = 0. The proximal operator is the projection: with
// theta such that the entries sum to s and the support A = {j : v_j > theta},
//
//	prox_{t r}(v)_j = max(v_j - theta, 0),
//	(J z)_j = z_j - sum_{k in A} z_k/|A|   where j in A, else 0.
//
// theta is found on the host (Held, Wolfe, Crowder 1974; Michelot 1986), in linear time as a rule
// and in the time of a sort at worst, with a rounding error relative to s and not to the size of v.
// J is applied on the device. It is an orthogonal projection of trace |A| - 1. v_j = theta counts
// as outside A.
//
// Value allows the sum a relative error of 1e-9. A NaN or an entry beyond 1e290 in size in the
// argument is an error. NewSimplex panics if n is negative or s is not positive and finite.
func NewSimplex(n int, s float64) prox.Prox {
	vector.CheckDim("the simplex", n)
	if !(s > 0) || math.IsInf(s, 1) {
		panic(fmt.Sprintf("prox: a simplex whose entries sum to %v, want a positive finite number", s))
	}
	p := &simplex{n: n, s: s}
	p.Is = prox.Structure{Value: p.value, DualScale: p.dualScale, FenchelGap: p.fenchelGap, Support: p.support}
	return p
}

func (p *simplex) Dim() int { return p.n }

// project sets x to its projection.
func (p *simplex) project(w *vector.BallWork) {
	if len(w.X) == 0 {
		return
	}
	top := slices.Max(w.X)
	for j, a := range w.X {
		w.U[j] = a - top
	}
	theta := vector.WaterLevel(w.U, p.s)
	for j, a := range w.X {
		w.X[j] = max(a-top-theta, 0)
	}
}

func (p *simplex) Eval(dst, v array.Batch, t float64) error {
	vector.CheckEval("simplex", p.n, dst, v, t)
	w := vector.GetBallWork(&p.work, v.N())
	defer p.work.Put(w)
	return vector.OnEach("simplex", dst, v, w.X, func() { p.project(w) })
}

func (p *simplex) Linearize(dst, v array.Batch, t float64) (prox.Derivative, error) {
	vector.CheckLinearize("simplex", p.n, dst, v, t)
	w := vector.GetBallWork(&p.work, v.N())
	defer p.work.Put(w)
	if err := vector.OnEach("simplex", dst, v, w.X, func() { p.project(w) }); err != nil {
		return nil, err
	}
	return face(v, w.X, func(v array.Batch) float64 { return vector.SimplexMargin(vector.OnHost(v), p.s) }), nil
}

func (p *simplex) value(b array.Batch) float64 {
	vector.CheckValue("simplex", p.n, b)
	sum := 0.0
	for _, x := range vector.OnHost(b) {
		if !(x >= 0) {
			return math.Inf(1)
		}
		sum += x
	}
	if !(math.Abs(sum-p.s) <= onTheSet*p.s) {
		return math.Inf(1)
	}
	return 0
}

func (p *simplex) dualScale(_, _ array.Batch, _ float64) float64 { return 1 }

// fenchelGap is t sum_j b_j (max g - g_j).
func (p *simplex) fenchelGap(b, g array.Batch, t, _ float64) float64 {
	h := vector.OnHost(g)
	top, sum := slices.Max(h), 0.0
	for j, x := range vector.OnHost(b) {
		sum += x * (top - h[j])
	}
	return t * sum
}

// support is s max_j g_j.
func (p *simplex) support(g array.Batch) float64 {
	return vector.Supported(g, func(g []float64) float64 { return p.s * slices.Max(g) })
}
