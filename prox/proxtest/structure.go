package proxtest

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/prox"
	"surepipe/space"
)

// value returns the function r, or nil where p does not offer it.
func (c *checker) value() func(b []float64) float64 {
	s := prox.StructureOf(c.p)
	switch {
	case s.Value != nil:
		return func(b []float64) float64 {
			x := c.upload(b)
			defer x.Free()
			return s.Value(x)
		}
	case s.Quadratic.Known:
		return func(b []float64) float64 { return s.Quadratic.Value / 2 * floats.Dot(b, b) }
	}
	return nil
}

// quadratic checks that prox = v/(1 + t c).
func (c *checker) quadratic() error {
	q := prox.StructureOf(c.p).Quadratic
	if !q.Known {
		return nil
	}
	return c.eachPoint(func(v []float64, t float64) error {
		p, err := c.eval(v, t)
		if err != nil {
			return err
		}
		want := make([]float64, c.dim)
		floats.ScaleTo(want, 1/(1+t*q.Value), v)
		if d := floats.Distance(p, want, 2); !(d <= rounding*(1+floats.Norm(v, 2))) {
			return fmt.Errorf("prox differs from v/(1 + t c) by %.3g, curvature c = %v", d, q.Value)
		}
		return nil
	})
}

// nuclear checks that prox is the singular value threshold by t lambda.
func (c *checker) nuclear() error {
	s := prox.StructureOf(c.p)
	if !s.Nuclear.Known {
		return nil
	}
	m, n := s.Shape.Rows, s.Shape.Cols
	if m*n != c.dim {
		return fmt.Errorf("matrices of %d x %d for vectors of length %d", m, n, c.dim)
	}
	return c.eachPoint(func(v []float64, t float64) error {
		p, err := c.eval(v, t)
		if err != nil {
			return err
		}
		var svd mat.SVD
		if !svd.Factorize(mat.NewDense(m, n, slices.Clone(v)), mat.SVDThin) {
			return nil
		}
		sigma := svd.Values(nil)
		for i, x := range sigma {
			if sigma[i] = 0; s.Nuclear.Value == 0 {
				sigma[i] = x
			} else if x > t*s.Nuclear.Value {
				sigma[i] = x - t*s.Nuclear.Value
			}
		}
		var left, right, want mat.Dense
		svd.UTo(&left)
		svd.VTo(&right)
		want.Product(&left, mat.NewDiagDense(len(sigma), sigma), right.T())
		return near("the singular value threshold", p, want.RawMatrix().Data, rounding*(1+length(v)))
	})
}

// parts checks that prox is the soft threshold by t c, and that of the blocks.
func (c *checker) parts() error {
	s := prox.StructureOf(c.p)
	if s.L1.Known {
		if err := c.sameAs("the soft threshold", prox.NewL1(s.L1.Value)); err != nil {
			return err
		}
	}
	if len(s.Blocks) == 0 {
		return nil
	}
	all := prox.NewSeparable(s.Blocks...)
	if all.Dim() != c.dim {
		return fmt.Errorf("blocks of %d coordinates for vectors of length %d", all.Dim(), c.dim)
	}
	return c.sameAs("that of the blocks", all)
}

// sameAs checks that prox is that of another regularizer.
func (c *checker) sameAs(what string, other prox.Prox) error {
	return c.eachPoint(func(v []float64, t float64) error {
		p, err := c.eval(v, t)
		if err != nil {
			return err
		}
		x := c.upload(v)
		defer x.Free()
		if err := other.Eval(x, x, t); err != nil {
			return err
		}
		return near(what, p, x.ToHost(), rounding*(1+length(v)))
	})
}

// increasing checks a list of coordinates.
func (c *checker) increasing(what string, set []int) error {
	for i, j := range set {
		if j < 0 || j >= c.dim || i > 0 && j <= set[i-1] {
			return fmt.Errorf("%s: coordinate %d of %d is %d, want increasing numbers from 0 to %d", what, i,
				len(set), j, c.dim-1)
		}
	}
	return nil
}

// free checks that r does not depend on the coordinates that it calls free: moving v there moves
// the result by as much.
func (c *checker) free() error {
	list := prox.StructureOf(c.p).Free
	if list == nil {
		return nil
	}
	set := list(c.dim)
	if err := c.increasing("free", set); err != nil || len(set) == 0 {
		return err
	}
	return c.eachPoint(func(v []float64, t float64) error {
		p, err := c.eval(v, t)
		if err != nil {
			return err
		}
		moved, want := slices.Clone(v), p
		for _, j := range set {
			by := c.scale * c.rng.NormFloat64()
			moved[j] += by
			want[j] += by
		}
		got, err := c.eval(moved, t)
		if err != nil {
			return err
		}
		return near("prox where free coordinates moved", got, want, rounding*(1+length(moved)))
	})
}

