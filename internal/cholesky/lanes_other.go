//go:build !amd64

package cholesky

const fast = false

func scatter(x []float64, index []int32, value, v []float64, b int) {
	scatterEach(x, index, value, v, b)
}

func gather(x []float64, index []int32, value, v []float64, b int) { gatherEach(x, index, value, v, b) }

func widen(to []float64, from []float32) { widenEach(to, from) }

func takeProduct(rows *[4][]float64, x []float64, stride, count, times int) {
	takeEach(rows, x, stride, count, times)
}

func solveFour(rows *[4][]float64, c *[10]float64) { solveEach(rows, c) }
