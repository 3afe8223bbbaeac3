package denoise

import (
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"

	"surepipe/array"
	"surepipe/prox"
	"surepipe/space"
)

// This file has what an operator P on the host needs that is the gradient of a convex function and
// nonexpansive, and therefore the proximal operator of a convex function r at the step 1 (Moreau
// 1965): r at other steps,
//
//	prox_{t r}(v) = P(u)   where   t u + (1 - t) P(u) = v,
//
// with the derivative J (t I + (1 - t) J)^{-1}, J at u. apply sets x to P(x), or to J x.

// argumentOf sets x = v to the u with t u + (1 - t) P(u) = v, the minimum of a function with curvature
// between t and 1, by about 8 (t + 1/t) gradient steps.
func argumentOf(name string, x []float64, t float64, apply func(x []float64)) error {
	if t == 1 {
		return nil
	}
	const enough = 1e-15
	v, image := append([]float64(nil), x...), make([]float64, len(x))
	most := int(20*(t+1/t)) + 20
	scale, last := math.Max(1, t)*floats.Norm(v, 2), math.Inf(1)
	for range most {
		copy(image, x)
		apply(image)
		residual := 0.0
		for i, b := range image {
			image[i] = v[i] - t*x[i] - (1-t)*b
			residual += image[i] * image[i]
		}
		residual = math.Sqrt(residual)
		if residual <= enough*scale || residual <= 1e-12*scale && residual >= last {
			return nil
		}
		last = residual
		floats.AddScaled(x, 2/(1+t), image)
	}
	return fmt.Errorf("prox: %s at step %v did not converge: expected a step nearer to 1", name, t)
}

// solveStep sets x to (t I + (1 - t) J)^{-1} x, by conjugate gradients.
func solveStep(x []float64, t float64, apply func(x []float64)) {
	const enough = 1e-15
	r := append([]float64(nil), x...)
	q, image := append([]float64(nil), x...), make([]float64, len(x))
	clear(x)
	size := floats.Dot(r, r)
	for first := size; size > enough*enough*first; {
		copy(image, q)
		apply(image)
		floats.Scale(1-t, image)
		floats.AddScaled(image, t, q)
		step := size / floats.Dot(q, image)
		floats.AddScaled(x, step, q)
		floats.AddScaled(r, -step, image)
		next := floats.Dot(r, r)
		if !(next < size) {
			return // rounding errors, or not finite
		}
		floats.Scale(next/size, q)
		floats.Add(q, r)
		size = next
	}
}

// squaredNorm is ||J||_F^2: exact up to n = 256, and beyond that an estimate from random signs, a
// function of J alone, with a relative error of about 1% or less.
func squaredNorm(n int, apply func(x []float64)) float64 {
	const exact, values = 256, 1 << 17
	x, sum := make([]float64, n), 0.0
	if n <= exact {
		for i := range n {
			clear(x)
			x[i] = 1
			apply(x)
			sum += floats.Dot(x, x)
		}
		return sum
	}
	probes := (values + n - 1) / n
	rng := rand.New(rand.NewPCG(1, 1))
	for range probes {
		for i := range x {
			x[i] = float64(rng.Uint64()>>62&2) - 1
		}
		apply(x)
		sum += floats.Dot(x, x)
	}
	return sum / float64(probes)
}

// stepped is the derivative J (t I + (1 - t) J)^{-1} on vectors of length n, by apply, which sets x to J x, and the
// sums of its eigenvalues and their squares, NaN where these are not known.
func stepped(name string, dev array.Device, n int, t float64, apply func(x []float64),
	sums func() (trace, frobenius2 float64)) prox.Derivative {
	j := func(dst, z array.Batch) {
		x := make([]float64, n)
		for i := range z.K() {
			dev.Download(x, z.Rows(i, i+1))
			if t != 1 {
				solveStep(x, t, apply)
			}
			apply(x)
			dev.Upload(dst.Rows(i, i+1), x)
		}
	}
	return prox.NewDerivative(name, n, j, func() *prox.Model {
		trace, frobenius2 := sums()
		return &prox.Model{Space: space.All(n), Curvature: prox.NewAppliedCurvature(j, trace, frobenius2)}
	})
}
