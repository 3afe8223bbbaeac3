package proxtest

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"
)

// firm checks <p(u) - p(v), u - v> >= ||p(u) - p(v)||^2, for points far apart and close.
func (c *checker) firm() error {
	return c.eachPoint(func(v []float64, t float64) error {
		pv, err := c.eval(v, t)
		if err != nil {
			return err
		}
		for _, size := range []float64{c.scale, c.scale / 10, c.scale / 1000} {
			u := axpy(v, size, c.random(1))
			pu, err := c.eval(u, t)
			if err != nil {
				return err
			}
			dp, dv := sub(pu, pv), sub(u, v)
			inner, norm2 := floats.Dot(dp, dv), floats.Dot(dp, dp)
			slack := rounding * (floats.Norm(v, 2) + floats.Norm(dv, 2)) * floats.Norm(dv, 2)
			if !(inner >= norm2-slack) {
				return fmt.Errorf("<p(u) - p(v), u - v> = %.6g, less than ||p(u) - p(v)||^2 = %.6g", inner, norm2)
			}
		}
		return nil
	})
}

// resolvent checks that steps of different length belong to one regularizer: with p = prox_t(v),
// prox_s((s/t) v + (1 - s/t) p) = p.
func (c *checker) resolvent() error {
	return c.eachPoint(func(v []float64, t float64) error {
		p, err := c.eval(v, t)
		if err != nil {
			return err
		}
		for _, ratio := range []float64{0.25, 0.8} {
			q, err := c.eval(axpy(p, ratio, sub(v, p)), ratio*t)
			if err != nil {
				return err
			}
			if d := floats.Distance(p, q, 2); !(d <= rounding*(1+floats.Norm(v, 2))) {
				return fmt.Errorf("p = prox_t(v) and prox_s((s/t) v + (1 - s/t) p) differ by %.3g for s = %v t", d,
					ratio)
			}
		}
		return nil
	})
}

// optimal checks that p minimizes phi(b) = t r(b) + 1/2 ||b - v||^2. Since phi is 1-strongly
// convex, phi(b) >= phi(p) + 1/2 ||b - p||^2 for every b.
func (c *checker) optimal() error {
	r := c.value()
	if r == nil {
		return nil
	}
	return c.eachPoint(func(v []float64, t float64) error {
		p, err := c.eval(v, t)
		if err != nil {
			return err
		}
		phi := func(b []float64) float64 {
			d := floats.Distance(b, v, 2)
			return t*r(b) + d*d/2
		}
		least := phi(p)
		if math.IsInf(least, 0) || math.IsNaN(least) {
			return fmt.Errorf("the regularizer is %v at the minimizer", r(p))
		}
		others := [][]float64{v, make([]float64, c.dim), axpy(p, 0.1, p), axpy(p, -0.1, p)}
		for _, size := range []float64{1e-4, 1e-2, 0.3, c.scale} {
			for range 3 {
				others = append(others, axpy(p, size, c.random(1)))
			}
			// A perturbation of few entries finds a wrong threshold that a dense one hides.
			b := append([]float64(nil), p...)
			b[c.rng.IntN(c.dim)] += size * c.rng.NormFloat64()
			others = append(others, b)
		}
		for _, b := range others {
			f := phi(b)
			if math.IsNaN(f) {
				return fmt.Errorf("the regularizer is NaN at a finite point")
			}
			d := floats.Distance(b, p, 2)
			if bound := least + d*d/2; f < bound-rounding*(1+math.Abs(bound)) {
				return fmt.Errorf("a point b at distance %.3g of p has objective %.9g, below %.9g = that of p + "+
					"1/2 ||b - p||^2", d, f, bound)
			}
		}
		return nil
	})
}

// moreau checks <v - p, p> = t r(p) where r is positively homogeneous on the ray through p:
// (v - p)/t is a subgradient there, and Euler's identity holds.
func (c *checker) moreau() error {
	r := c.value()
	if r == nil {
		return nil
	}
	return c.eachPoint(func(v []float64, t float64) error {
		p, err := c.eval(v, t)
		if err != nil {
			return err
		}
		rp := r(p)
		for _, a := range []float64{0.5, 2, 1000} {
			b := make([]float64, c.dim)
			floats.ScaleTo(b, a, p)
			if rb := r(b); !(math.Abs(rb-a*rp) <= rounding*(a*math.Abs(rp))) {
				return nil
			}
		}
		got, want := floats.Dot(sub(v, p), p), t*rp
		if !(math.Abs(got-want) <= rounding*(1+floats.Dot(v, v))) {
			return fmt.Errorf("<v - p, p> = %.9g, t r(p) = %.9g", got, want)
		}
		return nil
	})
}
