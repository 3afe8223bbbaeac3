package proxtest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/prox"
)

// rounding is the relative error granted to identities that hold exactly in
// real numbers.
const rounding = 1e-9

type checker struct {
	options
	dev    array.Device
	p      prox.Prox
	dim    int
	rng    *rand.Rand
	points [][]float64
}

// at returns the points to check at, the caller's last.
func (c *checker) at() [][]float64 {
	return append(c.points[:len(c.points):len(c.points)], c.options.points...)
}

func (c *checker) random(scale float64) []float64 {
	v := make([]float64, c.dim)
	for i := range v {
		v[i] = scale * c.rng.NormFloat64()
	}
	return v
}

// unit returns a random direction of norm 1.
func (c *checker) unit() []float64 {
	v := c.random(1)
	floats.Scale(1/floats.Norm(v, 2), v)
	return v
}

func (c *checker) upload(vs ...[]float64) array.Batch {
	b := c.dev.Alloc(len(vs), c.dim)
	for i, v := range vs {
		c.dev.Upload(b.Rows(i, i+1), v)
	}
	return b
}

// eval returns prox_{t r}(v).
func (c *checker) eval(v []float64, t float64) ([]float64, error) {
	b, dst := c.upload(v), c.dev.Alloc(1, c.dim)
	defer b.Free()
	defer dst.Free()
	if err := c.p.Eval(dst, b, t); err != nil {
		return nil, fmt.Errorf("Eval: %w", err)
	}
	return dst.ToHost(), nil
}

// linearize returns prox_{t r}(v) and the derivative there.
func (c *checker) linearize(v []float64, t float64) ([]float64, prox.Derivative, error) {
	b, dst := c.upload(v), c.dev.Alloc(1, c.dim)
	defer b.Free()
	defer dst.Free()
	j, err := c.p.Linearize(dst, b, t)
	if err != nil {
		return nil, nil, fmt.Errorf("Linearize: %w", err)
	}
	return dst.ToHost(), j, nil
}

// apply returns J z_i for every z_i, row-major.
func (c *checker) apply(j prox.Derivative, zs ...[]float64) []float64 {
	z, dst := c.upload(zs...), c.dev.Alloc(len(zs), c.dim)
	defer z.Free()
	defer dst.Free()
	j.Apply(dst, z)
	return dst.ToHost()
}

// value returns r, or nil where p does not know it.
func (c *checker) value() func(b []float64) float64 {
	switch p := c.p.(type) {
	case prox.Valuer:
		return func(b []float64) float64 {
			x := c.upload(b)
			defer x.Free()
			return p.Value(x)
		}
	case prox.Quadratic:
		return func(b []float64) float64 { return p.Curvature() / 2 * floats.Dot(b, b) }
	}
	return nil
}

// eachPoint calls f at every point and step.
func (c *checker) eachPoint(f func(v []float64, t float64) error) error {
	for i, v := range c.at() {
		for _, t := range c.steps {
			if err := f(v, t); err != nil {
				return fmt.Errorf("point %d, t = %v: %w", i, t, err)
			}
		}
	}
	return nil
}

// eachDerivative calls f with the derivative at every point and step.
func (c *checker) eachDerivative(f func(j prox.Derivative) error) error {
	return c.eachPoint(func(v []float64, t float64) error {
		_, j, err := c.linearize(v, t)
		if err != nil {
			return err
		}
		defer j.Release()
		return f(j)
	})
}

func sub(x, y []float64) []float64 { return floats.SubTo(make([]float64, len(x)), x, y) }

// axpy returns x + a y.
func axpy(x []float64, a float64, y []float64) []float64 {
	return floats.AddScaledTo(make([]float64, len(x)), x, a, y)
}

// firm checks <p(u) - p(v), u - v> >= ||p(u) - p(v)||^2, for points far and
// near.
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

// resolvent checks that steps of different length belong to one regularizer:
// with p = prox_t(v), prox_s((s/t) v + (1 - s/t) p) = p.
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
				return fmt.Errorf("p = prox_t(v) and prox_s((s/t) v + (1 - s/t) p) differ by %.3g for s = %v t", d, ratio)
			}
		}
		return nil
	})
}

