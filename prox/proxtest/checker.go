package proxtest

import (
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"

	"surepipe/array"
	"surepipe/prox"
)

// rounding is the relative error allowed in identities that hold exactly in real numbers.
const rounding = 1e-9

type checker struct {
	options
	dev    array.Device
	p      prox.Prox
	dim    int
	rng    *rand.Rand
	points [][]float64
}

// at returns the points to check at; the caller's come last.
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

// directions returns k unit vectors.
func (c *checker) directions(k int) [][]float64 {
	zs := make([][]float64, k)
	for i := range zs {
		zs[i] = c.unit()
	}
	return zs
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

// same returns an error unless x and y agree bit for bit, zeros of either sign being equal.
func same(what string, x, y []float64) error {
	for i := range x {
		if x[i] != y[i] && !(math.IsNaN(x[i]) && math.IsNaN(y[i])) {
			return fmt.Errorf("%s: entry %d is %v, want %v", what, i, x[i], y[i])
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