// confined checks Closure and On: on a set over which r splits the result is that of the
// regularizer on the set, whatever v is elsewhere.
func (c *checker) confined() error {
	s := prox.StructureOf(c.p)
	if s.Closure == nil {
		return nil
	}
	for range 3 {
		var some []int
		for j := range c.dim {
			if c.rng.IntN(3) == 0 {
				some = append(some, j)
			}
		}
		if len(some) == 0 {
			some = []int{c.rng.IntN(c.dim)}
		}
		set := s.Closure(some)
		if set == nil {
			return nil
		}
		if err := c.increasing("closure", set); err != nil {
			return err
		}
		for _, j := range some {
			if !slices.Contains(set, j) {
				return fmt.Errorf("the closure of %v is %v, which lacks %d", some, set, j)
			}
		}
		if again := s.Closure(set); !slices.Equal(again, set) {
			return fmt.Errorf("the closure of the closure %v is %v", set, again)
		}
		if s.On == nil {
			return fmt.Errorf("there is a Closure, but no On")
		}
		if err := c.on(s, set); err != nil {
			return err
		}
	}
	return c.homogeneous()
}

// placed checks that whatever build allocates is on the device that it is given.
func (c *checker) placed(what string, build func(dev array.Device) (prox.Prox, error)) error {
	err := arraytest.AllocatesOn(c.dev, func(view array.Device) func() {
		if q, err := build(view); q != nil && err == nil {
			return func() { prox.Release(q) }
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

func (c *checker) on(s prox.Structure, set []int) error {
	t := space.Coordinates(c.dev, c.dim, set)
	defer t.Release()
	q, err := s.On(c.dev, t)
	if err != nil {
		return err
	}
	if q == nil {
		return fmt.Errorf("On returns nothing for the closure %v", set)
	}
	defer prox.Release(q)
	if err := c.placed("On", func(dev array.Device) (prox.Prox, error) { return s.On(dev, t) }); err != nil {
		return err
	}
	part := &checker{dev: c.dev, p: q, dim: len(set), options: c.options, rng: c.rng}
	value, small := c.value(), part.value()
	return c.eachPoint(func(v []float64, step float64) error {
		whole, err := c.eval(v, step)
		if err != nil {
			return err
		}
		pick := func(v []float64) []float64 {
			out := make([]float64, len(set))
			for i, j := range set {
				out[i] = v[j]
			}
			return out
		}
		got, err := part.eval(pick(v), step)
		if err != nil {
			return err
		}
		if err := near(fmt.Sprintf("prox on the coordinates %v", set), got, pick(whole),
			rounding*(1+length(v))); err != nil {
			return err
		}
		if value == nil || small == nil {
			return nil
		}
		embedded := make([]float64, c.dim)
		for i, j := range set {
			embedded[j] = got[i]
		}
		if x, y := value(embedded), small(got); !(math.Abs(x-y) <= rounding*(1+math.Abs(x))) {
			return fmt.Errorf("r(E c) = %g, on the coordinates %v it is %g", x, set, y)
		}
		return nil
	})
}

// homogeneous checks that near 0 prox_{t r}(-t g)/t tends to a limit as t goes to 0, with an error
// in proportion to t.
func (c *checker) homogeneous() error {
	g := c.random(c.scale)
	var last []float64
	for _, t := range []float64{0x1p-24, 0x1p-28} {
		v := make([]float64, c.dim)
		floats.ScaleTo(v, -t, g)
		p, err := c.eval(v, t)
		if err != nil {
			return err
		}
		floats.Scale(1/t, p)
		if last != nil {
			return near("prox_{t r}(-t g)/t for t = 2^-24 and 2^-28", last, p, 1e-5*(1+length(g)))
		}
		last = p
	}
	return nil
}

// pairs checks that functions which need each other are offered together.
func (c *checker) pairs() error {
	s := prox.StructureOf(c.p)
	switch {
	case (s.Units == nil) != (s.Rescale == nil):
		return errors.New("Units and Rescale: one is nil and the other is not")
	case (s.DualScale == nil) != (s.FenchelGap == nil):
		return errors.New("DualScale and FenchelGap: one is nil and the other is not")
	case s.On != nil && s.Closure == nil:
		return errors.New("there is On, but no Closure")
	}
	return nil
}

// otherUnits checks Rescale: c = prox_{t q}(v) of q(c) = r(s ∘ c) has (v - c)/t in its
// subdifferential, so that (v - c)/(t s) is in that of r at b = s ∘ c, which is then
// prox_r(b + (v - c)/(t s)).
func (c *checker) otherUnits() error {
	r := prox.StructureOf(c.p)
	if r.Rescale == nil {
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
	defer prox.Release(q)
	if err := c.placed("Rescale", func(dev array.Device) (prox.Prox, error) { return r.Rescale(dev, s) }); err != nil {
		return err
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

// conjugate checks DualScale and FenchelGap: at b = prox_{t r}(v) the subgradient g = (v - b)/t
// leaves no gap, and the value of r*(t g) that the gap at another g implies bounds <u, t g> - r(u)
// for every u.
func (c *checker) conjugate() error {
	r := prox.StructureOf(c.p)
	if r.DualScale == nil {
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
func (c *checker) gap(r prox.Structure, b, g []float64, near float64) (scale, gap float64) {
	x, h := c.upload(b), c.upload(g)
	defer x.Free()
	defer h.Free()
	if scale = r.DualScale(x, h, near); !(scale > 0) {
		return 0, 0
	}
	return scale, r.FenchelGap(x, h, scale, near)
}
