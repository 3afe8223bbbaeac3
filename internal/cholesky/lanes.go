package cholesky

// scatterEach is scatter without vector instructions.
func scatterEach(x []float64, index []int32, value []float64, v *[together]float64) {
	value = value[:len(index)]
	for u, r := range index {
		l, w := value[u], (*[together]float64)(x[int(r)*together:])
		for j := range w {
			w[j] -= l * v[j]
		}
	}
}

// gatherEach is gather without vector instructions.
func gatherEach(x []float64, index []int32, value []float64, v *[together]float64) {
	value = value[:len(index)]
	for u, r := range index {
		l, w := value[u], (*[together]float64)(x[int(r)*together:])
		for j := range w {
			v[j] -= l * w[j]
		}
	}
}