// optimal checks that p minimizes phi(b) = t r(b) + 1/2 ||b - v||^2. Since phi
// is 1-strongly convex, phi(b) >= phi(p) + 1/2 ||b - p||^2 for every b.
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
			// A perturbation of few entries finds a wrong threshold that a dense
			// one drowns.
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
				return fmt.Errorf("a point b at distance %.3g of p has objective %.9g, below %.9g = that of p + 1/2 ||b - p||^2", d, f, bound)
			}
		}
		return nil
	})
}

// moreau checks <v - p, p> = t r(p) where r is positively homogeneous on the
// ray through p: (v - p)/t is a subgradient there, and Euler's identity holds.
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

// quadratic checks that prox = v/(1 + t c).
func (c *checker) quadratic() error {
	q, ok := c.p.(prox.Quadratic)
	if !ok {
		return nil
	}
	return c.eachPoint(func(v []float64, t float64) error {
		p, err := c.eval(v, t)
		if err != nil {
			return err
		}
		want := make([]float64, c.dim)
		floats.ScaleTo(want, 1/(1+t*q.Curvature()), v)
		if d := floats.Distance(p, want, 2); !(d <= rounding*(1+floats.Norm(v, 2))) {
			return fmt.Errorf("prox differs from v/(1 + t c) by %.3g, curvature c = %v", d, q.Curvature())
		}
		return nil
	})
}

// same returns an error unless x and y agree bit for bit, zeros of either sign
// being equal.
func same(what string, x, y []float64) error {
	for i := range x {
		if x[i] != y[i] && !(math.IsNaN(x[i]) && math.IsNaN(y[i])) {
			return fmt.Errorf("%s: entry %d is %v, want %v", what, i, x[i], y[i])
		}
	}
	return nil
}

