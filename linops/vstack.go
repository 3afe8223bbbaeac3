package linops

import (
	"fmt"

	"surepipe/array"
)

type vstack struct {
	structure
	ops  []Operator
	d, p int
}

// VStack returns the operators on top of each other, A = [A1; A2; ...], all with
// the same number of columns. It maps to vectors z = (z1, z2, ...).
//
//	Forward: dst = (A1 b, A2 b, ...)        Adjoint: dst = sum_i A_i* z_i
//
// Where A_i*A_i = c_i I for every block, A*A = (sum_i c_i) I.
func VStack(ops ...Operator) Operator {
	checkSome("VStack", ops)
	d, p := ops[0].Dims()
	for _, a := range ops[1:] {
		d2, p2 := a.Dims()
		if p2 != p {
			d1, _ := ops[0].Dims()
			panic(fmt.Sprintf("linops: VStack of operators of size %d x %d and %d x %d", d1, p, d2, p2))
		}
		d += d2
	}
	if len(ops) == 1 {
		return ops[0]
	}
	v := &vstack{ops: append([]Operator(nil), ops...), d: d, p: p}
	v.col, v.norm2 = sumOfGrams(ops, colGram)
	return v
}

func (v *vstack) Dims() (d, p int) { return v.d, v.p }

func (v *vstack) Forward(dst, b array.Batch) {
	checkForward("VStack", v.d, v.p, dst, b)
	at := 0
	for _, a := range v.ops {
		d, _ := a.Dims()
		a.Forward(dst.Cols(at, at+d), b)
		at += d
	}
}

func (v *vstack) Adjoint(dst, z array.Batch) {
	checkAdjoint("VStack", v.d, v.p, dst, z)
	at := 0
	for i, a := range v.ops {
		d, _ := a.Dims()
		if i == 0 {
			a.Adjoint(dst, z.Cols(0, d))
		} else {
			addAdjoint(dst, 1, a, z.Cols(at, at+d))
		}
		at += d
	}
}

func (v *vstack) addForward(dst array.Batch, alpha float64, b array.Batch) {
	checkForward("VStack", v.d, v.p, dst, b)
	at := 0
	for _, a := range v.ops {
		d, _ := a.Dims()
		addForward(dst.Cols(at, at+d), alpha, a, b)
		at += d
	}
}

func (v *vstack) addAdjoint(dst array.Batch, alpha float64, z array.Batch) {
	checkAdjoint("VStack", v.d, v.p, dst, z)
	at := 0
	for _, a := range v.ops {
		d, _ := a.Dims()
		addAdjoint(dst, alpha, a, z.Cols(at, at+d))
		at += d
	}
}

func (v *vstack) closedForm() bool { return v.col.ok }

func (v *vstack) SolveNormal(dst, rhs array.Batch, eta float64) bool {
	checkNormal("VStack", v.d, v.p, dst, rhs, eta)
	if v.col.ok {
		scaleSolve(dst, rhs, v.col.value, eta)
	}
	return v.col.ok
}

func (v *vstack) ColumnNorms2() []float64 {
	norms := make([]float64, v.p)
	for _, a := range v.ops {
		n := columnNorms2(a)
		if n == nil {
			return nil
		}
		for j, x := range n {
			norms[j] += x
		}
	}
	return norms
}
