package linops

import (
	"fmt"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/linops/internal/product"
)

// stack holds operators side by side, on top of each other, or along a diagonal: [A1 A2 ...], each
// on columns of its own, [A1; A2; ...], each with rows of its own, or both.
type stack struct {
	base
	parts []known
	rows  []int // where each part's rows begin, and the end; nil where all share their rows
	cols  []int // likewise
}

// HStack returns the operators side by side, A = [A1 A2 ...], all with the same number of rows. It
// acts on vectors b = (b1, b2, ...).
//
//	Forward: dst = sum_i A_i b_i        Adjoint: dst = (A1* z, A2* z, ...)
//
// Where A_i A_i* = c_i I for every block, A A* = (sum_i c_i) I.
func HStack(ops ...Operator) Operator { return newStack("HStack", ops, false, true) }

// VStack returns the operators on top of each other, A = [A1; A2; ...], all with the same number of
// columns. Its images are z = (z1, z2, ...).
//
//	Forward: dst = (A1 b, A2 b, ...)        Adjoint: dst = sum_i A_i* z_i
//
// Where A_i*A_i = c_i I for every block, A*A = (sum_i c_i) I.
func VStack(ops ...Operator) Operator { return newStack("VStack", ops, true, false) }

// BlockDiag returns the operators along a diagonal, each acting on coordinates of its own and zero
// elsewhere.
//
//	Forward: dst = (A1 b1, A2 b2, ...)        Adjoint: dst = (A1* z1, A2* z2, ...)
//
// Its norm is that of the block with the largest norm, and its normal equations are those of the
// blocks.
func BlockDiag(ops ...Operator) Operator { return newStack("BlockDiag", ops, true, true) }

// Above lists the operators on top of each other of which one is made by [VStack], or the operator alone.
func Above(a Operator) []Operator {
	if s, ok := a.(*stack); ok && s.cols == nil {
		return operators(s.parts)
	}
	return []Operator{a}
}

// newStack gives every operator rows of its own, columns of its own, or both.
func newStack(name string, ops []Operator, ownRows, ownCols bool) Operator {
	checkSome(name, ops)
	if len(ops) == 1 {
		return ops[0]
	}
	a := &stack{parts: lists.Map(ops, know)}
	rows, cols := make([]int, 1, len(ops)+1), make([]int, 1, len(ops)+1)
	d0, p0 := ops[0].Dims()
	for i, op := range ops {
		d, p := op.Dims()
		if !ownRows && d != d0 || !ownCols && p != p0 {
			panic(fmt.Sprintf("linops: %s of operators of size %d x %d and %d x %d", name, d0, p0, d, p))
		}
		rows, cols = append(rows, rows[i]+d), append(cols, cols[i]+p)
	}
	a.base = base{name: name, d: d0, p: p0, run: a.each}
	if ownRows {
		a.rows, a.d = rows, rows[len(ops)]
	}
	if ownCols {
		a.cols, a.p = cols, cols[len(ops)]
	}
	a.structure = Complete(a, stackStructure(a))
	return a
}

func (a *stack) ends(w product.Direction) (to, from []int) {
	if w == product.Forward {
		return a.rows, a.cols
	}
	return a.cols, a.rows
}

// cut is the part of x that block i works on: all of it where the blocks share it.
func cut(x array.Batch, ends []int, i int) array.Batch {
	if ends == nil {
		return x
	}
	return x.Cols(ends[i], ends[i+1])
}

// each sets dst to the image of x. Where the blocks share dst the first sets it and the others add.
func (a *stack) each(w product.Direction, dst, x array.Batch) {
	to, from := a.ends(w)
	for i := range a.parts {
		part := &a.parts[i]
		if to == nil && i > 0 {
			part.add(w, dst, 1, cut(x, from, i))
		} else {
			part.apply(w, cut(dst, to, i), cut(x, from, i))
		}
	}
}

func (a *stack) add(w product.Direction, dst array.Batch, alpha float64, x array.Batch) {
	to, from := a.ends(w)
	for i := range a.parts {
		a.parts[i].add(w, cut(dst, to, i), alpha, cut(x, from, i))
	}
}
