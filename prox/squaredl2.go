package prox

import (
	"surepipe/array"
	"surepipe/prox/internal/vector"
)

// squaredL2 is r(b) = lambda/2 ||b||^2.
type squaredL2 struct {
	lambda float64
	dim    int
	known
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

func newSquaredL2(lambda float64, dim int) *squaredL2 {
	p := &squaredL2{lambda: lambda, dim: dim}
	p.structure = Structure{
		Value: p.value, Quadratic: Number{lambda, true}, Free: p.free, Sparse: p.sparse,
		Units: anyUnits, Rescale: p.rescale, DualScale: p.dualScale, FenchelGap: p.fenchelGap,
	}
	return p
}

func (p *squaredL2) Dim() int { return p.dim }

func (p *squaredL2) Eval(dst, v array.Batch, t float64) error {
	vector.CheckEval("ridge", p.dim, dst, v, t)
	if p.lambda == 0 {
		dst.Device().Copy(dst, v)
	} else {
		dst.Device().Lin(dst, 1/(1+t*p.lambda), v, 0, array.Batch{})
	}
	return nil
}

func (p *squaredL2) Linearize(dst, v array.Batch, t float64) (Derivative, error) {
	vector.CheckLinearize("ridge", p.dim, dst, v, t)
	if err := p.Eval(dst, v, t); err != nil {
		return nil, err
	}
	j := newMultiple(1/(1+t*p.lambda), v, nil)
	j.q, j.t = p.lambda, t
	return j, nil
}

func (p *squaredL2) value(b array.Batch) float64 {
	vector.CheckValue("ridge", p.dim, b)
	return vector.Times(p.lambda/2, vector.Norm2Squared(b))
}

// Zero returns the regularizer r(b) = 0, whose proximal operator is the identity: a quadratic one
// with curvature 0.
func Zero() Prox { return newSquaredL2(0, 0) }
