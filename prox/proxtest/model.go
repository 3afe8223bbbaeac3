package proxtest

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/prox"
	"surepipe/space"
	"surepipe/space/spacetest"
)

// modelTolerance is the error allowed in a product with J by its model, for a direction of norm 1.
const modelTolerance = 1e-9

// modelled checks a derivative's model: J = E (E*E + t Q)^{-1} E*.
func (c *checker) modelled() error {
	return c.eachPoint(func(v []float64, t float64) error {
		_, j, err := c.linearize(v, t)
		if err != nil {
			return err
		}
		defer j.Release()
		m := j.Model()
		if m == nil {
			return nil
		}
		if j.Model() != m {
			return fmt.Errorf("Model returns a different model the second time")
		}
		if p, _ := m.Space.Dims(); p != c.dim {
			return fmt.Errorf("the model's space is one of R^%d, want R^%d", p, c.dim)
		}
		if c.dim <= denseLimit {
			for _, err := range spacetest.Errors(c.dev, m.Space) {
				return err
			}
		}
		k := &modelCheck{checker: c, j: j, m: m, t: t}
		for _, check := range []func() error{k.products, k.dense, k.diagonal, k.squares} {
			if err := check(); err != nil {
				return err
			}
		}
		return nil
	})
}

// modelCheck is a model under check, at the step t.
type modelCheck struct {
	*checker
	j prox.Derivative
	m *prox.Model
	t float64
}

// coordinates returns E* z_i.
func (k *modelCheck) coordinates(zs ...[]float64) array.Batch {
	z := k.upload(zs...)
	defer z.Free()
	_, n := k.m.Space.Dims()
	out := k.dev.Alloc(len(zs), n)
	k.m.Space.Coordinates(out, z)
	return out
}

// precondition returns the preconditioned z_i and their images.
func (k *modelCheck) precondition(z array.Batch) (dst, image array.Batch) {
	dst, image = k.dev.Alloc(z.K(), z.N()), k.dev.Alloc(z.K(), z.N())
	if k.m.Curvature == nil {
		k.dev.Copy(dst, z)
		k.dev.Fill(image, 0)
		return dst, image
	}
	k.m.Curvature.Precondition(dst, image, z)
	return dst, image
}

// products checks J z against E (E*E + t Q)^{-1} E* z by Precondition, and that the image is t Q
// (E*E + t Q)^{-1} E* z, up to components that E maps to 0.
func (k *modelCheck) products() error {
	zs := k.directions(3)
	want := k.apply(k.j, zs...)
	z := k.coordinates(zs...)
	defer z.Free()
	if z.N() == 0 {
		return near("J z where the space of the model is {0}", want, make([]float64, len(want)), modelTolerance)
	}
	dst, image := k.precondition(z)
	defer dst.Free()
	defer image.Free()
	out := k.dev.Alloc(len(zs), k.dim)
	defer out.Free()
	k.m.Space.Embed(out, dst)
	if err := near("E (E*E + t Q)^{-1} E* z by the model, and J z", out.ToHost(), want, modelTolerance); err != nil {
		return err
	}
	// The remainder z - E*E dst - image must be orthogonal to all preconditioned coordinates.
	gram := k.dev.Alloc(len(zs), z.N())
	defer gram.Free()
	k.m.Space.Coordinates(gram, out)
	host, e, x, u := z.ToHost(), gram.ToHost(), image.ToHost(), dst.ToHost()
	for i := range zs {
		left := make([]float64, z.N())
		for l := range left {
			at := i*z.N() + l
			left[l] = host[at] - e[at] - x[at]
		}
		if k.m.Space.Form().Orthonormal {
			if err := near("the image and z - E*E dst", left, make([]float64, len(left)), modelTolerance); err != nil {
				return err
			}
		}
		for l := range zs {
			if inner := floats.Dot(left, u[l*z.N():(l+1)*z.N()]); !(math.Abs(inner) <= modelTolerance) {
				return fmt.Errorf("z - E*E dst - image has the inner product %.3g with preconditioned "+
					"coordinates, want 0", inner)
			}
		}
	}
	return nil
}

