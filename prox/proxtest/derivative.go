package proxtest

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"surepipe/prox"
)

func (c *checker) linearizeEvaluates() error {
	return c.eachPoint(func(v []float64, t float64) error {
		want, err := c.eval(v, t)
		if err != nil {
			return err
		}
		got, j, err := c.linearize(v, t)
		if err != nil {
			return err
		}
		j.Release()
		return near("Linearize and Eval", got, want, 1e-10*length(v))
	})
}

// differences compares J z with central differences at points away from kinks.
func (c *checker) differences() error {
	for _, t := range c.steps {
		done := 0
		for trial := 0; done < 4 && trial < 20; trial++ {
			size := c.scale
			if trial%4 == 3 {
				size /= 20
			}
			v := c.random(size)
			if trial < len(c.options.points) {
				v = c.options.points[trial]
			}
			ok, err := c.difference(v, t)
			if err != nil {
				return fmt.Errorf("t = %v: %w", t, err)
			}
			if ok {
				done++
			}
		}
		if done == 0 {
			return fmt.Errorf("t = %v: no point in 20 where the map is differentiable at the scale "+
				"of the differences", t)
		}
	}
	return nil
}

// difference compares at one point. It returns false at a kink.
func (c *checker) difference(v []float64, t float64) (ok bool, err error) {
	p, j, err := c.linearize(v, t)
	if err != nil {
		return false, err
	}
	defer j.Release()
	for range 2 {
		z := c.unit()
		// The cube root of the rounding error balances it with the truncation error of a central
		// difference.
		h := 1e-5 * max(1, floats.Norm(v, math.Inf(1)))
		var at [5][]float64
		for i := range at {
			if i == 2 {
				at[i] = p
				continue
			}
			if at[i], err = c.eval(axpy(v, float64(i-2)*h, z), t); err != nil {
				return false, err
			}
		}
		central, wide := sub(at[3], at[1]), sub(at[4], at[0])
		floats.Scale(1/(2*h), central)
		floats.Scale(1/(4*h), wide)
		kink := floats.Norm(axpy(axpy(at[3], -2, at[2]), 1, at[1]), 2) / h
		if kink > 1e-3 || floats.Distance(central, wide, 2) > c.tolerance/2 {
			return false, nil
		}
		jz := c.apply(j, z)
		if d := floats.Distance(jz, central, 2); !(d <= c.tolerance) {
			return false, fmt.Errorf("J z and central differences differ by %.3g, ||z|| = 1, ||J z|| = %.3g", d,
				floats.Norm(jz, 2))
		}
	}
	return true, nil
}

// denseLimit is the largest dimension at which the whole Jacobian is formed.
const denseLimit = 150

// spectrum checks that J is symmetric to 1e-10 with eigenvalues in [-1e-8, 1 + 1e-8]: as a matrix,
// or in large dimension through random quadratic forms, <u, J z> = <z, J u> and ||J z||^2 <= <z, J
// z>. Where the model gives the sums of the eigenvalues and of their squares it checks these too.
func (c *checker) spectrum() error {
	return c.eachDerivative(func(j prox.Derivative) error {
		if c.dim > denseLimit {
			return c.spectrumRandom(j)
		}
		values, err := c.eigenvalues(j)
		if err != nil {
			return err
		}
		if lo, hi := values[0], values[c.dim-1]; lo < -1e-8 || hi > 1+1e-8 {
			return fmt.Errorf("eigenvalues from %.9g to %.9g, want [0, 1]", lo, hi)
		}
		trace, norm2, ok := traces(j.Model())
		if !ok {
			return nil
		}
		if want := floats.Sum(values); !(math.Abs(trace-want) <= 1e-9*(1+want)) {
			return fmt.Errorf("the trace is %.12g, the eigenvalues' sum %.12g", trace, want)
		}
		if want := floats.Dot(values, values); !(math.Abs(norm2-want) <= 1e-9*(1+want)) {
			return fmt.Errorf("the squared norm is %.12g, that of the eigenvalues %.12g", norm2, want)
		}
		return nil
	})
}

