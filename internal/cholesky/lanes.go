package cholesky

func scatterEach(x []float64, index []int32, value, v []float64, b int) {
	for u, r := range index {
		l, to := value[u*b*b:], x[int(r)*b*together:][:b*together]
		for p := range b {
			w := (*[together]float64)(to[p*together:])
			for q := range b {
				less := (*[together]float64)(v[q*together:])
				for j := range w {
					w[j] -= l[p*b+q] * less[j]
				}
			}
		}
	}
}

func gatherEach(x []float64, index []int32, value, v []float64, b int) {
	for u, r := range index {
		l, from := value[u*b*b:], x[int(r)*b*together:][:b*together]
		for p := range b {
			w := (*[together]float64)(from[p*together:])
			for q := range b {
				to := (*[together]float64)(v[q*together:])
				for j := range w {
					to[j] -= l[p*b+q] * w[j]
				}
			}
		}
	}
}

func widenEach(to []float64, from []float32) {
	for i, v := range from {
		to[i] = float64(v)
	}
}
