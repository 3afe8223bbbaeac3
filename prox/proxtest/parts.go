package proxtest

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"

	"surepipe/prox"
)

// balls checks that prox shortens the vectors of the balls, each by t times the radius, to 0 at most.
func (c *checker) balls() error {
	b := prox.StructureOf(c.p).Balls
	if b.Planes == 0 {
		return nil
	}
	if !(b.Radius > 0) || b.Planes < 0 || b.Channels < 1 || c.dim%(b.Planes*b.Channels) > 0 {
		return fmt.Errorf("balls of radius %g, %d planes and %d channels, of %d coordinates", b.Radius, b.Planes,
			b.Channels, c.dim)
	}
	n := c.dim / b.Planes
	return c.eachPoint(func(v []float64, t float64) error {
		p, err := c.eval(v, t)
		if err != nil {
			return err
		}
		want := make([]float64, c.dim)
		for from := 0; from < n; from += b.Channels {
			square := 0.0
			for at := range b.Planes * b.Channels {
				x := v[at/b.Channels*n+from+at%b.Channels]
				square += x * x
			}
			if keep := 1 - t*b.Radius/math.Sqrt(square); keep > 0 {
				for at := range b.Planes * b.Channels {
					i := at/b.Channels*n + from + at%b.Channels
					want[i] = keep * v[i]
				}
			}
		}
		return near("v shortened by the balls", p, want, rounding*(1+length(v)))
	})
}

// local checks that the maps of the degrees of freedom add up to the trace of the derivative at t = 1.
func (c *checker) local() error {
	local := prox.StructureOf(c.p).Local
	if local == nil || c.dim > denseLimit {
		return nil
	}
	for _, v := range c.at() {
		_, j, err := c.linearize(v, 1)
		if err != nil {
			return err
		}
		trace := 0.0
		for i := range c.dim {
			unit := make([]float64, c.dim)
			unit[i] = 1
			trace += c.apply(j, unit)[i]
		}
		j.Release()
		m, err := local(v)
		if err != nil {
			return err
		}
		if n := m.Series.Rows * m.Series.Cols; len(m.DegreesOfFreedom) != n {
			return fmt.Errorf("%d degrees of freedom for %d pixels", len(m.DegreesOfFreedom), n)
		}
		if n := m.PatchRows * m.PatchCols; len(m.PatchDivergence) != n {
			return fmt.Errorf("%d divergences of %d patches", len(m.PatchDivergence), n)
		}
		sums := [][]float64{m.DegreesOfFreedom, m.PatchDivergence}
		if m.PatchDivergence == nil {
			sums = sums[:1]
		}
		for i, of := range sums {
			if sum := floats.Sum(of); !(math.Abs(sum-trace) <= modelTolerance*(1+trace)) {
				return fmt.Errorf("the %s add up to %g, the trace of the derivative is %g",
					[]string{"degrees of freedom", "divergences of patches"}[i], sum, trace)
			}
		}
	}
	return nil
}

// squares checks the curvature's sum of squares, as diagonal does its diagonal.
func (k *modelCheck) squares() error {
	w := k.m.Squares()
	_, n := k.m.Space.Dims()
	if w == nil || n == 0 {
		return nil
	}
	if len(w.Indptr) != len(w.Weights)+1 {
		return fmt.Errorf("squares of %d rows with %d weights", len(w.Indptr)-1, len(w.Weights))
	}
	z := k.coordinates(k.unit())
	dst, image := k.precondition(z)
	defer z.Free()
	defer dst.Free()
	defer image.Free()
	x, want := dst.ToHost(), make([]float64, n)
	for i, weight := range w.Weights {
		sum := 0.0
		for at := w.Indptr[i]; at < w.Indptr[i+1]; at++ {
			sum += w.Values[at] * x[w.Indices[at]]
		}
		for at := w.Indptr[i]; at < w.Indptr[i+1]; at++ {
			want[w.Indices[at]] += k.t * weight * sum * w.Values[at]
		}
	}
	return near("the image and t Q dst by the squares of Q", image.ToHost(), want, modelTolerance)
}
