package gradient

import (
	"context"
	"errors"
	"math"

	"surepipe/array"
	"surepipe/prox"
	"surepipe/solve/engine"
)

// Where l^(2) has no bound, as that of the Poisson loss has none, the step of proximal gradient steps
// is found by backtracking: it is halved until the mean curvature along the step, with s = b_{k+1} -
// x_k, is at most 1/eta,
//
//	<l'(A b_{k+1}) - l'(A x_k), A s> <= ||s||^2/eta,
//
// up to rounding errors (Becker, Candes and Grant 2011: values of l would lose their differences in
// rounding errors near the solution). It stays the same until the momentum restarts, which begins
// anew with twice the step.

// mostHalvings bounds the halvings of a step.
const mostHalvings = 200

var errNoStep = errors.New("solve: there is no step at which the gradient of the loss is finite: rescale the operator")

func searches(p engine.Problem) bool { return p.Loss != nil && math.IsInf(p.Loss.Lipschitz(), 1) }

func (g *ProximalGradient) startStep(w *engine.Work, b0 array.Batch) float64 {
	z, curve := w.Scratch[2], w.Scratch[4]
	if b0.IsZero() {
		w.Device().Fill(z, 0)
	} else {
		g.P.A.Forward(z, b0)
	}
	g.P.Loss.Curvature(curve, z, w.Y)
	if c := g.bound * curve.MaxAbs(); c > 0 && !math.IsInf(c, 1) {
		return 1 / c
	}
	return 1
}

// backtrack is descend with a search for the step. The scratch is x_k - b_{k+1}, b_{k+1} - b_k, l'(A
// x_k), A* of that, and A x_k; and A s and the change of l' in the search.
func (v *vectors) backtrack(ctx context.Context, w *engine.Work, record bool) (prox.Derivative, error) {
	dev := w.Device()
	x, s, slope, g, z := w.Scratch[0], w.Scratch[1], w.Scratch[2], w.Scratch[3], w.Scratch[4]
	dz, change := w.Scratch[5], w.Scratch[6]
	v.p.A.Forward(z, x)
	v.p.Loss.Gradient(slope, z, w.Y)
	v.p.A.Adjoint(g, slope)
	force := engine.Norm(slope)
	for range mostHalvings {
		dev.Lin(s, 1, x, -w.C.Eta, g)
		j, err := w.Prox(ctx, v.p.R, w.B, s, record)
		if err != nil {
			return nil, err
		}
		v.p.A.Forward(dz, w.B)
		v.p.Loss.Gradient(change, dz, w.Y)
		dev.Lin(change, 1, change, -1, slope)
		dev.Lin(dz, 1, dz, -1, z)
		curve := engine.Inner(change, dz)
		dev.Lin(s, 1, w.B, -1, x)
		if curve <= engine.Inner(s, s)/w.C.Eta+engine.Roundings*engine.Epsilon*force*engine.Norm(dz) {
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
func (v *vectors) arrive(w *engine.Work, x, s array.Batch) {
	dev, b := w.Device(), w.State[0]
	dev.Lin(x, 1, x, -1, w.B)
	dev.Lin(s, 1, w.B, -1, b)
	if len(w.State) > 1 {
		dev.Copy(w.State[1], b)
	}
	dev.Copy(b, w.B)
}
