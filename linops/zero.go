package linops

import "surepipe/array"

type zero struct{ d, p int }

// Zero returns the operator from R^p to R^d that maps everything to 0.
//
//	Forward: dst = 0        Adjoint: dst = 0
func Zero(d, p int) Operator {
	checkSize("Zero", d, p)
	return zero{d, p}
}

func (a zero) Dims() (d, p int) { return a.d, a.p }

func (a zero) Forward(dst, b array.Batch) {
	checkForward("Zero", a.d, a.p, dst, b)
	dst.Device().Fill(dst, 0)
}

func (a zero) Adjoint(dst, z array.Batch) {
	checkAdjoint("Zero", a.d, a.p, dst, z)
	dst.Device().Fill(dst, 0)
}

func (a zero) addForward(dst array.Batch, alpha float64, b array.Batch) {
	checkForward("Zero", a.d, a.p, dst, b)
}

func (a zero) addAdjoint(dst array.Batch, alpha float64, z array.Batch) {
	checkAdjoint("Zero", a.d, a.p, dst, z)
}

func (a zero) RowGram() (c float64, ok bool) { return 0, true }

func (a zero) SolveNormal(dst, rhs array.Batch, eta float64) bool {
	checkNormal("Zero", a.d, a.p, dst, rhs, eta)
	copyTo(dst, rhs)
	return true
}

func (a zero) ColumnNorms2() []float64 { return make([]float64, a.p) }
