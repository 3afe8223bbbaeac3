//go:build !amd64

package cholesky

func scatter(x []float64, index []int32, value, v []float64, b int) {
	scatterEach(x, index, value, v, b)
}

func gather(x []float64, index []int32, value, v []float64, b int) { gatherEach(x, index, value, v, b) }

func widen(to []float64, from []float32) { widenEach(to, from) }
