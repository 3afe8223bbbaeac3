package problems

import (
	"context"

	"gonum.org/v1/gonum/floats"

	"surepipe/array"
	"surepipe/hutch"
	"surepipe/internal/lists"
	"surepipe/internal/noise"
	"surepipe/linops/krylov"
)

const (
	// rayProbes is the number of probes beside y, and raySteps and rayTolerance bound conjugate gradients.
	rayProbes, raySteps, rayTolerance = 2, 300, 1e-4
	// Noise is read off the residuals of a ridge regression where their variance, for the degrees of freedom that are
	// left, is at most rayEnough times sigma2, or that at the next larger weight at most raySettled times it: what is
	// left of the signal would fall with the weight.
	rayEnough, raySettled = 1.15, 1.1
)

// rayWeights are those of the ridge regressions, over the mean eigenvalue of A A*.
var rayWeights = [...]float64{0.03, 0.01, 0.003}

// Rays are the residuals of a ridge regression of a sinogram y,
//
//	(I - H) y = weight (A A* + weight)^-1 y,   H = A A* (A A* + weight)^-1,
//
// at a weight at which they hold noise alone; ok is false where there is none, as where the data hardly have noise, or
// y is no sinogram of white noise. Blocks of y do not show it: its tracks are as jagged as noise.
func (p *Problem) Rays(ctx context.Context, data Data, sigma2 float64) (left noise.Left, ok bool) {
	s := data.Spec
	if s == nil || !s.Curved() || s.Noise() != "" || p.loss != nil || len(data.YShape) != 2 || len(data.Y) != p.D {
		return left, false
	}
	left = noise.Left{Rows: data.YShape[0], Columns: data.YShape[1]}
	y, z := p.dev.Alloc(1+rayProbes, p.D), p.dev.Alloc(1+rayProbes, p.D)
	back := p.dev.Alloc(1+rayProbes, p.P)
	defer array.Free(y, z, back)
	p.dev.Upload(y.Rows(0, 1), data.Y)
	hutch.Rademacher(y.Rows(1, 1+rayProbes), 0, 0, 0)
	p.Operator.Adjoint(back, y)
	squares := make([]float64, 1+rayProbes)
	p.dev.Dot(squares, back, back)
	mean := floats.Sum(squares[1:]) / float64(rayProbes*p.D)
	last := 0.0
	for _, share := range rayWeights {
		weight := share * mean
		done, err := krylov.CG(ctx, z, y, func(dst, x array.Batch) {
			p.Operator.Adjoint(back, x)
			p.Operator.Forward(dst, back)
			p.dev.Lin(dst, 1, dst, weight, x)
		}, krylov.CGOptions{Tol: rayTolerance, MaxIterations: raySteps})
		if err != nil || !done.Converged {
			return left, false
		}
		left.Y = z.Rows(0, 1).ToHost()
		left.Probes = lists.Make(rayProbes, func(k int) []float64 { return z.Rows(1+k, 2+k).ToHost() })
		left.Fit = floats.AddScaledTo(make([]float64, p.D), data.Y, -weight, left.Y)
		now := left.Range().Least
		if now <= rayEnough*sigma2 || last > 0 && last <= raySettled*now {
			return left, true
		}
		last = now
	}
	return left, false
}
