package prox

import (
	"math"

	"surepipe/array"
	"surepipe/prox/internal/vector"
	"surepipe/space"
)

// l2 is r(b) = lambda ||b||_2.
type l2 struct {
	lambda float64
	Known
}

// NewL2 returns r(b) = lambda ||b||_2, the norm not squared, on vectors of any length. Its proximal
// operator is the block soft threshold of the whole vector: with u = v/||v|| and s = max(1 - t
// lambda/||v||, 0),
//
//	prox_{t r}(v) = s v,
//	J z = s z + (1 - s) u <u, z>   where s > 0, else 0.
//
// lambda = 0 gives the identity, lambda = +Inf gives 0. It panics if lambda is negative or NaN.
func NewL2(lambda float64) Prox {
	vector.CheckLambda("the l2 penalty's lambda", lambda)
	p := &l2{lambda: lambda}
	p.Is = Structure{Value: p.value, DualScale: p.dualScale, FenchelGap: p.fenchelGap}
	return p
}

func (p *l2) Dim() int { return 0 }

func shrink(norm, c float64) float64 {
	switch {
	case c == 0:
		return 1
	case norm <= c:
		return 0
	}
	return 1 - c/norm
}

func (p *l2) Eval(dst, v array.Batch, t float64) error {
	vector.CheckEval("l2", 0, dst, v, t)
	s := vector.GetScalars(v.K())
	defer vector.ScalarsPool.Put(s)
	vector.Norms(s.A, v)
	for i, norm := range s.A {
		s.A[i] = shrink(norm, t*p.lambda)
	}
	dst.Device().LinEach(dst, s.A, v, nil, array.Batch{})
	return nil
}

func (p *l2) Linearize(dst, v array.Batch, t float64) (Derivative, error) {
	vector.CheckLinearize("l2", 0, dst, v, t)
	dev := v.Device()
	a := vector.GetScalars(1)
	defer vector.ScalarsPool.Put(a)
	vector.Norms(a.A, v)
	norm, s := a.A[0], shrink(a.A[0], t*p.lambda)
	a.A[0] = s
	var j Derivative
	if s == 0 || s == 1 {
		j = newMultiple(s, v, func(v array.Batch) float64 { return p.margin(v, t) })
	} else {
		u := dev.Alloc(1, v.N())
		if 1/norm <= math.MaxFloat64 {
			dev.Lin(u, 1/norm, v, 0, array.Batch{})
		} else {
			dev.Lin(u, 0x1p1000, v, 0, array.Batch{})
			dev.Lin(u, 1/(0x1p1000*norm), u, 0, array.Batch{})
		}
		j = NewRadial(s, 1-s, u, func() *Model { return p.model(u, s, norm, t) })
	}
	dev.LinEach(dst, a.A, v, nil, array.Batch{})
	return j, nil
}

// model has Q = lambda/||b|| (I - u u*), ||b|| = s norm.
func (p *l2) model(u array.Batch, s, norm, t float64) *Model {
	n, rest := u.N(), float64(u.N()-1)
	m := &Model{Space: space.All(n), Margin: func(v array.Batch) float64 { return p.margin(v, t) }}
	if n > 1 {
		m.Curvature = newApplied(radialMap(s, 1-s, u), 1+rest*s, 1+rest*s*s, func() []float64 {
			q := vector.SquareMatrix(n)
			addRadial(q, n, where(n, func(int) bool { return true }), p.lambda/(s*norm), vector.OnHost(u))
			return q
		})
	}
	return m
}

func (p *l2) dualScale(_, g array.Batch, _ float64) float64 {
	return vector.Ratio(p.lambda, vector.Euclid(vector.OnHost(g)))
}

func (p *l2) fenchelGap(b, g array.Batch, t, _ float64) float64 {
	x := vector.OnHost(b)
	return vector.Surplus(vector.Times(p.lambda, vector.Euclid(x)), t*vector.Inner(x, vector.OnHost(g)))
}

// margin is | ||v|| - t lambda |.
func (p *l2) margin(v array.Batch, t float64) float64 {
	var norm [1]float64
	vector.Norms(norm[:], v)
	return softKink(norm[0], t*p.lambda)
}

func (p *l2) value(b array.Batch) float64 {
	vector.CheckValue("l2", 0, b)
	var norm [1]float64
	vector.Norms(norm[:], b)
	return vector.Times(p.lambda, norm[0])
}

// NewRadial returns the derivative J = s I + c u u*, with a unit vector u that it owns, of a regularizer that depends
// on ||b|| alone. model makes its model when it is first asked for.
func NewRadial(s, c float64, u array.Batch, model func() *Model) Derivative {
	return NewDerivative("a radial map", u.N(), radialMap(s, c, u), model, u)
}

func radialMap(s, c float64, u array.Batch) func(dst, z array.Batch) {
	return func(dst, z array.Batch) {
		k := vector.GetScalars(z.K())
		defer vector.ScalarsPool.Put(k)
		dst.Device().Dot(k.C, u, z)
		for i := range k.C {
			k.A[i] = s
			k.C[i] *= c
		}
		dst.Device().LinEach(dst, k.A, z, k.C, u)
	}
}
