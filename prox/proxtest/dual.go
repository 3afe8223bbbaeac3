package proxtest

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"

	"surepipe/prox"
)

// otherUnits tests a [prox.Rescaler]: c = prox_{t q}(v) of q(c) = r(s ∘ c) has (v - c)/t in its
// subdifferential, so that (v - c)/(t s) is in that of r at b = s ∘ c, which is then
// prox_r(b + (v - c)/(t s)).
func (c *checker) otherUnits() error {
	r, ok := prox.AsRescaler(c.p)
	if !ok {
		return nil
	}
	s := make([]float64, c.dim)
	for j := range s {
		s[j] = math.Exp2(float64(c.rng.IntN(5) - 2))
	}
	r.Units(s)
	q, err := r.Rescale(c.dev, s)
	if err != nil {
		return err
	}
	if owner, ok := q.(prox.Releaser); ok && q != c.p {
		defer owner.Release()
	}
	scaled := &checker{dev: c.dev, p: q, dim: c.dim, options: c.options, rng: c.rng}
	return c.eachPoint(func(v []float64, t float64) error {
		x, err := scaled.eval(v, t)
		if err != nil {
			return err
		}
		b, at := make([]float64, c.dim), make([]float64, c.dim)
		for j := range b {
			b[j] = s[j] * x[j]
			at[j] = b[j] + (v[j]-x[j])/(t*s[j])
		}
		again, err := c.eval(at, 1)
		if err != nil {
			return err
		}
		return near(fmt.Sprintf("in units %v, t = %g: prox at the subgradient", s, t), again, b, 1e-9*(1+length(at)))
	})
}

// conjugate tests a [prox.Conjugate]: at b = prox_{t r}(v) the subgradient g = (v - b)/t leaves no gap, and
// what the gap at another g says of r*(t g) bounds <u, t g> - r(u) for every u.
func (c *checker) conjugate() error {
	r, ok := prox.AsConjugate(c.p)
	if !ok {
		return nil
	}
	value := c.value()
	return c.eachPoint(func(v []float64, t float64) error {
		b, err := c.eval(v, t)
		if err != nil {
			return err
		}
		g := sub(v, b)
		floats.Scale(1/t, g)
		size := 1 + length(b)*length(g)
		scale, gap := c.gap(r, b, g, 1e-12*(1+length(g)))
		if scale > 0 && (scale < 1-1e-9 || gap > 1e-9*size || gap < -1e-9*size) {
			return fmt.Errorf("at its own subgradient, t = %g: scale %g and gap %g, want 1 and 0", t, scale, gap)
		}
		if value == nil {
			return nil
		}
		other := c.random(1)
		scale, gap = c.gap(r, b, other, math.Inf(1))
		if scale == 0 || math.IsInf(gap, 1) || math.IsNaN(gap) {
			return nil
		}
		conjugate := gap - value(b) + scale*floats.Dot(b, other)
		for range 5 {
			u, err := c.eval(c.random(c.scale), t)
			if err != nil {
				return err
			}
			if least := scale*floats.Dot(u, other) - value(u); conjugate < least-1e-9*(size+math.Abs(least)) {
				return fmt.Errorf("r*(t g) is %g by the gap, but <u, t g> - r(u) = %g", conjugate, least)
			}
		}
		return nil
	})
}

// gap asks for the dual scale at g, and the gap there.
func (c *checker) gap(r prox.Conjugate, b, g []float64, near float64) (scale, gap float64) {
	x, h := c.upload(b), c.upload(g)
	defer x.Free()
	defer h.Free()
	if scale = r.DualScale(x, h, near); !(scale > 0) {
		return 0, 0
	}
	return scale, r.FenchelGap(x, h, scale, near)
}
