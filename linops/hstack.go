package linops

import (
	"fmt"

	"surepipe/array"
)

type hstack struct {
	structure
	ops  []Operator
	d, p int
}

// HStack returns the operators side by side, A = [A1 A2 ...], all with the same
// number of rows. It acts on vectors b = (b1, b2, ...).
//
//	Forward: dst = sum_i A_i b_i        Adjoint: dst = (A1* z, A2* z, ...)
//
// Where A_i A_i* = c_i I for every block, A A* = (sum_i c_i) I.
func HStack(ops ...Operator) Operator {
	checkSome("HStack", ops)
	d, p := ops[0].Dims()
	for _, a := range ops[1:] {
		d2, p2 := a.Dims()
		if d2 != d {
			_, p1 := ops[0].Dims()
			panic(fmt.Sprintf("linops: HStack of operators of size %d x %d and %d x %d", d, p1, d2, p2))
		}
		p += p2
	}
	if len(ops) == 1 {
		return ops[0]
	}
	h := &hstack{ops: append([]Operator(nil), ops...), d: d, p: p}
	h.row, h.norm2 = sumOfGrams(ops, rowGram)
	return h
}

func (h *hstack) Dims() (d, p int) { return h.d, h.p }

func (h *hstack) Forward(dst, b array.Batch) {
	checkForward("HStack", h.d, h.p, dst, b)
	at := 0
	for i, a := range h.ops {
		_, p := a.Dims()
		if i == 0 {
			a.Forward(dst, b.Cols(0, p))
		} else {
			addForward(dst, 1, a, b.Cols(at, at+p))
		}
		at += p
	}
}

func (h *hstack) Adjoint(dst, z array.Batch) {
	checkAdjoint("HStack", h.d, h.p, dst, z)
	at := 0
	for _, a := range h.ops {
		_, p := a.Dims()
		a.Adjoint(dst.Cols(at, at+p), z)
		at += p
	}
}

func (h *hstack) addForward(dst array.Batch, alpha float64, b array.Batch) {
	checkForward("HStack", h.d, h.p, dst, b)
	at := 0
	for _, a := range h.ops {
		_, p := a.Dims()
		addForward(dst, alpha, a, b.Cols(at, at+p))
		at += p
	}
}

func (h *hstack) addAdjoint(dst array.Batch, alpha float64, z array.Batch) {
	checkAdjoint("HStack", h.d, h.p, dst, z)
	at := 0
	for _, a := range h.ops {
		_, p := a.Dims()
		addAdjoint(dst.Cols(at, at+p), alpha, a, z)
		at += p
	}
}

func (h *hstack) closedForm() bool { return h.row.ok }

func (h *hstack) SolveNormal(dst, rhs array.Batch, eta float64) bool {
	checkNormal("HStack", h.d, h.p, dst, rhs, eta)
	if h.row.ok {
		rowGramSolve(dst, rhs, h, h.row.value, eta)
	}
	return h.row.ok
}

func (h *hstack) ColumnNorms2() []float64 { return concatColumnNorms2(h.ops, h.p) }

// concatColumnNorms2 lists the squared column norms of blocks with columns of
// their own.
func concatColumnNorms2(ops []Operator, p int) []float64 {
	norms := make([]float64, 0, p)
	for _, a := range ops {
		_, p := a.Dims()
		n := columnNorms2(a)
		if n == nil && p > 0 {
			return nil
		}
		norms = append(norms, n...)
	}
	return norms
}