// batch checks that the bits of a vector's result do not depend on its company.
func (c *checker) batch() error {
	for _, t := range c.steps {
		v := c.upload(c.at()...)
		dst := c.dev.Alloc(v.K(), c.dim)
		err := c.p.Eval(dst, v, t)
		got := dst.ToHost()
		v.Free()
		dst.Free()
		if err != nil {
			return fmt.Errorf("Eval: %w", err)
		}
		for i, x := range c.at() {
			want, err := c.eval(x, t)
			if err != nil {
				return err
			}
			if err := same(fmt.Sprintf("vector %d of a batch and alone, t = %v", i, t), got[i*c.dim:(i+1)*c.dim], want); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *checker) inPlace() error {
	return c.eachPoint(func(v []float64, t float64) error {
		want, err := c.eval(v, t)
		if err != nil {
			return err
		}
		b := c.upload(v)
		defer b.Free()
		if err := c.p.Eval(b, b, t); err != nil {
			return fmt.Errorf("Eval in place: %w", err)
		}
		if err := same("Eval in place and apart", b.ToHost(), want); err != nil {
			return err
		}
		c.dev.Upload(b, v)
		j, err := c.p.Linearize(b, b, t)
		if err != nil {
			return fmt.Errorf("Linearize in place: %w", err)
		}
		defer j.Release()
		value, apart, err := c.linearize(v, t)
		if err != nil {
			return err
		}
		defer apart.Release()
		if err := same("Linearize in place and apart", b.ToHost(), value); err != nil {
			return err
		}
		z := c.unit()
		return same("derivative of Linearize in place and apart", c.apply(j, z), c.apply(apart, z))
	})
}

// gap is what lies between the vectors of a view; it must survive.
const gap = 12345.5

// view returns a batch of the vectors vs with gaps on both sides, and the batch
// that holds it.
func (c *checker) view(vs ...[]float64) (inner, outer array.Batch) {
	outer = c.dev.Alloc(len(vs), c.dim+5)
	c.dev.Fill(outer, gap)
	inner = outer.Cols(2, 2+c.dim)
	for i, v := range vs {
		c.dev.Upload(inner.Rows(i, i+1), v)
	}
	return inner, outer
}

// intact returns an error if the gaps of a view were written.
func (c *checker) intact(outer array.Batch) error {
	for i, x := range outer.ToHost() {
		if at := i % (c.dim + 5); (at < 2 || at >= c.dim+2) && x != gap {
			return fmt.Errorf("value %d beside the vectors of a view was overwritten by %v", at, x)
		}
	}
	return nil
}

func (c *checker) strided() error {
	for _, t := range c.steps {
		v, vOuter := c.view(c.at()...)
		dst, dstOuter := c.view(c.at()...)
		defer vOuter.Free()
		defer dstOuter.Free()
		if err := c.p.Eval(dst, v, t); err != nil {
			return fmt.Errorf("Eval: %w", err)
		}
		if err := c.intact(dstOuter); err != nil {
			return err
		}
		got := dst.ToHost()
		for i, x := range c.at() {
			want, err := c.eval(x, t)
			if err != nil {
				return err
			}
			if err := same(fmt.Sprintf("vector %d of a view and alone, t = %v", i, t), got[i*c.dim:(i+1)*c.dim], want); err != nil {
				return err
			}
			if err := same(fmt.Sprintf("operand %d after Eval", i), v.Rows(i, i+1).ToHost(), x); err != nil {
				return err
			}
		}
	}
	return nil
}

// nan checks that a NaN gives an error or a NaN, never a number in its place.
func (c *checker) nan() error {
	v := c.random(c.scale)
	at := c.rng.IntN(c.dim)
	v[at] = math.NaN()
	p, err := c.eval(v, c.steps[0])
	if err == nil && !floats.HasNaN(p) {
		return fmt.Errorf("v[%d] is NaN, and Eval returned neither an error nor a NaN", at)
	}
	p, j, err := c.linearize(v, c.steps[0])
	if err == nil {
		j.Release()
		if !floats.HasNaN(p) {
			return fmt.Errorf("v[%d] is NaN, and Linearize returned neither an error nor a NaN", at)
		}
	}
	return nil
}

// near fails where two vectors differ by more than tol somewhere.
func near(what string, got, want []float64, tol float64) error {
	for i, w := range want {
		if d := math.Abs(got[i] - w); !(d <= tol) {
			return fmt.Errorf("%s: entry %d is %v, want %v", what, i, got[i], w)
		}
	}
	return nil
}

func length(v []float64) float64 {
	s := 0.0
	for _, x := range v {
		s += x * x
	}
	return math.Sqrt(s)
}

// ranged checks that what a Ranged derivative projects on is its range.
func (c *checker) ranged() error {
	return c.eachDerivative(func(j prox.Derivative) error {
		r, ok := j.(prox.Ranged)
		if !ok {
			return nil
		}
		zs := c.directions(3)
		image := c.apply(j, zs...)
		z, jz, pz := c.upload(zs...), c.upload(zs...), c.upload(zs...)
		defer z.Free()
		defer jz.Free()
		defer pz.Free()
		const tol = 1e-11
		r.ApplyRange(jz, pz, z)
		if err := near("ApplyRange and Apply", jz.ToHost(), image, tol); err != nil {
			return err
		}
		projected := pz.ToHost()
		r.ApplyRange(jz, z, z)
		if err := near("the projection in place and apart", z.ToHost(), projected, tol); err != nil {
			return err
		}
		r.ApplyRange(jz, pz, pz)
		if err := near("J of the projection and J", jz.ToHost(), image, tol); err != nil {
			return err
		}
		if err := near("the projection twice and once", pz.ToHost(), projected, tol); err != nil {
			return err
		}
		r.ApplyRange(z, pz, jz)
		return near("the projection of J z and J z", pz.ToHost(), image, tol)
	})
}

// tangent checks that a LowRank derivative's coordinates give the derivative.
func (c *checker) tangent() error {
	return c.eachDerivative(func(j prox.Derivative) error {
		low, ok := j.(prox.LowRank)
		if !ok {
			return nil
		}
		t, ok := low.Tangent()
		if !ok {
			return nil
		}
		const tol = 1e-11
		m, n, r := t.Shape.Rows, t.Shape.Cols, t.Rank
		zs := c.directions(3)
		z, out := c.upload(zs...), c.upload(zs...)
		defer z.Free()
		defer out.Free()
		dev := z.Device()
		k := z.K()
		coords := dev.Alloc(k, t.Len())
		defer coords.Free()
		x, cu, cv := t.Shape, array.Shape{Rows: m, Cols: r}, array.Shape{Rows: n, Cols: r}
		q, p := coords.Cols(0, m*r), coords.Cols(m*r, (m+n)*r)
		expand := func() []float64 {
			dev.GemmEach(false, true, 1, q, cu, t.V, cv, 0, out)
			dev.GemmEach(false, true, 1, t.U, cu, p, cv, 1, out)
			return out.ToHost()
		}
		dev.GemmEach(false, false, 1, z, x, t.V, cv, 0, q)
		dev.GemmEach(true, false, 1, z, x, t.U, cu, 0, p)
		t.J.Apply(coords, coords)
		image := c.apply(j, zs...)
		if err := near("J and J in tangent coordinates", expand(), image, tol); err != nil {
			return err
		}
		// Coordinates of 0: Q = U G, P = -V G*.
		gram := dev.Alloc(k, r*r)
		defer gram.Free()
		rr := array.Shape{Rows: r, Cols: r}
		dev.GemmEach(true, false, 1, t.U, cu, z.Cols(0, m*r), cu, 0, gram)
		dev.GemmEach(false, false, 1, t.U, cu, gram, rr, 0, q)
		dev.GemmEach(false, true, -1, t.V, cv, gram, rr, 0, p)
		if e := length(expand()); e > tol {
			return fmt.Errorf("tangent coordinates U G and -V G* stand for a matrix of norm %.3g, want 0: U or V is not orthonormal", e)
		}
		return nil
	})
}

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
			return fmt.Errorf("t = %v: no point in 20 where the map is differentiable at the scale of the differences", t)
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
		// The cube root of the rounding error balances it with the truncation
		// error of a central difference.
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
			return false, fmt.Errorf("J z and central differences differ by %.3g, ||z|| = 1, ||J z|| = %.3g", d, floats.Norm(jz, 2))
		}
	}
	return true, nil
}

