package problems_test

import (
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/problems"
)

// Arrays whose squares vanish or overflow are refused by name, and 0 is not.
func TestArraysOutOfScaleAreRefused(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		arraytest.NoLeak(t, dev)
		x := []float64{1, 2, 3, 4, 5, 7}
		y := []float64{1, 0, 3}
		for _, c := range []struct {
			x, y float64
			want string
		}{
			{1, 1, ""}, {1, 0, ""}, {0, 1, ""}, {1e-100, 1e100, ""},
			{1, 1e-170, `array "y" has no entry above 3e-170 in size`},
			{1, 1e150, `array "y" has an entry of size 3e+150`},
			{1e-170, 1, `array "X" has no entry above 7e-170 in size`},
			{1e150, 1, `array "X" has an entry of size 7e+150`},
		} {
			times := func(a float64, v []float64) []float64 {
				var w []float64
				for _, v := range v {
					w = append(w, a*v)
				}
				return w
			}
			data := problems.Data{X: mat.NewDense(3, 2, times(c.x, x)), Y: times(c.y, y)}
			sparse := data
			sparse.X = problems.Matrix{Sparse: sparsely(data.X.(*mat.Dense))}
			for kind, data := range map[string]problems.Data{"dense": data, "sparse": sparse} {
				p, err := problems.New("lasso", dev, data, problems.Hyper{Lambda: problems.Absolute(1)})
				if err == nil {
					p.Release()
				}
				if (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
					t.Errorf("%g X, %s, and %g y: error %v, expected %q", c.x, kind, c.y, err, c.want)
				}
			}
		}
	})
}
