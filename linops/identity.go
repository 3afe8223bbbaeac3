package linops

import "surepipe/array"

type identity int

// Identity returns the identity I of R^n, with I I* = I.
//
//	Forward: dst = b        Adjoint: dst = z
func Identity(n int) Operator {
	checkSize("Identity", n, n)
	return identity(n)
}

func (a identity) Dims() (d, p int) { return int(a), int(a) }

func (a identity) Forward(dst, b array.Batch) {
	checkForward("Identity", int(a), int(a), dst, b)
	dst.Device().Copy(dst, b)
}

func (a identity) Adjoint(dst, z array.Batch) {
	checkAdjoint("Identity", int(a), int(a), dst, z)
	dst.Device().Copy(dst, z)
}

func (a identity) addForward(dst array.Batch, alpha float64, b array.Batch) {
	checkForward("Identity", int(a), int(a), dst, b)
	dst.Device().Lin(dst, 1, dst, alpha, b)
}

func (a identity) addAdjoint(dst array.Batch, alpha float64, z array.Batch) {
	a.addForward(dst, alpha, z)
}

func (a identity) RowGram() (c float64, ok bool) { return float64(min(int(a), 1)), true }

func (a identity) SolveNormal(dst, rhs array.Batch, eta float64) bool {
	checkNormal("Identity", int(a), int(a), dst, rhs, eta)
	scaleSolve(dst, rhs, 1, eta)
	return true
}

func (a identity) ColumnNorms2() []float64 {
	norms := make([]float64, a)
	for i := range norms {
		norms[i] = 1
	}
	return norms
}
