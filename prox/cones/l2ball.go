package cones

import (
	"math"

	"surepipe/array"
	"surepipe/prox"
	"surepipe/prox/internal/vector"
	"surepipe/space"
)

// l2Ball is the indicator of ||b||_2 <= size, computed where the vectors are.
type l2Ball struct{ bounded }

// NewL2Ball returns the constraint ||b||_2 <= c: r(b) = 0 there and +Inf elsewhere, on vectors of
// length n, or of any length if n = 0. Inside the ball the proximal operator is the identity and so is
// J. Outside, with u = v/||v|| and s = c/||v||,
//
//	prox_{t r}(v) = s v,    J z = s (z - u <u, z>).
//
// The model outside has T, the vectors orthogonal to b, and the curvature Q = ||g||/c I of the sphere,
// with g = (v - b)/t the subgradient: s = 1/(1 + t ||g||/c). A v on the surface counts as inside.
//
// c = 0 gives zero and c = +Inf the identity. Value allows the norm a relative error of 1e-9. It panics
// if n or c is negative or c is NaN.
func NewL2Ball(n int, c float64) prox.Prox {
	vector.CheckDim("the l2 ball", n)
	vector.CheckRadius("the l2 ball", c)
	p := &l2Ball{bounded{name: "l2 ball", n: n, size: c, unit: vector.Euclid}}
	p.inside = func(b array.Batch) bool { return norm(b) <= c*(1+onTheSet) }
	p.margin = func(v array.Batch) float64 {
		if c == 0 || math.IsInf(c, 1) {
			return math.Inf(1)
		}
		return math.Abs(norm(v) - c)
	}
	p.know()
	return p
}

func norm(v array.Batch) float64 {
	var norm [1]float64
	vector.Norms(norm[:], v)
	return norm[0]
}

func (p *l2Ball) factor(norm float64) float64 {
	switch {
	case p.size == 0 && !math.IsNaN(norm):
		return 0
	case norm <= p.size || math.IsInf(p.size, 1):
		return 1
	}
	return p.size / norm
}

func (p *l2Ball) Eval(dst, v array.Batch, t float64) error {
	vector.CheckEval(p.name, p.n, dst, v, t)
	s := vector.GetScalars(v.K())
	defer vector.ScalarsPool.Put(s)
	vector.Norms(s.A, v)
	for i, norm := range s.A {
		s.A[i] = p.factor(norm)
	}
	dst.Device().LinEach(dst, s.A, v, nil, array.Batch{})
	return nil
}

func (p *l2Ball) Linearize(dst, v array.Batch, t float64) (prox.Derivative, error) {
	vector.CheckLinearize(p.name, p.n, dst, v, t)
	dev := v.Device()
	a := vector.GetScalars(1)
	defer vector.ScalarsPool.Put(a)
	vector.Norms(a.A, v)
	norm := a.A[0]
	s := p.factor(norm)
	a.A[0] = s
	var j prox.Derivative
	if s == 1 || s == 0 || v.N() == 1 {
		inside := 0.0
		if s == 1 {
			inside = 1
		}
		j = prox.NewMultiple(inside, v, p.margin)
	} else {
		u := dev.Alloc(1, v.N())
		dev.Lin(u, 1/norm, v, 0, array.Batch{})
		radial := func(dst, z array.Batch) {
			k := vector.GetScalars(z.K())
			defer vector.ScalarsPool.Put(k)
			dst.Device().Dot(k.C, u, z)
			for i := range k.C {
				k.A[i] = s
				k.C[i] *= -s
			}
			dst.Device().LinEach(dst, k.A, z, k.C, u)
		}
		j = prox.NewDerivative(p.name, u.N(), radial, func() *prox.Model {
			n := u.N()
			normal := space.Rows{Indptr: []int{0, n}, Indices: make([]int, n), Values: u.Read()}
			for i := range n {
				normal.Indices[i] = i
			}
			if dev.Err() != nil {
				return nil
			}
			return &prox.Model{
				Space:     space.Orthogonal(dev, n, normal.Indices, normal),
				Curvature: prox.NewUniformCurvature((1/s-1)/t, t, n-1),
				Margin:    p.margin,
			}
		}, u)
	}
	dev.LinEach(dst, a.A, v, nil, array.Batch{})
	return j, nil
}
