package cones

import (
	"math"
	"slices"
	"sync"

	"surepipe/array"
	"surepipe/prox"
	"surepipe/prox/internal/vector"
)

// l1Ball is the indicator of ||b||_1 <= s.
type l1Ball struct {
	n    int
	s    float64
	work sync.Pool // of *BallWork
	prox.Known
}

// NewL1Ball returns the constraint ||b||_1 <= s, the constrained form of the LASSO: r(b) = 0 there
// and +Inf elsewhere, on vectors of length n, or of any length if n = 0. Inside the ball the
// proximal operator is the identity and so is J. Outside it is the soft threshold by the theta > 0
// that leads onto the ball's surface: with A = {j : |v_j| > theta} and s_j = sign(v_j) there,
//
//	prox_{t r}(v)_j = s_j (|v_j| - theta)   where j in A, else 0,
//	(J z)_j = z_j - s_j sum_{k in A} s_k z_k/|A|   where j in A, else 0.
//
// theta is found on the host as for [NewSimplex] (Duchi, Shalev-Shwartz, Singer, Chandra 2008); J
// is applied on the device. It is an orthogonal projection, of trace |A| - 1 outside. A v on the
// surface counts as inside, |v_j| = theta as outside A.
//
// s = 0 gives zero and s = +Inf the identity. Value allows the norm a relative error of 1e-9. A NaN
// or an entry beyond 1e290 in size in the argument is an error. NewL1Ball panics if n or s is
// negative or s is NaN.
func NewL1Ball(n int, s float64) prox.Prox {
	vector.CheckDim("the l1 ball", n)
	vector.CheckRadius("the l1 ball", s)
	p := &l1Ball{n: n, s: s}
	p.Is = prox.Structure{Value: p.value, DualScale: p.dualScale, FenchelGap: p.fenchelGap, Support: p.support}
	return p
}

func (p *l1Ball) Dim() int { return p.n }

// project sets x to its projection and reports whether x was outside.
func (p *l1Ball) project(w *vector.BallWork) (outside bool) {
	if p.s == 0 {
		clear(w.X)
		return true
	}
	if len(w.X) == 0 {
		return false
	}
	top, theta := w.Level(w.X, p.s)
	if theta <= -top {
		return false
	}
	for j, a := range w.X {
		w.X[j] = math.Copysign(max(math.Abs(a)-top-theta, 0), a)
	}
	return true
}

func (p *l1Ball) Eval(dst, v array.Batch, t float64) error {
	vector.CheckEval("l1 ball", p.n, dst, v, t)
	w := vector.GetBallWork(&p.work, v.N())
	defer p.work.Put(w)
	return vector.OnEach("l1 ball", dst, v, w.X, func() { p.project(w) })
}

func (p *l1Ball) Linearize(dst, v array.Batch, t float64) (prox.Derivative, error) {
	vector.CheckLinearize("l1 ball", p.n, dst, v, t)
	w := vector.GetBallWork(&p.work, v.N())
	defer p.work.Put(w)
	outside := false
	if err := vector.OnEach("l1 ball", dst, v, w.X, func() { outside = p.project(w) }); err != nil {
		return nil, err
	}
	if !outside {
		return prox.NewMultiple(1, v, p.margin), nil
	}
	return face(v, w.X, p.margin), nil
}

func (p *l1Ball) margin(v array.Batch) float64 {
	return vector.BallMargin(new(vector.BallWork), slices.Clone(vector.OnHost(v)), p.s)
}

func (p *l1Ball) value(b array.Batch) float64 {
	vector.CheckValue("l1 ball", p.n, b)
	if norm := vector.Norm1(b); !(norm <= p.s*(1+onTheSet)) {
		return math.Inf(1)
	}
	return 0
}

func (p *l1Ball) dualScale(_, _ array.Batch, _ float64) float64 {
	if math.IsInf(p.s, 1) {
		return 0
	}
	return 1
}

// fenchelGap is t (s ||g||_inf - <b, g>).
func (p *l1Ball) fenchelGap(b, g array.Batch, t, _ float64) float64 {
	h := vector.OnHost(g)
	return t * vector.Surplus(p.s*vector.Largest(h), vector.Inner(vector.OnHost(b), h))
}

// support is s ||g||_inf.
func (p *l1Ball) support(g array.Batch) float64 { return radial(g, p.s, vector.Largest) }