// denseLimit is the largest dimension at which the whole Jacobian is formed.
const denseLimit = 150

// spectrum checks that J is symmetric to 1e-10 with eigenvalues in
// [-1e-8, 1 + 1e-8]: as a matrix, or in large dimension through random quadratic
// forms, <u, J z> = <z, J u> and ||J z||^2 <= <z, J z>.
func (c *checker) spectrum() error {
	return c.eachDerivative(func(j prox.Derivative) error {
		if c.dim > denseLimit {
			return c.spectrumRandom(j)
		}
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
					return fmt.Errorf("J[%d, %d] = %.12g, J[%d, %d] = %.12g: not symmetric", k, i, x, i, k, y)
				}
				sym.SetSym(i, k, (x+y)/2)
			}
		}
		var eigen mat.EigenSym
		if !eigen.Factorize(sym, false) {
			return fmt.Errorf("the eigenvalues of J cannot be computed")
		}
		values := eigen.Values(nil)
		if lo, hi := values[0], values[c.dim-1]; lo < -1e-8 || hi > 1+1e-8 {
			return fmt.Errorf("eigenvalues from %.9g to %.9g, want [0, 1]", lo, hi)
		}
		if t, ok := j.(prox.Tracer); ok {
			trace, norm2 := t.Trace()
			if want := floats.Sum(values); !(math.Abs(trace-want) <= 1e-9*(1+want)) {
				return fmt.Errorf("the trace is %.12g, the eigenvalues' sum %.12g", trace, want)
			}
			if want := floats.Dot(values, values); !(math.Abs(norm2-want) <= 1e-9*(1+want)) {
				return fmt.Errorf("the squared norm is %.12g, that of the eigenvalues %.12g", norm2, want)
			}
		}
		return nil
	})
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

