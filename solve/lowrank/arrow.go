package lowrank

import (
	"context"
	"errors"
	"math"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/internal/numerics"
	"surepipe/internal/numerics/arrow"
	"surepipe/linops"
	"surepipe/loss"
	"surepipe/prox"
	"surepipe/prox/subspace"
	"surepipe/solve/engine"
	"surepipe/solve/internal/limits"
	"surepipe/space"
)

// fewEntries is the number of entries of a matrix up to which the derivative of a dense solve is taken from the
// eigenvectors of the prox's, which shows the derivatives nearby too.
const fewEntries = 256

// TangentAt is the tangent space at the solution of a completion that was computed on whole matrices, with the second
// derivative in the factors; nil where that is not factored.
func TangentAt(ctx context.Context, at *engine.Point) (*engine.Tangent, error) {
	p, r := at.Problem, prox.StructureOf(at.Problem.R)
	if p.K != nil || !loss.Quadratic(p.Loss) || !r.Nuclear.Known || at.Flat || r.Shape.Len() <= fewEntries {
		return nil, nil
	}
	picks := linops.StructureOf(p.A).Picked
	if picks == nil || !(r.Nuclear.Value > 0) || math.IsInf(r.Nuclear.Value, 1) {
		return nil, nil
	}
	picked, dev := picks(r.Shape), at.Y.Device()
	if picked == nil {
		return nil, nil
	}
	z, v := dev.Alloc(1, at.Y.N()), dev.Alloc(1, r.Shape.Len())
	defer array.Free(z, v)
	p.A.Forward(z, at.B)
	dev.Lin(z, 1, z, -1, at.Y)
	p.A.Adjoint(v, z)
	eta := 1.0
	if at.Norm2 > 0 {
		eta = 1 / at.Norm2
	}
	dev.Lin(v, -eta, v, 1, at.B)
	u, sigma, w, err := numerics.SVD(mat.NewDense(r.Shape.Rows, r.Shape.Cols, v.ToHost()))
	if err != nil {
		return nil, err
	}
	tau, k := eta*r.Nuclear.Value, 0
	for k < len(sigma) && sigma[k] > tau {
		k++
	}
	if k == 0 {
		return nil, nil
	}
	gap := sigma[k-1] - tau
	if k < len(sigma) {
		gap = min(gap, tau-sigma[k])
	}
	f := lists.Make(k, func(i int) float64 { return sigma[i] - tau })
	leading := func(x *mat.Dense) []float64 {
		rows, _ := x.Dims()
		return mat.DenseCopyOf(x.Slice(0, rows, 0, k)).RawMatrix().Data
	}
	lambda := r.Nuclear.Value
	return arrowTangent(ctx, dev, picked, r.Shape, lambda, leading(u), f, leading(w), z.ToHost(), gap/eta,
		at.Options.Diagonal)
}

// arrowTangent is the tangent space at U diag(f) V*, with the misfit A b - y there; nil where the second derivative in
// the factors is too large to be factored, or singular, or conjugate gradients cost less and the diagonal is not
// wanted, or is all small: probes tell it well there.
func arrowTangent(ctx context.Context, dev array.Device, picked *linops.Picked, shape array.Shape, lambda float64,
	u, f, v, misfit []float64, gap float64, wanted bool) (*engine.Tangent, error) {
	c := arrow.Completion{Rows: shape.Rows, Cols: shape.Cols, K: len(f), RowEffects: picked.RowEffects,
		ColEffects: picked.ColEffects}
	if c.Order() > limits.Arrow {
		return nil, nil
	}
	c = completion(picked, shape, lambda, u, f, v)
	c.Misfit = misfit
	for e := range picked.Weights {
		misfit[e] /= math.Sqrt(picked.Weights[e])
	}
	worth := max(cheapArrow, probesFlops(len(misfit), shape, len(f)))
	if wanted && !MostSeen(len(misfit), shape) {
		worth = max(worth, exactArrow)
	}
	if wanted && float64(tangentDim(shape, len(f))) > smallLeverage*float64(len(misfit)) {
		worth = math.Inf(1)
	}
	if c.Flops() > worth {
		return nil, nil
	}
	made, err := arrow.New(ctx, c)
	if errors.Is(err, arrow.ErrSingular) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	bases := [2]array.Batch{dev.Put(u, 1, len(u)), dev.Put(v, 1, len(v))}
	return &engine.Tangent{Arrow: made, Bases: bases, Model: &prox.Model{
		Space:  space.Tangent(shape, len(f), bases[0], bases[1]),
		Margin: func(array.Batch) float64 { return gap },
	}}, dev.Err()
}

const (
	// smallLeverage is a bound of the mean leverage up to which probes tell the leverages well.
	smallLeverage = 0.2
	// cheapArrow is the number of operations, a fifth of a second's work, up to which no probe takes its place, and
	// exactArrow that up to which it tells a diagonal that is wanted where probes have no good control variate.
	cheapArrow, exactArrow = 4e9, 4e10
)

func tangentDim(shape array.Shape, k int) int { return k * (shape.Rows + shape.Cols - k) }

func completion(picked *linops.Picked, shape array.Shape, lambda float64, u, f, v []float64) arrow.Completion {
	c := arrow.Completion{Rows: shape.Rows, Cols: shape.Cols, K: len(f), Lambda: lambda, Weights: picked.Weights,
		RowEffects: picked.RowEffects, ColEffects: picked.ColEffects}
	for _, place := range picked.Places {
		c.Row, c.Col = append(c.Row, int32(place/shape.Cols)), append(c.Col, int32(place%shape.Cols))
	}
	scaled := func(x []float64) []float64 {
		return lists.Make(len(x), func(i int) float64 { return x[i] * math.Sqrt(f[i%len(f)]) })
	}
	c.L, c.R = scaled(u), scaled(v)
	return c
}

func (w *sampled) arrowTangent(ctx context.Context, all subspace.Triplets, r int, gap float64) (*engine.Tangent,
	error) {
	picked := w.a.Picked(w.shape)
	f := lists.Make(r, func(i int) float64 { return all.Sigma[i] - w.tau })
	z := w.dev.Alloc(1, w.z.N())
	defer z.Free()
	w.inOrder(z, w.z)
	return arrowTangent(ctx, w.dev, picked, w.shape, w.lambda, all.U.Cols(0, r).ToHost(), f,
		all.V.Cols(0, r).ToHost(), z.ToHost(), gap, w.o.Diagonal)
}

// probesFlops is about what the probes of a trace cost by conjugate gradients, in operations of products of matrices:
// those of patterns are slower.
func probesFlops(d int, shape array.Shape, k int) float64 {
	const probes, steps, slower = 24, 10, 5
	return probes * steps * slower * float64(8*d*k+4*(shape.Rows+shape.Cols)*k*k)
}
