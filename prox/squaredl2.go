package prox

import "surepipe/array"

// squaredL2 is r(b) = lambda/2 ||b||^2.
type squaredL2 struct {
	lambda float64
	dim    int
}

// NewSquaredL2 returns the ridge penalty r(b) = lambda/2 ||b||^2 on vectors of
// any length, with
//
//	prox_{t r}(v) = v / (1 + t lambda),    J = I / (1 + t lambda).
//
// It is [Quadratic] with curvature lambda. lambda = +Inf holds b at 0. It panics
// if lambda is negative or NaN.
func NewSquaredL2(lambda float64) Prox {
	checkLambda("the ridge penalty's lambda", lambda)
	return squaredL2{lambda: lambda}
}

func (p squaredL2) Dim() int           { return p.dim }
func (p squaredL2) Curvature() float64 { return p.lambda }

func (p squaredL2) Eval(dst, v array.Batch, t float64) error {
	checkEval("ridge", p.dim, dst, v, t)
	if p.lambda == 0 {
		dst.Device().Copy(dst, v)
	} else {
		dst.Device().Lin(dst, 1/(1+t*p.lambda), v, 0, array.Batch{})
	}
	return nil
}

func (p squaredL2) Linearize(dst, v array.Batch, t float64) (Derivative, error) {
	checkLinearize("ridge", p.dim, dst, v, t)
	if err := p.Eval(dst, v, t); err != nil {
		return nil, err
	}
	return newMultiple(1/(1+t*p.lambda), v), nil
}

func (p squaredL2) Value(b array.Batch) float64 {
	checkValue("ridge", p.dim, b)
	return times(p.lambda/2, norm2Squared(b))
}