// dense checks J z against the matrix of Q by dense algebra.
func (k *modelCheck) dense() error {
	q := k.m.Curvature
	_, n := k.m.Space.Dims()
	if q == nil || n == 0 || n > denseLimit {
		return nil
	}
	host := q.Matrix()
	if host == nil {
		return nil
	}
	if len(host) != n*n {
		return fmt.Errorf("the curvature's matrix has %d entries, want %d x %d", len(host), n, n)
	}
	units, e := k.dev.Alloc(n, n), k.dev.Alloc(n, k.dim)
	defer units.Free()
	defer e.Free()
	k.dev.Fill(units, 0)
	k.dev.Fill(units.Diagonal(), 1)
	k.m.Space.Embed(e, units)
	rows := mat.NewDense(n, k.dim, e.ToHost()) // E*
	var system mat.Dense
	system.Mul(rows, rows.T())
	for i := range n {
		for l := range n {
			if d := math.Abs(host[i*n+l] - host[l*n+i]); !(d <= rounding*(1+math.Abs(host[i*n+l]))) {
				return fmt.Errorf("the curvature's matrix is not symmetric at (%d, %d)", i, l)
			}
			system.Set(i, l, system.At(i, l)+k.t*host[i*n+l])
		}
	}
	z := k.unit()
	var c, x, jz mat.VecDense
	c.MulVec(rows, mat.NewVecDense(k.dim, z))
	if err := x.SolveVec(&system, &c); err != nil {
		return fmt.Errorf("E*E + t Q: %w", err)
	}
	jz.MulVec(rows.T(), &x)
	return near("E (E*E + t Q)^{-1} E* z by the matrix of Q, and J z", jz.RawVector().Data, k.apply(k.j, z),
		modelTolerance)
}

// diagonal checks the diagonal of a curvature that says it is diagonal: (E*E + t Q) dst = z.
func (k *modelCheck) diagonal() error {
	q := k.m.Curvature
	if q == nil {
		return nil
	}
	_, n := k.m.Space.Dims()
	d := q.Diagonal()
	switch {
	case d == nil || n == 0:
		return nil
	case len(d) != n:
		return fmt.Errorf("the curvature's diagonal has %d entries, want %d", len(d), n)
	}
	z := k.coordinates(k.unit())
	dst, image := k.precondition(z)
	defer z.Free()
	defer dst.Free()
	defer image.Free()
	got, want := image.ToHost(), floats.MulTo(make([]float64, n), d, dst.ToHost())
	floats.Scale(k.t, want)
	return near("the image and t Q dst by the diagonal of Q", got, want, modelTolerance)
}

// margins checks that points nearer to v than the margin of its model have a model of the same
// space.
func (c *checker) margins() error {
	return c.eachPoint(func(v []float64, t float64) error {
		_, j, err := c.linearize(v, t)
		if err != nil {
			return err
		}
		defer j.Release()
		m := j.Model()
		if m == nil || m.Margin == nil {
			return nil
		}
		at := c.upload(v)
		margin := m.Margin(at)
		at.Free()
		if !(margin >= 0) {
			return fmt.Errorf("the margin is %v", margin)
		}
		if margin <= 1e-10*(1+floats.Norm(v, 2)) {
			return nil // within rounding errors of a kink
		}
		size := min(0.999*margin, 100*c.scale)
		for _, z := range c.perturbations() {
			same, err := c.sameSpace(m.Space, axpy(v, size, z), t)
			if err != nil {
				return err
			}
			if !same {
				return fmt.Errorf("the margin is %.6g, but the model has another space at a distance of %.6g", margin,
					size)
			}
		}
		return nil
	})
}

// perturbations returns directions of norm 1: random ones, and those of one and of two entries.
func (c *checker) perturbations() [][]float64 {
	zs := c.directions(3)
	for range 8 {
		z := make([]float64, c.dim)
		z[c.rng.IntN(c.dim)] = float64(2*c.rng.IntN(2) - 1)
		zs = append(zs, z)
		z = make([]float64, c.dim)
		z[c.rng.IntN(c.dim)] = c.rng.NormFloat64()
		z[c.rng.IntN(c.dim)] = c.rng.NormFloat64()
		if size := floats.Norm(z, 2); size > 0 {
			floats.Scale(1/size, z)
			zs = append(zs, z)
		}
	}
	return zs
}

// sameSpace reports whether the model at u has the space s, or, where that moves with v, one of the
// same rank.
func (c *checker) sameSpace(s space.Space, u []float64, t float64) (bool, error) {
	_, j, err := c.linearize(u, t)
	if err != nil {
		return false, err
	}
	defer j.Release()
	other := j.Model().Space
	f, g := s.Form(), other.Form()
	_, n := s.Dims()
	_, k := other.Dims()
	if f.Kind != g.Kind || n != k || s.Dim() != other.Dim() {
		return false, nil
	}
	if moves(f) {
		return true, nil
	}
	z := c.upload(c.directions(3)...)
	x, y := c.dev.Alloc(z.K(), c.dim), c.dev.Alloc(z.K(), c.dim)
	defer z.Free()
	defer x.Free()
	defer y.Free()
	s.Project(x, z)
	other.Project(y, z)
	return floats.Distance(x.ToHost(), y.ToHost(), 2) <= rounding, nil
}

// moves reports whether a space has a part that turns with v while the manifold is the same.
func moves(f space.Form) bool {
	if f.Kind == space.FixedRank || f.Kind == space.Complement || f.Kind == space.Symmetric {
		return true
	}
	for _, part := range f.Parts {
		if moves(part.Form()) {
			return true
		}
	}
	return false
}
