package system_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/linops"
	"surepipe/space"
	. "surepipe/vjp/system"
)

// The system of X (x) I by matrices of the size of X's columns is that of the whole matrix, for groups of coefficients,
// some of them free or with the curvature of a ridge.
func TestKronecker(t *testing.T) {
	const d, p, k = 12, 6, 3
	dev, rng := array.NewHost(), rand.New(rand.NewPCG(3, 4))
	x := mat.NewDense(d, p, nil)
	x.Apply(func(_, _ int, _ float64) float64 { return rng.NormFloat64() }, x)
	q := make([]float64, p*k*p*k)
	for g := range p - 1 {
		c, u := 5*rng.Float64(), make([]float64, k)
		for i := range u {
			if u[i] = rng.NormFloat64(); g == 1 {
				u[i] = float64(i / 2) // along an axis
			} else if g == 2 {
				u[i] = 1
			}
		}
		if floats.Scale(1/floats.Norm(u, 2), u); g == 3 {
			clear(u)
		}
		for i := range k {
			for j := range k {
				if q[(g*k+i)*p*k+g*k+j] = -c * u[i] * u[j]; i == j {
					q[(g*k+i)*p*k+g*k+j] += c
				}
			}
		}
	}
	op := linops.Kronecker(dev, linops.NewDense(dev, x), k, p*k)
	whole := linops.NewDense(dev, linops.ToDense(dev, op))
	var made [2]System
	for i, m := range []linops.Restricted{op, whole} {
		s, fit, err := Factor(t.Context(), dev, Equations{M: m, Space: space.All(p * k), Q: q, Norm: 10})
		if err != nil || (fit.By == " by Cholesky's method on the columns") != (i == 0) {
			t.Fatal(fit, err)
		}
		made[i] = s
	}
	a, b := made[0].Closed(), made[1].Closed()
	if math.Abs(a.Trace-b.Trace) > 1e-12*b.Trace || math.Abs(a.Frobenius2-b.Frobenius2) > 1e-12*b.Frobenius2 {
		t.Errorf("traces %g and %g, by the whole matrix %g and %g", a.Trace, a.Frobenius2, b.Trace, b.Frobenius2)
	}
	left, err := a.Diagonal()
	right, err2 := b.Diagonal()
	if err != nil || err2 != nil || floats.Distance(left, right, math.Inf(1)) > 1e-12 {
		t.Errorf("the diagonals differ by %g", floats.Distance(left, right, math.Inf(1)))
	}
	z, images := dev.Alloc(4, d*k), [2]array.Batch{dev.Alloc(4, d*k), dev.Alloc(4, d*k)}
	host := make([]float64, 4*d*k)
	for i := range host {
		host[i] = rng.NormFloat64()
	}
	dev.Upload(z, host)
	for i, s := range made {
		if err := s.Apply(t.Context(), images[i], z, Goal{}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if off := floats.Distance(images[0].ToHost(), images[1].ToHost(), math.Inf(1)); off > 1e-12 {
		t.Errorf("the images differ by %g", off)
	}
}
