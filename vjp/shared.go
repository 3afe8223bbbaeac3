package vjp

import (
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
)

// support lists the coordinates where b, a batch of one vector, is not 0.
func support(b array.Batch) []int {
	var set []int
	for j, v := range b.ToHost() {
		if v != 0 {
			set = append(set, j)
		}
	}
	return set
}

// uploadRows puts the first rank rows of m on the device.
func uploadRows(dev array.Device, m mat.Matrix, rank int) array.Batch {
	_, n := m.Dims()
	b := dev.Alloc(rank, n)
	dense := mat.DenseCopyOf(m)
	dev.Upload(b, dense.RawMatrix().Data[:rank*n])
	return b
}
