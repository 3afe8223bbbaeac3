package linops

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sync"

	"surepipe/array"
)

// Selection picks d of p coordinates, in the order of its index list i0, i1, ...
//
//	Forward: dst_j = b[i_j]        Adjoint: dst = 0, then dst[i_j] = z_j
//
// The coordinates are distinct, and so A A* = I. The observation operator of
// matrix completion is a Selection of the row-major matrix's entries.
type Selection struct {
	dev array.Device
	p   int
	idx []int
	on  array.Index

	mu      sync.Mutex
	pattern array.Pattern // of idx, sorted, in matrices of the shape, made when first needed
	order   array.Index   // of the sorted places among idx; nil where that is sorted
	shape   array.Shape
}

// NewSelection puts the index list on a device. It returns an error when an
// index lies outside [0, p) or occurs twice. The slice is copied.
func NewSelection(dev array.Device, p int, idx []int) (*Selection, error) {
	if p < 0 || p > math.MaxInt32 {
		return nil, fmt.Errorf("linops: selection from %d coordinates, want 0 to %d", p, math.MaxInt32)
	}
	seen := make([]bool, p)
	for i, v := range idx {
		if v < 0 || v >= p {
			return nil, fmt.Errorf("linops: selection index %d is %d, want 0 to %d", i, v, p-1)
		}
		if seen[v] {
			for j := range i {
				if idx[j] == v {
					return nil, fmt.Errorf("linops: selection index %d is %d, as is index %d; each coordinate may occur once", i, v, j)
				}
			}
		}
		seen[v] = true
	}
	return &Selection{dev: dev, p: p, idx: append([]int(nil), idx...), on: dev.NewIndex(idx)}, nil
}

// Sampler is an Operator on matrices that picks entries of theirs.
type Sampler interface {
	Operator
	// Pattern returns the places of the entries in matrices of a shape, in increasing
	// order, in which products with them read memory one entry after the other, and the row of
	// A that each is; nil for the latter where it is the order of A's rows. Both are nil when
	// the operator turns out not to act on such matrices. They are the operator's, which frees
	// them.
	Pattern(shape array.Shape) (places array.Pattern, order array.Index)
}

// Pattern returns the selected places in matrices of the given shape; nil unless it
// has p entries and is the one of every call.
func (a *Selection) Pattern(shape array.Shape) (places array.Pattern, order array.Index) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.pattern == nil && shape.Len() == a.p {
		sorted := a.idx
		if !slices.IsSorted(sorted) {
			rows := make([]int, len(a.idx))
			for i := range rows {
				rows[i] = i
			}
			slices.SortFunc(rows, func(i, j int) int { return cmp.Compare(a.idx[i], a.idx[j]) })
			sorted = make([]int, len(rows))
			for e, i := range rows {
				sorted[e] = a.idx[i]
			}
			a.order = a.dev.NewIndex(rows)
		}
		a.pattern, a.shape = a.dev.NewPattern(shape.Rows, shape.Cols, sorted), shape
	}
	if a.shape != shape {
		return nil, nil
	}
	return a.pattern, a.order
}

// Release frees the device memory. The operator is dead afterwards.
func (a *Selection) Release() {
	if a.on != nil {
		a.on.Free()
		a.on = nil
	}
	if a.pattern != nil {
		a.pattern.Free()
		a.pattern = nil
	}
	if a.order != nil {
		a.order.Free()
		a.order = nil
	}
}

// Dims is the number of selected coordinates and p.
func (a *Selection) Dims() (d, p int) { return len(a.idx), a.p }

// Forward sets dst_j = b[i_j].
func (a *Selection) Forward(dst, b array.Batch) {
	checkForward("Selection", len(a.idx), a.p, dst, b)
	dst.Device().Gather(dst, b, a.on)
}

// Adjoint puts z_j at coordinate i_j and 0 elsewhere.
func (a *Selection) Adjoint(dst, z array.Batch) {
	checkAdjoint("Selection", len(a.idx), a.p, dst, z)
	dst.Device().Scatter(dst, z, a.on)
}

// RowGram returns 1 (0 when nothing is selected).
func (a *Selection) RowGram() (c float64, ok bool) { return float64(min(len(a.idx), 1)), true }

// SolveNormal divides the selected coordinates by 1 + eta.
func (a *Selection) SolveNormal(dst, rhs array.Batch, eta float64) bool {
	checkNormal("Selection", len(a.idx), a.p, dst, rhs, eta)
	c, _ := a.RowGram()
	rowGramSolve(dst, rhs, a, c, eta)
	return true
}

// ColumnNorms2 is 1 at the selected coordinates and 0 elsewhere.
func (a *Selection) ColumnNorms2() []float64 {
	norms := make([]float64, a.p)
	for _, i := range a.idx {
		norms[i] = 1
	}
	return norms
}
