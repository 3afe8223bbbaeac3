package cones

import (
	"math"
	"slices"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/prox"
	"surepipe/prox/internal/vector"
)

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
	p := &bounded{name: "l1 ball", n: n, size: s, unit: lists.MaxAbs}
	p.inside = func(b array.Batch) bool { return vector.Norm1(b) <= s*(1+onTheSet) }
	p.project = func(w *vector.BallWork) (outside bool) {
		if s == 0 {
			clear(w.X)
			return true
		}
		if len(w.X) == 0 {
			return false
		}
		top, theta := w.Level(w.X, s)
		if theta <= -top {
			return false
		}
		for j, a := range w.X {
			w.X[j] = math.Copysign(max(math.Abs(a)-top-theta, 0), a)
		}
		return true
	}
	p.margin = func(v array.Batch) float64 {
		return vector.BallMargin(new(vector.BallWork), slices.Clone(v.Read()), s)
	}
	p.know()
	return p
}
