package linops

import "surepipe/array"

type blockDiag struct {
	structure
	ops    []Operator
	d, p   int
	closed bool
}

// BlockDiag returns the operators along a diagonal, each acting on coordinates
// of its own and zero elsewhere.
//
//	Forward: dst = (A1 b1, A2 b2, ...)        Adjoint: dst = (A1* z1, A2* z2, ...)
//
// Its norm is that of the largest block, and its normal equations are theirs.
func BlockDiag(ops ...Operator) Operator {
	checkSome("BlockDiag", ops)
	if len(ops) == 1 {
		return ops[0]
	}
	a := &blockDiag{ops: append([]Operator(nil), ops...), closed: true}
	a.norm2 = known{0, true}
	for _, op := range ops {
		d, p := op.Dims()
		a.d, a.p = a.d+d, a.p+p
		n := norm2(op)
		a.norm2 = known{max(a.norm2.value, n.value), a.norm2.ok && n.ok}
		a.closed = a.closed && closedForm(op)
	}
	a.row = equalGrams(ops, rowGram, func(op Operator) int { d, _ := op.Dims(); return d })
	a.col = equalGrams(ops, colGram, func(op Operator) int { _, p := op.Dims(); return p })
	return a
}

func (a *blockDiag) Dims() (d, p int) { return a.d, a.p }

// each calls f for every block with its coordinates in a batch of k x d and in
// one of k x p.
func (a *blockDiag) each(rows, cols array.Batch, f func(op Operator, rows, cols array.Batch)) {
	i, j := 0, 0
	for _, op := range a.ops {
		d, p := op.Dims()
		f(op, rows.Cols(i, i+d), cols.Cols(j, j+p))
		i, j = i+d, j+p
	}
}

func (a *blockDiag) Forward(dst, b array.Batch) {
	checkForward("BlockDiag", a.d, a.p, dst, b)
	a.each(dst, b, func(op Operator, dst, b array.Batch) { op.Forward(dst, b) })
}

func (a *blockDiag) Adjoint(dst, z array.Batch) {
	checkAdjoint("BlockDiag", a.d, a.p, dst, z)
	a.each(z, dst, func(op Operator, z, dst array.Batch) { op.Adjoint(dst, z) })
}

func (a *blockDiag) addForward(dst array.Batch, alpha float64, b array.Batch) {
	checkForward("BlockDiag", a.d, a.p, dst, b)
	a.each(dst, b, func(op Operator, dst, b array.Batch) { addForward(dst, alpha, op, b) })
}

func (a *blockDiag) addAdjoint(dst array.Batch, alpha float64, z array.Batch) {
	checkAdjoint("BlockDiag", a.d, a.p, dst, z)
	a.each(z, dst, func(op Operator, z, dst array.Batch) { addAdjoint(dst, alpha, op, z) })
}

func (a *blockDiag) closedForm() bool { return a.closed }

func (a *blockDiag) SolveNormal(dst, rhs array.Batch, eta float64) bool {
	checkNormal("BlockDiag", a.d, a.p, dst, rhs, eta)
	if !a.closed {
		return false
	}
	// A block from elsewhere may yet say no, when dst must still be as it was.
	t := dst.Device().Alloc(rhs.K(), a.p)
	defer t.Free()
	at := 0
	for _, op := range a.ops {
		_, p := op.Dims()
		if !solveNormal(t.Cols(at, at+p), rhs.Cols(at, at+p), op, eta) {
			return false
		}
		at += p
	}
	dst.Device().Copy(dst, t)
	return true
}

func (a *blockDiag) ColumnNorms2() []float64 { return concatColumnNorms2(a.ops, a.p) }
