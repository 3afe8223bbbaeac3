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

// takeEach is takeProduct in Go.
func takeEach(rows *[4][]float64, x []float64, stride, count, times int) {
	for r, row := range rows {
		if times == 0 {
			clear(row)
		}
		for k := range count {
			from, c := x[k*stride:][:len(row)], x[k*stride+r]
			for j, v := range from {
				row[j] -= c * v
			}
		}
	}
}

// solveEach is solveFour in Go.
func solveEach(rows *[4][]float64, c *[10]float64) {
	for r, row := range rows {
		for k, above := range rows[:r] {
			v := c[4+r*(r-1)/2+k]
			for j := range row {
				row[j] -= v * above[j]
			}
		}
		for j := range row {
			row[j] *= c[r]
		}
	}
}