// traces is the trace of J and its squared Frobenius norm, by its model.
func traces(m *prox.Model) (trace, frobenius2 float64, ok bool) {
	if m == nil {
		return 0, 0, false
	}
	if m.Curvature != nil {
		return m.Curvature.Trace()
	}
	n := float64(m.Space.Dim())
	return n, n, m.Space.Form().Orthonormal
}

// eigenvalues returns those of J in increasing order, or an error where it is not symmetric.
func (c *checker) eigenvalues(j prox.Derivative) ([]float64, error) {
	units := make([][]float64, c.dim)
	for i := range units {
		units[i] = make([]float64, c.dim)
		units[i][i] = 1
	}
	a := c.apply(j, units...)
	sym := mat.NewSymDense(c.dim, nil)
	for i := range c.dim {
		for k := i; k < c.dim; k++ {
			x, y := a[i*c.dim+k], a[k*c.dim+i]
			if !(math.Abs(x-y) <= 1e-10) {
				return nil, fmt.Errorf("J[%d, %d] = %.12g, J[%d, %d] = %.12g: not symmetric", k, i, x, i, k, y)
			}
			sym.SetSym(i, k, (x+y)/2)
		}
	}
	var eigen mat.EigenSym
	if !eigen.Factorize(sym, false) {
		return nil, fmt.Errorf("the eigenvalues of J cannot be computed")
	}
	return eigen.Values(nil), nil
}

func (c *checker) spectrumRandom(j prox.Derivative) error {
	for range 10 {
		u, z := c.unit(), c.unit()
		out := c.apply(j, u, z)
		ju, jz := out[:c.dim], out[c.dim:]
		if x, y := floats.Dot(u, jz), floats.Dot(z, ju); !(math.Abs(x-y) <= 1e-10) {
			return fmt.Errorf("<u, J z> = %.12g, <z, J u> = %.12g: not symmetric", x, y)
		}
		if form, norm2 := floats.Dot(z, jz), floats.Dot(jz, jz); !(norm2 <= form+1e-8) {
			return fmt.Errorf("||J z||^2 = %.9g exceeds <z, J z> = %.9g: the spectrum is not in [0, 1]", norm2, form)
		}
	}
	return nil
}

func (c *checker) linear() error {
	return c.eachDerivative(func(j prox.Derivative) error {
		x, y := c.unit(), c.unit()
		out := c.apply(j, x, y, axpy(x, -2.5, y), make([]float64, c.dim))
		jx, jy, jxy, j0 := out[:c.dim], out[c.dim:2*c.dim], out[2*c.dim:3*c.dim], out[3*c.dim:]
		if d := floats.Distance(jxy, axpy(jx, -2.5, jy), 2); !(d <= rounding) {
			return fmt.Errorf("J (x - 2.5 y) and J x - 2.5 J y differ by %.3g", d)
		}
		if floats.Norm(j0, 2) != 0 {
			return fmt.Errorf("J 0 is not 0")
		}
		return nil
	})
}

// diagonal checks that the diagonal of a derivative that says it is diagonal is J.
func (c *checker) diagonal() error {
	return c.eachDerivative(func(j prox.Derivative) error {
		d := j.Diagonal()
		if d.IsZero() {
			return nil
		}
		if d.K() != 1 || d.N() != c.dim {
			return fmt.Errorf("the diagonal is %s, want 1 x %d", d, c.dim)
		}
		z := c.unit()
		want := floats.MulTo(make([]float64, c.dim), d.ToHost(), z)
		if dist := floats.Distance(c.apply(j, z), want, 2); !(dist <= rounding) {
			return fmt.Errorf("J z and the diagonal times z differ by %.3g", dist)
		}
		return nil
	})
}
