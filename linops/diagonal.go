package linops

import (
	"math"

	"gonum.org/v1/gonum/floats"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/linops/internal/product"
)

// Diagonal multiplies each coordinate by a weight of its own, A = diag(w) on R^n.
//
//	Forward: dst = w ∘ b        Adjoint: dst = w ∘ z
//
// The norm max |w_j| is known, and so is the inverse (eta A*A + I)^{-1} = diag(1/(1 + eta w^2)).
type Diagonal struct {
	base
	weights []float64
	w       array.Batch
	inverse product.Cache
}

// NewDiagonal puts the weights on a device. The slice is copied.
func NewDiagonal(dev array.Device, diag []float64) *Diagonal {
	a := &Diagonal{weights: append([]float64(nil), diag...), w: dev.Alloc(1, len(diag))}
	dev.Upload(a.w, diag)
	a.base = base{name: "Diagonal", d: len(diag), p: len(diag),
		run: func(_ product.Direction, dst, x array.Batch) { dst.Device().Mul(dst, x, a.w) }}
	lo, hi := math.Inf(1), 0.0
	for _, w := range diag {
		lo, hi = min(lo, w*w), max(hi, w*w)
	}
	s := Structure{Norm2: Known(hi), ColumnNorms2: a.columnNorms2, SolveNormal: a.solveNormal}
	if lo >= hi {
		s.Rows, s.Columns = s.Norm2, s.Norm2
	}
	s.ScaleColumns, s.Listed = a.scaleColumns, listed(len(diag), nil, a.weights)
	a.Hold(a.w, &a.inverse)
	a.structure = Complete(a, s)
	return a
}

func (a *Diagonal) scaleColumns(dev array.Device, s []float64) Restricted {
	return NewDiagonal(dev, floats.MulTo(make([]float64, len(s)), a.weights, s))
}

func (a *Diagonal) solveNormal(dst, rhs array.Batch, eta float64) bool {
	product.CheckSolve(a.name, a.d, a.p, dst, rhs, eta)
	e := a.inverse.Acquire(a.w.Device(), eta, func(on array.Device) array.Batch {
		return product.UploadShrinkage(on, a.columnNorms2(), eta)
	})
	dst.Device().Mul(dst, rhs, e.Value)
	a.inverse.Release(e)
	return true
}

func (a *Diagonal) columnNorms2() []float64 {
	return lists.Map(a.weights, func(w float64) float64 { return w * w })
}
