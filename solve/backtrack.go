package solve

import (
	"context"
	"errors"
	"math"

	"surepipe/array"
	"surepipe/prox"
)

// Where l” has no bound, as that of the Poisson loss has none, the step of proximal gradient steps
// is found by backtracking: it is halved until
//
//	l(A b_{k+1}) <= l(A x_k) + <g, b_{k+1} - x_k> + ||b_{k+1} - x_k||^2/(2 eta),   g = A* l'(A x_k),
//
// up to rounding errors (Beck and Teboulle 2009). It stays the same until the momentum restarts,
// which begins anew with twice the step.

// mostHalvings bounds the halvings of a step.
const mostHalvings = 200

var errNoStep = errors.New("solve: there is no step at which the loss decreases: its gradient and its value do not agree, or are out of range")

// searches reports whether the step is found by backtracking.
func searches(p Problem) bool { return p.Loss != nil && math.IsInf(p.Loss.Lipschitz(), 1) }

// startStep is the step that suits the curvature of the loss at b0.
func (g *proximalGradient) startStep(w *Work, b0 array.Batch) float64 {
	z, curve := w.Scratch[2], w.Scratch[4]
	if b0.IsZero() {
		w.Device().Fill(z, 0)
	} else {
		g.p.A.Forward(z, b0)
	}
	g.p.Loss.Curvature(curve, z, w.Y)
	var most [1]float64
	w.Device().MaxAbs(most[:], curve)
	if c := g.bound * most[0]; c > 0 && !math.IsInf(c, 1) {
		return 1 / c
	}
	return 1
}

// backtrack is descend with a search for the step. The scratch is x_k - b_{k+1}, b_{k+1} - b_k, l'(A
// x_k), g, and A b_{k+1}.
func (v *vectors) backtrack(ctx context.Context, w *Work, record bool) (prox.Derivative, error) {
	dev := w.Device()
	x, s, slope, g, z := w.Scratch[0], w.Scratch[1], w.Scratch[2], w.Scratch[3], w.Scratch[4]
	v.p.A.Forward(z, x)
	from := v.p.Loss.Value(z, w.Y)
	v.p.Loss.Gradient(slope, z, w.Y)
	v.p.A.Adjoint(g, slope)
	var dots [1]float64
	for range mostHalvings {
		dev.Lin(s, 1, x, -w.C.Eta, g)
		j, err := w.Prox(ctx, v.p.R, w.B, s, record)
		if err != nil {
			return nil, err
		}
		v.p.A.Forward(z, w.B)
		to := v.p.Loss.Value(z, w.Y)
		dev.Lin(s, 1, w.B, -1, x)
		dev.Dot(dots[:], g, s)
		most := from + dots[0]
		dev.Dot(dots[:], s, s)
		most += dots[0] / (2 * w.C.Eta)
		if to <= most+Roundings*epsilon*(math.Abs(from)+math.Abs(to)) {
			v.arrive(w, x, s)
			return j, nil
		}
		if j != nil {
			j.Release()
		}
		if err := dev.Err(); err != nil {
			return nil, err
		}
		w.C.Eta /= 2
	}
	return nil, errNoStep
}

// arrive makes b_{k+1} the estimate, and leaves x_k - b_{k+1} and b_{k+1} - b_k in x and s.
func (v *vectors) arrive(w *Work, x, s array.Batch) {
	dev, b := w.Device(), w.State[0]
	dev.Lin(x, 1, x, -1, w.B)
	dev.Lin(s, 1, w.B, -1, b)
	if len(w.State) > 1 {
		dev.Copy(w.State[1], b)
	}
	dev.Copy(b, w.B)
}
