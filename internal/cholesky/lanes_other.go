//go:build !amd64

package cholesky

func scatter(x []float64, index []int32, value []float64, v *[together]float64) {
	scatterEach(x, index, value, v)
}

func gather(x []float64, index []int32, value []float64, v *[together]float64) {
	gatherEach(x, index, value, v)
}
