package prox

import (
	"math"

	"surepipe/array"
	"surepipe/prox/internal/vector"
	"surepipe/space"
)

// squaredL2 is r(b) = lambda/2 ||b||^2.
type squaredL2 struct {
	lambda coefficients
	dim    int
	Known
}

// NewSquaredL2 returns the ridge penalty r(b) = lambda/2 ||b||^2 on vectors of any length, with
//
//	prox_{t r}(v) = v / (1 + t lambda),    J = I / (1 + t lambda).
//
// Its [Structure] has Quadratic = lambda. lambda = +Inf holds b at 0. It panics if lambda is
// negative or NaN.
func NewSquaredL2(lambda float64) Prox {
	vector.CheckLambda("the ridge penalty's lambda", lambda)
	return newSquaredL2(lambda, 0)
}

// Zero returns the regularizer r(b) = 0, whose proximal operator is the identity: a quadratic one
// with curvature 0.
func Zero() Prox { return newSquaredL2(0, 0) }

func newSquaredL2(lambda float64, dim int) *squaredL2 {
	p := &squaredL2{lambda: uniform(lambda), dim: dim}
	p.Is = Structure{
		Value: p.value, Quadratic: Number{lambda, true}, Units: anyUnits, Rescale: p.rescale, DualScale: p.dualScale,
		Closure: itself, On: p.on,
		Free:   func(n int) []int { return where(n, func(int) bool { return lambda == 0 }) },
		Sparse: func(n int) (w, q []float64, positive []bool) { return nil, p.lambda.over(n), nil },
		FenchelGap: func(b, g array.Batch, t, _ float64) float64 {
			return ridgeGap(b, g, t, &p.lambda)
		},
	}
	return p
}

func (p *squaredL2) Dim() int { return p.dim }

func (p *squaredL2) Eval(dst, v array.Batch, t float64) error {
	vector.CheckEval("ridge", p.dim, dst, v, t)
	if p.lambda.one == 0 {
		dst.Device().Copy(dst, v)
	} else {
		dst.Device().Lin(dst, 1/(1+t*p.lambda.one), v, 0, array.Batch{})
	}
	return nil
}

func (p *squaredL2) Linearize(dst, v array.Batch, t float64) (Derivative, error) {
	vector.CheckLinearize("ridge", p.dim, dst, v, t)
	if err := p.Eval(dst, v, t); err != nil {
		return nil, err
	}
	j := newMultiple(1/(1+t*p.lambda.one), v, nil)
	j.q, j.t = p.lambda.one, t
	return j, nil
}

func (p *squaredL2) value(b array.Batch) float64 {
	vector.CheckValue("ridge", p.dim, b)
	return vector.Times(p.lambda.one/2, vector.Norm2Squared(b))
}

func (p *squaredL2) on(_ array.Device, t space.Space) (Prox, error) {
	set, ok := subsetOf(t)
	switch {
	case !ok:
		return nil, nil
	case p.dim == 0:
		return p, nil
	}
	return newSquaredL2(p.lambda.one, len(set)), nil
}

// rescale gives coordinate j the curvature lambda s_j^2.
func (p *squaredL2) rescale(dev array.Device, s []float64) (Prox, error) {
	if p.lambda.one == 0 {
		return p, nil
	}
	return newElasticNet("ridge", dev, coefficients{}, p.lambda.times(dev, s, timesSquare))
}

// dualScale is 1 where there is curvature or g is 0, else 0.
func (p *squaredL2) dualScale(_, g array.Batch, _ float64) float64 {
	if p.lambda.one == 0 && vector.Largest(vector.OnHost(g)) > 0 {
		return 0
	}
	return 1
}

// ridgeGap is sum_j (q_j b_j - t g_j)^2 / (2 q_j), r(b) + r*(t g) - t <b, g> of r(b) = sum_j q_j/2 b_j^2.
func ridgeGap(b, g array.Batch, t float64, q *coefficients) float64 {
	sum := 0.0
	x, h := vector.OnHost(b), vector.OnHost(g)
	for j := range x {
		q := q.at(j)
		if q == 0 && h[j] == 0 || math.IsInf(q, 1) {
			continue
		}
		e := q*x[j] - t*h[j]
		sum += e / q * e / 2
	}
	return sum
}
