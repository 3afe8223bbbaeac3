package pipeline

import (
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/linops"
	"surepipe/linops/krylov"
	"surepipe/prox"
)

const (
	// What is left out has settled where settleSteps steps change it by less than settled times the root mean square of
	// the others' residuals: the error of predicting it is about as large, and its bar seldom less than a hundredth of
	// it. After mostSettling steps the fit has not converged.
	settled, settleSteps, mostSettling = 1e-3, 50, 20000
)

// fillIn is the fit to the observations that are kept where A = I,
//
//	b = argmin 1/2 sum_(i kept) (b_i - y_i)^2 + r(K b),
//
// by primal-dual steps (Chambolle and Pock 2011) with tau = 1 and sigma = 1/||K||^2,
//
//	b' = (b - tau (K* u - M y)) / (1 + tau M),   v = u/sigma + K (2 b' - b),   u' = sigma (v - prox_{r/sigma}(v)),
//
// for M = 1 at what is kept and 0 elsewhere, from b and the multiplier u of the fit before.
func (r *refit) fillIn(ctx context.Context, weights []float64, from start) (mu []float64, last held, err error) {
	p := r.of.f.Problem
	dev, n, k := p.Device.Request(), len(r.of.y), p.K
	if k == nil {
		k = linops.Identity(n)
	}
	if err := r.estimateNorm(ctx, k); err != nil {
		return nil, held{}, err
	}
	reg, err := r.on.f.Regularizer(weights)
	if err != nil {
		return nil, held{}, err
	}
	defer prox.Release(reg)
	q, _ := k.Dims()
	put := func(x []float64) array.Batch { return dev.Put(slices.Clone(x), 1, len(x)) }
	start := from.list()
	if start == nil {
		start = slices.Clone(r.of.y)
		mean := stat.Mean(r.kept.Observations(r.of.y), nil)
		for _, i := range r.split.Out {
			start[i] = mean
		}
	}
	if r.multiplier == nil {
		r.multiplier = make([]float64, q)
	}
	data, inverse := make([]float64, n), slices.Repeat([]float64{1}, n)
	for _, i := range r.split.Keep {
		data[i], inverse[i] = r.of.y[i], 0.5
	}
	sigma := 1 / r.norm
	b, next, t, u, v := put(start), dev.Alloc(1, n), dev.Alloc(1, n), put(r.multiplier), dev.Alloc(1, q)
	y, half := put(data), put(inverse)
	defer func() {
		array.Free(b, next, t, u, v, y, half)
	}()
	before := lists.Pick(start, r.split.Out)
	for step := 1; ; step++ {
		k.Adjoint(t, u)
		dev.Lin(t, 1, b, -1, t)
		dev.Lin(t, 1, t, 1, y)
		dev.Mul(next, half, t)
		dev.Lin(t, 2, next, -1, b)
		b, next = next, b
		k.Forward(v, t)
		dev.Lin(v, 1, v, 1/sigma, u)
		if err := reg.Eval(u, v, 1/sigma); err != nil {
			return nil, held{}, err
		}
		dev.Lin(u, sigma, v, -sigma, u)
		if step%settleSteps > 0 {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, held{}, err
		}
		now, change, residual := b.ToHost(), 0.0, 0.0
		for j, i := range r.split.Out {
			change += (now[i] - before[j]) * (now[i] - before[j])
			before[j] = now[i]
		}
		for _, i := range r.split.Keep {
			residual += (now[i] - r.of.y[i]) * (now[i] - r.of.y[i])
		}
		share := float64(len(r.split.Out)) / float64(len(r.split.Keep))
		if done := change <= settled*settled*share*residual; done || step >= mostSettling {
			if !done {
				r.failed++
			}
			r.multiplier = u.ToHost()
			return before, written(now, true), dev.Sync()
		}
	}
}

func (r *refit) estimateNorm(ctx context.Context, k linops.Operator) error {
	if r.norm > 0 {
		return nil
	}
	norm, err := krylov.Norm2(ctx, r.of.f.Problem.Device.Request(), k, krylov.NormOptions{})
	r.norm = max(norm.Upper(), math.SmallestNonzeroFloat64)
	return err
}