// directions returns k unit vectors.
func (c *checker) directions(k int) [][]float64 {
	zs := make([][]float64, k)
	for i := range zs {
		zs[i] = c.unit()
	}
	return zs
}

func (c *checker) derivativeBatch() error {
	return c.eachDerivative(func(j prox.Derivative) error {
		zs := c.directions(7)
		got := c.apply(j, zs...)
		for i, z := range zs {
			if err := same(fmt.Sprintf("direction %d of a batch and alone", i), got[i*c.dim:(i+1)*c.dim], c.apply(j, z)); err != nil {
				return err
			}
		}
		empty := c.upload()
		j.Apply(empty, empty)
		empty.Free()
		return nil
	})
}

func (c *checker) derivativeViews() error {
	return c.eachDerivative(func(j prox.Derivative) error {
		zs := c.directions(5)
		want := c.apply(j, zs...)
		z := c.upload(zs...)
		defer z.Free()
		j.Apply(z, z)
		if err := same("in place and apart", z.ToHost(), want); err != nil {
			return err
		}
		in, inOuter := c.view(zs...)
		out, outOuter := c.view(zs...)
		defer inOuter.Free()
		defer outOuter.Free()
		j.Apply(out, in)
		if err := same("a view and a batch", out.ToHost(), want); err != nil {
			return err
		}
		if err := c.intact(outOuter); err != nil {
			return err
		}
		j.Apply(in, in)
		if err := same("a view in place and a batch", in.ToHost(), want); err != nil {
			return err
		}
		return c.intact(inOuter)
	})
}

func (c *checker) derivativeConcurrent() error {
	return c.eachDerivative(func(j prox.Derivative) error {
		const goroutines = 8
		zs := c.directions(goroutines * 3)
		want := c.apply(j, zs...)
		got := make([][]float64, goroutines)
		faults := make([]any, goroutines)
		var wg sync.WaitGroup
		for g := range goroutines {
			wg.Go(func() {
				defer func() { faults[g] = recover() }()
				got[g] = c.apply(j, zs[3*g:3*g+3]...)
			})
		}
		wg.Wait()
		for g, part := range got {
			if faults[g] != nil {
				return fmt.Errorf("panic: %v", faults[g])
			}
			if err := same(fmt.Sprintf("goroutine %d of %d", g, goroutines), part, want[3*g*c.dim:3*(g+1)*c.dim]); err != nil {
				return err
			}
		}
		return nil
	})
}

// masked checks that a derivative that says it is diagonal is.
func (c *checker) masked() error {
	return c.eachDerivative(func(j prox.Derivative) error {
		m, ok := j.(prox.Masked)
		if !ok {
			return nil
		}
		d := m.Diagonal()
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

// memory checks that a derivative holds what it says and that Release gives it
// back. A device rounds the size of what it holds up as it likes: twice Bytes and 4
// KiB a batch are granted, and as much for four indices or sparse matrices.
func (c *checker) memory() error {
	return c.eachPoint(func(v []float64, t float64) error {
		before := c.dev.Stats()
		_, j, err := c.linearize(v, t)
		if err != nil {
			return err
		}
		held := c.dev.Stats()
		bytes := j.Bytes()
		c.apply(j, c.unit())
		applied := c.dev.Stats()
		j.Release()
		after := c.dev.Stats()
		live, grown := held.Live-before.Live, held.LiveBytes-before.LiveBytes
		switch {
		case bytes < 0 || bytes > grown:
			return fmt.Errorf("Bytes() = %d, but Linearize took %d", bytes, grown)
		case grown > 2*bytes+4096*int64(live+4):
			return fmt.Errorf("Bytes() = %d, but Linearize took %d in %d batches", bytes, grown, live)
		case applied.Live != held.Live:
			return fmt.Errorf("Apply kept %d batches", applied.Live-held.Live)
		case after.Live != before.Live || after.LiveBytes != before.LiveBytes:
			return fmt.Errorf("%d batches (%d bytes) still on loan after Release", after.Live-before.Live, after.LiveBytes-before.LiveBytes)
		}
		return nil
	})
}
