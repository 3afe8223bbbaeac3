package engine

import (
	"context"
	"fmt"
	"math"

	"surepipe/array"
	"surepipe/linops/krylov"
)

// NormBound is an upper bound of ||A||^2 with a relative tolerance, 0 for that of step sizes, and an error where its
// inverse is out of range.
func NormBound(ctx context.Context, p Problem, tol float64) (float64, error) {
	n, err := krylov.Norm2(ctx, p.Device, p.A, krylov.NormOptions{Tol: tol})
	if err != nil {
		return 0, err
	}
	bound := n.Upper()
	if math.IsInf(StepFor(p, bound), 0) || math.IsInf(bound, 0) {
		return 0, fmt.Errorf("solve: ||A||^2 is %g, out of range: rescale the operator", bound)
	}
	return bound, nil
}

// NormOfK is an upper bound of ||K||^2.
func NormOfK(ctx context.Context, p Problem) (float64, error) {
	n, err := krylov.Norm2(ctx, p.Device, p.K, krylov.NormOptions{})
	if err != nil {
		return 0, err
	}
	switch bound := n.Upper(); {
	case bound == 0: // K is 0
		return 1, nil
	case !math.IsInf(bound, 0) && !math.IsInf(1/bound, 0):
		return bound, nil
	}
	return 0, fmt.Errorf("solve: ||K||^2 is %g for the operator K behind which r stands, expected a positive "+
		"finite number", n.Upper())
}

// Norms are upper bounds of ||A||^2 and ||K||^2.
func Norms(ctx context.Context, p Problem) (a, k float64, err error) {
	if a, err = NormBound(ctx, p, 0); err != nil {
		return 0, 0, err
	}
	k, err = NormOfK(ctx, p)
	return a, k, err
}

// Norm is the Euclidean norm of a batch of one vector, accurate also where squares underflow.
func Norm(x array.Batch) float64 {
	dev, square := x.Device(), Inner(x, x)
	if !(square < leastSquare) {
		return math.Sqrt(square)
	}
	largest := x.MaxAbs()
	if !(largest > 0) {
		return largest
	}
	t := dev.Alloc(1, x.N())
	defer t.Free()
	// Two steps: 1/largest may overflow.
	up := math.Exp2(float64(-math.Ilogb(largest) / 2))
	dev.Lin(t, up, x, 0, array.Batch{})
	dev.Lin(t, up, t, 0, array.Batch{})
	return math.Sqrt(Inner(t, t)) / up / up
}

// Inner is <a, b> of batches of one vector.
func Inner(a, b array.Batch) float64 { return a.Dot(b) }

// leastSquare is the smallest sum of squares whose relative accuracy is that of its terms.
const leastSquare = 0x1p-900
